//! Payloads of superblock records: decisions that recovery must not take twice.
//!
//! A record carries one of: nothing (a change of the repeated state), deaths of segments, seals of
//! leftover segments, the end of a snapshot, a checkpoint pointer, the narrow list, faults, or the
//! newest scrubs. Or it marks a member of an array that is being destroyed.

use bytes::Bytes;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::checkpoint::CheckpointPointer;
use super::dead::{self, Death};
use super::narrow_list::NarrowListRecord;
use super::seal::{self, MAX_SEAL_ROWS, SealRecord};
use super::{BlockType, Envelope, FormatError, Oob, Place, Seed};
use crate::array::format::bounds::LBA_LIMIT;
use crate::array::format::config::ArrayConfig;
use crate::array::format::envelope::ArrayUuid;
use crate::array::format::faults::Faults;
use crate::array::format::numbers::Generation;
use crate::array::format::record::{BODY_BYTES, LOG, VolumeBody};
use crate::array::format::scrubs::Scrubs;
use crate::scheme::{Column, ColumnSet, MAX_COLUMNS, Scheme};

/// A superblock record of a log-structured volume.
pub type SuperblockRecord = crate::array::format::record::SuperblockRecord<RecordBody>;

const _: () = assert!(SealRecord::BYTES_MOST <= BODY_BYTES);

/// The part of a record that is not repeated in every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody {
    /// No further content.
    State,
    /// Generations of dead segments, from builds that did not record their zones.
    Dead(Vec<Generation>),
    /// Seals of segments: one, or as many as fit.
    Seals(Vec<SealRecord>),
    /// Closes a snapshot. With the `records` records before it in its zone, it contains all current
    /// information, so that the member's other superblock zone is not needed any more.
    SnapshotEnd {
        /// How many records of the zone before this one belong to the snapshot.
        records: u32,
    },
    /// A checkpoint of the index is complete and durable. Nothing depends on it.
    Checkpoint(CheckpointPointer),
    /// Segments whose live blocks all have a durable copy elsewhere, and the zones that may still
    /// hold their blocks.
    Deaths(Vec<Death>),
    /// The narrow segments that are alive.
    NarrowList(NarrowListRecord),
    /// Errors of the members, and lost ranges of the volume.
    Faults(Faults),
    /// The newest scrubs.
    Scrubs(Scrubs),
    /// The array is being destroyed: the member counts for nothing.
    Destroyed,
}

impl RecordBody {
    /// Most dead segments in one record without zones.
    pub const MAX_DEAD: usize = BODY_BYTES / 8;

    /// Most deaths in one record, in an array of so many columns.
    #[must_use]
    pub const fn deaths_most(columns: usize) -> usize {
        BODY_BYTES / Death::bytes(columns)
    }

    /// Most narrow segments in the list, in an array of this scheme with one data chunk per stripe.
    #[must_use]
    pub const fn listed_most(scheme: Scheme) -> usize {
        Self::LISTED_BYTES / NarrowListRecord::bytes_of(1 + scheme.parity())
    }

    /// Bytes available for the entries of a narrow list.
    pub(in crate::log) const LISTED_BYTES: usize = BODY_BYTES - size_of::<u64>();

    /// The fewest records that hold these deaths of one array, in their order.
    #[must_use]
    pub fn of_deaths(deaths: impl IntoIterator<Item = Death>) -> Vec<Self> {
        let deaths: Vec<_> = deaths.into_iter().collect();
        let columns = deaths.first().map_or(MAX_COLUMNS, |death| death.remains.len());
        assert!(
            deaths.iter().all(|death| death.remains.len() == columns),
            "deaths of one array name {columns} columns and others"
        );
        let records = deaths.chunks(Self::deaths_most(columns));
        records.map(|some| Self::Deaths(some.to_vec())).collect()
    }

    /// The fewest records that hold these seals in their order.
    #[must_use]
    pub fn of_seals<'a>(seals: impl IntoIterator<Item = &'a SealRecord>) -> Vec<Self> {
        seal::pack(seals, BODY_BYTES).into_iter().map(Self::Seals).collect()
    }

    /// Number of records for these seals.
    #[must_use]
    pub fn count_of_seals<'a>(seals: impl IntoIterator<Item = &'a SealRecord>) -> usize {
        seal::count_packed(seals, BODY_BYTES)
    }
}

impl VolumeBody for RecordBody {
    const KIND: u8 = LOG;

