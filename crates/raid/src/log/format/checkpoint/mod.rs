//! Index checkpoints: the index, the valid blocks of segments, and the position from which the log
//! is replayed. With them a start need not read the summaries of every segment.
//!
//! * A [`MappingBlock`] is a page of the index: addresses of consecutive blocks of the volume. A
//!   page evicted from memory and a page of a checkpoint have the same form.
//! * A [`ValidityBlock`] lists the valid chunk blocks of a segment's column.
//! * A [`DirectoryBlock`] lists the addresses of mapping or validity blocks.
//! * [`RootBlock`]s form a chain. They list the directories, and the segments behind the segment
//!   slots in addresses. A superblock record points at the first ([`CheckpointPointer`]).
//!
//! None of these is the only copy of anything: all of it follows from headers, summaries and
//! tombstone blocks, so a reader may always ignore them and replay everything.
//!
//! Fault model: hostile, like everything on media. Each kind of block is decoded against the
//! [`AddressSpace`] of its array, and an address in it is within that space. Whether the addressed
//! block is still there is unknown until it has been read and verified.

mod directory;
mod mapping;
mod pointer;
mod root;
#[cfg(test)]
mod tests;
mod validity;

use std::num::NonZeroU32;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

pub use crate::log::engine::address::Address;
pub use directory::{DIRECTORY_ENTRIES, DirectoryBlock, Listed};
pub use mapping::{Mapped, MappingBlock, StoredEntries, StoredPage, mapping_entries};
pub use pointer::CheckpointPointer;
pub use root::{ROOT_ADDRESSES, ROOT_SEGMENTS, RootBlock, RootList, RootTotals, SegmentEntry};
pub use validity::{VALIDITY_BITS, ValidityBlock};

use super::{ArrayConfig, ArrayUuid, BlockType, Envelope, FormatError};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{Generation, SegmentId, Sequence};
use crate::log::engine::address::PbaSpace;
use crate::log::engine::geometry::ChunkBlock;
use crate::scheme::{Column, MAX_COLUMNS};

/// Bytes available in a block after its envelope.
const BODY_BYTES: usize = BLOCK_BYTES - Envelope::BYTES;

/// The volume and shard that a sequence and a checkpoint belong to: both zero for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardId {
    /// Number of the volume.
    pub volume: u16,
    /// The shard of the volume.
    pub shard: u16,
}

/// The numbers that addresses and pages of an array are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpace {
    /// UUID of the array.
    pub array: ArrayUuid,
    /// Blocks of the volume.
    pub volume_blocks: u64,
    /// Bytes of an index entry: 4, 5 or 8.
    pub entry_bytes: u8,
    /// Entries of a mapping block: [`mapping_entries`], or fewer to test many pages on small
    /// volumes.
    pub page_entries: u32,
    /// Segments that the array can have at a time.
    pub slots: u32,
    /// Columns of a segment.
    pub columns: u32,
    /// Upper bound of the chunk blocks of a column, for any shape of its segment.
    pub column_blocks: u32,
}

impl AddressSpace {
    /// The space of an array.
    #[must_use]
    pub fn of(config: &ArrayConfig) -> Self {
        let space = PbaSpace::new(config.scheme, config.zone_capacity);
        let slots = config.segment_slots();
        let entry_bytes = config.log().entry_bytes.max(space.entry_bytes(slots));
        Self {
            array: config.array,
            volume_blocks: config.log().volume_blocks,
            entry_bytes,
            page_entries: mapping_entries(entry_bytes),
            slots,
            columns: u32::try_from(config.scheme.columns()).expect("at most 32"),
            column_blocks: space.column_blocks(),
        }
    }

    /// Bound of all addresses: at most 2^53.
    #[must_use]
    pub fn addresses(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.columns) * u64::from(self.column_blocks)
    }

    /// The same with fewer entries in a mapping block; unchanged if `None`.
    #[must_use]
    pub fn with_page_entries(mut self, entries: Option<NonZeroU32>) -> Self {
        self.page_entries = entries.map_or(self.page_entries, |e| e.get().min(self.page_entries));
        self
    }

    /// Mapping blocks of the volume's whole index.
    #[must_use]
    pub fn mapping_blocks(&self) -> u64 {
        self.volume_blocks.div_ceil(self.page_entries.into())
    }

    /// Directories that list them.
    #[must_use]
    pub fn mapping_directories(&self) -> u64 {
        Listed::Mapping.directories(self)
    }

    /// Validity blocks for the segments of all slots.
    #[must_use]
    pub fn validity_blocks(&self) -> u64 {
        let of_column = self.column_blocks.div_ceil(VALIDITY_BITS);
        u64::from(self.slots) * u64::from(self.columns) * u64::from(of_column)
    }

    /// The address for a stored value, which is one more; zero means none.
    fn address(&self, stored: u64) -> Result<Option<Address>, FormatError> {
        match stored.checked_sub(1) {
            Some(address) if address >= self.addresses() => field("address"),
            address => Ok(address.map(Address)),
        }
    }

    /// The value that is stored for an address.
    fn stored(&self, address: Option<Address>) -> u64 {
        let address = address.map(|address| address.0);
        assert!(
            address.is_none_or(|address| address < self.addresses()),
            "{address:?} in {self:?}"
        );
        address.map_or(0, |address| address + 1)
    }
}

