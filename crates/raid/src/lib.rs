//! RAID volumes over zoned drives.
//!
//! [`log`] is the log-structured block volume. What several kinds of volume share (which member
//! holds which chunk of a stripe) is in [`layout`]; [`shards`] puts several volumes together as one; [`inline`] gives metadata to drives that have none. For simulations, builds with the feature
//! `instrumented` count which rare branches were taken ([`marks`]) and can plant bugs
//! ([`mutants`]); others do neither.

pub mod inline;
pub mod layout;
pub mod log;
pub mod marks;
pub mod mutants;
pub mod shards;
