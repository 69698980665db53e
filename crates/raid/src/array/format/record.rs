//! Superblock records: the configuration and members of the array, and the payload of its volume.
//!
//! Each record is one block and repeats the whole membership and the numbers of the volume, so the
//! newest valid record is enough if all others are lost. It has a part of the array and one of the
//! volume, each with its own length: another kind of volume adds its part and its payloads.

use std::fmt;

use bytes::Bytes;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_journal::{Record, Uuid};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, Payload};

use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::config::{
    ArrayConfig, Checksums, LogConfig, VolumeKind, ZonedConfig, decode_unit, encode_unit,
};
use crate::array::format::envelope::{ArrayUuid, BlockType, Envelope, FormatError, display_uuid};
use crate::array::format::faults::{self, Faults};
use crate::array::format::numbers::{Epoch, Lineage, SegmentId, Sequence};
use crate::array::format::scrubs::{self, Scrubs};
use crate::scheme::{Arrangement, Column, MAX_COLUMNS, Scheme};
use crate::shards::Shard;

/// Body kinds from here on decide nothing: a build that does not know one takes the rest of the
/// record.
const FIRST_REPORT: u8 = 128;

/// The payloads of a kind of volume, and the marks of its blocks. Payloads of kind 0 (none), 3
/// (the end of a snapshot) and 9 (the mark of a destroyed member) are of every volume.
pub trait VolumeBody: Clone + fmt::Debug + PartialEq + Sized {
    /// The volume kind in the head of a record.
    const KIND: u8;

    /// No payload: a change of the repeated state.
    const STATE: Self;

    /// The first record of a member of a new array.
    const CREATED: Self = Self::STATE;

    /// The mark of a member whose array is being destroyed.
    const DESTROYED: Self;

    /// Whether it is that mark.
    #[must_use]
    fn is_destroyed(&self) -> bool {
        *self == Self::DESTROYED
    }

    /// Closes a snapshot of `records` records before this one.
    #[must_use]
    fn snapshot_end(records: u32) -> Self;

    /// For the end of a snapshot: the number of records of it before this one.
    fn snapshot_records(&self) -> Option<u32>;

    /// A record of faults.
    #[must_use]
    fn of_faults(faults: Faults) -> Self;

    /// The faults, if it is a record of them.
    fn faults(&self) -> Option<&Faults>;

    /// A record of the newest scrubs.
    #[must_use]
    fn of_scrubs(scrubs: Scrubs) -> Self;

    /// The scrubs, if it is a record of them.
    fn scrubs(&self) -> Option<&Scrubs>;

    /// The body kind in the head of a record.
    fn kind(&self) -> u8;

    /// The payload.
    fn encode(&self) -> Vec<u8>;

    /// Decodes a payload.
    ///
    /// # Errors
    /// The first violation of the format.
    fn decode(kind: u8, bytes: &[u8], config: &ArrayConfig) -> Result<Self, FormatError>;

    /// Checks the volume's part of the configuration against the array's.
    ///
    /// # Errors
    /// The first violation of the format.
    fn check_config(config: &ArrayConfig) -> Result<(), FormatError>;

    /// The metadata beside the block of a record.
    fn metadata(array: ArrayUuid, record_sequence: u64, slot: Column, block: &[u8]) -> Bytes;

    /// Whether metadata is that of a record's block. Users may write blocks that look like records,
    /// but not block metadata.
    fn is_metadata(array: ArrayUuid, metadata: &[u8], block: &[u8]) -> bool;

    /// Whether a written zone with this first block belongs to the volume.
    fn is_of_volume(first: &[u8]) -> bool;
}

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
    pub since_epoch: Epoch,
}

/// One superblock record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockRecord<B> {
    /// Configuration of the array.
    pub config: ArrayConfig,
    /// Distinguishes histories that were started apart.
    pub lineage: Lineage,
    /// Number of membership changes.
    pub epoch: Epoch,
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
    pub sequence_ceiling: Sequence,
    /// Every assigned segment number is below this.
    pub segment_ceiling: SegmentId,
    /// Further content.
    pub body: B,
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

/// The part of a zoned volume.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawZoned {
    /// Every start of the volume so far has a number below this.
    mount_ceiling: U64,
    unit_blocks: U16,
    checksums: u8,
    reserved: [u8; 21],
}

/// The volume kind of a log-structured volume.
pub(crate) const LOG: u8 = 1;

/// The volume kind of a zoned volume.
pub(crate) const ZONED: u8 = 2;

pub(crate) const FIXED: usize = size_of::<RawHead>() + size_of::<RawArray>() + size_of::<RawLog>();
const _: () = assert!(size_of::<RawHead>() == 64 && size_of::<RawMember>() == 32);
const _: () = assert!(size_of::<RawArray>() == 48 + 32 * MAX_COLUMNS && size_of::<RawLog>() == 32);
const _: () = assert!(size_of::<RawZoned>() == size_of::<RawLog>());

/// Bytes available for a record's body.
pub(crate) const BODY_BYTES: usize = BLOCK_BYTES - Envelope::BYTES - FIXED;
const _: () = assert!(faults::BYTES_MOST <= BODY_BYTES && scrubs::BYTES_MOST <= BODY_BYTES);

