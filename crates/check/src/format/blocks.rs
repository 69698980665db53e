//! Blocks and out-of-band metadata: docs/format.md sections 2, 3, 5, 8 and 9.
//!
//! Every parser returns `None` unless all checks of the format pass.

use zoneweave_zoned::is_zero;

use crate::format::fields::{Array, Fields};
use crate::format::limits::{CHUNK_BLOCKS_MAX, GROUP_ROWS_MAX, ZONE_CAPACITY_MAX};
use crate::format::shape::{ENTRIES_PER_BLOCK, Scheme, Shape};

pub(crate) const BLOCK_BYTES: usize = zoneweave_zoned::BLOCK_BYTES;
const ENVELOPE_BYTES: usize = 48;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockType {
    Superblock = 1,
    Header = 2,
    Index = 3,
    Tombstones = 4,
    ParityLog = 9,
}

/// The array and body of a structured block.
pub(crate) fn open_envelope(block: &[u8], block_type: BlockType) -> Option<(Array, &[u8])> {
    if block.len() != BLOCK_BYTES || block[..8] != *b"ZNWEAVE\0" {
        return None;
    }
    let fields = Fields(block);
    let length = usize::try_from(fields.u32(12)).ok()?;
    if !(ENVELOPE_BYTES..=BLOCK_BYTES).contains(&length) {
        return None;
    }
    let array = Array(fields.bytes(32));
    let checksum = array.checksum(&[&block[..16], &[0; 4], &block[20..length]]);
    let right = checksum == fields.u32(16)
        && fields.u16(8) == 3
        && fields.u16(10) == block_type as u16
        && is_zero(&block[length..]);
    right.then(|| (array, &block[ENVELOPE_BYTES..length]))
}

/// As [`open_envelope`], for a known array.
fn open_envelope_of(array: Array, block: &[u8], block_type: BlockType) -> Option<&[u8]> {
    open_envelope(block, block_type).filter(|(found, _)| *found == array).map(|(_, body)| body)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Header = 1,
    Chunk = 2,
    Index = 3,
    Superblock = 4,
    Hole = 5,
    Filler = 6,
}

/// The content of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Data = 1,
    Padding = 2,
    Tombstones = 3,
    Mapping = 4,
    Lost = 5,
}

/// The 24 coded bytes of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) lba: u64,
    pub(crate) sequence: u64,
    pub(crate) data_checksum: u32,
    pub(crate) content: Content,
}

impl Identity {
    pub(crate) fn parse(coded: &[u8; 24]) -> Option<Self> {
        let fields = Fields(coded);
        let content = match fields.u32(20) {
            1 => Content::Data,
            2 => Content::Padding,
            3 => Content::Tombstones,
            4 => Content::Mapping,
            5 => Content::Lost,
            _ => return None,
        };
        let (lba, sequence) = (fields.u64(0), fields.u64(8));
        Some(Self { lba, sequence, data_checksum: fields.u32(16), content })
    }

    /// The identity, if it verifies against `data`.
    pub(crate) fn parse_verified(array: Array, coded: &[u8; 24], data: &[u8]) -> Option<Self> {
        let checksum = |of: &Self| array.data_checksum(of.lba, of.sequence, data);
        Self::parse(coded).filter(|identity| identity.data_checksum == checksum(identity))
    }
}

/// Out-of-band metadata that verified against its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oob {
    pub(crate) coded: [u8; 24],
    pub(crate) generation: u64,
    pub(crate) stripe: u32,
    pub(crate) width: u8,
    pub(crate) column: u8,
    pub(crate) role: u8,
    pub(crate) place: Place,
    pub(crate) columns: u64,
    pub(crate) absent: u32,
    pub(crate) block_in_chunk: u16,
}

impl Oob {
    /// As [`Oob::parse`], for a block of an unknown segment: its width gives the number of data
    /// chunks.
    pub(crate) fn parse_unknown(
        array: Array,
        oob: &[u8],
        data: &[u8],
        parity_chunks: u32,
    ) -> Option<Self> {
        let width = u32::from(*oob.get(36)?);
        Self::parse(array, oob, data, width.saturating_sub(parity_chunks))
    }

    /// Parses the metadata of a block in any place, and verifies it.
    pub(crate) fn parse(array: Array, oob: &[u8], data: &[u8], data_chunks: u32) -> Option<Self> {
        if oob.len() != 64 || data.len() != BLOCK_BYTES {
            return None;
        }
        let fields = Fields(oob);
        let place = match fields.u8(39) {
            1 => Place::Header,
            2 => Place::Chunk,
            3 => Place::Index,
            4 => Place::Superblock,
            5 => Place::Hole,
            6 => Place::Filler,
            _ => return None,
        };
        let coded = fields.bytes(0);
        let role = fields.u8(38);
        let digest = if place == Place::Chunk && u32::from(role) < data_chunks {
            Identity::parse_verified(array, &coded, data)?.data_checksum
        } else {
            array.checksum(&[data])
        };
        if array.checksum(&[&digest.to_le_bytes(), &oob[..60]]) != fields.u32(60) {
            return None;
        }
        Some(Self {
            coded,
            generation: fields.u64(24),
            stripe: fields.u32(32),
            width: fields.u8(36),
            column: fields.u8(37),
            role,
            place,
            columns: fields.u64(44),
            absent: fields.u32(56),
            block_in_chunk: fields.u16(52),
        })
    }
}

