//! Errors of administrative requests.

use crate::scheme::Column;
use thiserror::Error;
use zoneweave_zoned::Status;

use crate::log::engine::limits::LimitError;
use crate::log::write::policy::lanes::PolicyError;
use zoneweave_zoned::BlockCount;
use zoneweave_zoned::ZoneId;

/// Why an administrative request was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AdminError {
    /// No such slot.
    #[error("slot {slot} does not exist: the array has slots 0 to {}", columns - 1)]
    NoSuchSlot {
        /// The slot asked for.
        slot: usize,
        /// The number of slots.
        columns: usize,
    },
    /// Failing it would lose data.
    #[error("failing {slot} would lose data: no further drive can be spared")]
    WouldLoseData {
        /// The slot asked for.
        slot: Column,
    },
    /// Failing it would stop writes.
    #[error(
        "without {slot} half of the drives would be left, and writes would stop: replace what is \
         missing first, or leave the drive out of a start with --force, and replace it then"
    )]
    WouldStop {
        /// The slot asked for.
        slot: Column,
    },
    /// Too few members.
    #[error("the volume has stopped: {0}")]
    Stopped(&'static str),
}

/// Why a replacement or rebuild did not come to its end.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// The request makes no sense.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The drive does not offer what a member must.
    #[error("the new drive does not fit: {0}")]
    DoesNotFit(LimitError),
    /// The drive cannot be written as the volume is.
    #[error(
        "the drive does not fit how the array is being written: {0}; an array that is started to be \
         written as it was made takes it"
    )]
    Policy(#[from] PolicyError),
    /// The drive is smaller than the others.
    #[error(
        "the new drive is too small: it has {zones} zones of {capacity}, {needed_zones} of \
         {needed_capacity} are needed"
    )]
    TooSmall {
        /// Its zones.
        zones: u32,
        /// Their capacity.
        capacity: BlockCount,
        /// Zones needed.
        needed_zones: u32,
        /// Capacity needed.
        needed_capacity: BlockCount,
    },
    /// The drive has no zones for a superblock.
    #[error("the new drive has no two writable zones for its superblock")]
    NoSuperblockZones,
    /// The drive was a member before, and what it holds of that cannot be erased.
    #[error(
        "the drive was in this array before and cannot be erased: {zone} is read-only. What was \
         trimmed since could come back from it; put in another drive"
    )]
    KeepsSegments {
        /// The first such zone.
        zone: ZoneId,
    },
    /// The drive is a member already.
    #[error("the new drive is in service in {slot}")]
    InService {
        /// The slot.
        slot: Column,
    },
    /// The drive is a spare already.
    #[error("the drive is a spare already")]
    SpareAlready,
    /// The slot's drive works, and another replacement is under way.
    #[error("{slot} is being rebuilt already")]
    AlreadyRebuilding {
        /// The slot.
        slot: Column,
    },
    /// Another drive than the one to be replaced works in the slot: a spare came first, or somebody
    /// else.
    #[error(
        "another drive was put into {slot} meanwhile, and works; ask again if that one is to be replaced, too"
    )]
    FilledMeanwhile {
        /// The slot.
        slot: Column,
    },
    /// The drive failed while it was prepared or rebuilt.
    #[error("the new drive failed: {0}")]
    DriveFailed(Status),
    /// The volume stopped.
    #[error("the volume has stopped: {0}")]
    Stopped(&'static str),
}
