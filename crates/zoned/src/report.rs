//! Zone reports: which zones, and the bytes an NVMe drive reports them in.
//!
//! Inside Zoneweave a report is a list of [`ZoneInfo`]. Drives do not report how far a full,
//! read-only or offline zone is written: NVMe leaves the write pointer undefined, and drives return
//! all ones, as [`ZoneDescriptor`] does. [`ZoneInfo`] has the capacity there.

use bytes::Bytes;

use crate::{Geometry, Status, ZoneId, ZoneInfo, ZoneOffset, ZoneSet, ZoneState};

/// Bytes of the head of an encoded report, and of each descriptor in it.
pub const DESCRIPTOR_BYTES: usize = 64;

/// Zone type: sequential writes required.
const ZONE_TYPE: u8 = 0x2;

/// Which zones a report lists (NVMe ZRASF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ZoneFilter {
    /// All.
    #[default]
    All = 0,
    /// Empty ones.
    Empty = 1,
    /// Implicitly opened ones.
    ImplicitlyOpen = 2,
    /// Explicitly opened ones.
    ExplicitlyOpen = 3,
    /// Closed ones.
    Closed = 4,
    /// Full ones.
    Full = 5,
    /// Read-only ones.
    ReadOnly = 6,
    /// Offline ones.
    Offline = 7,
}

impl ZoneFilter {
    /// Every filter, by value.
    pub const ALL: [Self; 8] = [
        Self::All,
        Self::Empty,
        Self::ImplicitlyOpen,
        Self::ExplicitlyOpen,
        Self::Closed,
        Self::Full,
        Self::ReadOnly,
        Self::Offline,
    ];

    /// The filter with an NVMe value.
    #[must_use]
    pub fn from_value(value: u8) -> Option<Self> {
        Self::ALL.get(usize::from(value)).copied()
    }

    /// Whether zones in a state are listed.
    #[must_use]
    pub fn admits(self, state: ZoneState) -> bool {
        let wanted = match self {
            Self::All => return true,
            Self::Empty => ZoneState::Empty,
            Self::ImplicitlyOpen => ZoneState::ImplicitlyOpen,
            Self::ExplicitlyOpen => ZoneState::ExplicitlyOpen,
            Self::Closed => ZoneState::Closed,
            Self::Full => ZoneState::Full,
            Self::ReadOnly => ZoneState::ReadOnly,
            Self::Offline => ZoneState::Offline,
        };
        state == wanted
    }
}

/// The form of a report. The default is every zone, all counted, no extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportOptions {
    /// The zones to list.
    pub filter: ZoneFilter,
    /// Whether only listed zones are counted, rather than all that the filter admits from the
    /// first one on.
    pub partial: bool,
    /// Whether descriptor extensions are reported (NVMe ZRA 1h).
    pub extended: bool,
}

/// The answer to a report command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneReport {
    /// The number of zones that the filter admits from the first one on, listed or not. In a
    /// partial report, the number of zones listed.
    pub matching: u64,
    /// The zones listed.
    pub zones: Vec<ZoneInfo>,
    /// The descriptor extension of each of them, if the report is extended.
    pub extensions: Vec<Bytes>,
}

impl ZoneReport {
    /// The bytes that an NVMe drive of this geometry transfers.
    #[must_use]
    pub fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let mut bytes = vec![0; DESCRIPTOR_BYTES];
        bytes[..8].copy_from_slice(&self.matching.to_le_bytes());
        for (index, info) in self.zones.iter().enumerate() {
            bytes.extend_from_slice(&ZoneDescriptor::new(info, geometry).encode());
            if let Some(extension) = self.extensions.get(index) {
                bytes.extend_from_slice(extension);
            }
        }
        bytes
    }
}

/// A zone as an NVMe drive reports it, in logical blocks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDescriptor {
    /// ZS: the state's value.
    pub state: u8,
    /// ZA: the attributes' bits.
    pub attributes: u8,
    /// ZCAP: blocks that can be written.
    pub capacity: u64,
    /// ZSLBA: the first block.
    pub start: u64,
    /// WP: the next block to be written; all ones if the zone is full, read-only or offline.
    pub write_pointer: u64,
}

impl ZoneDescriptor {
    /// The descriptor of a zone.
    #[must_use]
    pub fn new(info: &ZoneInfo, geometry: &Geometry) -> Self {
        let start = u64::from(info.zone.0) * u64::from(geometry.zone_size.0);
        let write_pointer = match info.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u64::MAX,
            _ => start + u64::from(info.write_pointer.0),
        };
        Self {
            state: info.state as u8,
            attributes: info.attributes.bits(),
            capacity: info.capacity.0.into(),
            start,
            write_pointer,
        }
    }

    /// The bytes of the descriptor: zone type, state in the upper half of a byte, attributes,
    /// then from byte 8 on the capacity, the start and the write pointer.
    #[must_use]
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[0] = ZONE_TYPE;
        bytes[1] = self.state << 4;
        bytes[2] = self.attributes;
        bytes[8..16].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.write_pointer.to_le_bytes());
        bytes
    }
}

impl ZoneSet {
    /// At most `count` report entries from `first` on.
    ///
    /// # Errors
    /// [`Status::LbaOutOfRange`] if `first` is no zone of the drive, [`Status::InvalidField`] if
    /// extensions are asked for of a drive without.
    pub fn report(
        &self,
        first: ZoneId,
        count: u32,
        options: ReportOptions,
    ) -> Result<ZoneReport, Status> {
        if first.0 >= self.geometry().zones {
            return Err(Status::LbaOutOfRange);
        }
        if options.extended && self.geometry().descriptor_extension_bytes == 0 {
            return Err(Status::InvalidField);
        }
        let admitted = || {
            let zones = (first.0..self.geometry().zones).map(|zone| self.reported(ZoneId(zone)));
            zones.filter(|info| options.filter.admits(info.state))
        };
        let zones: Vec<_> = admitted().take(count as usize).collect();
        let matching = if options.partial { zones.len() } else { admitted().count() };
        let extensions = match options.extended {
            true => zones.iter().map(|info| self.extension(info.zone)).collect(),
            false => Vec::new(),
        };
        Ok(ZoneReport { matching: matching as u64, zones, extensions })
    }

    /// A zone as in a report, without the write pointer of zones that take no writes.
    fn reported(&self, zone: ZoneId) -> ZoneInfo {
        let info = self.info(zone);
        match info.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => {
                ZoneInfo { write_pointer: ZoneOffset(info.capacity.0), ..info }
            }
            _ => info,
        }
    }
}
