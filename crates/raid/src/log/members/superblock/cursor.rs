//! Positions in the superblock zones of a running array.

use std::cell::RefCell;

use zoneweave_runtime::Semaphore;
use zoneweave_zoned::ZoneId;

/// Position of a member's next record.
#[derive(Clone, Debug)]
pub(in crate::log) struct SuperblockCursor {
    /// The two superblock zones.
    pub zones: [ZoneId; 2],
    /// Index of the zone being written.
    pub current: usize,
    /// The next block in it; beyond its end if it takes no more records.
    pub next: u32,
    /// Whether the other zone has to be reset before it can be written.
    pub other_dirty: bool,
}

/// The superblock zones of every member.
pub(in crate::log) struct SuperblockLog {
    pub(in crate::log) cursors: RefCell<Vec<Option<SuperblockCursor>>>,
    pub(in crate::log) record_sequence: RefCell<u64>,
    /// Serialises commits.
    pub(in crate::log) lock: Semaphore,
}
