//! Repair: `rebuild` fills a replaced member segment by segment while users are served; `scrub`
//! reads and verifies everything, and relocates segments with damage; `clear` forgets faults.
//!
//! Invariant: nothing is recomputed from blocks that failed their checksum.

mod awaited;
pub(in crate::log) mod clear;
mod holes;
mod known_loss;
pub(in crate::log) mod rebuild;
mod relocations;
pub(in crate::log) mod scrub;
