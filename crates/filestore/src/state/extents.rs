//! The blocks of a file, as extents in the order of the file.
//!
//! A *dense* extent has only full blocks, the last apart: the block of a byte is a division. A
//! *sparse* extent may have partly filled blocks anywhere, as a synced log has; the ends of its
//! blocks are kept in memory, and read from the tags of the blocks after a start.

use zoneweave_zoned::{BlockCount, ZoneAddress};

use crate::format::{BlockLayout, StoredExtent};

/// Most blocks of a sparse extent: their tags are read at once, and 16 MiB of them suffice.
const SPARSE_BLOCKS_MAX: u32 = 4096;

/// Most blocks of a dense extent that becomes part of a sparse one, which needs four bytes of
/// memory a block.
const DENSE_PART_BLOCKS: u32 = 64;

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRun {
    /// The first block.
    pub(crate) at: ZoneAddress,
    /// How many, in one zone.
    pub(crate) blocks: BlockCount,
}

/// Where the blocks of an extent begin in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All blocks but the last are full.
    Dense,
    /// The bytes of the extent up to the end of each block; `None` until tags are read.
    Sparse(Option<Vec<u32>>),
}

/// Consecutive blocks of a file in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first byte of the file.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The first block.
    pub(crate) at: ZoneAddress,
    /// Length in blocks.
    pub(crate) blocks: BlockCount,
    /// Where blocks begin.
    pub(crate) shape: Shape,
}

/// A part of a read: bytes in consecutive blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The first block.
    pub(crate) at: ZoneAddress,
    /// The first byte of the file in each block, and the end of the last.
    pub(crate) starts: Vec<u64>,
}

impl Extent {
    /// The end in the file.
    #[must_use]
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Its blocks.
    #[must_use]
    pub(crate) fn run(&self) -> BlockRun {
        BlockRun { at: self.at, blocks: self.blocks }
    }

    /// The first block behind it.
    #[must_use]
    pub(crate) fn next_block(&self) -> ZoneAddress {
        ZoneAddress { zone: self.at.zone, offset: self.at.offset.plus(self.blocks) }
    }

    /// Whether the number of blocks is possible for the bytes. (Stored extents are hostile.)
    fn is_possible(&self, layout: BlockLayout) -> bool {
        let (blocks, payload) = (u64::from(self.blocks.0), layout.payload_bytes() as u64);
        let holds = blocks * payload;
        let fits = self.bytes > 0 && blocks > 0 && self.offset.checked_add(self.bytes).is_some();
        let in_zone = self.at.offset.0.checked_add(self.blocks.0).is_some();
        fits && in_zone
            && match &self.shape {
                Shape::Dense => self.bytes <= holds && self.bytes > holds - payload,
                Shape::Sparse(_) => {
                    (blocks..=holds).contains(&self.bytes) && self.blocks.0 <= SPARSE_BLOCKS_MAX
                }
            }
    }

    /// Bytes up to the end of block `index`; `None` if tags have to be read.
    fn end_of_block(&self, index: u32, layout: BlockLayout) -> Option<u64> {
        match &self.shape {
            Shape::Dense => Some(layout.bytes_of(BlockCount(index + 1)).min(self.bytes)),
            Shape::Sparse(ends) => ends.as_ref().map(|ends| u64::from(ends[index as usize])),
        }
    }

    /// The block with the byte `at` of the extent; `None` if tags have to be read.
    fn block_of(&self, at: u64, layout: BlockLayout) -> Option<u32> {
        let index = match &self.shape {
            Shape::Dense => at / layout.payload_bytes() as u64,
            Shape::Sparse(ends) => {
                ends.as_ref()?.partition_point(|end| u64::from(*end) <= at) as u64
            }
        };
        Some(u32::try_from(index).expect("a block of the extent"))
    }

