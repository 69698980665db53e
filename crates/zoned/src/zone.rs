//! The state of a zone, and its entry in a report.

use std::fmt;

use crate::{BlockCount, ZoneId, ZoneOffset};

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

/// The attributes of a zone, with the bits of the NVMe zone descriptor (ZA).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneAttributes(u8);

impl ZoneAttributes {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// ZFC: the drive made the zone full of its own accord.
    pub const FINISHED_BY_DRIVE: Self = Self(1 << 0);
    /// FZR: the drive asks for the zone to be finished.
    pub const FINISH_RECOMMENDED: Self = Self(1 << 1);
    /// RZR: the drive asks for the zone to be reset.
    pub const RESET_RECOMMENDED: Self = Self(1 << 2);
    /// ZRWAV: the zone has a random write area.
    pub const RANDOM_WRITES: Self = Self(1 << 3);
    /// ZDEV: the zone's descriptor has an extension.
    pub const EXTENDED: Self = Self(1 << 7);

    /// Every attribute, with the name NVMe gives it.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::FINISHED_BY_DRIVE, "ZFC"),
        (Self::FINISH_RECOMMENDED, "FZR"),
        (Self::RESET_RECOMMENDED, "RZR"),
        (Self::RANDOM_WRITES, "ZRWAV"),
        (Self::EXTENDED, "ZDEV"),
    ];

    /// The byte in a descriptor.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The attributes of a byte, unless it has a bit that means nothing.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & 0b0111_0000 == 0 { Some(Self(bits)) } else { None }
    }

    /// Whether all of `others` are set.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but for `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl fmt::Debug for ZoneAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::ALL.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}

/// One entry of a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Which zone.
    pub zone: ZoneId,
    /// Its state.
    pub state: ZoneState,
    /// The next block to be written. For full zones: the capacity, or where a finish cut it off;
    /// for read-only zones where it stood. (An NVMe report leaves it undefined for those, see
    /// [`ZoneDescriptor`](crate::ZoneDescriptor).)
    pub write_pointer: ZoneOffset,
    /// Blocks that can be written.
    pub capacity: BlockCount,
    /// Number of resets of the zone, if the drive reports it.
    pub resets: u64,
    /// Its other attributes.
    pub attributes: ZoneAttributes,
}
