//! Why an array does not start, with the remedy.

use thiserror::Error;

use crate::log::engine::limits::LimitError;
use crate::log::engine::stop::StopReason;
use crate::log::format::FORMAT_VERSION;
use crate::log::write::policy::lanes::PolicyError;

/// Why an array cannot be started.
#[derive(Debug, Error)]
pub enum OpenError {
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
         keep. Leaving these slots out may choose the other history"
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
    /// The superblock describes an array that cannot be.
    #[error("the superblock describes an impossible array: {0}")]
    Impossible(#[from] LimitError),
    /// The volume cannot be written with the requested policy.
    #[error("the array does not support this write policy: {0}")]
    Policy(#[from] PolicyError),
    /// A drive has fewer or smaller zones than when it became a member.
    #[error("{label} is smaller than when it joined the array: {detail}")]
    Shrunk {
        /// Label of the drive.
        label: String,
        /// Its zones and the zones needed, as text.
        detail: String,
    },
    /// Contents are lost, and so is the record of which blocks of the volume they were.
    #[error(
        "{segments} segments of array {name} have lost parts, and the addresses of the lost blocks \
         are unknown: older contents could be read in their place; bring missing drives back, or \
         accept that: `serve` with --force"
    )]
    Unaccounted {
        /// Name of the array.
        name: String,
        /// Number of such segments.
        segments: usize,
    },
    /// Drives failed while the array was being started.
    #[error("the array could not be started: {0}")]
    Stopped(StopReason),
}
