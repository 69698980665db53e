//! Superblock records of a drive: docs/format.md section 4.

use std::collections::BTreeSet;

use zoneweave_zoned::ZoneState;

use crate::drive::{Drive, ReadBlock};
use crate::format::blocks::{BlockType, open_envelope};
use crate::format::record::{Epoch, MemberEntry, MemberState, Record};
use crate::report::{Findings, Location, Problem};

/// The superblock zones are among this many zones at the start of a drive.
const ZONES_SCANNED: usize = 4;

/// Records in a full superblock zone.
const RECORDS_PER_ZONE: u32 = 1024;

/// Blocks per read of a superblock zone.
const SCAN_BLOCKS: u32 = 256;

/// A record and its place.
pub(crate) struct Placed {
    pub(crate) record: Record,
    pub(crate) location: Location,
}

/// A drive that carries records.
pub(crate) struct Candidate {
    pub(crate) drive: Drive,
    pub(crate) superblock_zones: Vec<u32>,
    pub(crate) records: Vec<Placed>,
    /// A record newer than the newest one read may be in an unreadable block: the last of its zone,
    /// or any of the other zone.
    pub(crate) may_hide_newer: bool,
}

impl Candidate {
    /// Its newest record, of the given epoch or of all.
    pub(crate) fn newest(&self, epoch: Option<Epoch>) -> Option<&Record> {
        let records = self.records.iter().map(|placed| &placed.record);
        let of_epoch = records.filter(|record| epoch.is_none_or(|epoch| record.epoch == epoch));
        of_epoch.max_by_key(|record| (record.epoch, record.sequence))
    }
}

impl Record {
    /// Whether the drive of record `own` is in service by this record's table.
    pub(crate) fn has_in_service(&self, own: &Self) -> bool {
        self.entry_of(own).is_some_and(|entry| entry.state != MemberState::Failed)
    }

    /// The entry of the drive of record `own` in this record's table.
    pub(crate) fn entry_of(&self, own: &Self) -> Option<&MemberEntry> {
        self.members.get(usize::from(own.slot)).filter(|entry| entry.uuid == own.member)
    }
}

/// Reads the superblock zones of a drive.
pub(crate) async fn scan(drive: Drive, findings: &mut Findings) -> Candidate {
    let (mut records, mut superblock_zones) = (Vec::new(), Vec::new());
    let zones: Vec<_> = drive.readable_zones().take(ZONES_SCANNED).collect();
    // For each zone with records: the newest sequence, and whether the last block is damaged.
    let mut ends = Vec::new();
    let mut unknown_zones = 0;
    for info in zones {
        let unit = drive.unit();
        let (zone, written) = (info.zone.0, info.write_pointer.0.min(RECORDS_PER_ZONE * unit));
        let (mut found, mut damaged, mut is_segment) = (Vec::new(), Vec::new(), false);
        for first in (0..written).step_by(SCAN_BLOCKS as usize) {
            let blocks = drive.read(zone, first, SCAN_BLOCKS.min(written - first)).await;
            if first == 0 && blocks.first().is_some_and(begins_segment) {
                is_segment = true;
                break;
            }
            let begin_unit = |(offset, _): &(u32, _)| offset.is_multiple_of(unit);
            for (offset, block) in (first..).zip(blocks).filter(begin_unit) {
                let location = Location::drive(drive.number).zone(zone).offset(offset);
                match block.map(|block| Record::parse(&block.data, &block.oob)) {
                    Ok(Some(record)) => found.push(Placed { record, location }),
                    Ok(None) => damaged.push((location, Problem::RecordDamaged)),
                    Err(status) => damaged.push((location, Problem::unreadable(status))),
                }
            }
        }
        let Some(newest) = found.iter().map(|placed| placed.record.sequence).max() else {
            unknown_zones += u32::from(written > 0 && !is_segment);
            continue;
        };
        let end = Location::drive(drive.number).zone(zone).offset((written - 1) / unit * unit);
        ends.push((newest, damaged.iter().any(|(at, _)| *at == end)));
        superblock_zones.push(zone);
        records.append(&mut found);
        damaged.into_iter().for_each(|(location, problem)| findings.add(location, problem));
    }
    leave_out_former(&drive, &mut records);
    // Records are in two zones: if both were found, no third one can hold any.
    let other_unreadable = ends.len() == 1 && unknown_zones > 0;
    let end_damaged = ends.iter().max().is_some_and(|(_, damaged)| *damaged);
    let may_hide_newer = other_unreadable || end_damaged;
    Candidate { drive, superblock_zones, records, may_hide_newer }
}

/// Leaves out records of former memberships. They survive in zones that were read-only when the
/// drive was added, since those could not be reset. Newer records of the same history stay.
fn leave_out_former(drive: &Drive, records: &mut Vec<Placed>) {
    let read_only = drive.readable_zones().filter(|info| info.state == ZoneState::ReadOnly);
    let read_only: BTreeSet<_> = read_only.map(|info| Some(info.zone.0)).collect();
    let writable = records.iter().filter(|placed| !read_only.contains(&placed.location.zone));
    let newest = writable.max_by_key(|placed| (placed.record.epoch, placed.record.sequence));
    let Some(present) = newest.map(|placed| placed.record.clone()) else { return };
    let is_former = |record: &Record| {
        let other_history = record.epoch.lineage != present.epoch.lineage;
        let older = record.epoch.number <= present.epoch.number || other_history;
        record.array != present.array || record.member != present.member && older
    };
    records
        .retain(|placed| !read_only.contains(&placed.location.zone) || !is_former(&placed.record));
}

/// Whether the first block of a zone is a segment header, so that the zone holds no records.
fn begins_segment(block: &ReadBlock) -> bool {
    let Ok(block) = block else { return false };
    open_envelope(&block.data, BlockType::Header).is_some()
}
