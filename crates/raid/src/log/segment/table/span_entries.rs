//! Entries of a segment's blocks until the summary of their span is on media.

use crate::log::engine::geometry::{ChunkBlock, SegmentGeometry};
use crate::log::format::IndexEntry;
use crate::scheme::Column;

/// The entries of the first span without a summary on media.
pub(in crate::log) struct SpanEntries {
    /// Spans whose summary is on media.
    summaries: u32,
    /// The first chunk block of each column that no summary covers.
    first: ChunkBlock,
    /// Entries from `first` on, by column.
    columns: Vec<Vec<IndexEntry>>,
}

impl SpanEntries {
    /// No span has a summary, and no block an entry.
    pub(super) fn new(columns: usize) -> Self {
        Self { summaries: 0, first: ChunkBlock(0), columns: vec![Vec::new(); columns] }
    }

    /// Takes the summaries of the first spans as being on media.
    pub(in crate::log) fn begin_at(&mut self, span: u32, geometry: &SegmentGeometry) {
        assert!(span <= geometry.spans(), "span {span} of {}", geometry.spans());
        assert!(self.columns.iter().all(Vec::is_empty), "entries of an earlier span");
        self.summaries = span;
        self.first = match span < geometry.spans() {
            true => geometry.first_of_span(span),
            false => ChunkBlock(geometry.column_blocks()),
        };
    }

    /// Drops the entries of a span whose summary is on media.
    pub(super) fn end_span(&mut self, span: u32, geometry: &SegmentGeometry) {
        assert!(self.summaries == span, "spans end in order");
        let last = span + 1 == geometry.spans();
        // No entry will follow: the capacity would be kept for the life of the segment.
        let empty = |entries: &mut Vec<IndexEntry>| {
            if last { *entries = Vec::new() } else { entries.clear() }
        };
        self.columns.iter_mut().for_each(empty);
        self.begin_at(span + 1, geometry);
    }

    /// Enters blocks of a column.
    pub(super) fn enter(&mut self, column: Column, first: ChunkBlock, of_blocks: &[IndexEntry]) {
        assert!(first >= self.first, "block {} has its index run", first.0);
        let at = (first.0 - self.first.0) as usize;
        let entries = &mut self.columns[column.index()];
        if entries.len() < at + of_blocks.len() {
            entries.resize(at + of_blocks.len(), IndexEntry::EMPTY);
        }
        entries[at..at + of_blocks.len()].copy_from_slice(of_blocks);
    }

    /// The entry of a chunk block that no summary covers; empty if it has none.
    #[must_use]
    pub(in crate::log) fn get(&self, column: Column, block: ChunkBlock) -> IndexEntry {
        assert!(block >= self.first, "block {} is in a summary", block.0);
        let at = (block.0 - self.first.0) as usize;
        self.columns[column.index()].get(at).copied().unwrap_or(IndexEntry::EMPTY)
    }

    /// Spans whose summary is on media.
    #[must_use]
    pub(in crate::log) fn summaries(&self) -> u32 {
        self.summaries
    }

    /// The first chunk block of each column that no summary covers.
    #[must_use]
    pub(in crate::log) fn first(&self) -> ChunkBlock {
        self.first
    }

    /// The entries from the first uncovered block on, by column.
    #[must_use]
    pub(in crate::log) fn columns(&self) -> &[Vec<IndexEntry>] {
        &self.columns
    }

    /// Entries of the longest column.
    #[must_use]
    pub(in crate::log) fn longest(&self) -> u32 {
        let longest = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        u32::try_from(longest).expect("a span's blocks")
    }

    /// Memory in bytes.
    #[must_use]
    pub(super) fn bytes(&self) -> u64 {
        let entries: usize = self.columns.iter().map(Vec::capacity).sum();
        (entries * size_of::<IndexEntry>()) as u64
    }
}
