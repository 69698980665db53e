//! A page of a zone: up to [`PAGE_BLOCKS`] consecutive blocks, of which the first ones are stored.
//!
//! Every stored block has a word. It is the block's pattern, unless an extent covers the block:
//! extents share the memory of the writes they came from, or own a copy. Metadata is kept up to the
//! last block that has any other than zeros.

use bytes::Bytes;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, OOB_BYTES};

/// 1 MiB of data. A page costs about 200 bytes beside its words and metadata: below one byte a
/// block.
pub(super) const PAGE_BLOCKS: u32 = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    words: Vec<u64>,
    oob: Vec<u8>,
    /// In order, disjoint.
    extents: Vec<Extent>,
}

/// Blocks that are no patterns.
#[derive(Clone, Debug)]
struct Extent {
    first: u32,
    data: Bytes,
}

/// Consecutive blocks of one kind.
pub(super) enum Run<'a> {
    Patterns(&'a [u64]),
    Bytes(Bytes),
}

impl Run<'_> {
    pub(super) fn blocks(&self) -> u32 {
        match self {
            Self::Patterns(words) => BlockCount::of_data_bytes(words.len() * BLOCK_BYTES).0,
            Self::Bytes(data) => BlockCount::of_data_bytes(data.len()).0,
        }
    }
}

impl Extent {
    fn end(&self) -> u32 {
        self.first + BlockCount::of_data_bytes(self.data.len()).0
    }

    /// The part between two blocks of the page that both lie in the extent.
    fn part(&self, from: u32, to: u32) -> Self {
        let bytes = |block: u32| BlockCount(block - self.first).data_bytes();
        Self { first: from, data: self.data.slice(bytes(from)..bytes(to)) }
    }
}

impl Page {
    /// An empty page that will hold at most `room` blocks.
    pub(super) fn with_room(room: u32) -> Self {
        Self { words: Vec::with_capacity(room as usize), ..Self::default() }
    }

    pub(super) fn push_pattern(&mut self, word: u64, oob: &[u8]) {
        self.words.push(word);
        self.push_oob(1, oob);
    }

    /// `oob` is the blocks' metadata, or empty for zeros.
    pub(super) fn push_bytes(&mut self, data: Bytes, oob: &[u8]) {
        let first = BlockCount::of_data_bytes(self.words.len() * BLOCK_BYTES).0;
        let extent = Extent { first, data };
        let blocks = extent.end() - first;
        self.words.resize(extent.end() as usize, 0);
        self.extents.push(extent);
        self.push_oob(blocks, oob);
    }

    fn push_oob(&mut self, blocks: u32, oob: &[u8]) {
        if oob.iter().all(|byte| *byte == 0) {
            return;
        }
        let before = self.words.len() - blocks as usize;
        if self.oob.capacity() == 0 {
            self.oob.reserve_exact(self.words.capacity() * OOB_BYTES);
        }
        self.oob.resize(before * OOB_BYTES, 0);
        self.oob.extend_from_slice(oob);
    }

    /// The blocks from `from` on that are of one kind, at most up to `to`. Both are stored.
    pub(super) fn run(&self, from: u32, to: u32) -> Run<'_> {
        let next = self.extents.partition_point(|extent| extent.end() <= from);
        match self.extents.get(next) {
            Some(extent) if extent.first <= from => {
                Run::Bytes(extent.part(from, to.min(extent.end())).data)
            }
            Some(extent) => {
                Run::Patterns(&self.words[from as usize..to.min(extent.first) as usize])
            }
            None => Run::Patterns(&self.words[from as usize..to as usize]),
        }
    }

    /// Whether metadata of any block from `from` on is other than zeros.
    pub(super) fn has_oob(&self, from: u32) -> bool {
        self.oob.len() > BlockCount(from).oob_bytes()
    }

    /// Appends the metadata of stored blocks to a buffer.
    pub(super) fn copy_oob(&self, from: u32, to: u32, buffer: &mut Vec<u8>) {
        let [from, to] = [from, to].map(|block| BlockCount(block).oob_bytes());
        let kept = &self.oob[from.min(self.oob.len())..to.min(self.oob.len())];
        buffer.extend_from_slice(kept);
        buffer.resize(buffer.len() + (to - from - kept.len()), 0);
    }

    /// Drops the blocks from `to` on.
    pub(super) fn truncate(&mut self, to: u32) {
        self.words.truncate(to as usize);
        self.oob.truncate(BlockCount(to).oob_bytes());
        self.extents.truncate(self.extents.partition_point(|extent| extent.first < to));
        if let Some(last) = self.extents.last_mut()
            && last.end() > to
        {
            *last = last.part(last.first, to);
        }
    }

    /// Replaces one stored block.
    pub(super) fn replace(&mut self, block: u32, new: Run<'_>, oob: &[u8]) {
        assert_eq!(new.blocks(), 1, "one block is replaced by one");
        self.clear_extent(block);
        match new {
            Run::Patterns(words) => self.words[block as usize] = words[0],
            Run::Bytes(data) => {
                let place = self.extents.partition_point(|extent| extent.first < block);
                self.extents.insert(place, Extent { first: block, data });
            }
        }
        let (start, end) = (BlockCount(block).oob_bytes(), BlockCount(block + 1).oob_bytes());
        if oob.is_empty() && self.oob.len() <= start {
            return;
        }
        self.oob.resize(self.oob.len().max(end), 0);
        let place = &mut self.oob[start..end];
        if oob.is_empty() { place.fill(0) } else { place.copy_from_slice(oob) }
    }

    /// Takes one block out of the extent that covers it, if one does.
    fn clear_extent(&mut self, block: u32) {
        let at = self.extents.partition_point(|extent| extent.end() <= block);
        let Some(extent) = self.extents.get(at).filter(|extent| extent.first <= block) else {
            return;
        };
        let parts = [extent.part(extent.first, block), extent.part(block + 1, extent.end())];
        let parts = parts.into_iter().filter(|part| !part.data.is_empty());
        self.extents.splice(at..=at, parts.collect::<Vec<_>>());
    }

    /// Bytes of memory, those shared with others included.
    pub(super) fn memory_bytes(&self) -> usize {
        let extents: usize = self.extents.iter().map(|extent| extent.data.len()).sum();
        size_of::<Self>()
            + self.words.capacity() * size_of::<u64>()
            + self.oob.capacity()
            + self.extents.capacity() * size_of::<Extent>()
            + extents
    }
}
