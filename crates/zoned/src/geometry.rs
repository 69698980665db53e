//! The geometry of a drive and its optional features beyond the core of the Zoned Namespace command
//! set.

use thiserror::Error;

use crate::BlockCount;

/// The unit in which NVMe counts bytes of a zone descriptor extension.
pub const EXTENSION_UNIT_BYTES: u32 = 64;

/// The largest zone descriptor extension: NVMe counts its units in 8 bits.
pub const EXTENSION_BYTES_MAX: u32 = EXTENSION_UNIT_BYTES * 255;

/// Where a drive keeps metadata that belongs to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobKind {
    /// The drive stores data only.
    None,
    /// Metadata travels in a buffer of its own.
    Separate,
    /// Metadata follows each block in the data buffer.
    Interleaved,
}

/// The geometry and features of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of zones.
    pub zones: u32,
    /// Blocks from the start of one zone to the start of the next.
    pub zone_size: BlockCount,
    /// Blocks of a zone that can be written; at most `zone_size`.
    pub zone_capacity: BlockCount,
    /// Metadata beside each block.
    pub oob: OobKind,
    /// Zones that may be open at once; `None` for no limit.
    pub max_open: Option<u32>,
    /// Zones that may be open or closed at once; `None` for no limit.
    pub max_active: Option<u32>,
    /// The largest Zone Append; zero if the drive has none.
    pub append_limit: BlockCount,
    /// The largest read or write.
    pub max_transfer: BlockCount,
    /// Writes start at multiples of this many blocks. If a write ends within such a unit, the rest
    /// of the unit cannot be written until the zone is reset. One, except for drives with metadata
    /// among their blocks.
    pub write_unit: BlockCount,
    /// Whether completed writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
    /// Bytes of host data beside the descriptor of each zone: a multiple of 64, at most
    /// [`EXTENSION_BYTES_MAX`]; zero if the drive has no descriptor extensions.
    pub descriptor_extension_bytes: u32,
    /// Whether a read may cross from one zone into the next (NVMe OZCS.RAZB).
    pub reads_across_zones: bool,
    /// Whether reading a block that was never written is an error, [`Status::Deallocated`], instead
    /// of zeros (NVMe feature DULBE, switched on).
    ///
    /// [`Status::Deallocated`]: crate::Status::Deallocated
    pub unwritten_read_error: bool,
    /// Random write areas, if the drive has them.
    pub zrwa: Option<ZrwaGeometry>,
}

/// The random write areas (ZRWA) of a drive: in a zone opened with one, the blocks from the write
/// pointer on may be written in any order and again, until the write pointer passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZrwaGeometry {
    /// Blocks from the write pointer on that may be overwritten (NVMe ZRWASZ).
    pub size: BlockCount,
    /// The write pointer of such a zone moves in steps of this many blocks (NVMe ZRWAFG).
    pub flush_granularity: BlockCount,
    /// Zones that can have an area at once (NVMe NUMZRWA).
    pub resources: u32,
}

/// A geometry that no drive can have.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum GeometryError {
    /// There is nothing to write to.
    #[error("a drive needs at least one zone of at least one block")]
    Empty,
    /// More capacity than address space.
    #[error("zone capacity {capacity} is above zone size {size}: lower the capacity")]
    CapacityAboveSize {
        /// The capacity asked for.
        capacity: BlockCount,
        /// The zone size asked for.
        size: BlockCount,
    },
    /// Limits contradict each other.
    #[error("open-zone limit {open} is above active-zone limit {active}: lower the open limit")]
    OpenAboveActive {
        /// The open limit asked for.
        open: u32,
        /// The active limit asked for.
        active: u32,
    },
    /// A limit of zero makes the drive useless.
    #[error("{limit} must be at least 1")]
    ZeroLimit {
        /// Which limit.
        limit: &'static str,
    },
    /// An extension that no descriptor can have.
    #[error(
        "zone descriptor extensions of {bytes} bytes: \
             use a multiple of {EXTENSION_UNIT_BYTES}, at most {EXTENSION_BYTES_MAX}"
    )]
    ExtensionBytes {
        /// Bytes asked for.
        bytes: u32,
    },
    /// A flush of the random write area could not reach its end, or the zone's.
    #[error(
        "the random write area's flush granularity of {granularity} divides not both its size of \
             {size} and the zone capacity of {capacity}: choose one that does"
    )]
    ZrwaGranularity {
        /// The granularity asked for.
        granularity: BlockCount,
        /// The size of the area.
        size: BlockCount,
        /// The capacity of zones.
        capacity: BlockCount,
    },
}

impl Geometry {
    /// A drive of `zones` zones of `capacity` blocks with separate metadata and no other limits
    /// than those of common drives: 14 open and active zones, 128 KiB appends, 1 MiB transfers.
    #[must_use]
    pub fn new(zones: u32, capacity: BlockCount) -> Self {
        Self {
            zones,
            zone_size: BlockCount(capacity.0.next_power_of_two()),
            zone_capacity: capacity,
            oob: OobKind::Separate,
            max_open: Some(14),
            max_active: Some(14),
            append_limit: BlockCount(32),
            max_transfer: BlockCount(256),
            write_unit: BlockCount(1),
            volatile_cache: false,
            descriptor_extension_bytes: 0,
            reads_across_zones: false,
            unwritten_read_error: false,
            zrwa: None,
        }
    }

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn validate(&self) -> Result<(), GeometryError> {
        if self.zones == 0 || self.zone_capacity.0 == 0 {
            return Err(GeometryError::Empty);
        }
        if self.zone_capacity > self.zone_size {
            return Err(GeometryError::CapacityAboveSize {
                capacity: self.zone_capacity,
                size: self.zone_size,
            });
        }
        if let (Some(open), Some(active)) = (self.max_open, self.max_active)
            && open > active
        {
            return Err(GeometryError::OpenAboveActive { open, active });
        }
        let limits = [
            ("the open-zone limit", self.max_open == Some(0)),
            ("the active-zone limit", self.max_active == Some(0)),
            ("the largest transfer", self.max_transfer.0 == 0),
            ("the unit of writes", self.write_unit.0 == 0),
        ];
        if let Some((limit, _)) = limits.iter().find(|(_, zero)| *zero) {
            return Err(GeometryError::ZeroLimit { limit });
        }
        let bytes = self.descriptor_extension_bytes;
        if bytes > EXTENSION_BYTES_MAX || !bytes.is_multiple_of(EXTENSION_UNIT_BYTES) {
            return Err(GeometryError::ExtensionBytes { bytes });
        }
        self.zrwa.map_or(Ok(()), |zrwa| zrwa.validate(self.zone_capacity))
    }

    /// Blocks that can be written, over all zones.
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.zone_capacity.0)
    }
}

impl ZrwaGeometry {
    /// Checks the areas of a drive whose zones have this capacity.
    fn validate(&self, capacity: BlockCount) -> Result<(), GeometryError> {
        let Self { size, flush_granularity: granularity, resources } = *self;
        let limits = [
            ("the size of the random write area", size.0 == 0),
            ("the flush granularity of the random write area", granularity.0 == 0),
            ("the number of random write areas", resources == 0),
        ];
        if let Some((limit, _)) = limits.iter().find(|(_, zero)| *zero) {
            return Err(GeometryError::ZeroLimit { limit });
        }
        let fits = |blocks: BlockCount| blocks.0.is_multiple_of(granularity.0);
        if fits(size) && fits(capacity) {
            Ok(())
        } else {
            Err(GeometryError::ZrwaGranularity { granularity, size, capacity })
        }
    }
}
