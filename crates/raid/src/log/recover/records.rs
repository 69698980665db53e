//! Reads the superblock records of a drive and interprets them by themselves.

use zoneweave_journal::{Codec, Record, Scan, TwinLog};
use zoneweave_zoned::{Status, ZoneInfo, ZoneState, ZonedDevice};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::format::{
    BlockType, Envelope, FormatError, Oob, Place, RecordBody, Seed, SuperblockRecord,
};
use crate::log::members::superblock::cursor::mark_event;

/// Contents of a drive's superblock zones.
#[derive(Clone)]
pub struct DriveRecords {
    /// The records, without those of former memberships.
    pub scan: Scan<SuperblockRecord, FormatError>,
    /// The version of records that are intact, but of another version of the format.
    pub other_version: Option<u16>,
}

impl DriveRecords {
    /// The record with the highest epoch and sequence.
    #[must_use]
    pub fn newest(&self) -> Option<&SuperblockRecord> {
        newest_of(self.scan.records.iter().map(|(_, record)| record))
    }

    /// Leaves out records of former memberships, of any array. Adding a drive erases all zones that
    /// can be erased, so such records are in zones that were read-only then, and remain so. (A
    /// newer record of the same history stays: with builds from before this rule, drives may have
    /// acknowledged a reset without doing it.)
    fn leave_out_former(&mut self) {
        let is_writable = |info: &ZoneInfo| info.state != ZoneState::ReadOnly;
        let zones = &self.scan.zones;
        let writable =
            self.scan.records.iter().filter(|(at, _)| is_writable(&zones[at.zone.index()]));
        let Some(present) = newest_of(writable.map(|(_, record)| record)).cloned() else { return };
        let is_former = |record: &SuperblockRecord| {
            let same_array = record.config.array == present.config.array;
            let older = record.epoch <= present.epoch || record.lineage != present.lineage;
            !same_array || record.member != present.member && older
        };
        let left_out = self.scan.retain(|info, record| is_writable(info) || !is_former(record));
        mark_if(Mark::FormerRecordsLeftOut, || left_out);
    }

    /// The superblock log, to go on with a snapshot.
    pub(super) fn log(&self) -> Option<TwinLog> {
        let zones = self.scan.log_zones()?;
        if self.scan.records.is_empty() && mutant(Mutant::BlankDriveAdopted) {
            return Some(TwinLog::begin(zones, mark_event));
        }
        self.scan.resume()
    }
}

fn newest_of<'a>(
    records: impl Iterator<Item = &'a SuperblockRecord>,
) -> Option<&'a SuperblockRecord> {
    records.max_by_key(|record| (record.epoch, record.record_sequence))
}

impl Record for SuperblockRecord {
    fn sequence(&self) -> u64 {
        self.record_sequence
    }

    fn snapshot_records(&self) -> Option<u32> {
        match self.body {
            RecordBody::SnapshotEnd { records } => Some(records),
            _ => None,
        }
    }
}

/// Decodes superblock records of any array.
struct Superblocks;

impl Codec for Superblocks {
    type Record = SuperblockRecord;
    type Error = FormatError;

    /// Decodes a record if its block metadata says that it is one. Users may write blocks that look
    /// like records, but not block metadata.
    fn decode(&self, data: &[u8], metadata: &[u8]) -> Result<SuperblockRecord, FormatError> {
        let record = SuperblockRecord::decode(data)?;
        let seed = Seed::of(record.config.array);
        match Oob::verify_other(seed, metadata, data, Place::Superblock) {
            Some(_) => Ok(record),
            None => {
                mark(Mark::RecordWithoutMetadata);
                Err(FormatError::Checksum)
            }
        }
    }

    fn is_of_other_zone(&self, first: &[u8]) -> bool {
        Envelope::open(first, BlockType::SegmentHeader).is_ok()
    }
}

/// Reads the superblock records of a drive, of any array.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn read_records(device: &dyn ZonedDevice) -> Result<DriveRecords, Status> {
    let scan = Scan::read(device, &Superblocks, mark_event).await?;
    let version = |error: &FormatError| match error {
        FormatError::Version { found } => Some(*found),
        _ => None,
    };
    let other_version = scan.undecoded.iter().find_map(version);
    let mut found = DriveRecords { scan, other_version };
    found.leave_out_former();
    Ok(found)
}