/// A segment header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) segment: u64,
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
    pub(crate) stream: u8,
    pub(crate) tabled: bool,
    pub(crate) shape: Shape,
    pub(crate) zone_capacity: u32,
    /// By column of the array.
    pub(crate) zones: Vec<Option<u32>>,
}

impl Header {
    pub(crate) fn parse(array: Array, block: &[u8]) -> Option<Self> {
        let body = open_envelope_of(array, block, BlockType::Header)?;
        if body.len() != 184 {
            return None;
        }
        let fields = Fields(body);
        let scheme = Scheme::parse(fields.u8(30), fields.u8(31), fields.u8(32))?;
        let scheme = scheme.without(fields.u32(36))?;
        let (chunk, group, capacity) = (fields.u32(40), fields.u32(44), fields.u32(48));
        let unit = unit_of(fields.u8(33))?;
        let shape = shape_within_limits(scheme, unit, capacity, chunk, group)?;
        let zone = |column: u32| {
            let zone = fields.u32(56 + 4 * column as usize);
            (zone != u32::MAX).then_some(zone)
        };
        let columns = 0..scheme.width();
        let known =
            matches!(fields.u8(28), 1 | 2) && fields.u8(29) <= 1 && fields.u32(52) == shape.rows;
        if !known || columns.clone().any(|column| !scheme.is_on(column) && zone(column).is_some()) {
            return None;
        }
        Some(Self {
            segment: fields.u64(0),
            generation: fields.u64(8),
            epoch: fields.u64(16),
            stream: fields.u8(28),
            tabled: fields.u8(29) == 1,
            shape,
            zone_capacity: capacity,
            zones: columns.map(zone).collect(),
        })
    }
}

/// Blocks of the smallest write, from the exponent of the frame size (sections 4 and 5).
pub(crate) fn unit_of(exponent: u8) -> Option<u32> {
    match exponent {
        0 => Some(1),
        2..=6 => Some((1 << exponent) - 1),
        _ => None,
    }
}

/// The shape, if every number is within the format's range.
pub(crate) fn shape_within_limits(
    scheme: Scheme,
    unit: u32,
    zone_capacity: u32,
    chunk_blocks: u32,
    group_rows: u32,
) -> Option<Shape> {
    let legal = (1..=CHUNK_BLOCKS_MAX).contains(&chunk_blocks)
        && (1..=GROUP_ROWS_MAX).contains(&group_rows)
        && zone_capacity <= ZONE_CAPACITY_MAX;
    legal.then(|| Shape::new(scheme, unit, zone_capacity, chunk_blocks, group_rows)).flatten()
}

/// The kind of a chunk block by its index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Empty,
    Content(Content),
    Parity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) lba: u64,
    pub(crate) kind: EntryKind,
    pub(crate) stripe_in_group: u16,
}

/// A block of an index run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexBlock {
    pub(crate) segment: u64,
    pub(crate) generation: u64,
    pub(crate) span: u32,
    pub(crate) first: u32,
    pub(crate) column: u8,
    pub(crate) entries: Vec<Entry>,
}

impl IndexBlock {
    pub(crate) fn parse(array: Array, block: &[u8]) -> Option<Self> {
        let body = open_envelope_of(array, block, BlockType::Index)?;
        if body.len() < 32 {
            return None;
        }
        let fields = Fields(body);
        let count = fields.u16(24);
        if u32::from(count) > ENTRIES_PER_BLOCK || body.len() != 32 + 16 * usize::from(count) {
            return None;
        }
        let entries = fields.from(32).chunks_exact(16).map(|bytes| parse_entry(Fields(bytes)));
        Some(Self {
            segment: fields.u64(0),
            generation: fields.u64(8),
            span: fields.u32(16),
            first: fields.u32(20),
            column: fields.u8(26),
            entries: entries.collect::<Option<_>>()?,
        })
    }
}

fn parse_entry(fields: Fields<'_>) -> Option<Entry> {
    let kind = match fields.u8(13) {
        0 => EntryKind::Empty,
        1 => EntryKind::Content(Content::Data),
        2 => EntryKind::Content(Content::Padding),
        3 => EntryKind::Content(Content::Tombstones),
        4 => EntryKind::Content(Content::Mapping),
        5 => EntryKind::Content(Content::Lost),
        6 => EntryKind::Parity,
        _ => return None,
    };
    Some(Entry {
        sequence: fields.u64(0),
        lba: u64::from(fields.u32(8)) | u64::from(fields.u8(12)) << 32,
        kind,
        stripe_in_group: fields.u16(14),
    })
}

/// A range of the volume that reads as zeros since a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) sequence: u64,
}

/// The extents of a tombstone block, each within the volume.
pub(crate) fn parse_tombstones(
    array: Array,
    block: &[u8],
    volume_blocks: u64,
) -> Option<Vec<Trim>> {
    let body = open_envelope_of(array, block, BlockType::Tombstones)?;
    if !body.len().is_multiple_of(24) {
        return None;
    }
    let extent = |bytes| {
        let fields = Fields(bytes);
        let trim = Trim { lba: fields.u64(0), blocks: fields.u64(8), sequence: fields.u64(16) };
        (trim.lba.checked_add(trim.blocks)? <= volume_blocks).then_some(trim)
    };
    body.chunks_exact(24).map(extent).collect()
}
