//! Summaries: the block of the volume in each chunk block of a span.
//!
//! A summary holds the entries of its own column and of its `m` predecessors. It is read instead of
//! the blocks when the index in memory is rebuilt. If it is damaged, the blocks' own metadata has
//! the same content.

use bytes::Bytes;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{AlignedBuffer, BlockCount, Lba};

use super::{ArrayUuid, BlockType, Envelope, FormatError};
use crate::array::format::bounds::{LBA_LIMIT, NUMBER_LIMIT};
use crate::array::format::numbers::{Generation, SegmentId, Sequence};
use crate::log::engine::geometry::ENTRIES_PER_INDEX_BLOCK;
use crate::log::format::oob::ContentKind;
use crate::scheme::{Column, MAX_COLUMNS};

/// Contents of a chunk block according to its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// No chunk was written here.
    Empty = 0,
    /// A block of the volume.
    Data = 1,
    /// Zeros that fill a partial stripe.
    Padding = 2,
    /// Trimmed extents, to be read from the block itself.
    Tombstone = 3,
    /// A page of the index.
    Mapping = 4,
    /// A block of the volume whose contents are lost.
    Lost = 5,
    /// Parity of the stripe's data.
    Parity = 6,
}

impl EntryKind {
    const fn of(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Empty),
            1 => Some(Self::Data),
            2 => Some(Self::Padding),
            3 => Some(Self::Tombstone),
            4 => Some(Self::Mapping),
            5 => Some(Self::Lost),
            6 => Some(Self::Parity),
            _ => None,
        }
    }
}

/// Summary entry of one chunk block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The block's sequence; zero if it has none.
    pub sequence: Sequence,
    /// The block of the volume; zero if it has none.
    pub lba: Lba,
    /// Contents of the block.
    pub kind: EntryKind,
    /// Its stripe, counted within the group.
    pub stripe_in_group: u16,
}

impl IndexEntry {
    /// A block that was never written.
    pub const EMPTY: Self =
        Self { sequence: Sequence::NONE, lba: Lba(0), kind: EntryKind::Empty, stripe_in_group: 0 };

    /// A block of a parity chunk.
    #[must_use]
    pub(in crate::log) fn parity(stripe_in_group: u16) -> Self {
        Self { kind: EntryKind::Parity, stripe_in_group, ..Self::EMPTY }
    }
}

impl From<ContentKind> for EntryKind {
    /// The kind of entry of a data block.
    fn from(kind: ContentKind) -> Self {
        match kind {
            ContentKind::Data => Self::Data,
            ContentKind::Padding => Self::Padding,
            ContentKind::Tombstone => Self::Tombstone,
            ContentKind::Mapping => Self::Mapping,
            ContentKind::Lost => Self::Lost,
        }
    }
}

/// One block of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBlock {
    /// Number of the segment.
    pub segment: SegmentId,
    /// Generation of the segment.
    pub generation: Generation,
    /// The column of the entries.
    pub column: Column,
    /// The span they cover.
    pub span: u32,
    /// The first chunk block of the column that they cover, counted from the span's start.
    pub first: u32,
    /// The entries, at most [`ENTRIES_PER_INDEX_BLOCK`].
    pub entries: Vec<IndexEntry>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    segment: U64,
    generation: U64,
    span: U32,
    first: U32,
    count: U16,
    column: u8,
    reserved: [u8; 5],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEntry {
    sequence: U64,
    lba_low: U32,
    lba_high: u8,
    kind: u8,
    stripe_in_group: U16,
}

const HEAD: usize = size_of::<RawHead>();
const ENTRY: usize = size_of::<RawEntry>();
const _: () = assert!(HEAD == 32 && ENTRY == 16);
const _: () = assert!(
    Envelope::BYTES + HEAD + ENTRIES_PER_INDEX_BLOCK as usize * ENTRY
        <= zoneweave_zoned::BLOCK_BYTES
);

