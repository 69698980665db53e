//! Why a file is no drive.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, GeometryError, ZoneId};

use super::limits::{ERASE_BLOCKS_MAX, EXTENSIONS_BYTES_MAX, FORMAT_VERSION, ZONES_MAX};
use crate::WearError;

/// Why a file is no drive.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// The file ends too early.
    #[error("the drive file is truncated to {found} of {needed} bytes: restore it")]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes there must be.
        needed: u64,
    },
    /// The file is something else: it ends within the header, and does not begin like one.
    #[error(
        "the file is not a drive (it is too short, {found} bytes): check its name, or restore it"
    )]
    TooShort {
        /// Bytes there are.
        found: u64,
    },
    /// The file is something else.
    #[error("the file is not a drive (it has no magic number): check its name")]
    NotADrive,
    /// The file was made by a later program.
    #[error(
        "the drive file has format version {found}, this program reads up to {FORMAT_VERSION}: \
             use a newer program"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// The header is damaged.
    #[error(
        "the header's checksum is {stored:#010x}, its bytes give {computed:#010x}: \
             restore the first 4096 bytes"
    )]
    HeaderChecksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the header.
        computed: u32,
    },
    /// A field of the header has a value that means nothing.
    #[error("header field {field} is {value}: the file was not made by this program")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// The parts of the geometry contradict each other.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// More zones, or larger ones, than a file can hold.
    #[error(
        "{zones} zones of {capacity} do not fit a drive file: \
             use at most {ZONES_MAX} zones and 8 EiB"
    )]
    TooLarge {
        /// Zones.
        zones: u32,
        /// Capacity of each.
        capacity: BlockCount,
    },
    /// The geometry has random write areas.
    #[error("drive files have no random write areas: leave them out, or use a drive in RAM")]
    RandomWriteAreas,
    /// The zone descriptor extensions take too much memory.
    #[error(
        "zone descriptor extensions of {bytes} bytes for {zones} zones do not fit a drive file: \
             use at most {EXTENSIONS_BYTES_MAX} bytes in all"
    )]
    ExtensionsTooLarge {
        /// Zones.
        zones: u32,
        /// Bytes of each extension.
        bytes: u32,
    },
    /// A preset has a name that no preset can have.
    #[error(
        "the drive file names the preset {name:?}: a name is 1 to 32 of a to z, 0 to 9 and -; \
             restore the first 4096 bytes"
    )]
    PresetName {
        /// The name.
        name: String,
    },
    /// The wear settings do not fit the geometry.
    #[error(transparent)]
    Wear(#[from] WearError),
    /// More erase blocks than a file can count.
    #[error("{found} erase blocks do not fit a drive file: use at most {ERASE_BLOCKS_MAX}")]
    TooManyEraseBlocks {
        /// Erase blocks of all zones.
        found: u64,
    },
    /// The list of unreadable blocks is damaged.
    #[error("the list of unreadable blocks is damaged: restore the file")]
    DefectsDamaged,
    /// Neither copy of a zone's record is intact.
    #[error("both records of {zone} are damaged: restore the file")]
    RecordDamaged {
        /// The zone.
        zone: ZoneId,
    },
}