/// A chunk block by its segment, which can be found without the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// Number of the segment.
    pub segment: SegmentId,
    /// Generation of the segment.
    pub generation: Generation,
    /// Column of the segment.
    pub column: Column,
    /// The block in that column.
    pub block: ChunkBlock,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawLocation {
    segment: U64,
    generation: U64,
    block: U32,
    column: u8,
    reserved: [u8; 3],
}

const _: () = assert!(size_of::<RawLocation>() == 24);

impl BlockLocation {
    fn raw(&self) -> RawLocation {
        RawLocation {
            segment: self.segment.into(),
            generation: self.generation.into(),
            block: self.block.0.into(),
            column: self.column.0,
            reserved: [0; 3],
        }
    }

    fn of(raw: &RawLocation) -> Result<Self, FormatError> {
        let (segment, generation) = (SegmentId::from(raw.segment), raw.generation.into());
        let genuine = raw.segment.get() < NUMBER_LIMIT && usize::from(raw.column) < MAX_COLUMNS;
        let block = ChunkBlock(raw.block.get());
        let location = Self { segment, generation, column: Column(raw.column), block };
        if genuine { Ok(location) } else { field("location") }
    }
}

/// Sequences that a block reflects, and its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Every write and trim with a sequence below this one is reflected; later ones may be.
    pub covered: Sequence,
    /// The block's own sequence, assigned when its contents were fixed: of two blocks for the same
    /// range, the one with the higher sequence is newer.
    pub sequence: Sequence,
}

impl Coverage {
    fn of(covered: U64, sequence: U64) -> Result<Self, FormatError> {
        let (covered, sequence) = (covered.get(), sequence.get());
        if covered > sequence || sequence >= NUMBER_LIMIT {
            return field("covered sequence");
        }
        Ok(Self { covered: Sequence(covered), sequence: Sequence(sequence) })
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawShard {
    volume: U16,
    shard: U16,
}

impl From<ShardId> for RawShard {
    fn from(id: ShardId) -> Self {
        Self { volume: id.volume.into(), shard: id.shard.into() }
    }
}

impl From<RawShard> for ShardId {
    fn from(raw: RawShard) -> Self {
        Self { volume: raw.volume.get(), shard: raw.shard.get() }
    }
}

fn field<T>(field: &'static str) -> Result<T, FormatError> {
    Err(FormatError::Field { field })
}

/// A block with the given pieces as its body.
fn sealed(block_type: BlockType, array: ArrayUuid, pieces: &[&[u8]]) -> bytes::Bytes {
    let mut block = AlignedBuffer::zeroed(BlockCount(1));
    let bytes = block.as_mut();
    let mut at = Envelope::BYTES;
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert!(length <= BODY_BYTES, "{block_type:?} with a body of {length} bytes");
    for piece in pieces {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Envelope::seal(bytes, block_type, array, at - Envelope::BYTES);
    block.freeze()
}

/// Splits a body into its fixed part and the rest.
fn split<T: FromBytes + KnownLayout + Immutable>(body: &[u8]) -> Result<(&T, &[u8]), FormatError> {
    T::ref_from_prefix(body).or_else(|_| field("length"))
}

/// A bit for each item, the first in the lowest bit of the first byte.
pub(in crate::log) fn packed<T>(items: &[T], is_set: impl Fn(&T) -> bool) -> Vec<u8> {
    let byte =
        |eight: &[T]| eight.iter().rev().fold(0, |byte, item| byte << 1 | u8::from(is_set(item)));
    // In chunks of constant size: every page has a thousand bits.
    let (eights, rest) = items.as_chunks::<8>();
    let whole = eights.iter().map(|eight| byte(eight));
    whole.chain(Some(rest).filter(|rest| !rest.is_empty()).map(byte)).collect()
}

#[derive(Clone, Copy)]
struct Bits<'a>(&'a [u8]);

impl<'a> Bits<'a> {
    /// `count` bits; unused bits of the last byte must be zero.
    fn of(bytes: &'a [u8], count: usize) -> Result<Self, FormatError> {
        let bits = Self(bytes);
        if bytes.len() != count.div_ceil(8) || (count..bytes.len() * 8).any(|at| bits.get(at)) {
            return field("bitmap");
        }
        Ok(bits)
    }

    fn get(self, at: usize) -> bool {
        self.0[at / 8] >> (at % 8) & 1 == 1
    }
}

/// The first `count` of packed bits. Those beyond must be zero.
fn unpacked(bytes: &[u8], count: usize) -> Result<Vec<bool>, FormatError> {
    let bits = Bits::of(bytes, count)?;
    Ok((0..count).map(|at| bits.get(at)).collect())
}
