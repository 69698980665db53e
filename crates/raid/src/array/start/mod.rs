//! Starting an array: which of the offered drives are its members.
//!
//! 1. `drive_records` reads the superblock records of a drive and interprets them by themselves.
//! 2. `quorum` chooses the version of the membership that counts.
//! 3. `assemble` puts the drives into their slots.
//!
//! Nothing is written.

pub mod assemble;
pub mod drive_records;
pub mod membership;
pub(crate) mod quorum;
