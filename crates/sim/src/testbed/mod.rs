//! Arrays of calibrated drives in virtual time, with the host's time.
//!
//! `array` creates an array of a preset's drives and runs work on its volume; `host` charges a
//! thread with the time for drive commands and for processing read blocks.
//!
//! Invariant: everything here is part of the fingerprint of measurements.

mod array;
pub(crate) mod host;

pub(crate) use array::{Bench, Testbed};