    const STATE: Self = Self::State;

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
            Self::Dead(_) => 1,
            Self::Seals(_) => 2,
            Self::SnapshotEnd { .. } => 3,
            Self::Checkpoint(_) => 4,
            Self::Deaths(_) => 5,
            Self::NarrowList(_) => 6,
            Self::Faults(_) => 7,
            Self::Scrubs(_) => 8,
            Self::Destroyed => 9,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::State | Self::Destroyed => Vec::new(),
            Self::Checkpoint(pointer) => pointer.encode().to_vec(),
            Self::SnapshotEnd { records } => records.to_le_bytes().to_vec(),
            Self::Dead(segments) => segments.iter().flat_map(|dead| dead.0.to_le_bytes()).collect(),
            Self::Seals(seals) => seal::encode(seals),
            Self::Deaths(deaths) => dead::encode(deaths),
            Self::NarrowList(list) => list.encode(),
            Self::Faults(faults) => faults.encode(),
            Self::Scrubs(scrubs) => scrubs.encode(),
        }
    }

    fn decode(kind: u8, bytes: &[u8], config: &ArrayConfig) -> Result<Self, FormatError> {
        let malformed = FormatError::Field { field: "body" };
        match kind {
            0 if bytes.is_empty() => Ok(Self::State),
            1 if bytes.len().is_multiple_of(8) => {
                let (words, _) = bytes.as_chunks::<8>();
                let number = |word: &[u8; 8]| Generation(u64::from_le_bytes(*word));
                Ok(Self::Dead(words.iter().map(number).collect()))
            }
            2 if !bytes.is_empty() => seal::decode(bytes).ok_or(malformed).map(Self::Seals),
            3 => U32::ref_from_bytes(bytes)
                .map(|records| Self::SnapshotEnd { records: records.get() })
                .map_err(|_| malformed),
            4 => CheckpointPointer::decode(bytes).map(Self::Checkpoint),
            5 => {
                let deaths = dead::decode(bytes, config.scheme.columns());
                deaths.ok_or(malformed).map(Self::Deaths)
            }
            6 => NarrowListRecord::decode(bytes, config).ok_or(malformed).map(Self::NarrowList),
            7 => decode_faults(bytes, config).ok_or(malformed).map(Self::Faults),
            8 => Scrubs::decode(bytes).ok_or(malformed).map(Self::Scrubs),
            9 if bytes.is_empty() => Ok(Self::Destroyed),
            _ => Err(malformed),
        }
    }

    fn check_config(config: &ArrayConfig) -> Result<(), FormatError> {
        check_sizes(config)
    }

    fn metadata(array: ArrayUuid, record_sequence: u64, slot: Column, block: &[u8]) -> Bytes {
        let absent = ColumnSet::default();
        // A record has no segment: its own number is in that place.
        let number = Generation(record_sequence);
        let oob = Oob::of_structure(Place::Superblock, number, slot, absent);
        Bytes::copy_from_slice(&oob.encode(Seed::of(array), block, false))
    }

    fn is_metadata(array: ArrayUuid, metadata: &[u8], block: &[u8]) -> bool {
        Oob::verify_other(Seed::of(array), metadata, block, Place::Superblock).is_some()
    }

    fn is_of_volume(first: &[u8]) -> bool {
        Envelope::open(first, BlockType::SegmentHeader).is_ok()
    }
}

/// Faults of this array and volume.
fn decode_faults(bytes: &[u8], config: &ArrayConfig) -> Option<Faults> {
    let faults = Faults::decode(bytes, config.scheme.columns(), LBA_LIMIT)?;
    let end = faults.lost.last().map_or(0, |range| range.end());
    (end <= config.log().volume_blocks).then_some(faults)
}

