//! Arrays with a zoned volume: found, started in this process, repaired, and reached at their
//! server.
//!
//! A zoned volume uses its drives as they are: it needs no metadata beside blocks, and keeps none
//! among them.

mod found;
mod remote;
mod repair;
mod scrub;
mod server;
mod start;

pub(crate) use found::{Found, find, offer, refuse_zoned};
pub(crate) use remote::RemoteVolume;
pub(crate) use repair::{Replacement, clear, fail, prospect, replace};
pub(crate) use scrub::{Scrubbed, scrub};
pub(crate) use start::{relocated, start_whole};
