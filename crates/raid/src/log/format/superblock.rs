//! Superblock records: the members of the array, and decisions that recovery must not take twice.
//!
//! Each record is one block and repeats the whole membership and the ceilings, so the newest valid
//! record is enough if all others are lost. In addition it carries one of: nothing (a change of the
//! repeated state), deaths of segments, seals of leftover segments, the end of a snapshot, a
//! checkpoint pointer, or the narrow list.

use std::fmt;

use bytes::Bytes;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use super::checkpoint::CheckpointPointer;
use super::dead::{self, Death};
use super::narrow_list::Roster;
use super::seal::{self, MAX_SEAL_ROWS, SealRecord};
use super::{ArrayUuid, BlockType, Envelope, FormatError, Uuid};
use crate::log::format::bounds::LBA_LIMIT;
use crate::log::format::bounds::NUMBER_LIMIT;
use crate::log::format::config::{ArrayConfig, LogConfig, VolumeKind, decode_unit, encode_unit};
use crate::log::format::envelope::display_uuid;
use crate::log::format::numbers::SegmentId;
use crate::scheme::{Arrangement, Column, MAX_COLUMNS, Scheme};
use crate::shards::Shard;

/// The identity of a drive as a member of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberUuid(pub Uuid);

impl fmt::Display for MemberUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_uuid(&self.0, f)
    }
}

/// Service state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// It holds every chunk of its column.
    Online = 1,
    /// It takes new chunks; older ones are being rebuilt.
    Rebuilding = 2,
    /// It missed writes: its contents are invalid.
    Failed = 3,
}

/// A row of the member table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// The drive in this slot.
    pub uuid: MemberUuid,
    /// Its service state.
    pub state: MemberState,
    /// The epoch of its last change of state.
    pub since_epoch: u64,
}

/// The part of a record that is not repeated in every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody {
    /// No further content.
    State,
    /// Generations of dead segments, from builds that did not record their zones.
    Dead(Vec<u64>),
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
    Roster(Roster),
}

/// One superblock record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockRecord {
    /// Configuration of the array.
    pub config: ArrayConfig,
    /// Distinguishes histories that were started apart.
    pub lineage: u64,
    /// Number of membership changes.
    pub epoch: u64,
    /// Random for each epoch: two histories with the same epoch differ here.
    pub epoch_tag: u64,
    /// Number of the record, increasing.
    pub record_sequence: u64,
    /// The drive this record was written to.
    pub slot: Column,
    /// UUID of that drive.
    pub member: MemberUuid,
    /// Every member, by slot.
    pub members: Vec<MemberEntry>,
    /// Every assigned sequence is below this.
    pub sequence_ceiling: u64,
    /// Every assigned segment number is below this.
    pub segment_ceiling: SegmentId,
    /// Further content.
    pub body: RecordBody,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawMember {
    uuid: Uuid,
    state: u8,
    reserved: [u8; 7],
    since_epoch: U64,
}

/// The first part of a record.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    lineage: U64,
    epoch: U64,
    epoch_tag: U64,
    record_sequence: U64,
    member: Uuid,
    slot: u8,
    body_kind: u8,
    volume_kind: u8,
    reserved: u8,
    array_bytes: U16,
    volume_bytes: U16,
    body_bytes: U16,
    reserved_too: [u8; 6],
}

/// The part of every array, whatever its volume.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawArray {
    data_chunks: u8,
    parity_chunks: u8,
    /// The code of the scheme's [`Arrangement`].
    arrangement: u8,
    unit_exponent: u8,
    shard: u8,
    /// Number of other shards.
    other_shards: u8,
    reserved: u8,
    name_bytes: u8,
    name: [u8; 32],
    zone_capacity: U32,
    zones: U32,
    members: [RawMember; MAX_COLUMNS],
}

/// The part of a log-structured volume.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawLog {
    volume_blocks: U64,
    sequence_ceiling: U64,
    segment_ceiling: U64,
    chunk_blocks: U16,
    group_rows: U16,
    tabled: u8,
    entry_bytes: u8,
    durability: u8,
    reserved: u8,
}

