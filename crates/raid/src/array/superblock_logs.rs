//! The superblock logs of a running array: one journal on each member.

use std::cell::RefCell;

use zoneweave_journal::{Event, TwinLog};
use zoneweave_runtime::Semaphore;

use crate::instrument::marks::{Mark, mark};

/// The superblock logs of all members.
pub(crate) struct SuperblockLog {
    /// By slot; `None` if there is no drive in it.
    pub(crate) logs: RefCell<Vec<Option<TwinLog>>>,
    pub(crate) record_sequence: RefCell<u64>,
    /// Serialises commits.
    pub(crate) lock: Semaphore,
}

/// Counts the rare branches of the journal.
pub(crate) fn mark_event(event: Event) {
    mark(match event {
        Event::RecordWrittenAgain => Mark::RecordWrittenAgain,
        Event::RecordInPart => Mark::RecordInPart,
        Event::ResetLate => Mark::SuperblockZoneResetLate,
        Event::DamagedRecordSkipped => Mark::DamagedRecordSkipped,
        Event::RecordsReadOneByOne => Mark::RecordsReadOneByOne,
        Event::NewerRecordMayBeHidden => Mark::NewerRecordMayBeHidden,
        Event::TwinKept => Mark::OtherSuperblockZoneKept,
    });
}
