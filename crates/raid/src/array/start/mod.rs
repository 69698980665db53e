//! Starting an array: which of the offered drives are its members.
//!
//! 1. `drive_records` reads the superblock records of a drive and interprets them by themselves.
//! 2. `quorum` chooses the version of the membership that counts.
//! 3. `destroyed` refuses an array whose members are being erased.
//! 4. `assemble` puts the drives into their slots.
//! 5. `history` has the faults and scrubs on record.
//!
//! Nothing is written.

pub mod assemble;
pub(crate) mod destroyed;
pub mod drive_records;
pub(crate) mod history;
pub mod membership;
pub(crate) mod quorum;