/// Checks the sizes of a volume against those of its array.
fn check_sizes(config: &ArrayConfig) -> Result<(), FormatError> {
    let field = |field| FormatError::Field { field };
    let (log, capacity) = (config.log(), config.zone_capacity.0);
    let chunk = log.chunk_blocks;
    if !(1..=1024).contains(&chunk) || !chunk.is_multiple_of(config.write_unit.0) {
        return Err(field("chunk blocks"));
    }
    if !(1..=MAX_SEAL_ROWS).contains(&log.group_rows) {
        return Err(field("group rows"));
    }
    let blocks = u64::from(config.zones) * u64::from(capacity);
    let blocks = blocks.saturating_mul(config.scheme.data() as u64);
    if capacity > 1 << 28 || log.volume_blocks > blocks.min(LBA_LIMIT) {
        return Err(field("volume size"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::{BlockCount, ZoneId};

    use super::*;
    use crate::array::format::numbers::{Epoch, Lineage, SegmentId, Sequence};
    use crate::array::format::record::{FIXED, MemberEntry, MemberState, MemberUuid};
    use crate::log::format::Remains;
    use crate::scheme::Arrangement;
    use crate::shards::Shard;

    fn sample(body: RecordBody) -> SuperblockRecord {
        let member = |byte, state| MemberEntry {
            uuid: MemberUuid([byte; 16]),
            state,
            since_epoch: Epoch(byte.into()),
        };
        SuperblockRecord {
            config: ArrayConfig { scheme: Scheme::new(2, 1).unwrap(), ..ArrayConfig::sample() }
                .with_log(|log| log.writethrough = Some(false)),
            lineage: Lineage(1),
            epoch: Epoch(2),
            epoch_tag: 3,
            record_sequence: 4,
            slot: Column(2),
            member: MemberUuid([3; 16]),
            members: vec![
                member(1, MemberState::Online),
                member(2, MemberState::Failed),
                member(3, MemberState::Rebuilding),
            ],
            sequence_ceiling: Sequence(5),
            segment_ceiling: SegmentId(6),
            body,
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let seal = SealRecord {
            segment: SegmentId(9),
            generation: Generation(8),
            rows: 512,
            valid: (0..256).map(|at| at % 3 == 0).collect(),
        };
        let dead = RecordBody::Dead([1, 2].map(Generation).to_vec());
        let end = RecordBody::SnapshotEnd { records: 2 };
        let next = SealRecord { segment: SegmentId(10), valid: Vec::new(), ..seal.clone() };
        let seals = RecordBody::Seals(vec![seal, next]);
        let remains = vec![Remains::In(ZoneId(9)), Remains::Nothing, Remains::Anywhere];
        let most = RecordBody::deaths_most(remains.len()) as u64;
        let death = |at| Death { generation: Generation(at), remains: remains.clone() };
        let [deaths, rest] = RecordBody::of_deaths((0..=most).map(death)).try_into().unwrap();
        assert_eq!(rest, RecordBody::Deaths(vec![death(most)]));
        for body in [RecordBody::State, dead, seals, end, deaths, RecordBody::Destroyed] {
            let record = sample(body);
            assert_eq!(SuperblockRecord::decode(&record.encode()), Ok(record));
        }
        let mut record = sample(RecordBody::State);
        record.config.shard = Shard::new(2, 3).unwrap();
        let error = FormatError::Field { field: "shard" };
        assert_eq!(SuperblockRecord::decode(&record.encode()), Err(error));
        record.config.array = record.config.shard.array(record.config.array);
        assert_eq!(SuperblockRecord::decode(&record.encode()), Ok(record));
        for tabled in [false, true] {
            let mut record = sample(RecordBody::State);
            record.config.scheme = Scheme::arranged(Arrangement::Fixed, 2, 1).unwrap();
            record.config.log_mut().tabled = tabled;
            assert_eq!(SuperblockRecord::decode(&record.encode()), Ok(record));
        }
    }

    /// A later release may put another volume on an array.
    #[test]
    fn another_volume_kind_is_refused() {
        let record = sample(RecordBody::State);
        let mut block = record.encode().to_vec();
        let at = Envelope::BYTES + 50;
        assert_eq!(block[at], LOG);
        block[at] = 2;
        Envelope::seal(&mut block, BlockType::Superblock, record.config.array, FIXED);
        let error = FormatError::VolumeKind { found: 2 };
        assert_eq!(SuperblockRecord::decode(&block), Err(error));
    }

    /// Each part has a length of its own, and no other one is known yet.
    #[test]
    fn parts_of_another_length_are_refused() {
        let record = sample(RecordBody::State);
        for at in [52, 54, 56].map(|at| Envelope::BYTES + at) {
            for change in [1, 0xFF] {
                let mut block = record.encode().to_vec();
                block[at] = block[at].wrapping_add(change);
                Envelope::seal(&mut block, BlockType::Superblock, record.config.array, FIXED);
                let refused = SuperblockRecord::decode(&block);
                assert!(matches!(refused, Err(FormatError::Field { .. })), "{refused:?}");
            }
        }
    }

    #[test]
    fn a_volume_larger_than_its_drives_is_refused() {
        let mut record = sample(RecordBody::State);
        record.config.log_mut().volume_blocks = 64 * 4096 * 2 + 1;
        let error = FormatError::Field { field: "volume size" };
        assert_eq!(SuperblockRecord::decode(&record.encode()), Err(error));
    }

    #[test]
    fn impossible_drive_sizes_are_refused_without_overflow() {
        let mut record = sample(RecordBody::State);
        record.config.zones = u32::MAX;
        record.config.log_mut().volume_blocks = (1 << 40) + 1;
        let error = FormatError::Field { field: "volume size" };
        for capacity in [1 << 28, u32::MAX] {
            record.config.zone_capacity = BlockCount(capacity);
            assert_eq!(SuperblockRecord::decode(&record.encode()), Err(error));
        }
    }
}
