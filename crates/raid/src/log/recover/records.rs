//! Reads the superblock records of a drive and interprets them by themselves.

use std::collections::BTreeSet;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, Payload, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt,
};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::format::{
    BlockType, Envelope, FormatError, Oob, Place, RecordBody, Seed, SuperblockRecord,
};
use crate::log::members::io::read_split;
use crate::log::members::superblock::ZONE_RECORDS;
use crate::log::members::superblock::cursor::SuperblockCursor;

/// Zones at the start of a drive that are searched for superblock records.
const SEARCHED_ZONES: usize = 4;

/// Contents of a drive's superblock zones.
#[derive(Clone, Default)]
pub struct DriveRecords {
    /// Records with the zone they are in, in order.
    pub records: Vec<(ZoneId, SuperblockRecord)>,
    /// Blocks among them that did not decode, with the error.
    pub damaged: Vec<(ZoneAddress, FormatError)>,
    /// The version of records that are intact, but of another version of the format.
    pub other_version: Option<u16>,
    /// Blocks from one record to the next: the drive's unit of writes.
    pub unit: BlockCount,
    /// Zones among those searched that hold neither a record nor, as far as can be read, a segment.
    pub unknown_zones: u32,
    /// Every zone of the drive.
    pub zones: Vec<ZoneInfo>,
}

impl DriveRecords {
    /// The record with the highest sequence.
    #[must_use]
    pub fn newest(&self) -> Option<&SuperblockRecord> {
        newest_of(self.records.iter().map(|(_, record)| record))
    }

    /// Whether an unreadable block may hold a record newer than the newest found: the last of its
    /// zone, or all of the other superblock zone.
    #[must_use]
    pub fn may_hide_newer(&self) -> bool {
        let newest = self.records.iter().max_by_key(|(_, record)| record.record_sequence);
        let Some((zone, _)) = newest else { return false };
        let searched = records_searched(&self.zones[zone.index()], self.unit);
        let is_last = |at: &ZoneAddress| at.offset.0 / self.unit.0 + 1 == searched;
        let last_damaged = self.damaged.iter().any(|(at, _)| at.zone == *zone && is_last(at));
        // If both zones hold records, no third zone can hold any.
        let one_zone = self.records.iter().all(|(at, _)| at == zone);
        let other_unreadable = one_zone && self.unknown_zones > 0;
        mark_if(Mark::NewerRecordMayBeHidden, || other_unreadable || last_damaged);
        other_unreadable || last_damaged
    }

    /// Leaves out records of former memberships, of any array. Adding a drive erases all zones that
    /// can be erased, so such records are in zones that were read-only then, and remain so. (A
    /// newer record of the same history stays: with builds from before this rule, drives may have
    /// acknowledged a reset without doing it.)
    fn leave_out_former(&mut self) {
        let is_writable = |zone: ZoneId| self.zones[zone.index()].state != ZoneState::ReadOnly;
        let writable = self.records.iter().filter(|(zone, _)| is_writable(*zone));
        let Some(present) = newest_of(writable.map(|(_, record)| record)).cloned() else { return };
        let is_former = |record: &SuperblockRecord| {
            let same_array = record.config.array == present.config.array;
            let older = record.epoch <= present.epoch || record.lineage != present.lineage;
            !same_array || record.member != present.member && older
        };
        let before = self.records.len();
        self.records.retain(|(zone, record)| is_writable(*zone) || !is_former(record));
        mark_if(Mark::FormerRecordsLeftOut, || self.records.len() < before);
        let zones: BTreeSet<_> = self.records.iter().map(|(zone, _)| *zone).collect();
        self.damaged.retain(|(at, _)| zones.contains(&at.zone));
    }

    /// The superblock zones: zones with records, completed by the first empty one. (With a write
    /// unit of several blocks, a crash may leave a part of one in front of its record.)
    fn superblock_zones(&self) -> Option<[ZoneId; 2]> {
        let with_records: BTreeSet<_> = self.records.iter().map(|(zone, _)| *zone).collect();
        let mut zones: Vec<_> = with_records.into_iter().collect();
        let searched = searched_zones(&self.zones);
        let holds_nothing = |info: &ZoneInfo| {
            info.state == ZoneState::Empty || info.state.is_active() && info.write_pointer.0 == 0
        };
        let spare = searched.into_iter().filter(holds_nothing);
        zones.extend(spare.map(|info| info.zone));
        zones.dedup();
        (zones.len() >= 2).then(|| [zones[0], zones[1]])
    }

