//! Payloads of superblock records: decisions that a start must not take twice.
//!
//! | kind | payload |
//! |---|---|
//! | 0 | none |
//! | 3 | end of a snapshot: number of its records before this one |
//! | 9 | none: the array is being destroyed |
//! | 16 | states of logical zones |
//! | 17 | the published mount |
//! | 18 | zones with the column of a member that is being rebuilt: slot, then a bit for each zone |
//! | 128 | faults |
//! | 129 | the newest scrubs |
//! | 130 | a clean stop: the mount that was published |
//!
//! A start is a *mount* and has a number that no other one has. It reads the parity log of the
//! *published* mount, writes its own, and then publishes itself with the states of all zones in one
//! snapshot. Records of any other mount count for nothing, so those of a start that was cut short
//! are harmless.

use bytes::Bytes;
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};
use zoneweave_journal::Seed;

use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::config::ArrayConfig;
use crate::array::format::envelope::{ArrayUuid, BlockType, Envelope, FormatError};
use crate::array::format::faults::Faults;
use crate::array::format::record::{BODY_BYTES, VolumeBody, ZONED};
use crate::array::format::scrubs::Scrubs;
use crate::raizn::format::metadata::BlockMetadata;
use crate::raizn::format::zone_record::ZoneRecord;
use crate::raizn::layout::{Layout, UNIT_BLOCKS_MOST};
use crate::scheme::Column;

/// The number of a start of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mount(pub(crate) u64);

impl Mount {
    /// No mount: what is published of a new volume.
    pub(crate) const NONE: Self = Self(0);
}

/// The part of a record that is not repeated in every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZonedBody {
    /// No further content.
    State,
    /// Closes a snapshot of `records` records before this one.
    SnapshotEnd {
        /// How many records of the zone before this one belong to the snapshot.
        records: u32,
    },
    /// The array is being destroyed: the member counts for nothing.
    Destroyed,
    /// States of logical zones.
    Zones(ZoneRecords),
    /// The mount with the valid parity log.
    Published(PublishedMount),
    /// Logical zones with the column of a member that is being rebuilt.
    Rebuilt(RebuiltZones),
    /// Errors of the members, and lost ranges of the volume.
    Faults(Faults),
    /// The newest scrubs.
    Scrubs(Scrubs),
    /// The volume was closed with nothing in flight, and this mount was the published one. It
    /// counts while it is the newest record.
    Stopped(Mount),
}

/// Kinds of reports: a build that does not know them starts the volume all the same.
const FAULTS: u8 = 128;
const SCRUBS: u8 = 129;
const STOPPED: u8 = 130;

/// States of logical zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneRecords(pub(crate) Vec<ZoneRecord>);

/// The mount with the valid parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishedMount(pub(crate) Mount);

/// The zones that have the column of a member, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RebuiltZones {
    pub(crate) column: Column,
    pub(crate) first: u32,
    pub(crate) bits: Vec<u8>,
}

/// Zones in one record of rebuilt zones.
pub(crate) const REBUILT_ZONES: u32 = 8 * 1024;

impl ZonedBody {
    /// The fewest records that hold these zones.
    pub(crate) fn of_zones(zones: impl IntoIterator<Item = ZoneRecord>) -> Vec<Self> {
        let (mut records, mut bytes) = (Vec::new(), usize::MAX);
        for zone in zones {
            if zone.bytes().saturating_add(bytes) > BODY_BYTES {
                records.push(Vec::new());
                bytes = 0;
            }
            bytes += zone.bytes();
            records.last_mut().expect("one was pushed").push(zone);
        }
        records.into_iter().map(|zones| Self::Zones(ZoneRecords(zones))).collect()
    }
}

impl VolumeBody for ZonedBody {
    const KIND: u8 = ZONED;
    const STATE: Self = Self::State;
    // Nothing is in flight, and all zones are empty: a start without a member need not expel it.
    const CREATED: Self = Self::Stopped(Mount::NONE);
    const DESTROYED: Self = Self::Destroyed;

    fn snapshot_end(records: u32) -> Self {
        Self::SnapshotEnd { records }
    }

    fn snapshot_records(&self) -> Option<u32> {
        match self {
            Self::SnapshotEnd { records } => Some(*records),
            _ => None,
        }
    }

    fn of_faults(faults: Faults) -> Self {
        Self::Faults(faults)
    }

    fn faults(&self) -> Option<&Faults> {
        match self {
            Self::Faults(faults) => Some(faults),
            _ => None,
        }
    }

    fn of_scrubs(scrubs: Scrubs) -> Self {
        Self::Scrubs(scrubs)
    }

