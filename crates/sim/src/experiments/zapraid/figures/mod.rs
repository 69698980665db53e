//! The figures of the paper: one file or folder each.
//!
//! `adaptive` has the findings that they share beyond the paper. A file's name is the experiment's
//! number in the paper; `gc` measures the cost of garbage collection against theory.

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
