//! Why a replacement or rebuild failed.

use thiserror::Error;
use zoneweave_zoned::BlockCount;
use zoneweave_zoned::Status;
use zoneweave_zoned::ZoneId;

use crate::array::error::{AdminError, RebuildError};
use crate::array::stop::StopReason;
use crate::log::engine::limits::LimitError;
use crate::log::write::policy::lanes::PolicyError;
use crate::scheme::Column;

/// Why a replacement or rebuild failed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// The request is invalid.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The drive does not meet the requirements for a member.
    #[error("the new drive does not fit: {0}")]
    DoesNotFit(LimitError),
    /// The drive does not support the write policy of this start.
    #[error(
        "the drive does not fit how the array is being written: {0}; serve the array with \
         `--write-mode array` to use it"
    )]
    Policy(#[from] PolicyError),
    /// The drive is smaller than the others.
    #[error(
        "the new drive is too small: it has {zones} zones of {capacity}, {needed_zones} of \
         {needed_capacity} are needed"
    )]
    TooSmall {
        /// Zones of the new drive.
        zones: u32,
        /// Capacity of its zones.
        capacity: BlockCount,
        /// Number of zones needed.
        needed_zones: u32,
        /// Zone capacity needed.
        needed_capacity: BlockCount,
    },
    /// The drive has no zones for a superblock.
    #[error(
        "the new drive has fewer than two writable zones for its superblock: use another drive"
    )]
    NoSuperblockZones,
    /// The drive was not in this slot of this array, in the history that went on.
    #[error(
        "the drive is no former member of {slot}, or was started apart from the others: use \
         `replace`, which erases it"
    )]
    NotOfSlot {
        /// The slot.
        slot: Column,
    },
    /// No superblock is left on the drive.
    #[error(
        "the drive has no superblock of an array, or none that can be read, so that its \
         missed writes are unknown: look at it with `zoneweave inspect`, and try again if its reads \
         fail; otherwise use `replace`, which erases it"
    )]
    NoSuperblock,
    /// The drive was a member before, and its contents cannot be erased.
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
    /// The slot's drive works, and another replacement is in progress.
    #[error("{slot} is being rebuilt already")]
    AlreadyRebuilding {
        /// The slot.
        slot: Column,
    },
    /// The slot has another working drive than the one to be replaced: a spare or another request
    /// came first.
    #[error(
        "another drive was put into {slot} meanwhile, and works; repeat the request to replace that one"
    )]
    FilledMeanwhile {
        /// The slot.
        slot: Column,
    },
    /// The drive failed while it was prepared or rebuilt.
    #[error("the new drive failed: {0}")]
    DriveFailed(Status),
    /// Another drive does not return blocks, and no further one can stand in for it.
    #[error("{}", RebuildError::SourceFailed { slot: *slot, status: *status })]
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

impl From<RebuildError> for ReplaceError {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::DriveFailed(status) => Self::DriveFailed(status),
            RebuildError::SourceFailed { slot, status } => Self::SourceFailed { slot, status },
            RebuildError::Stopped(reason) => Self::Stopped(reason),
        }
    }
}
