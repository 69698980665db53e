//! The drives of a simulated array.

pub(super) mod attach;
pub(super) mod drive;
pub(super) mod faults;
pub(super) mod slots;
mod spares;
