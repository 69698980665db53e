//! Rare branches, reported to the user of the journal: for counters, and for proof that tests
//! reach them.

/// A rare branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The drive rejected a record and reported that nothing was written: it is written again.
    RecordWrittenAgain,
    /// The drive wrote a part of a record's unit: its zone takes no more records.
    RecordInPart,
    /// A zone had to be reset before it could be written, as its reset after the last switch failed
    /// or was interrupted.
    ResetLate,
    /// A block between records does not decode.
    DamagedRecordSkipped,
    /// A zone could not be read by one command.
    RecordsReadOneByOne,
    /// An unreadable block may hold a record that is newer than all that were found.
    NewerRecordMayBeHidden,
    /// The zone with the newest record has no closed snapshot, but its twin has: the log goes on in
    /// the twin.
    TwinKept,
}

/// Receives events. It is called during an operation, so it must not block.
pub type Observer = fn(Event);

/// An observer that ignores events.
pub fn ignore(_: Event) {}
