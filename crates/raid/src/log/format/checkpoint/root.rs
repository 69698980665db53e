//! Root blocks: the contents of a checkpoint. A checkpoint consists of everything that the chain of
//! root blocks references. It exists once the superblock record that points at the chain's first
//! block is durable, which is after all of these blocks are.
//!
//! The chain holds three lists, one after the other, each from a new block on: the segment
//! table, the directories of mapping blocks, the directories of validity blocks.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::directory::{decode_addresses, encode_addresses};
use super::{
    Address, AddressSpace, BODY_BYTES, BlockLocation, BlockType, Coverage, Envelope, FormatError,
    Listed, RawLocation, RawShard, ShardId, field, sealed, split,
};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{Generation, SegmentId, Sequence};
use crate::log::engine::geometry::ChunkBlock;
use crate::scheme::Column;

/// Addresses of directories that one root block holds.
pub const ROOT_ADDRESSES: usize = 494;

/// Entries of the segment table that one root block holds.
pub const ROOT_SEGMENTS: usize = 98;

/// A segment, and its slot in the checkpoint's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Number of the segment.
    pub segment: SegmentId,
    /// Generation of the segment.
    pub generation: Generation,
    /// Number of its valid blocks.
    pub live_blocks: u64,
    /// No block of the volume or tombstone in it has a lower sequence.
    pub min_sequence: Sequence,
    /// Slot in the segment table.
    pub slot: u32,
    /// Whether it may hold versions newer than the mapping blocks, so that it has to be replayed.
    pub replay: bool,
}

/// The part of a list that a root block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootList {
    /// Every segment that the checkpoint knows, by slot.
    Segments(Vec<SegmentEntry>),
    /// Directories of mapping or validity blocks; `None` if it would have no entry.
    Directories(Listed, Vec<Option<Address>>),
}

/// Lengths of a checkpoint's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootTotals {
    /// Entries of the segment table.
    pub segments: u32,
    /// Directories of mapping blocks: those of the whole volume, or none.
    pub mapping_directories: u32,
    /// Directories of validity blocks: those of every slot, or none.
    pub validity_directories: u32,
    /// Blocks of the volume that are mapped, not trimmed.
    pub mapped_blocks: u64,
}

/// A block of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootBlock {
    /// Volume and shard of the checkpoint.
    pub shard: ShardId,
    /// Number of the checkpoint within the shard.
    pub number: Sequence,
    /// Sequences that the checkpoint reflects: the lowest bound of its mapping blocks. Its own
    /// sequence was assigned with the number, and is the same in every block of the chain.
    pub coverage: Coverage,
    /// Later versions are in segments from this number on, and in segments marked for replay in the
    /// segment table.
    pub replay_from: SegmentId,
    /// Lengths of the lists in the whole chain.
    pub totals: RootTotals,
    /// The block's place in the chain, from zero.
    pub part: u32,
    /// The block after this one.
    pub next: Option<BlockLocation>,
    /// The place of this block's first entry in its list.
    pub first: u32,
    /// Entries of one list.
    pub list: RootList,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    shard: RawShard,
    /// 0 for the segment table; otherwise the kind of directory.
    list: u8,
    has_next: u8,
    reserved: [u8; 2],
    part: U32,
    first: U32,
    count: U32,
    segments: U32,
    mapping_directories: U32,
    validity_directories: U32,
    number: U64,
    covered: U64,
    sequence: U64,
    replay_from: U64,
    mapped_blocks: U64,
    next: RawLocation,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawSegment {
    segment: U64,
    generation: U64,
    live_blocks: U64,
    min_sequence: U64,
    slot: U32,
    replay: u8,
    reserved: [u8; 3],
}

const HEAD: usize = size_of::<Raw>();
const SEGMENT: usize = size_of::<RawSegment>();
const _: () = assert!(HEAD == 96 && SEGMENT == 40);
const _: () = assert!(HEAD + ROOT_ADDRESSES * 8 <= BODY_BYTES);
const _: () = assert!(HEAD + ROOT_SEGMENTS * SEGMENT <= BODY_BYTES);