    /// The blocks with the bytes `from..to` of the file, which are in the extent.
    fn piece(&self, from: u64, to: u64, layout: BlockLayout) -> Option<Piece> {
        assert!(self.offset <= from && from < to && to <= self.end(), "{from}..{to} outside");
        let first = self.block_of(from - self.offset, layout)?;
        let last = self.block_of(to - 1 - self.offset, layout)?;
        let start = match first {
            0 => Some(0),
            _ => self.end_of_block(first - 1, layout),
        };
        let ends = (first..=last).map(|block| self.end_of_block(block, layout));
        let starts = std::iter::once(start).chain(ends).map(|end| Some(self.offset + end?));
        let at = ZoneAddress { offset: self.at.offset.plus(BlockCount(first)), ..self.at };
        Some(Piece { at, starts: starts.collect::<Option<_>>()? })
    }

    /// Splits off the part from byte `offset` of the file on, which begins with block `block` of
    /// the extent. `None` if no block begins there.
    fn split_off(&mut self, offset: u64, block: u32, layout: BlockLayout) -> Option<Self> {
        let bytes = offset.checked_sub(self.offset)?;
        if block == 0 || block >= self.blocks.0 || bytes == 0 || bytes >= self.bytes {
            return None;
        }
        let rest = match &mut self.shape {
            Shape::Dense => Shape::Dense,
            Shape::Sparse(None) => Shape::Sparse(None),
            Shape::Sparse(Some(ends)) => {
                let cut = u32::try_from(bytes).ok()?;
                if ends[block as usize - 1] != cut {
                    return None;
                }
                let rest = ends.split_off(block as usize);
                Shape::Sparse(Some(rest.into_iter().map(|end| end - cut).collect()))
            }
        };
        let rest = Self {
            offset,
            bytes: self.bytes - bytes,
            at: ZoneAddress { offset: self.at.offset.plus(BlockCount(block)), ..self.at },
            blocks: BlockCount(self.blocks.0 - block),
            shape: rest,
        };
        (self.bytes, self.blocks) = (bytes, BlockCount(block));
        (self.is_possible(layout) && rest.is_possible(layout)).then_some(rest)
    }

    /// The ends of its blocks, if they are known.
    fn ends(&self, layout: BlockLayout) -> Option<Vec<u32>> {
        let end = |block| self.end_of_block(block, layout);
        let narrow = |end: u64| u32::try_from(end).expect("a sparse extent has 16 MiB");
        (0..self.blocks.0).map(|block| end(block).map(narrow)).collect()
    }

    /// Adds `next` to the end if both can be one extent. Unknown ends stay unknown, and swallow
    /// known ones only if `forget`.
    fn try_merge(&mut self, next: &Self, layout: BlockLayout, forget: bool) -> bool {
        if self.next_block() != next.at || self.end() != next.offset {
            return false;
        }
        let is_full = self.bytes == layout.bytes_of(self.blocks);
        let dense = self.shape == Shape::Dense && next.shape == Shape::Dense && is_full;
        let blocks = self.blocks.0 + next.blocks.0;
        if !dense {
            let may =
                |part: &Self| part.shape != Shape::Dense || part.blocks.0 <= DENSE_PART_BLOCKS;
            if blocks > SPARSE_BLOCKS_MAX || !may(self) || !may(next) {
                return false;
            }
            let unknown = |part: &Self| part.shape == Shape::Sparse(None);
            if unknown(self) != unknown(next) && !forget {
                return false;
            }
            self.shape = Shape::Sparse(self.merged_ends(next, layout));
        }
        (self.bytes, self.blocks) = (self.bytes + next.bytes, BlockCount(blocks));
        true
    }

    fn merged_ends(&mut self, next: &Self, layout: BlockLayout) -> Option<Vec<u32>> {
        let mut ends = match std::mem::replace(&mut self.shape, Shape::Dense) {
            Shape::Sparse(ends) => ends,
            Shape::Dense => self.ends(layout),
        }?;
        let base = u32::try_from(self.bytes).expect("a sparse extent has 16 MiB");
        ends.extend(next.ends(layout)?.into_iter().map(|end| base + end));
        Some(ends)
    }