    /// Position of the next record: after the newest, with the other zone to be reset first.
    pub(super) fn cursor(&self) -> Option<SuperblockCursor> {
        let zones = self.superblock_zones()?;
        if self.records.is_empty() && mutant(Mutant::BlankDriveAdopted) {
            return Some(SuperblockCursor { zones, current: 1, next: 0, other_dirty: false });
        }
        let newest = self.records.iter().max_by_key(|(_, record)| record.record_sequence)?.0;
        // Keep the zone with a complete set of records. Its twin is overwritten by the snapshot
        // that every start writes.
        let complete = |zone: ZoneId| {
            self.records.iter().any(|(at, record)| {
                *at == zone && matches!(record.body, RecordBody::SnapshotEnd { .. })
            })
        };
        let other = if zones[0] == newest { zones[1] } else { zones[0] };
        let keep = if !complete(newest) && complete(other) { other } else { newest };
        mark_if(Mark::OtherSuperblockZoneKept, || keep == other);
        let current = usize::from(zones[1] == keep);
        let next = match self.unit.0 {
            1 => self.zones[keep.index()].write_pointer.0,
            // A crash may have torn its last unit, and nothing can be written behind that: the zone
            // counts as full.
            _ => u32::MAX,
        };
        let other_dirty = self.zones[zones[1 - current].index()].state != ZoneState::Empty;
        Some(SuperblockCursor { zones, current, next, other_dirty })
    }
}

fn newest_of<'a>(
    records: impl Iterator<Item = &'a SuperblockRecord>,
) -> Option<&'a SuperblockRecord> {
    records.max_by_key(|record| (record.epoch, record.record_sequence))
}

fn searched_zones(zones: &[ZoneInfo]) -> Vec<ZoneInfo> {
    let alive = zones.iter().filter(|info| info.state != ZoneState::Offline);
    alive.take(SEARCHED_ZONES).copied().collect()
}

/// How many records a zone may hold.
fn records_searched(info: &ZoneInfo, unit: BlockCount) -> u32 {
    match info.state {
        ZoneState::Empty => 0,
        _ => info.write_pointer.0.div_ceil(unit.0).min(ZONE_RECORDS),
    }
}

/// Reads the superblock records of a drive, of any array.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn read_records(device: &dyn ZonedDevice) -> Result<DriveRecords, Status> {
    let zones = device.report().await?;
    let unit = device.geometry().write_unit;
    let mut found = DriveRecords { zones: zones.clone(), unit, ..DriveRecords::default() };
    for info in searched_zones(&zones) {
        let written = records_searched(&info, unit);
        if written == 0 {
            continue;
        }
        let blocks = read_blocks(device, info.zone, written).await;
        let decoded: Vec<_> = blocks.iter().map(|(data, oob)| decode_record(data, oob)).collect();
        if !decoded.iter().any(Result::is_ok) {
            let version = |record: &Result<_, FormatError>| match record {
                Err(FormatError::Version { found }) => Some(*found),
                _ => None,
            };
            found.other_version = found.other_version.or(decoded.iter().find_map(version));
            let header = Envelope::open(&blocks[0].0, BlockType::SegmentHeader);
            found.unknown_zones += u32::from(header.is_err());
            continue;
        }
        for (offset, record) in (0..).step_by(unit.index()).zip(decoded) {
            match record {
                Ok(record) => found.records.push((info.zone, record)),
                Err(error) => {
                    mark(Mark::DamagedRecordSkipped);
                    found.damaged.push((ZoneAddress::new(info.zone, offset), error));
                }
            }
        }
    }
    found.leave_out_former();
    Ok(found)
}

/// Decodes a record if its block metadata says that it is one. Users may write blocks that look
/// like records, but not block metadata.
fn decode_record(data: &[u8], oob: &[u8]) -> Result<SuperblockRecord, FormatError> {
    let record = SuperblockRecord::decode(data)?;
    let seed = Seed::of(record.config.array);
    match Oob::verify_other(seed, oob, data, Place::Superblock) {
        Some(_) => Ok(record),
        None => {
            mark(Mark::RecordWithoutMetadata);
            Err(FormatError::Checksum)
        }
    }
}

/// Attempts to read a block that may hold a record, as a drive may fail a read now and then.
const READS: u32 = 4;

/// Reads the first block of so many write units, with block metadata: in one command, or one by one
/// if that fails. Unreadable blocks come back empty.
async fn read_blocks(device: &dyn ZonedDevice, zone: ZoneId, count: u32) -> Vec<(Bytes, Bytes)> {
    let unit = device.geometry().write_unit;
    let written = count * unit.0;
    let whole = read_split(device, ZoneAddress::new(zone, 0), BlockCount(written)).await;
    if let Ok(payload) = whole {
        let pairs = payload.iter_blocks().enumerate().step_by(unit.index());
        return pairs.map(|(index, block)| (block, payload.block_oob(index))).collect();
    }
    mark(Mark::RecordsReadOneByOne);
    let mut blocks = Vec::with_capacity(count as usize);
    for offset in (0..written).step_by(unit.index()) {
        let read = read_stubbornly(device, ZoneAddress::new(zone, offset)).await;
        let block = read.map(|payload| (payload.block(0), payload.block_oob(0)));
        blocks.push(block.unwrap_or_default());
    }
    blocks
}

pub(super) async fn read_stubbornly(
    device: &dyn ZonedDevice,
    at: ZoneAddress,
) -> Result<Payload, Status> {
    let mut read = device.read(at, BlockCount(1)).await;
    for _ in 1..READS {
        if read.is_ok() {
            break;
        }
        read = device.read(at, BlockCount(1)).await;
    }
    read
}
