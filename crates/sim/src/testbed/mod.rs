//! Arrays of calibrated drives in virtual time, with the time that the host takes.

mod array;
pub(crate) mod host;

pub(crate) use array::{Bench, Testbed};