    /// Cuts it at a byte of the file, in front of a block; returns the blocks that it loses, if
    /// any. `None` if it cannot end there.
    fn cut(
        &mut self,
        size: u64,
        behind: ZoneAddress,
        layout: BlockLayout,
    ) -> Option<Option<BlockRun>> {
        let bytes = size.checked_sub(self.offset).filter(|bytes| *bytes <= self.bytes)?;
        let blocks = behind.offset.0.checked_sub(self.at.offset.0)?;
        if behind.zone != self.at.zone || blocks == 0 || blocks > self.blocks.0 {
            return None;
        }
        if let Shape::Sparse(Some(ends)) = &mut self.shape {
            ends.truncate(blocks as usize);
            *ends.last_mut()? = u32::try_from(bytes).ok()?;
            if !ends.is_sorted_by(|one, next| one < next) {
                return None;
            }
        }
        let lost = BlockCount(self.blocks.0 - blocks);
        (self.bytes, self.blocks) = (bytes, BlockCount(blocks));
        let run = (lost.0 > 0).then_some(BlockRun { at: behind, blocks: lost });
        self.is_possible(layout).then_some(run)
    }

    fn stored(&self) -> StoredExtent {
        StoredExtent {
            at: self.at,
            blocks: self.blocks,
            bytes: self.bytes,
            is_sparse: self.shape != Shape::Dense,
        }
    }
}

/// The extents of a file, without gaps from byte 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtentMap {
    layout: BlockLayout,
    extents: Vec<Extent>,
}

impl ExtentMap {
    /// An empty file.
    #[must_use]
    pub(crate) const fn new(layout: BlockLayout) -> Self {
        Self { layout, extents: Vec::new() }
    }

    /// Bytes of the file.
    #[must_use]
    pub(crate) fn length(&self) -> u64 {
        self.extents.last().map_or(0, Extent::end)
    }

    /// The extents, in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// How many there are.
    #[must_use]
    pub(crate) const fn count(&self) -> usize {
        self.extents.len()
    }

    /// All blocks.
    pub(crate) fn runs(&self) -> impl Iterator<Item = BlockRun> {
        self.extents.iter().map(Extent::run)
    }

    /// Appends blocks of which all but the last are full.
    ///
    /// # Panics
    /// If `bytes` do not take that many blocks.
    pub(crate) fn push(&mut self, bytes: u64, run: BlockRun) {
        let (offset, shape) = (self.length(), Shape::Dense);
        let extent = Extent { offset, bytes, at: run.at, blocks: run.blocks, shape };
        assert!(extent.is_possible(self.layout), "{bytes} bytes in {run:?}");
        self.add(extent, false);
    }

    /// Appends an extent from media. Returns whether it is possible.
    #[must_use]
    pub(crate) fn push_stored(&mut self, stored: &StoredExtent) -> bool {
        let shape = if stored.is_sparse { Shape::Sparse(None) } else { Shape::Dense };
        let StoredExtent { at, blocks, bytes, .. } = *stored;
        let extent = Extent { offset: self.length(), bytes, at, blocks, shape };
        let is_possible = extent.is_possible(self.layout);
        if is_possible {
            self.add(extent, true);
        }
        is_possible
    }

    fn add(&mut self, extent: Extent, forget: bool) {
        let layout = self.layout;
        let merged =
            self.extents.last_mut().is_some_and(|last| last.try_merge(&extent, layout, forget));
        if !merged {
            self.extents.push(extent);
        }
    }

    /// The extent with a byte of the file.
    fn index_of(&self, offset: u64) -> Option<usize> {
        let index = self.extents.partition_point(|extent| extent.end() <= offset);
        (index < self.extents.len()).then_some(index)
    }

