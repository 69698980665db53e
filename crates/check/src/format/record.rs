//! Superblock records: docs/format.md section 4.

use crate::format::blocks::{BlockType, Oob, Place, open_envelope};
use crate::format::config::{Config, parse_config, parse_zoned};
use crate::format::faults::Faults;
use crate::format::fields::{Array, Fields};
use crate::format::limits::GROUP_ROWS_MAX;
use crate::format::narrow_list::NarrowList;
use crate::format::scrubs::parse_scrubs;
use crate::format::zoned::{self, Metadata, Rebuilt, ZoneState};
use crate::zoned::layout::Layout;

const HEAD_BYTES: usize = 64;

const ARRAY_BYTES: usize = 1072;

/// The volume kind of a log-structured volume.
const LOG: u8 = 1;

/// The volume kind of a zoned volume.
const ZONED: u8 = 2;

/// Bytes of the volume part.
const VOLUME_BYTES: usize = 32;

/// The state of a member.
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
    /// The epoch in which the drive became this member.
    pub(crate) since_epoch: u64,
}

/// The stripes of a leftover segment that count.
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
    /// How many records directly before it belong to the snapshot.
    SnapshotEnd(u32),
    NarrowList(NarrowList),
    Faults(Faults),
    /// The newest scrubs: how many.
    Scrubs(u64),
    /// The array is being destroyed.
    Destroyed,
    Zones(Vec<ZoneState>),
    /// The published mount.
    Published(u64),
    Rebuilt(Rebuilt),
}

/// A membership of the array. After a forced start two may have the same number.
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
    /// Whether it leaves out every stripe.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.valid.is_empty()
    }
}

impl Record {
    /// The record in a block, if both block and metadata verify.
    pub(crate) fn parse(block: &[u8], oob: &[u8]) -> Option<Self> {
        let (array, body) = open_envelope(block, BlockType::Superblock)?;
        let record = Self::parse_body(array, body)?;
        if record.config.zoned.is_some() {
            // Drives of zoned volumes may have no metadata.
            let (sequence, slot) = (record.sequence, record.slot);
            let is_one = |found: Metadata| found.is_of_record(sequence, slot);
            let in_place = oob.is_empty() || Metadata::parse(array, oob, block).is_some_and(is_one);
            return in_place.then_some(record);
        }
        let oob = Oob::parse(array, oob, block, record.config.shape.scheme.data_chunks)?;
        let in_place = oob.place == Place::Superblock
            && oob.generation == record.sequence
            && oob.column == record.slot
            && oob.absent == 0;
        in_place.then_some(record)
    }

    fn parse_body(array: Array, body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(HEAD_BYTES)?;
        let fields = Fields(head);
        let (array_part, rest) = rest.split_at_checked(ARRAY_BYTES)?;
        let (volume_part, payload) = rest.split_at_checked(VOLUME_BYTES)?;
        let lengths = [fields.u16(52), fields.u16(54), fields.u16(56)].map(usize::from);
        if lengths != [ARRAY_BYTES, VOLUME_BYTES, payload.len()] {
            return None;
        }
        let (of_array, of_volume) = (Fields(array_part), Fields(volume_part));
        let config = match fields.u8(50) {
            LOG => parse_config(array, of_array, of_volume)?,
            ZONED => parse_zoned(array, of_array, of_volume)?,
            _ => return None,
        };
        // The mount ceiling of a zoned volume, which has no segments.
        let (sequence_ceiling, segment_ceiling) = match config.zoned {
            Some(_) => (of_volume.u64(0), 0),
            None => (of_volume.u64(8), of_volume.u64(16)),
        };
        let columns = config.shape.columns();
        let slot = fields.u8(48);
        if u32::from(slot) >= columns {
            return None;
        }
        let member = |slot: u32| parse_member(Fields(of_array.from(48 + 32 * slot as usize)));
        Some(Self {
            array,
            epoch: Epoch { lineage: fields.u64(0), number: fields.u64(8), tag: fields.u64(16) },
            sequence: fields.u64(24),
            member: fields.bytes(32),
            slot,
            members: (0..columns).map(member).collect::<Option<_>>()?,
            sequence_ceiling,
            segment_ceiling,
            payload: parse_payload(fields.u8(49), payload, &config)?,
            config,
        })
    }
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
    let is_zoned = config.zoned.is_some();
    let columns = config.shape.columns();
    match kind {
        0 if bytes.is_empty() => Some(Payload::State),
        3 if bytes.len() == 4 => Some(Payload::SnapshotEnd(Fields(bytes).u32(0))),
        9 if bytes.is_empty() => Some(Payload::Destroyed),
        // Reports decide nothing, and those of a later build may look otherwise.
        zoned::FAULTS if is_zoned => {
            let blocks = zoned_blocks(config)?;
            Some(Faults::parse(bytes, columns, blocks).map_or(Payload::State, Payload::Faults))
        }
        zoned::SCRUBS if is_zoned => {
            Some(parse_scrubs(bytes).map_or(Payload::State, Payload::Scrubs))
        }
        128.. => Some(Payload::State),
        zoned::ZONES if is_zoned => ZoneState::parse_all(bytes, columns).map(Payload::Zones),
        zoned::PUBLISHED if is_zoned && bytes.len() == 8 => {
            Some(Payload::Published(Fields(bytes).u64(0)))
        }
        zoned::REBUILT if is_zoned => Rebuilt::parse(bytes, columns).map(Payload::Rebuilt),
        _ if is_zoned => None,
        1 if bytes.len().is_multiple_of(8) => {
            Some(Payload::Dead(bytes.chunks_exact(8).map(|id| Fields(id).u64(0)).collect()))
        }
        2 if !bytes.is_empty() => parse_seals(bytes).map(Payload::Seals),
        // The checker reads every index run, so it needs no checkpoint.
        4 if bytes.len() == 64 => Some(Payload::State),
        5 if !bytes.is_empty() => {
            parse_deaths(bytes, config.shape.columns() as usize).map(Payload::Dead)
        }
        6 => NarrowList::parse(bytes, config).map(Payload::NarrowList),
        8 => parse_scrubs(bytes).map(Payload::Scrubs),
        7 => Faults::parse(bytes, columns, config.volume_blocks).map(Payload::Faults),
        _ => None,
    }
}

/// The end of the addresses of a zoned volume.
fn zoned_blocks(config: &Config) -> Option<u64> {
    let layout = Layout::new(config, config.zoned?)?;
    Some(u64::from(layout.zones) * u64::from(layout.zone_blocks().next_power_of_two()))
}

/// Generations of dead segments, ascending. Their zones matter only for resets.
fn parse_deaths(bytes: &[u8], columns: usize) -> Option<Vec<u64>> {
    let entries = bytes.chunks_exact(8 + 4 * columns);
    let whole = entries.remainder().is_empty();
    let dead: Vec<_> = entries.map(|entry| Fields(entry).u64(0)).collect();
    (whole && dead.is_sorted_by(|one, next| one < next)).then_some(dead)
}

/// Consecutive seals, one for each segment, in order of segments.
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
