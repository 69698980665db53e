//! The engine: one state behind one borrow, and async functions that do its I/O.
//!
//! | file | content |
//! |---|---|
//! | `core` | the state, the drive, and what tasks wait for |
//! | `create` | making a store on a drive |
//! | `recover` | opening a store after any end of the last run |
//! | `tail` | the blocks of open zones that no record knows |
//! | `claims` | which file each of them belongs to, damaged ones included |
//! | `journal` | the metadata log: one task writes the changes of all callers |
//! | `place` | finding blocks for a write, and opening zones |
//! | `write` | buffers of files, writes in flight, syncs |
//! | `seal` | the end of a zone: its extents go on record |
//! | `read` | reads, verified by tags |
//! | `ends` | where the blocks of sparse extents begin |
//! | `reclaim` | relocation of live blocks |
//! | `reset` | resets of zones that nothing needs |
//! | `names` | changes of names |
//! | `recording` | events for a trace |
//!
//! # Rules
//!
//! - Changes are decided and applied under one borrow, in the order of their records, and
//!   acknowledged once these are durable.
//! - Blocks are taken and their write submitted without an `.await` in between, so that writes to a
//!   zone are submitted in the order of their addresses.
//! - A zone is written only after it is on record that it is open: a start scans exactly the zones
//!   that are on record as open.
//! - An extent is on record only once its blocks are durable.
//! - A zone is sealed once the extents of all files in it are on record.
//! - A zone is reset once nothing in it is live. Blocks die when the record that frees them is
//!   durable, and readers pin their zone.

pub(crate) mod claims;
pub(crate) mod core;
pub(crate) mod create;
pub(crate) mod ends;
pub(crate) mod journal;
pub(crate) mod names;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod reclaim;
pub(crate) mod recording;
pub(crate) mod recover;
pub(crate) mod reset;
pub(crate) mod seal;
pub(crate) mod tail;
pub(crate) mod write;
