//! The array on the drives: its members by their records, and its segments by the headers of zones.
//!
//! - [`records`] scans the superblock zones of a drive.
//! - [`epoch`] decides which epoch of all records counts.
//! - [`membership`] combines the records of that epoch: members, configuration, seals, dead
//!   segments.
//! - [`dead`] decides whether a segment is dead, and which narrow segments are alive.
//! - [`catalogue`] finds the zones of each segment.

pub(crate) mod catalogue;
mod dead;
mod epoch;
pub(crate) mod membership;
pub(crate) mod records;
