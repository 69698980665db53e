//! Why the place of a store cannot be opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoneweave_linux::DriveError;
use zoneweave_raid::raizn::OpenError;
use zoneweave_zoned::Status;

/// Why the place of a store cannot be opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// No drive was named, or one of the names is empty.
    #[error("a drive without a path: give DRIVE, or DRIVE,DRIVE... for a zoned volume")]
    NoDrive,
    /// A path was named twice.
    #[error("{} is given twice: give each drive once", path.display())]
    GivenTwice {
        /// The path.
        path: PathBuf,
    },
    /// A drive cannot be opened.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// A drive does not even report its zones.
    #[error("{} failed: {status}", path.display())]
    DriveFailed {
        /// Its path.
        path: PathBuf,
        /// Its status.
        status: Status,
    },
    /// Several drives, none of which belongs to a zoned volume.
    #[error("several drives need a zoned volume: see `zoneweave array create --kind zoned`")]
    NoVolume,
    /// A start without members in service would take them out of service.
    #[error(
        "members of array {name} are missing (slots {slots:?}): give their drives too, or replace \
         them with `zoneweave array replace`"
    )]
    Missing {
        /// Name of the array.
        name: String,
        /// Their slots.
        slots: Vec<u8>,
        /// Whether the volume could start without them.
        starts: bool,
    },
    /// The volume cannot be started.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system has no random numbers.
    #[error("cannot draw random numbers: {0}")]
    Random(#[source] io::Error),
}

impl PlaceError {
    /// Whether another process uses a drive.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::Drive(error) if error.is_in_use())
    }
}