/// The volume kind of a log-structured volume; 2 is reserved for zoned volumes.
const LOG: u8 = 1;

const FIXED: usize = size_of::<RawHead>() + size_of::<RawArray>() + size_of::<RawLog>();
const _: () = assert!(size_of::<RawHead>() == 64 && size_of::<RawMember>() == 32);
const _: () = assert!(size_of::<RawArray>() == 48 + 32 * MAX_COLUMNS && size_of::<RawLog>() == 32);

/// Bytes available for a record's body.
const BODY_BYTES: usize = BLOCK_BYTES - Envelope::BYTES - FIXED;
const _: () = assert!(SealRecord::BYTES_MOST <= BODY_BYTES);

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
        Self::LISTED_BYTES / Roster::bytes_of(1 + scheme.parity())
    }

    /// Bytes available for the entries of a narrow list.
    pub(in crate::log) const LISTED_BYTES: usize = BODY_BYTES - size_of::<u64>();

    /// The fewest records that hold these deaths of one array, in their order.
    #[must_use]
    pub fn of_deaths(deaths: impl IntoIterator<Item = Death>) -> Vec<Self> {
        let deaths: Vec<_> = deaths.into_iter().collect();
        let columns = deaths.first().map_or(MAX_COLUMNS, |death| death.remains.len());
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

    fn kind(&self) -> u8 {
        match self {
            Self::State => 0,
            Self::Dead(_) => 1,
            Self::Seals(_) => 2,
            Self::SnapshotEnd { .. } => 3,
            Self::Checkpoint(_) => 4,
            Self::Deaths(_) => 5,
            Self::Roster(_) => 6,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::State => Vec::new(),
            Self::Checkpoint(pointer) => pointer.encode().to_vec(),
            Self::SnapshotEnd { records } => records.to_le_bytes().to_vec(),
            Self::Dead(segments) => segments.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Self::Seals(seals) => seal::encode(seals),
            Self::Deaths(deaths) => dead::encode(deaths),
            Self::Roster(roster) => roster.encode(),
        }
    }

    fn decode(kind: u8, bytes: &[u8], config: &ArrayConfig) -> Result<Self, FormatError> {
        let malformed = FormatError::Field { field: "body" };
        match kind {
            0 if bytes.is_empty() => Ok(Self::State),
            1 if bytes.len().is_multiple_of(8) => {
                let (words, _) = bytes.as_chunks::<8>();
                Ok(Self::Dead(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
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
            6 => Roster::decode(bytes, config).ok_or(malformed).map(Self::Roster),
            _ => Err(malformed),
        }
    }
}

impl SuperblockRecord {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If the body does not fit: callers split lists of deaths and of seals.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let body = self.body.encode();
        assert!(body.len() <= BODY_BYTES, "a record body of {} bytes", body.len());
        let parts = [
            self.raw_head(body.len()).as_bytes(),
            self.raw_array().as_bytes(),
            self.raw_log().as_bytes(),
            &body,
        ]
        .concat();
        assert!(parts.len() == FIXED + body.len(), "the parts have their sizes");
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        bytes[Envelope::BYTES..Envelope::BYTES + parts.len()].copy_from_slice(&parts);
        Envelope::seal(bytes, BlockType::Superblock, self.config.array, parts.len());
        block.freeze()
    }

    fn raw_head(&self, body_bytes: usize) -> RawHead {
        let length = |bytes: usize| u16::try_from(bytes).expect("below 4096").into();
        RawHead {
            lineage: self.lineage.into(),
            epoch: self.epoch.into(),
            epoch_tag: self.epoch_tag.into(),
            record_sequence: self.record_sequence.into(),
            member: self.member.0,
            slot: self.slot.0,
            body_kind: self.body.kind(),
            volume_kind: LOG,
            reserved: 0,
            array_bytes: length(size_of::<RawArray>()),
            volume_bytes: length(size_of::<RawLog>()),
            body_bytes: length(body_bytes),
            reserved_too: [0; 6],
        }
    }

    fn raw_array(&self) -> RawArray {
        let config = &self.config;
        let mut name = [0; 32];
        name[..config.name.len()].copy_from_slice(config.name.as_bytes());
        let vacant = RawMember { uuid: [0; 16], state: 0, reserved: [0; 7], since_epoch: 0.into() };
        let mut members = [vacant; MAX_COLUMNS];
        for (raw, member) in members.iter_mut().zip(&self.members) {
            raw.uuid = member.uuid.0;
            raw.state = member.state as u8;
            raw.since_epoch = member.since_epoch.into();
        }
        RawArray {
            data_chunks: small(config.scheme.data()),
            parity_chunks: small(config.scheme.parity()),
            arrangement: config.scheme.arrangement().code(),
            unit_exponent: encode_unit(config.write_unit).expect("a unit of drives"),
            shard: config.shard.number(),
            other_shards: u8::try_from(config.shard.of() - 1).expect("at most 256 shards"),
            reserved: 0,
            name_bytes: small(config.name.len()),
            name,
            zone_capacity: config.zone_capacity.0.into(),
            zones: config.zones.into(),
            members,
        }
    }

    fn raw_log(&self) -> RawLog {
        let log = self.config.log();
        let short = |value: u32| u16::try_from(value).expect("at most 16384").into();
        RawLog {
            volume_blocks: log.volume_blocks.into(),
            sequence_ceiling: self.sequence_ceiling.into(),
            segment_ceiling: self.segment_ceiling.into(),
            chunk_blocks: short(log.chunk_blocks),
            group_rows: short(log.group_rows),
            tabled: u8::from(log.tabled),
            entry_bytes: log.entry_bytes,
            durability: match log.writethrough {
                None => 0,
                Some(true) => 1,
                Some(false) => 2,
            },
            reserved: 0,
        }
    }

    /// Decodes a record of any array.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8]) -> Result<Self, FormatError> {
        let (array, payload) = Envelope::open(block, BlockType::Superblock)?;
        let length = || FormatError::Field { field: "length" };
        let (head, rest) = RawHead::ref_from_prefix(payload).map_err(|_| length())?;
        let bytes = |length: U16| usize::from(length.get());
        let (array_part, rest) = rest.split_at_checked(bytes(head.array_bytes)).ok_or(length())?;
        let (log_part, body) = rest.split_at_checked(bytes(head.volume_bytes)).ok_or(length())?;
        if body.len() != bytes(head.body_bytes) {
            return Err(FormatError::Field { field: "body length" });
        }
        if head.volume_kind != LOG {
            return Err(FormatError::Field { field: "volume kind" });
        }
        let raw = RawArray::ref_from_bytes(array_part).map_err(|_| length())?;
        let log = RawLog::ref_from_bytes(log_part).map_err(|_| length())?;
        let config = decode_config(array, raw, log)?;
        let columns = config.scheme.columns();
        if usize::from(head.slot) >= columns {
            return Err(FormatError::Field { field: "slot" });
        }
        let numbers = [log.sequence_ceiling, log.segment_ceiling, head.epoch, head.record_sequence];
        if numbers.iter().any(|number| number.get() >= NUMBER_LIMIT) {
            return Err(FormatError::Field { field: "ceiling" });
        }
        let members = raw.members[..columns].iter().map(decode_member);
        Ok(Self {
            lineage: head.lineage.get(),
            epoch: head.epoch.get(),
            epoch_tag: head.epoch_tag.get(),
            record_sequence: head.record_sequence.get(),
            slot: Column(head.slot),
            member: MemberUuid(head.member),
            members: members.collect::<Result<_, _>>()?,
            sequence_ceiling: log.sequence_ceiling.get(),
            segment_ceiling: SegmentId(log.segment_ceiling.get()),
            body: RecordBody::decode(head.body_kind, body, &config)?,
            config,
        })
    }
}

fn small(value: usize) -> u8 {
    u8::try_from(value).expect("at most 32")
}

fn decode_config(
    array: ArrayUuid,
    raw: &RawArray,
    log: &RawLog,
) -> Result<ArrayConfig, FormatError> {
    let field = |field| FormatError::Field { field };
    let arrangement = Arrangement::of_code(raw.arrangement).ok_or(field("arrangement"))?;
    let write_unit = decode_unit(raw.unit_exponent).ok_or(field("unit"))?;
    let (data, parity) = (raw.data_chunks.into(), raw.parity_chunks.into());
    let scheme = Scheme::arranged(arrangement, data, parity).map_err(|_| field("scheme"))?;
    let name = raw.name.get(..usize::from(raw.name_bytes)).ok_or(field("name"))?;
    let name = std::str::from_utf8(name).map_err(|_| field("name"))?;
    let shard = Shard::new(raw.shard.into(), usize::from(raw.other_shards) + 1);
    let shard = shard.filter(|shard| shard.array(array) == array);
    let config = ArrayConfig {
        array,
        name: name.to_owned(),
        scheme,
        write_unit,
        zone_capacity: BlockCount(raw.zone_capacity.get()),
        zones: raw.zones.get(),
        shard: shard.ok_or(field("shard"))?,
        volume: VolumeKind::Log(decode_log(log)?),
    };
    check_sizes(&config)?;
    Ok(config)
}

fn decode_log(raw: &RawLog) -> Result<LogConfig, FormatError> {
    let field = |field| FormatError::Field { field };
    let writethrough = match raw.durability {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        _ => return Err(field("durability")),
    };
    if raw.tabled > 1 {
        return Err(field("tabled"));
    }
    if !matches!(raw.entry_bytes, 4 | 5 | 8) {
        return Err(field("entry bytes"));
    }
    Ok(LogConfig {
        chunk_blocks: raw.chunk_blocks.get().into(),
        group_rows: raw.group_rows.get().into(),
        tabled: raw.tabled == 1,
        volume_blocks: raw.volume_blocks.get(),
        entry_bytes: raw.entry_bytes,
        writethrough,
    })
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

fn decode_member(raw: &RawMember) -> Result<MemberEntry, FormatError> {
    let state = match raw.state {
        1 => MemberState::Online,
        2 => MemberState::Rebuilding,
        3 => MemberState::Failed,
        _ => return Err(FormatError::Field { field: "member state" }),
    };
    Ok(MemberEntry { uuid: MemberUuid(raw.uuid), state, since_epoch: raw.since_epoch.get() })
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::ZoneId;

    use super::*;
    use crate::log::format::Remains;

    fn sample(body: RecordBody) -> SuperblockRecord {
        let member = |byte, state| MemberEntry {
            uuid: MemberUuid([byte; 16]),
            state,
            since_epoch: u64::from(byte),
        };
        SuperblockRecord {
            config: ArrayConfig { scheme: Scheme::new(2, 1).unwrap(), ..ArrayConfig::sample() }
                .with_log(|log| log.writethrough = Some(false)),
            lineage: 1,
            epoch: 2,
            epoch_tag: 3,
            record_sequence: 4,
            slot: Column(2),
            member: MemberUuid([3; 16]),
            members: vec![
                member(1, MemberState::Online),
                member(2, MemberState::Failed),
                member(3, MemberState::Rebuilding),
            ],
            sequence_ceiling: 5,
            segment_ceiling: SegmentId(6),
            body,
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let seal = SealRecord {
            segment: SegmentId(9),
            generation: 8,
            rows: 512,
            valid: (0..256).map(|at| at % 3 == 0).collect(),
        };
        let dead = RecordBody::Dead(vec![1, 2]);
        let end = RecordBody::SnapshotEnd { records: 2 };
        let next = SealRecord { segment: SegmentId(10), valid: Vec::new(), ..seal.clone() };
        let seals = RecordBody::Seals(vec![seal, next]);
        let remains = vec![Remains::In(ZoneId(9)), Remains::Nothing, Remains::Anywhere];
        let most = RecordBody::deaths_most(remains.len()) as u64;
        let death = |generation| Death { generation, remains: remains.clone() };
        let [deaths, rest] = RecordBody::of_deaths((0..=most).map(death)).try_into().unwrap();
        assert_eq!(rest, RecordBody::Deaths(vec![death(most)]));
        for body in [RecordBody::State, dead, seals, end, deaths] {
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
        let error = FormatError::Field { field: "volume kind" };
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
