//! Why the members of an array cannot be determined, and why an administrative request is refused;
//! with the remedy.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, Status};

use crate::array::format::envelope::FORMAT_VERSION;
use crate::array::stop::StopReason;
use crate::scheme::Column;

/// Why the drives do not make an array that can be started.
#[derive(Debug, Error)]
pub enum AssemblyError {
    /// No drive has a superblock.
    #[error("none of the drives belongs to an array; `zoneweave array create` makes one")]
    NoArray,
    /// The drives' superblocks are of another release's format.
    #[error(
        "the drives carry an array in format version {version}, and this release reads version \
         {FORMAT_VERSION}: start it with a release that reads that one"
    )]
    OtherVersion {
        /// Format version of the drives.
        version: u16,
    },
    /// Too few members for reading everything.
    #[error(
        "array {name} has {present} of {total} drives and needs {needed}: {missing}; \
         bring the missing drives back"
    )]
    TooFewMembers {
        /// Name of the array.
        name: String,
        /// Members that are present.
        present: usize,
        /// Members of the array.
        total: usize,
        /// Members that reading everything needs.
        needed: usize,
        /// Slots of the missing members, as text.
        missing: String,
    },
    /// Enough members to read, too few to exclude that another host writes to the others.
    #[error(
        "only {present} of {total} drives of array {name} are here: the others could be in use \
         elsewhere; --force starts with these, and the others can then only return by `replace`"
    )]
    NoQuorum {
        /// Name of the array.
        name: String,
        /// Members that are present.
        present: usize,
        /// Members of the array.
        total: usize,
    },
    /// Halves of the array were started apart, both with force.
    #[error(
        "the drives of array {name} were started apart and hold two histories: give only the drives \
         with the history to keep"
    )]
    TwoHistories {
        /// Name of the array.
        name: String,
    },
    /// The choice between two histories depends on drives whose newest record may be unreadable.
    #[error(
        "array {name} has two histories, and the newer one is unknown: the newest record of slots {slots} may be \
         unreadable. `zoneweave inspect` shows the records of each drive; give only the drives with the history to \
         keep. Starting without these drives may choose the other history"
    )]
    HistoryInDoubt {
        /// Name of the array.
        name: String,
        /// The slots of these drives, as text.
        slots: String,
    },
    /// Two drives say they are the same member.
    #[error("{first} and {second} say they are the same member: one is a copy; leave one out")]
    Duplicate {
        /// Label of one drive.
        first: String,
        /// Label of the other drive.
        second: String,
    },
    /// A drive has fewer or smaller zones than when it became a member.
    #[error("{label} is smaller than when it joined the array: {detail}")]
    Shrunk {
        /// Label of the drive.
        label: String,
        /// Its zones and the zones needed, as text.
        detail: String,
    },
    /// A number in the records is so high that no start has assigned it.
    #[error(
        "the superblock describes an impossible array: its {what} is {number}, higher than any array \
         can reach. A drive or a program has changed the records: leave out the drives that `zoneweave \
         inspect` shows with it"
    )]
    ImpossibleNumber {
        /// The number, in words.
        what: &'static str,
        /// Its value.
        number: u64,
    },
    /// Its members are marked to be erased, and some may be erased already.
    #[error(
        "array {name} is being destroyed, and never starts again: finish that with `zoneweave array destroy`"
    )]
    Destroyed {
        /// Name of the array.
        name: String,
    },
    /// A drive has another write unit than the array.
    #[error(
        "the superblock describes an impossible array: a drive writes units of {found}, and the array \
         has units of {unit}"
    )]
    OtherUnit {
        /// The array's unit.
        unit: BlockCount,
        /// The drive's unit.
        found: BlockCount,
    },
}

/// Why an administrative request was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AdminError {
    /// No such slot.
    #[error("slot {slot} does not exist: the array has slots 0 to {}", columns - 1)]
    NoSuchSlot {
        /// The requested slot.
        slot: usize,
        /// Number of slots.
        columns: usize,
    },
    /// Failing it would lose data.
    #[error("failing {slot} would lose data: no further drive can be spared")]
    WouldLoseData {
        /// The requested slot.
        slot: Column,
    },
    /// Failing it would stop writes.
    #[error(
        "without {slot} only half of the drives would remain, and writes would stop: replace the \
         missing drives first, or start without this drive with --force, and replace it then"
    )]
    WouldStop {
        /// The requested slot.
        slot: Column,
    },
    /// Writes have stopped; with the reason.
    #[error("the volume has stopped: {0}")]
    Stopped(StopReason),
    /// A drive that is needed did not take the record of it.
    #[error("{slot} did not take the record ({status}), so nothing has changed; try again")]
    NotRecorded {
        /// The slot of the drive.
        slot: Column,
        /// The status of the drive.
        status: Status,
    },
}

/// Why a rebuild ended early.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RebuildError {
    /// The member's drive failed.
    #[error("the new drive failed: {0}")]
    DriveFailed(Status),
    /// Another drive does not return blocks, and no further one can stand in for it.
    #[error(
        "{slot} does not return blocks that the rebuild needs ({status}): the new drive keeps its \
         place, and its rebuild goes on when it is tried again"
    )]
    SourceFailed {
        /// The slot of that drive.
        slot: Column,
        /// How it failed the last read.
        status: Status,
    },
    /// Writes have stopped; with the reason.
    #[error("the volume has stopped: {0}")]
    Stopped(StopReason),
}

/// Why a report or an order is not on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// Writes have stopped; with the reason.
    Stopped(StopReason),
    /// A member that stays in service did not take it.
    Refused {
        /// Its slot.
        slot: Column,
        /// The status of its drive.
        status: Status,
    },
}

impl From<StopReason> for NotRecorded {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}

impl From<NotRecorded> for AdminError {
    fn from(error: NotRecorded) -> Self {
        match error {
            NotRecorded::Stopped(reason) => Self::Stopped(reason),
            NotRecorded::Refused { slot, status } => Self::NotRecorded { slot, status },
        }
    }
}
