//! The bytes of zoned volumes: docs/format.md sections Z1 to Z3.

use crate::format::blocks::{BlockType, open_envelope};
use crate::format::fields::{Array, Fields};

/// Body kinds of records.
pub(crate) const ZONES: u8 = 16;
pub(crate) const PUBLISHED: u8 = 17;
pub(crate) const REBUILT: u8 = 18;
pub(crate) const FAULTS: u8 = 128;
pub(crate) const SCRUBS: u8 = 129;

/// Zones in a record of rebuilt zones.
pub(crate) const REBUILT_ZONES: u32 = 8192;

/// Blocks behind a header of the parity log.
const LOG_BLOCKS_MAX: usize = 32;

/// The volume part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZonedConfig {
    /// Blocks of a stripe unit.
    pub(crate) unit: u32,
    /// Whether blocks of columns have checksums in their metadata.
    pub(crate) checksums: bool,
}

impl ZonedConfig {
    pub(crate) fn parse(volume: Fields<'_>) -> Option<Self> {
        let unit = u32::from(volume.u16(8));
        let checksums = match volume.u8(10) {
            0 => false,
            1 => true,
            _ => return None,
        };
        (1..=32).contains(&unit).then_some(Self { unit, checksums })
    }
}

/// Places of a column that hold nothing of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Junk {
    pub(crate) column: u8,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The state of a logical zone in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneState {
    pub(crate) zone: u32,
    pub(crate) resetting: bool,
    pub(crate) finished: Option<u32>,
    pub(crate) generation: u64,
    pub(crate) junk: Vec<Junk>,
}

impl ZoneState {
    /// States that fill a payload.
    pub(crate) fn parse_all(mut bytes: &[u8], columns: u32) -> Option<Vec<Self>> {
        let mut states = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(20)?;
            let fields = Fields(head);
            let (flags, ranges) = (fields.u8(4), usize::from(fields.u8(5)));
            let (junk, rest) = rest.split_at_checked(12 * ranges)?;
            let junk: Vec<_> = junk.chunks_exact(12).map(Fields).collect();
            let junk: Vec<_> = junk
                .into_iter()
                .map(|one| Junk { column: one.u8(0), start: one.u32(4), end: one.u32(8) })
                .collect();
            let ascending = junk.is_sorted_by(|one, next| {
                one.column < next.column || one.column == next.column && one.end < next.start
            });
            let sane = |one: &Junk| u32::from(one.column) < columns && one.start < one.end;
            // Finished by the volume itself is finished; a zone under reset is empty.
            let contradicts = flags & 6 == 4 || flags & 1 == 1 && (flags > 1 || ranges > 0);
            if flags > 7 || contradicts || !ascending || !junk.iter().all(sane) {
                return None;
            }
            states.push(Self {
                zone: fields.u32(0),
                resetting: flags & 1 != 0,
                finished: (flags & 2 != 0).then(|| fields.u32(16)),
                generation: fields.u64(8),
                junk,
            });
            bytes = rest;
        }
        Some(states)
    }
}

/// The zones that have the column of a member which is being rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    pub(crate) slot: u32,
    pub(crate) first: u32,
    pub(crate) bits: Vec<u8>,
}

impl Rebuilt {
    pub(crate) fn parse(bytes: &[u8], columns: u32) -> Option<Self> {
        let (head, bits) = bytes.split_at_checked(8)?;
        let (slot, first) = (Fields(head).u32(0), Fields(head).u32(4));
        let sane = slot < columns && first.is_multiple_of(REBUILT_ZONES) && bits.len() <= 1024;
        sane.then(|| Self { slot, first, bits: bits.to_vec() })
    }

    /// Whether the zone's bit is set.
    pub(crate) fn has(&self, zone: u32) -> bool {
        let Some(at) = zone.checked_sub(self.first) else { return false };
        self.bits.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }
}

/// The content of a record of the parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// Parity of a partial stripe: the number of its unit, the end of what it includes, and the
    /// first block of the unit.
    Parity { parity: u32, end: u32, within: u32 },
    /// Blocks whose places, from a column offset on, hold junk.
    Relocated { at: u32 },
}

/// The header of a record of the parity log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) kind: LogKind,
    pub(crate) zone: u32,
    pub(crate) generation: u64,
    pub(crate) mount: u64,
    /// For each block behind it: its checksum, and its data checksum.
    pub(crate) sums: Vec<(u32, u32)>,
}

impl LogHeader {
    pub(crate) fn parse(array: Array, block: &[u8]) -> Option<Self> {
        let (found, body) = open_envelope(block, BlockType::ParityLog)?;
        if found != array || body.len() != 288 {
            return None;
        }
        let fields = Fields(body);
        let blocks = usize::from(fields.u8(2));
        let kind = match fields.u8(0) {
            1 => LogKind::Parity {
                parity: fields.u8(1).into(),
                end: fields.u32(24),
                within: fields.u32(28),
            },
            2 => LogKind::Relocated { at: fields.u32(28) },
            _ => return None,
        };
        let sums = (0..blocks).map(|at| (fields.u32(32 + 4 * at), fields.u32(160 + 4 * at)));
        (1..=LOG_BLOCKS_MAX).contains(&blocks).then(|| Self {
            kind,
            zone: fields.u32(4),
            generation: fields.u64(8),
            mount: fields.u64(16),
            sums: sums.collect(),
        })
    }
}

/// The kinds of blocks in their metadata.
pub(crate) const DATA: u8 = 1;
pub(crate) const PARITY: u8 = 2;
const SUPERBLOCK: u8 = 3;
pub(crate) const HOLE: u8 = 5;

/// The metadata of a block, verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) sum: u32,
    pub(crate) zone: u32,
    pub(crate) generation: u64,
    pub(crate) block: u32,
    pub(crate) kind: u8,
}

impl Metadata {
    pub(crate) fn parse(array: Array, oob: &[u8], data: &[u8]) -> Option<Self> {
        if oob.len() != 64 {
            return None;
        }
        let fields = Fields(oob);
        let found = Self {
            sum: fields.u32(0),
            zone: fields.u32(4),
            generation: fields.u64(8),
            block: fields.u32(16),
            kind: fields.u8(20),
        };
        let digest = match found.kind {
            DATA => array.zoned_checksum(found.zone, found.block, found.generation, data),
            PARITY..=HOLE => array.checksum(&[data]),
            _ => return None,
        };
        let own = array.checksum(&[&digest.to_le_bytes(), &oob[..60]]);
        let right = own == fields.u32(60) && (found.kind != DATA || digest == found.sum);
        right.then_some(found)
    }

    /// Whether it is beside a superblock record.
    pub(crate) fn is_of_record(self, sequence: u64, slot: u8) -> bool {
        self.kind == SUPERBLOCK && self.generation == sequence && self.zone == u32::from(slot)
    }
}

impl Array {
    /// The data checksum of a block of a logical zone.
    pub(crate) fn zoned_checksum(self, zone: u32, block: u32, generation: u64, data: &[u8]) -> u32 {
        let numbers = [zone.to_le_bytes(), block.to_le_bytes()].concat();
        self.checksum(&[&numbers, &generation.to_le_bytes(), data])
    }
}
