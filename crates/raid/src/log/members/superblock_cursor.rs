//! The superblock log of a running array: where each member is written next.

use std::cell::RefCell;
use zoneweave_runtime::Semaphore;
use zoneweave_zoned::ZoneId;

/// Where a member's next record goes.
#[derive(Clone, Debug)]
pub(in crate::log) struct SuperblockCursor {
    /// The two zones.
    pub zones: [ZoneId; 2],
    /// Which of them is being written.
    pub current: usize,
    /// The next block in it; beyond its end if nothing more can be written to it.
    pub next: u32,
    /// Whether the other zone has to be reset before it can be written.
    pub other_dirty: bool,
}

/// The superblock zones of every member.
pub(in crate::log) struct SuperblockLog {
    pub(in crate::log) cursors: RefCell<Vec<Option<SuperblockCursor>>>,
    pub(in crate::log) record_sequence: RefCell<u64>,
    /// Commits are made one after the other.
    pub(in crate::log) lock: Semaphore,
}