    /// The blocks with the bytes `from..to`, which are in the file.
    ///
    /// # Errors
    /// The extent whose tags have to be read first.
    ///
    /// # Panics
    /// If the file is shorter.
    pub(crate) fn pieces(&self, from: u64, to: u64) -> Result<Vec<Piece>, &Extent> {
        assert!(to <= self.length(), "bytes up to {to} of a file of {}", self.length());
        let mut pieces = Vec::new();
        let mut at = from;
        while at < to {
            let index = self.index_of(at).expect("the file is as long");
            let extent = &self.extents[index];
            let end = extent.end().min(to);
            pieces.push(extent.piece(at, end, self.layout).ok_or(extent)?);
            at = end;
        }
        Ok(pieces)
    }

    /// Sets the ends of the blocks of a sparse extent, if it is still there and they fit it.
    /// Returns whether they do.
    pub(crate) fn set_ends(&mut self, offset: u64, run: BlockRun, ends: Vec<u32>) -> bool {
        let Some(index) = self.index_of(offset) else { return false };
        let extent = &mut self.extents[index];
        let is_same = extent.offset == offset && extent.run() == run;
        let fits = ends.len() == extent.blocks.index()
            && ends.is_sorted_by(|one, next| one < next)
            && ends.last().is_some_and(|last| u64::from(*last) == extent.bytes);
        let sets = is_same && fits && matches!(extent.shape, Shape::Sparse(_));
        if sets {
            extent.shape = Shape::Sparse(Some(ends));
        }
        sets
    }

    /// The block behind the last one that the file keeps if it is cut to a size.
    ///
    /// # Errors
    /// The extent whose tags have to be read first.
    ///
    /// # Panics
    /// If the file is shorter.
    pub(crate) fn cut_point(&self, size: u64) -> Result<ZoneAddress, &Extent> {
        assert!(size <= self.length(), "a file of {} cut to {size}", self.length());
        let Some(last) = size.checked_sub(1) else { return Ok(ZoneAddress::default()) };
        let extent = &self.extents[self.index_of(last).expect("the file is as long")];
        let block = extent.block_of(last - extent.offset, self.layout).ok_or(extent)?;
        Ok(ZoneAddress { offset: extent.at.offset.plus(BlockCount(block + 1)), ..extent.at })
    }

    /// Cuts the file to a size, given the block behind the last one that it keeps
    /// ([`ExtentMap::cut_point`]). Returns the blocks that it loses; `None` if it cannot end there.
    #[must_use]
    pub(crate) fn truncate(&mut self, size: u64, behind: ZoneAddress) -> Option<Vec<BlockRun>> {
        if size > self.length() {
            return None;
        }
        let mut freed = Vec::new();
        let mut keep = 0;
        if let Some(last) = size.checked_sub(1) {
            let index = self.index_of(last).expect("the file is as long");
            freed.extend(self.extents[index].cut(size, behind, self.layout)?);
            keep = index + 1;
        }
        freed.extend(self.extents.drain(keep..).map(|extent| extent.run()));
        Some(freed)
    }

    /// Records that blocks were copied: the bytes from `offset` on, in the blocks of `from`, are at
    /// `to`. Returns whether they were where they are said to be.
    #[must_use]
    pub(crate) fn relocate(
        &mut self,
        offset: u64,
        bytes: u64,
        from: BlockRun,
        to: ZoneAddress,
    ) -> bool {
        let end_block = ZoneAddress { offset: from.at.offset, ..from.at };
        let Some(end) = offset.checked_add(bytes).filter(|_| bytes > 0) else { return false };
        let Some(last) = end_block.offset.0.checked_add(from.blocks.0) else { return false };
        if to.offset.0.checked_add(from.blocks.0).is_none() || end > self.length() {
            return false;
        }
        let split = self.split_at(offset, from.at)
            && self.split_at(end, ZoneAddress::new(from.at.zone, last));
        let Some(first) = self.index_of(offset).filter(|_| split) else { return false };
        let until = self.extents.partition_point(|extent| extent.end() <= end);
        let mut block = from.at;
        for extent in &self.extents[first..until] {
            if extent.at != block {
                return false;
            }
            block = extent.next_block();
        }
        if block != ZoneAddress::new(from.at.zone, last) {
            return false;
        }
        for extent in &mut self.extents[first..until] {
            let moved = extent.at.offset.0 - from.at.offset.0;
            extent.at = ZoneAddress::new(to.zone, to.offset.0 + moved);
        }
        self.coalesce(first.saturating_sub(1), until + 1);
        true
    }

