//! Reads the superblock records of a drive and interprets them by themselves.

use std::marker::PhantomData;

use zoneweave_journal::{Codec, Scan, TwinLog};
use zoneweave_zoned::{Status, ZoneInfo, ZoneState, ZonedDevice};

use crate::array::format::envelope::FormatError;
use crate::array::format::record::{SuperblockRecord, VolumeBody};
use crate::array::superblock_logs::mark_event;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// Contents of a drive's superblock zones.
#[derive(Clone)]
pub struct DriveRecords<B> {
    /// The records, without those of former memberships.
    pub scan: Scan<SuperblockRecord<B>, FormatError>,
    /// The version of records that are intact, but of another version of the format.
    pub other_version: Option<u16>,
}

impl<B: VolumeBody> DriveRecords<B> {
    /// The record with the highest epoch and sequence.
    #[must_use]
    pub fn newest(&self) -> Option<&SuperblockRecord<B>> {
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
        let is_former = |record: &SuperblockRecord<B>| {
            let same_array = record.config.array == present.config.array;
            let older = record.epoch <= present.epoch || record.lineage != present.lineage;
            !same_array || record.member != present.member && older
        };
        let left_out = self.scan.retain(|info, record| is_writable(info) || !is_former(record));
        mark_if(Mark::FormerRecordsLeftOut, || left_out);
    }

    /// The superblock log, to go on with a snapshot.
    pub(crate) fn log(&self) -> Option<TwinLog> {
        let zones = self.scan.log_zones()?;
        if self.scan.records.is_empty() && mutant(Mutant::BlankDriveAdopted) {
            return Some(TwinLog::begin(zones, mark_event));
        }
        self.scan.resume()
    }
}

fn newest_of<'a, B>(
    records: impl Iterator<Item = &'a SuperblockRecord<B>>,
) -> Option<&'a SuperblockRecord<B>> {
    records.max_by_key(|record| (record.epoch, record.record_sequence))
}

/// Decodes superblock records of any array.
struct Superblocks<B>(PhantomData<B>);

impl<B: VolumeBody> Codec for Superblocks<B> {
    type Record = SuperblockRecord<B>;
    type Error = FormatError;

    fn decode(&self, data: &[u8], metadata: &[u8]) -> Result<SuperblockRecord<B>, FormatError> {
        let record = SuperblockRecord::<B>::decode(data)?;
        if !B::is_metadata(record.config.array, metadata, data) {
            mark(Mark::RecordWithoutMetadata);
            return Err(FormatError::Checksum);
        }
        Ok(record)
    }

    fn is_of_other_zone(&self, first: &[u8]) -> bool {
        B::is_of_volume(first)
    }
}

/// Reads the superblock records of a drive, of any array.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn read_records<B: VolumeBody>(
    device: &dyn ZonedDevice,
) -> Result<DriveRecords<B>, Status> {
    let scan = Scan::read(device, &Superblocks(PhantomData), mark_event).await?;
    let version = |error: &FormatError| match error {
        FormatError::Version { found } => Some(*found),
        _ => None,
    };
    let other_version = scan.undecoded.iter().find_map(version);
    let mut found = DriveRecords { scan, other_version };
    found.leave_out_former();
    Ok(found)
}