impl RootList {
    /// Number of its entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Segments(entries) => entries.len(),
            Self::Directories(_, addresses) => addresses.len(),
        }
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most entries one block takes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        match self {
            Self::Segments(_) => ROOT_SEGMENTS,
            Self::Directories(..) => ROOT_ADDRESSES,
        }
    }

    /// The position of the list in the chain, and its value on media.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::Segments(_) => 0,
            Self::Directories(listed, _) => *listed as u8,
        }
    }

    fn encode(&self, space: &AddressSpace) -> Vec<u8> {
        match self {
            Self::Segments(entries) => entries.iter().flat_map(encode_segment).collect(),
            Self::Directories(_, addresses) => encode_addresses(addresses, space),
        }
    }
}

impl RootTotals {
    /// Length of the whole list of a part.
    #[must_use]
    pub const fn of(&self, list: &RootList) -> u32 {
        match list {
            RootList::Segments(_) => self.segments,
            RootList::Directories(Listed::Mapping, _) => self.mapping_directories,
            RootList::Directories(Listed::Validity, _) => self.validity_directories,
        }
    }

    /// Whether a checkpoint of that space can have these lengths.
    fn fit(&self, space: &AddressSpace) -> bool {
        let all_or_none = |count: u32, listed: Listed| {
            count == 0 || u64::from(count) == listed.directories(space)
        };
        self.segments <= space.slots
            && self.mapped_blocks <= space.volume_blocks
            && all_or_none(self.mapping_directories, Listed::Mapping)
            && all_or_none(self.validity_directories, Listed::Validity)
    }
}

impl RootBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If its list does not fit, or an address is beyond the space.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        assert!(self.list.len() <= self.list.capacity(), "{} entries", self.list.len());
        let nowhere = BlockLocation {
            segment: SegmentId::NONE,
            generation: Generation::NONE,
            column: Column::default(),
            block: ChunkBlock::default(),
        };
        let raw = Raw {
            shard: self.shard.into(),
            list: self.list.kind(),
            has_next: self.next.is_some().into(),
            reserved: [0; 2],
            part: self.part.into(),
            first: self.first.into(),
            count: u32::try_from(self.list.len()).expect("at most 494").into(),
            segments: self.totals.segments.into(),
            mapping_directories: self.totals.mapping_directories.into(),
            validity_directories: self.totals.validity_directories.into(),
            number: self.number.into(),
            covered: self.coverage.covered.into(),
            sequence: self.coverage.sequence.into(),
            replay_from: self.replay_from.into(),
            mapped_blocks: self.totals.mapped_blocks.into(),
            next: self.next.unwrap_or(nowhere).raw(),
        };
        let list = self.list.encode(space);
        sealed(BlockType::CheckpointRoot, space.array, &[raw.as_bytes(), &list])
    }

    /// The root block in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], space: &AddressSpace) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::CheckpointRoot, space.array)?;
        let (raw, rest) = split::<Raw>(body)?;
        let list = decode_list(raw, rest, space)?;
        let totals = RootTotals {
            segments: raw.segments.get(),
            mapping_directories: raw.mapping_directories.get(),
            validity_directories: raw.validity_directories.get(),
            mapped_blocks: raw.mapped_blocks.get(),
        };
        let first = raw.first.get();
        let end = u64::from(first) + list.len() as u64;
        if !totals.fit(space) || end > u64::from(totals.of(&list)) {
            return field("totals");
        }
        // This limits the length of a chain to that of its lists.
        if list.is_empty() && (raw.part.get() > 0 || totals.of(&list) > 0) {
            return field("count");
        }
        if raw.number.get() >= NUMBER_LIMIT || raw.replay_from.get() >= NUMBER_LIMIT {
            return field("number");
        }
        if raw.has_next > 1 {
            return field("next");
        }
        let next = (raw.has_next == 1).then(|| BlockLocation::of(&raw.next)).transpose()?;
        Ok(Self {
            shard: raw.shard.into(),
            number: raw.number.into(),
            coverage: Coverage::of(raw.covered, raw.sequence)?,
            replay_from: SegmentId(raw.replay_from.get()),
            totals,
            part: raw.part.get(),
            next,
            first,
            list,
        })
    }

    /// Whether this block begins a chain.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.part == 0 && self.first == 0 && self.lists_before_are_empty(None)
    }

    /// Whether this is the block of the same chain that comes after `before`.
    #[must_use]
    pub fn continues(&self, before: &Self) -> bool {
        let same_chain = (self.shard, self.number, self.coverage, self.replay_from, self.totals)
            == (before.shard, before.number, before.coverage, before.replay_from, before.totals);
        let before_end = u64::from(before.first) + before.list.len() as u64;
        let in_order = if self.list.kind() == before.list.kind() {
            u64::from(self.first) == before_end
        } else {
            self.first == 0
                && before_end == u64::from(before.totals.of(&before.list))
                && self.lists_before_are_empty(Some(&before.list))
        };
        same_chain && in_order && Some(self.part) == before.part.checked_add(1)
    }

    /// Whether the chain ends here with all its lists complete.
    #[must_use]
    pub fn ends(&self) -> bool {
        let end = u64::from(self.first) + self.list.len() as u64;
        let complete = end == u64::from(self.totals.of(&self.list));
        let (mapping, validity) =
            (self.totals.mapping_directories, self.totals.validity_directories);
        let none_follow = match self.list.kind() {
            0 => mapping == 0 && validity == 0,
            1 => validity == 0,
            _ => true,
        };
        self.next.is_none() && complete && none_follow
    }

    /// Whether the lists between that of `before` (or the start) and this one are empty.
    fn lists_before_are_empty(&self, before: Option<&RootList>) -> bool {
        let from = before.map_or(0, |list| list.kind() + 1);
        let totals = [self.totals.segments, self.totals.mapping_directories];
        from <= self.list.kind()
            && (from..self.list.kind()).all(|list| totals[usize::from(list)] == 0)
    }
}

