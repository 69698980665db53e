//! The shape of a drive and the state of its zones.

use thiserror::Error;

use crate::{BlockCount, ZoneId, ZoneOffset};

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

/// What a drive is and what it can do.
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
    /// Whether completed writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
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
            volatile_cache: false,
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
        ];
        match limits.iter().find(|(_, zero)| *zero) {
            Some((limit, _)) => Err(GeometryError::ZeroLimit { limit }),
            None => Ok(()),
        }
    }

    /// Blocks that can be written, over all zones.
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.zone_capacity.0)
    }
}

/// The state of a zone, with the values of the NVMe zone descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ZoneState {
    /// ZSE: nothing written since the last reset.
    Empty = 0x1,
    /// ZSIO: opened by a write.
    ImplicitlyOpen = 0x2,
    /// ZSEO: opened by the host.
    ExplicitlyOpen = 0x3,
    /// ZSC: partly written, holding an active but no open resource.
    Closed = 0x4,
    /// ZSRO: no writes any more.
    ReadOnly = 0xD,
    /// ZSF: written to capacity, or finished.
    Full = 0xE,
    /// ZSO: neither reads nor writes any more.
    Offline = 0xF,
}

impl ZoneState {
    /// Whether the zone counts against the open-zone limit.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Whether the zone counts against the active-zone limit.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::Closed)
    }
}

/// One entry of a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Which zone.
    pub zone: ZoneId,
    /// Its state.
    pub state: ZoneState,
    /// The next block to be written. For full zones: the capacity, or where a finish cut it off.
    pub write_pointer: ZoneOffset,
    /// Blocks that can be written.
    pub capacity: BlockCount,
    /// Times the zone was reset, where the drive tells.
    pub resets: u64,
}
