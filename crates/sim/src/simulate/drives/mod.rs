//! The drives of a simulated array.
//!
//! In the order of use: `attach` offers a drive to an engine, `drive` has the state of one drive,
//! `slots` the drives of the array by slot, `spares` the spares that the engine assigns itself, and
//! `faults` damages a drive.
//!
//! Invariant: `slots` keeps the contract. It counts the impaired slots and reports whether one more
//! may be impaired.

pub(super) mod attach;
pub(super) mod drive;
pub(super) mod faults;
pub(super) mod slots;
mod spares;