fn encode_segment(entry: &SegmentEntry) -> [u8; SEGMENT] {
    let raw = RawSegment {
        segment: entry.segment.into(),
        generation: entry.generation.into(),
        live_blocks: entry.live_blocks.into(),
        min_sequence: entry.min_sequence.into(),
        slot: entry.slot.into(),
        replay: entry.replay.into(),
        reserved: [0; 3],
    };
    zerocopy::transmute!(raw)
}

fn decode_segment(raw: &RawSegment, space: &AddressSpace) -> Result<SegmentEntry, FormatError> {
    let most = u64::from(space.columns) * u64::from(space.column_blocks);
    let genuine = raw.segment.get() < NUMBER_LIMIT
        && raw.slot.get() < space.slots
        && raw.live_blocks.get() <= most
        && raw.min_sequence.get() < NUMBER_LIMIT
        && raw.replay <= 1;
    if !genuine {
        return field("segment");
    }
    Ok(SegmentEntry {
        segment: SegmentId(raw.segment.get()),
        generation: raw.generation.into(),
        live_blocks: raw.live_blocks.get(),
        min_sequence: raw.min_sequence.into(),
        slot: raw.slot.get(),
        replay: raw.replay == 1,
    })
}

fn decode_list(raw: &Raw, rest: &[u8], space: &AddressSpace) -> Result<RootList, FormatError> {
    let count = raw.count.get() as usize;
    let listed = Listed::of(raw.list);
    let entry_bytes = if listed.is_some() { 8 } else { SEGMENT };
    // The product of a u32 and at most 40.
    if rest.len() != count * entry_bytes {
        return field("count");
    }
    match (listed, raw.list) {
        (Some(listed), _) if count <= ROOT_ADDRESSES => {
            Ok(RootList::Directories(listed, decode_addresses(rest, space)?))
        }
        (None, 0) if count <= ROOT_SEGMENTS => {
            let entries: Result<Vec<_>, _> = rest
                .chunks_exact(SEGMENT)
                .map(|bytes| {
                    let raw = RawSegment::ref_from_bytes(bytes).or_else(|_| field("segment"))?;
                    decode_segment(raw, space)
                })
                .collect();
            let entries = entries?;
            // In order of slots, so none is named twice.
            if !entries.is_sorted_by(|one, next| one.slot < next.slot) {
                return field("slot");
            }
            Ok(RootList::Segments(entries))
        }
        _ => field("list"),
    }
}