    /// The part of a run of blocks that the file still has, from its first block on: a truncation
    /// takes the last ones. Returns its bytes and blocks.
    #[must_use]
    pub(crate) fn kept_of(&self, offset: u64, from: BlockRun) -> Option<(u64, BlockCount)> {
        let index = self.index_of(offset)?;
        let first = &self.extents[index];
        let skipped = from.at.offset.0.checked_sub(first.at.offset.0)?;
        let mut blocks = first.blocks.0.checked_sub(skipped)?;
        let mut bytes = first.end() - offset;
        for extent in &self.extents[index + 1..] {
            let next = ZoneAddress { offset: from.at.offset.plus(BlockCount(blocks)), ..from.at };
            if extent.at != next || blocks >= from.blocks.0 {
                break;
            }
            (blocks, bytes) = (blocks + extent.blocks.0, bytes + extent.bytes);
        }
        (0 < blocks && blocks < from.blocks.0).then_some((bytes, BlockCount(blocks)))
    }

    /// Splits the extent with a byte, so that an extent begins with it at the given block.
    fn split_at(&mut self, offset: u64, at: ZoneAddress) -> bool {
        let Some(index) = self.index_of(offset) else { return offset == self.length() };
        let layout = self.layout;
        let extent = &mut self.extents[index];
        if extent.offset == offset {
            return true;
        }
        let block = at.offset.0.checked_sub(extent.at.offset.0);
        let Some(block) = block.filter(|_| extent.at.zone == at.zone) else { return false };
        let Some(rest) = extent.split_off(offset, block, layout) else { return false };
        self.extents.insert(index + 1, rest);
        true
    }

    /// Merges neighbours among the extents `first..end`; those behind stay where they are if
    /// nothing is merged, as a relocated zone may have thousands of a file.
    fn coalesce(&mut self, first: usize, end: usize) {
        let layout = self.layout;
        let (mut at, mut end) = (first + 1, end.min(self.extents.len()));
        while at < end {
            let (before, behind) = self.extents.split_at_mut(at);
            let last = before.last_mut().expect("an extent is before it");
            if last.try_merge(&behind[0], layout, false) {
                self.extents.remove(at);
                end -= 1;
            } else {
                at += 1;
            }
        }
    }

    /// The extents from byte `from` to byte `to`, both at the border of blocks, in stored form.
    ///
    /// # Panics
    /// If a block crosses `from` or `to`, or its border is not known.
    #[must_use]
    pub(crate) fn stored(&self, from: u64, to: u64) -> Vec<StoredExtent> {
        let overlapping =
            self.extents.iter().filter(|extent| extent.end() > from && extent.offset < to);
        let part = |extent: &Extent| {
            let mut part = extent.clone();
            if part.offset < from {
                let block = part.block_of(from - part.offset, self.layout);
                let block = block.expect("blocks that are not on record were written here");
                let rest = part.split_off(from, block, self.layout);
                part = rest.expect("records end at the border of blocks");
            }
            if part.end() > to {
                let block = part.block_of(to - part.offset, self.layout);
                let block = block.expect("blocks that are not on record were written here");
                let _rest = part.split_off(to, block, self.layout);
                assert!(part.end() == to, "durable bytes end at the border of a block");
            }
            part.stored()
        };
        overlapping.map(part).collect()
    }
}

#[cfg(test)]
mod tests;
