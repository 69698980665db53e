//! Arrays with a zoned volume: found, started in this process, and repaired.
//!
//! A zoned volume uses its drives as they are: it needs no metadata beside blocks, and keeps none
//! among them.

mod found;
mod repair;
mod start;

pub(crate) use found::{Found, find, offer, refuse_zoned};
pub(crate) use repair::{Replacement, fail, replace};
pub(crate) use start::{relocated, start_whole};
