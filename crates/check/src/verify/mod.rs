//! Verification of one segment.
//!
//! - [`walk`] goes through its groups and decides which stripes count.
//! - [`group`] reads the chunks of a group, [`stripes`] compares them with their parity.
//! - [`index_run`] compares the index with the blocks that it lists.

pub(crate) mod group;
mod index_run;
pub(crate) mod stripes;
pub(crate) mod walk;
