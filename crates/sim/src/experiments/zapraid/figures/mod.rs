//! Figures of the paper: one file or folder each.

mod adaptive;
pub(crate) mod exp10;
pub(crate) mod exp11;
pub(crate) mod exp12;
pub(crate) mod exp13;
pub(crate) mod exp4;
pub(crate) mod exp5;
pub(crate) mod exp6;
pub(crate) mod exp7;
pub(crate) mod exp8;
pub(crate) mod exp9;
pub(crate) mod fig2;
pub(crate) mod gc;