impl<B: VolumeBody> SuperblockRecord<B> {
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
            &self.raw_volume(),
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
            volume_kind: B::KIND,
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
        let (members, columns) = (self.members.len(), config.scheme.columns());
        assert!(members == columns, "a record with {members} members for {columns} columns");
        assert!(self.slot.index() < members, "a record for {} of {members} members", self.slot);
        assert!(config.name.len() <= name.len(), "a name of {} bytes", config.name.len());
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

    fn raw_volume(&self) -> Vec<u8> {
        match &self.config.volume {
            VolumeKind::Log(log) => self.raw_log(log).as_bytes().to_vec(),
            VolumeKind::Zoned(zoned) => self.raw_zoned(zoned).as_bytes().to_vec(),
        }
    }

    fn raw_zoned(&self, zoned: &ZonedConfig) -> RawZoned {
        RawZoned {
            mount_ceiling: self.sequence_ceiling.into(),
            unit_blocks: u16::try_from(zoned.unit_blocks).expect("at most 32").into(),
            checksums: zoned.checksums as u8,
            reserved: [0; 21],
        }
    }

    fn raw_log(&self, log: &LogConfig) -> RawLog {
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
        let (volume, body) = rest.split_at_checked(bytes(head.volume_bytes)).ok_or(length())?;
        if body.len() != bytes(head.body_bytes) {
            return Err(FormatError::Field { field: "body length" });
        }
        if head.volume_kind != B::KIND {
            return Err(FormatError::VolumeKind { found: head.volume_kind });
        }
        let raw = RawArray::ref_from_bytes(array_part).map_err(|_| length())?;
        let (volume, ceilings) = decode_volume(head.volume_kind, volume)?;
        let config = decode_config(array, raw, volume)?;
        B::check_config(&config)?;
        let columns = config.scheme.columns();
        if usize::from(head.slot) >= columns {
            return Err(FormatError::Field { field: "slot" });
        }
        let [sequence_ceiling, segment_ceiling] = ceilings;
        let numbers =
            [sequence_ceiling, segment_ceiling, head.epoch.get(), head.record_sequence.get()];
        if numbers.iter().any(|number| *number >= NUMBER_LIMIT) {
            return Err(FormatError::Field { field: "ceiling" });
        }
        let members = raw.members[..columns].iter().map(decode_member);
        Ok(Self {
            lineage: head.lineage.into(),
            epoch: head.epoch.into(),
            epoch_tag: head.epoch_tag.get(),
            record_sequence: head.record_sequence.get(),
            slot: Column(head.slot),
            member: MemberUuid(head.member),
            members: members.collect::<Result<_, _>>()?,
            sequence_ceiling: Sequence(sequence_ceiling),
            segment_ceiling: SegmentId(segment_ceiling),
            body: match head.body_kind {
                // A report decides nothing, whatever a later build writes there.
                kind @ FIRST_REPORT.. => B::decode(kind, body, &config).unwrap_or(B::STATE),
                kind => B::decode(kind, body, &config)?,
            },
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
    volume: VolumeKind,
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
        volume,
    };
    Ok(config)
}

/// The volume's configuration, and its ceilings of sequences and segment numbers.
fn decode_volume(kind: u8, bytes: &[u8]) -> Result<(VolumeKind, [u64; 2]), FormatError> {
    let length = |_| FormatError::Field { field: "length" };
    if kind == ZONED {
        let raw = RawZoned::read_from_bytes(bytes).map_err(|_| length(()))?;
        let checksums = match raw.checksums {
            0 => Checksums::None,
            1 => Checksums::Metadata,
            _ => return Err(FormatError::Field { field: "checksums" }),
        };
        let zoned = ZonedConfig { unit_blocks: raw.unit_blocks.get().into(), checksums };
        return Ok((VolumeKind::Zoned(zoned), [raw.mount_ceiling.get(), SegmentId::FIRST.0]));
    }
    let raw = RawLog::read_from_bytes(bytes).map_err(|_| length(()))?;
    let ceilings = [raw.sequence_ceiling.get(), raw.segment_ceiling.get()];
    Ok((VolumeKind::Log(decode_log(&raw)?), ceilings))
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

fn decode_member(raw: &RawMember) -> Result<MemberEntry, FormatError> {
    let state = match raw.state {
        1 => MemberState::Online,
        2 => MemberState::Rebuilding,
        3 => MemberState::Failed,
        _ => return Err(FormatError::Field { field: "member state" }),
    };
    Ok(MemberEntry { uuid: MemberUuid(raw.uuid), state, since_epoch: raw.since_epoch.into() })
}

impl<B: VolumeBody> SuperblockRecord<B> {
    /// The block and metadata of the record.
    #[must_use]
    pub(crate) fn sealed(&self) -> Payload {
        let block = self.encode();
        let oob = B::metadata(self.config.array, self.record_sequence, self.slot, &block);
        Payload::new(block, oob)
    }
}

impl<B: VolumeBody> Record for SuperblockRecord<B> {
    fn sequence(&self) -> u64 {
        self.record_sequence
    }

    fn snapshot_records(&self) -> Option<u32> {
        self.body.snapshot_records()
    }
}
