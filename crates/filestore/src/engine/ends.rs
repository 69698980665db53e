//! Where the blocks of a sparse extent begin, read from their tags after a start.
//!
//! A damaged block makes its own bytes unreadable, and no others. It begins where the block before
//! ends, and ends where the block behind begins. Among neighbours that are all damaged the borders
//! do not matter, as a read of any of them fails. The block before ends where its tag says, unless
//! a truncation may have cut it since: then nobody knows, and the extent cannot be read.

use zoneweave_zoned::BlockCount;

use super::core::Core;
use super::read::{address_of, read_each};
use crate::error::StoreError;
use crate::format::{BlockLayout, Tag};
use crate::ids::{FileId, Incarnation, Version};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::Extent;

/// The bytes of an extent in one of its blocks, by a tag that verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    /// Unless the block was cut since.
    end: u64,
    may_be_cut: bool,
}

impl Core {
    /// Reads where the blocks of a sparse extent begin.
    pub(crate) async fn load_ends(
        &self,
        file: FileId,
        extent: &Extent,
        incarnation: Incarnation,
    ) -> Result<(), StoreError> {
        mark(Mark::EndsLoaded);
        assert!(extent.blocks.0 > 0, "an extent of no blocks");
        let version = self.state().namespace.file(file).map(|node| node.version);
        let spans = self.spans(file, extent, incarnation, version.unwrap_or_default()).await;
        let damaged = |block: usize| {
            let block = u32::try_from(block).expect("a block of a zone");
            StoreError::Damaged { file, offset: extent.offset, at: address_of(extent.at, block) }
        };
        let first_damaged = spans.iter().position(Option::is_none);
        let ends = ends_of(&spans, extent.bytes, self.layout).map_err(damaged)?;
        let narrow = |end: &u64| u32::try_from(*end).unwrap_or(u32::MAX);
        let mut ends: Vec<u32> = ends.iter().map(narrow).collect();
        if first_damaged.is_some() {
            mark(Mark::EndsBounded);
        }
        if mutant(Mutant::SparseMisread) {
            let full = (1..=extent.blocks.0).map(|blocks| self.layout.bytes_of(BlockCount(blocks)));
            let end = |full: u64| u32::try_from(full.min(extent.bytes)).unwrap_or(u32::MAX);
            ends = full.map(end).collect();
        }
        let mut state = self.state_mut();
        let Some(node) = state.namespace.file_mut(file) else { return Ok(()) };
        if node.extents.set_ends(extent.offset, extent.run(), ends) {
            return Ok(());
        }
        // It changed meanwhile, and is looked up again; or its tags contradict the records.
        let is_same = node.extents.iter().any(|now| now == extent);
        if is_same { Err(damaged(first_damaged.unwrap_or(0))) } else { Ok(()) }
    }

    /// The bytes of each block of an extent; `None` for a block that does not verify.
    async fn spans(
        &self,
        file: FileId,
        extent: &Extent,
        incarnation: Incarnation,
        version: Version,
    ) -> Vec<Option<Span>> {
        let mut spans = Vec::with_capacity(extent.blocks.index());
        let most = self.device.geometry().max_transfer.0;
        let mut done = 0;
        while done < extent.blocks.0 {
            let count = most.min(extent.blocks.0 - done);
            let first = address_of(extent.at, done);
            for (at, block) in (done..).zip(read_each(&*self.device, first, count).await) {
                let at = address_of(extent.at, at);
                let (layout, seed) = (self.layout, self.seed);
                let tag = block.and_then(|block| {
                    let (data, metadata) = (block.block(0), block.block_oob(0));
                    let opened = Tag::open(layout, seed, at, incarnation, &data, &metadata);
                    opened.ok().map(|(tag, _)| tag)
                });
                spans.push(tag.filter(|tag| tag.file == file).and_then(|tag| {
                    let start = tag.offset.checked_sub(extent.offset)?;
                    let end = start.checked_add(u64::from(tag.bytes))?;
                    Some(Span { start, end, may_be_cut: tag.version != version })
                }));
            }
            done += count;
        }
        spans
    }
}

/// The ends of the blocks of an extent of so many bytes.
///
/// # Errors
/// The first block whose place cannot be told.
fn ends_of(spans: &[Option<Span>], bytes: u64, layout: BlockLayout) -> Result<Vec<u64>, usize> {
    let mut ends = Vec::with_capacity(spans.len());
    while let Some(span) = spans.get(ends.len()) {
        let block = ends.len();
        if let Some(span) = span {
            ends.push(end_of_intact(*span, spans.get(block + 1), bytes).ok_or(block + 1)?);
            continue;
        }
        let damaged = spans[block..].iter().take_while(|span| span.is_none()).count();
        // Where the intact block behind them begins, or the extent ends.
        let behind = spans.get(block + damaged).copied().flatten();
        let (start, end) = (ends.last().copied().unwrap_or(0), behind.map_or(bytes, |b| b.start));
        let spread = spread(start, end, damaged as u64, layout.payload_bytes() as u64);
        ends.extend(spread.ok_or(block)?);
    }
    Ok(ends)
}

/// The end of a block, given the one behind it; `None` if it cannot be told.
fn end_of_intact(span: Span, behind: Option<&Option<Span>>, bytes: u64) -> Option<u64> {
    match behind {
        None => Some(bytes),
        Some(Some(behind)) => Some(behind.start),
        Some(None) if span.may_be_cut && !mutant(Mutant::CutForgotten) => {
            mark(Mark::EndsUnknown);
            None
        }
        Some(None) => Some(span.end),
    }
}

/// Ends of damaged blocks with the bytes `start..end`: each has from one byte to `most`.
fn spread(start: u64, end: u64, blocks: u64, most: u64) -> Option<Vec<u64>> {
    let bytes = end.checked_sub(start)?;
    if !(blocks..=blocks * most).contains(&bytes) {
        return None;
    }
    // The first are as full as the others, with a byte each, allow.
    let end_of = |block: u64| (block * most).min(bytes - (blocks - block));
    Some((1..=blocks).map(|block| start + end_of(block)).collect())
}