impl IndexBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If there are too many entries, or one's LBA is above 2^40 (volumes are smaller).
    #[must_use]
    pub fn encode(&self, array: ArrayUuid) -> Bytes {
        assert!(self.entries.len() <= ENTRIES_PER_INDEX_BLOCK as usize);
        let head = RawHead {
            segment: self.segment.into(),
            generation: self.generation.into(),
            span: self.span.into(),
            first: self.first.into(),
            count: u16::try_from(self.entries.len()).expect("at most 250").into(),
            column: self.column.0,
            reserved: [0; 5],
        };
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        bytes[Envelope::BYTES..Envelope::BYTES + HEAD].copy_from_slice(head.as_bytes());
        let body = &mut bytes[Envelope::BYTES + HEAD..];
        for (slot, entry) in body.chunks_exact_mut(ENTRY).zip(&self.entries) {
            slot.copy_from_slice(encode_entry(entry).as_bytes());
        }
        let body_bytes = HEAD + self.entries.len() * ENTRY;
        Envelope::seal(bytes, BlockType::Index, array, body_bytes);
        block.freeze()
    }

    /// The summary block in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], array: ArrayUuid) -> Result<Self, FormatError> {
        let mut entries = Vec::new();
        let body = Envelope::open_of(block, BlockType::Index, array)?;
        let decoded = Self::decode_body(body, &mut entries)?;
        Ok(Self { entries, ..decoded })
    }

    /// Appends the entries of a block whose bytes were all verified by its block metadata to
    /// `entries`; returns the fixed part.
    ///
    /// # Errors
    /// The first violation of the format; some entries may have been appended.
    pub(in crate::log) fn decode_verified(
        block: &[u8],
        array: ArrayUuid,
        entries: &mut Vec<IndexEntry>,
    ) -> Result<Self, FormatError> {
        let body = Envelope::open_verified(block, BlockType::Index, array)?;
        Self::decode_body(body, entries)
    }

    fn decode_body(body: &[u8], entries: &mut Vec<IndexEntry>) -> Result<Self, FormatError> {
        let (head, rest) =
            RawHead::ref_from_prefix(body).map_err(|_| FormatError::Field { field: "length" })?;
        let count = usize::from(head.count.get());
        if rest.len() != count * ENTRY || count > ENTRIES_PER_INDEX_BLOCK as usize {
            return Err(FormatError::Field { field: "count" });
        }
        if usize::from(head.column) >= MAX_COLUMNS {
            return Err(FormatError::Field { field: "column" });
        }
        // Errors are evaluated once for the whole block, as checking each entry costs time.
        let (mut largest, mut unknown) = (0, false);
        let entry = |bytes: &[u8; ENTRY]| {
            let raw = RawEntry::ref_from_bytes(bytes).expect("of its size");
            let kind = EntryKind::of(raw.kind);
            unknown |= kind.is_none();
            largest = largest.max(raw.sequence.get());
            IndexEntry {
                sequence: raw.sequence.into(),
                lba: Lba(u64::from(raw.lba_low.get()) | u64::from(raw.lba_high) << 32),
                kind: kind.unwrap_or(EntryKind::Empty),
                stripe_in_group: raw.stripe_in_group.get(),
            }
        };
        entries.extend(rest.as_chunks::<ENTRY>().0.iter().map(entry));
        if largest >= NUMBER_LIMIT {
            return Err(FormatError::Field { field: "entry sequence" });
        }
        if unknown {
            return Err(FormatError::Field { field: "entry kind" });
        }
        Ok(Self {
            segment: SegmentId(head.segment.get()),
            generation: head.generation.into(),
            column: Column(head.column),
            span: head.span.get(),
            first: head.first.get(),
            entries: Vec::new(),
        })
    }
}

fn encode_entry(entry: &IndexEntry) -> RawEntry {
    assert!(entry.lba.0 < LBA_LIMIT, "{} is beyond any volume", entry.lba);
    let lba = entry.lba.0.to_le_bytes();
    RawEntry {
        sequence: entry.sequence.into(),
        lba_low: U32::from_bytes([lba[0], lba[1], lba[2], lba[3]]),
        lba_high: lba[4],
        kind: entry.kind as u8,
        stripe_in_group: entry.stripe_in_group.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_index_block_comes_back_as_it_was() {
        let entries = (0..u64::from(ENTRIES_PER_INDEX_BLOCK)).map(|at| IndexEntry {
            sequence: Sequence(at << 50),
            lba: Lba(at << 32 | 0xFFFF_FFFF),
            kind: EntryKind::Data,
            stripe_in_group: u16::try_from(at).unwrap(),
        });
        let block = IndexBlock {
            segment: SegmentId(1),
            generation: Generation(2),
            column: Column(3),
            span: 4,
            first: 500,
            entries: entries.collect(),
        };
        let array = ArrayUuid([9; 16]);
        assert_eq!(IndexBlock::decode(&block.encode(array), array), Ok(block));
    }
}