    fn scrubs(&self) -> Option<&Scrubs> {
        match self {
            Self::Scrubs(scrubs) => Some(scrubs),
            _ => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::State => 0,
            Self::SnapshotEnd { .. } => 3,
            Self::Destroyed => 9,
            Self::Zones(_) => 16,
            Self::Published(_) => 17,
            Self::Rebuilt(_) => 18,
            Self::Faults(_) => FAULTS,
            Self::Scrubs(_) => SCRUBS,
            Self::Stopped(_) => STOPPED,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::State | Self::Destroyed => {}
            Self::SnapshotEnd { records } => bytes.extend(records.to_le_bytes()),
            Self::Zones(zones) => zones.0.iter().for_each(|zone| zone.encode_to(&mut bytes)),
            Self::Published(PublishedMount(mount)) | Self::Stopped(mount) => {
                bytes.extend(mount.0.to_le_bytes());
            }
            Self::Rebuilt(RebuiltZones { column, first, bits }) => {
                bytes.extend(u32::from(column.0).to_le_bytes());
                bytes.extend(first.to_le_bytes());
                bytes.extend_from_slice(bits);
            }
            Self::Faults(faults) => bytes = faults.encode(),
            Self::Scrubs(scrubs) => bytes = scrubs.encode(),
        }
        bytes
    }

    fn decode(kind: u8, bytes: &[u8], config: &ArrayConfig) -> Result<Self, FormatError> {
        let malformed = FormatError::Field { field: "body" };
        match kind {
            0 if bytes.is_empty() => Ok(Self::State),
            3 => U32::ref_from_bytes(bytes)
                .map(|records| Self::SnapshotEnd { records: records.get() })
                .map_err(|_| malformed),
            9 if bytes.is_empty() => Ok(Self::Destroyed),
            16 => {
                let (mut zones, mut rest) = (Vec::new(), bytes);
                while !rest.is_empty() {
                    let (zone, after) = ZoneRecord::decode(rest, config).ok_or(malformed)?;
                    zones.push(zone);
                    rest = after;
                }
                Ok(Self::Zones(ZoneRecords(zones)))
            }
            17 => decode_mount(bytes).map(PublishedMount).ok_or(malformed).map(Self::Published),
            18 => decode_rebuilt(bytes, config).ok_or(malformed).map(Self::Rebuilt),
            FAULTS => decode_faults(bytes, config).ok_or(malformed).map(Self::Faults),
            SCRUBS => Scrubs::decode(bytes).ok_or(malformed).map(Self::Scrubs),
            STOPPED => decode_mount(bytes).ok_or(malformed).map(Self::Stopped),
            _ => Err(malformed),
        }
    }

    fn check_config(config: &ArrayConfig) -> Result<(), FormatError> {
        let unit = config.zoned().unit_blocks;
        if !(1..=UNIT_BLOCKS_MOST).contains(&unit) {
            return Err(FormatError::Field { field: "unit blocks" });
        }
        let layout = Layout::new(config.scheme, unit, config.zone_capacity, config.zones);
        match layout {
            Some(_) if config.write_unit.0 == 1 && !config.scheme.is_mirrored() => Ok(()),
            _ => Err(FormatError::Field { field: "zones" }),
        }
    }

    fn metadata(array: ArrayUuid, record_sequence: u64, slot: Column, block: &[u8]) -> Bytes {
        BlockMetadata::of_superblock(record_sequence, slot).seal(Seed::of(array), block)
    }

    fn is_metadata(array: ArrayUuid, metadata: &[u8], block: &[u8]) -> bool {
        // A drive without metadata has nothing but the envelope. Users cannot write to the zones
        // that are searched for records.
        metadata.is_empty()
            || BlockMetadata::open(Seed::of(array), metadata, block)
                .is_some_and(BlockMetadata::is_superblock)
    }

    fn is_of_volume(first: &[u8]) -> bool {
        Envelope::open(first, BlockType::ParityLog).is_ok()
    }
}

fn decode_mount(bytes: &[u8]) -> Option<Mount> {
    let mount = U64::ref_from_bytes(bytes).ok()?.get();
    (mount < NUMBER_LIMIT).then_some(Mount(mount))
}

/// Faults of this array and volume.
fn decode_faults(bytes: &[u8], config: &ArrayConfig) -> Option<Faults> {
    let unit = config.zoned().unit_blocks;
    let layout = Layout::new(config.scheme, unit, config.zone_capacity, config.zones)?;
    Faults::decode(bytes, config.scheme.columns(), layout.first_of(layout.zones()))
}

fn decode_rebuilt(bytes: &[u8], config: &ArrayConfig) -> Option<RebuiltZones> {
    let (column, rest) = U32::ref_from_prefix(bytes).ok()?;
    let (first, bits) = U32::ref_from_prefix(rest).ok()?;
    let (column, first) = (u8::try_from(column.get()).ok()?, first.get());
    let fits = usize::from(column) < config.scheme.columns()
        && first.is_multiple_of(REBUILT_ZONES)
        && bits.len() <= REBUILT_ZONES as usize / 8;
    fits.then(|| RebuiltZones { column: Column(column), first, bits: bits.to_vec() })
}
