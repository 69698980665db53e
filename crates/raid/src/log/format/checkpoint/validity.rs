//! Validity blocks: the valid chunk blocks of a segment's column, so that space can be reclaimed
//! without reading every page of the index.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{
    AddressSpace, BODY_BYTES, BlockType, Coverage, Envelope, FormatError, RawShard, ShardId, field,
    packed, sealed, split, unpacked,
};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{Generation, SegmentId};
use crate::log::engine::geometry::ChunkBlock;
use crate::scheme::Column;

/// Chunk blocks covered by one validity block.
pub const VALIDITY_BITS: u32 = 32_000;

/// A part of the bitmap of a segment's column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidityBlock {
    /// Volume and shard of the checkpoint.
    pub shard: ShardId,
    /// Number of the segment.
    pub segment: SegmentId,
    /// Generation of the segment.
    pub generation: Generation,
    /// Column of the segment.
    pub column: Column,
    /// The first chunk block of the column: a multiple of [`VALIDITY_BITS`].
    pub first: ChunkBlock,
    /// Sequences that it reflects.
    pub coverage: Coverage,
    /// Whether each block from the first on is valid; [`VALIDITY_BITS`] of them unless the column
    /// ends.
    pub live: Vec<bool>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    shard: RawShard,
    column: u8,
    reserved: [u8; 3],
    count: U32,
    first: U32,
    segment: U64,
    generation: U64,
    covered: U64,
    sequence: U64,
}

const HEAD: usize = size_of::<Raw>();
const _: () = assert!(HEAD == 48 && HEAD + VALIDITY_BITS as usize / 8 <= BODY_BYTES);

impl ValidityBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If it is not a part of a column of that space.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        let count = u32::try_from(self.live.len()).expect("at most 32,000");
        let Coverage { covered, sequence } = self.coverage;
        assert!(
            covered <= sequence,
            "blocks of segment {} cover {covered} of {sequence}",
            self.segment
        );
        assert_eq!(bits_from(space, self.first.0), Some(count), "{:?}", self.first);
        assert!(u32::from(self.column.0) < space.columns, "{}", self.column);
        let raw = Raw {
            shard: self.shard.into(),
            column: self.column.0,
            reserved: [0; 3],
            count: count.into(),
            first: self.first.0.into(),
            segment: self.segment.into(),
            generation: self.generation.into(),
            covered: self.coverage.covered.into(),
            sequence: self.coverage.sequence.into(),
        };
        let live = packed(&self.live, |live| *live);
        sealed(BlockType::Validity, space.array, &[raw.as_bytes(), &live])
    }

    /// The validity block in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], space: &AddressSpace) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::Validity, space.array)?;
        let (raw, bitmap) = split::<Raw>(body)?;
        let (first, count) = (raw.first.get(), raw.count.get());
        if bits_from(space, first) != Some(count) {
            return field("first or count");
        }
        if u32::from(raw.column) >= space.columns {
            return field("column");
        }
        if raw.segment.get() >= NUMBER_LIMIT {
            return field("segment");
        }
        Ok(Self {
            shard: raw.shard.into(),
            segment: SegmentId(raw.segment.get()),
            generation: raw.generation.into(),
            column: Column(raw.column),
            first: ChunkBlock(first),
            coverage: Coverage::of(raw.covered, raw.sequence)?,
            live: unpacked(bitmap, count as usize)?,
        })
    }
}

/// Bits of the block that starts at a chunk block; `None` if none starts there.
fn bits_from(space: &AddressSpace, first: u32) -> Option<u32> {
    let left = space.column_blocks.checked_sub(first).filter(|left| *left > 0)?;
    first.is_multiple_of(VALIDITY_BITS).then_some(left.min(VALIDITY_BITS))
}
