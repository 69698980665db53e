//! Superblock records: docs/format.md section 4, parsed.

use crate::blocks::{
    BlockType, GROUP_ROWS_MAX, Oob, Place, VOLUME_BLOCKS_MAX, open_envelope, shape_within_limits,
    unit_of,
};
use crate::fields::{Array, Fields};
use crate::roster::Roster;
use crate::shape::{Scheme, Shape};

const STATE_BYTES: usize = 1160;

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    Online,
    Rebuilding,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberEntry {
    pub(crate) uuid: [u8; 16],
    pub(crate) state: MemberState,
    /// The epoch in which it came to stand there.
    pub(crate) since_epoch: u64,
}

/// What never changes in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) shape: Shape,
    pub(crate) tabled: bool,
    pub(crate) entry_bytes: u8,
    pub(crate) durability: u8,
    pub(crate) name: String,
    pub(crate) zone_capacity: u32,
    pub(crate) zones: u32,
    pub(crate) volume_blocks: u64,
}

/// Which stripes of a leftover segment count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) segment: u64,
    pub(crate) generation: u64,
    pub(crate) rows: u32,
    pub(crate) valid: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    State,
    Dead(Vec<u64>),
    Seals(Vec<Seal>),
    SnapshotEnd,
    Roster(Roster),
}

/// A membership of the array: two with one number may differ in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch {
    pub(crate) number: u64,
    pub(crate) lineage: u64,
    pub(crate) tag: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) array: Array,
    pub(crate) config: Config,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
    pub(crate) member: [u8; 16],
    pub(crate) slot: u8,
    pub(crate) members: Vec<MemberEntry>,
    pub(crate) sequence_ceiling: u64,
    pub(crate) segment_ceiling: u64,
    pub(crate) payload: Payload,
}

impl Seal {
    /// Whether it leaves everything out.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.valid.is_empty()
    }
}

impl Record {
    /// The record in a block, if block and metadata verify.
    pub(crate) fn parse(block: &[u8], oob: &[u8]) -> Option<Self> {
        let (array, body) = open_envelope(block, BlockType::Superblock)?;
        let record = Self::parse_body(array, body)?;
        let oob = Oob::parse(array, oob, block, record.config.shape.scheme.data_chunks)?;
        let in_place = oob.place == Place::Superblock
            && oob.generation == record.sequence
            && oob.column == record.slot
            && oob.absent == 0;
        in_place.then_some(record)
    }

    fn parse_body(array: Array, body: &[u8]) -> Option<Self> {
        if body.len() < STATE_BYTES {
            return None;
        }
        let fields = Fields(body);
        let payload = fields.from(STATE_BYTES);
        if payload.len() != usize::try_from(fields.u32(132)).ok()? {
            return None;
        }
        let config = parse_config(array, fields)?;
        let columns = config.shape.columns();
        let slot = fields.u8(48);
        if u32::from(slot) >= columns {
            return None;
        }
        let member = |slot: u32| parse_member(Fields(&body[136 + 32 * slot as usize..]));
        Some(Self {
            array,
            epoch: Epoch { lineage: fields.u64(0), number: fields.u64(8), tag: fields.u64(16) },
            sequence: fields.u64(24),
            member: fields.bytes(32),
            slot,
            members: (0..columns).map(member).collect::<Option<_>>()?,
            sequence_ceiling: fields.u64(112),
            segment_ceiling: fields.u64(120),
            payload: parse_payload(fields.u8(54), payload, &config)?,
            config,
        })
    }
}

fn parse_config(array: Array, fields: Fields<'_>) -> Option<Config> {
    let layout = fields.u8(51);
    let scheme = Scheme::parse(fields.u8(49), fields.u8(50), layout >> 1 & 7)?;
    let unit = unit_of(layout >> 4)?;
    let (chunk, group) = (fields.u32(88), fields.u32(92));
    let (capacity, zones) = (fields.u32(96), fields.u32(100));
    let volume_blocks = fields.u64(104);
    let most = u128::from(zones) * u128::from(capacity) * u128::from(scheme.data_chunks);
    let name_bytes = usize::from(fields.u8(55));
    let legal = matches!(fields.u8(52), 4 | 5 | 8)
        && fields.u8(53) <= 2
        && name_bytes <= 32
        && volume_blocks <= VOLUME_BLOCKS_MAX
        && u128::from(volume_blocks) <= most
        && is_shard(array, fields.u8(130), fields.u8(131));
    if !legal {
        return None;
    }
    let name = fields.bytes::<32>(56);
    Some(Config {
        shape: shape_within_limits(scheme, unit, capacity, chunk, group)?,
        tabled: layout & 1 == 1,
        entry_bytes: fields.u8(52),
        durability: fields.u8(53),
        name: str::from_utf8(&name[..name_bytes]).ok()?.to_owned(),
        zone_capacity: capacity,
        zones,
        volume_blocks,
    })
}

/// Whether an array can be shard `number`, with so many others beside it.
fn is_shard(array: Array, number: u8, others: u8) -> bool {
    number <= others && (others == 0 || array.0[15] == number)
}

fn parse_member(fields: Fields<'_>) -> Option<MemberEntry> {
    let state = match fields.u8(16) {
        1 => MemberState::Online,
        2 => MemberState::Rebuilding,
        3 => MemberState::Failed,
        _ => return None,
    };
    Some(MemberEntry { uuid: fields.bytes(0), state, since_epoch: fields.u64(24) })
}

fn parse_payload(kind: u8, bytes: &[u8], config: &Config) -> Option<Payload> {
    match kind {
        0 if bytes.is_empty() => Some(Payload::State),
        1 if bytes.len().is_multiple_of(8) => {
            Some(Payload::Dead(bytes.chunks_exact(8).map(|id| Fields(id).u64(0)).collect()))
        }
        2 if !bytes.is_empty() => parse_seals(bytes).map(Payload::Seals),
        3 if bytes.len() == 4 => Some(Payload::SnapshotEnd),
        // Where a checkpoint is, which a reader of everything has no use for.
        4 if bytes.len() == 64 => Some(Payload::State),
        5 if !bytes.is_empty() => {
            parse_deaths(bytes, config.shape.columns() as usize).map(Payload::Dead)
        }
        6 => Roster::parse(bytes, config).map(Payload::Roster),
        _ => None,
    }
}

/// Generations of dead segments, ascending. Where blocks of them may be matters to whoever resets zones only.
fn parse_deaths(bytes: &[u8], columns: usize) -> Option<Vec<u64>> {
    let entries = bytes.chunks_exact(8 + 4 * columns);
    let whole = entries.remainder().is_empty();
    let dead: Vec<_> = entries.map(|entry| Fields(entry).u64(0)).collect();
    (whole && dead.is_sorted_by(|one, next| one < next)).then_some(dead)
}

/// Seals one behind the other, of each segment one, in their order.
fn parse_seals(mut bytes: &[u8]) -> Option<Vec<Seal>> {
    let mut seals: Vec<Seal> = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(24)?;
        let fields = Fields(head);
        let count = fields.u32(20);
        if count > GROUP_ROWS_MAX {
            return None;
        }
        let (bitmap, rest) = rest.split_at_checked((count as usize).div_ceil(8))?;
        let valid = (0..count as usize).map(|at| bitmap[at / 8] >> (at % 8) & 1 == 1).collect();
        let (segment, generation) = (fields.u64(0), fields.u64(8));
        if seals.last().is_some_and(|last| last.segment >= segment) {
            return None;
        }
        seals.push(Seal { segment, generation, rows: fields.u32(16), valid });
        bytes = rest;
    }
    Some(seals)
}
