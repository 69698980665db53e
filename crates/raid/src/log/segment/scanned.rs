//! The rows of a group as they were read from the drives, before chunks are matched to stripes.

use std::ops::Range;

use zoneweave_zoned::ZoneOffset;

use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::format::{BlockIdentity, IndexEntry};
use crate::scheme::{Column, StripeId};

/// Findings for one column in consecutive rows.
pub(in crate::log) struct ColumnScan {
    first: u32,
    /// The stripe of each row's chunk, counted through the segment; `None` if it did not verify.
    pub(in crate::log) stripes: Vec<Option<StripeId>>,
    /// An entry for each block of each row; meaningless for chunks that did not verify.
    pub(in crate::log) entries: Vec<IndexEntry>,
}

impl ColumnScan {
    /// An empty scan that starts at a row.
    pub(super) fn new(first: u32) -> Self {
        Self { first, stripes: Vec::new(), entries: Vec::new() }
    }

    /// The findings for some of the rows.
    pub(in crate::log) fn rows(&self, rows: &Range<u32>) -> ScannedRows<'_> {
        assert!(
            rows.start >= self.first && (rows.end - self.first) as usize <= self.stripes.len(),
            "rows {rows:?} of {} from row {} on",
            self.stripes.len(),
            self.first
        );
        let (start, end) = ((rows.start - self.first) as usize, (rows.end - self.first) as usize);
        let chunk = self.entries.len() / self.stripes.len().max(1);
        ScannedRows {
            stripes: &self.stripes[start..end],
            entries: &self.entries[start * chunk..end * chunk],
        }
    }

    pub(super) fn append(&mut self, mut part: Self) {
        assert!(
            (part.first - self.first) as usize == self.stripes.len(),
            "row {} is scanned behind {} rows from {} on",
            part.first,
            self.stripes.len(),
            self.first
        );
        self.stripes.append(&mut part.stripes);
        self.entries.append(&mut part.entries);
    }

    /// Adds a row whose chunk did not verify.
    pub(super) fn add_nothing(&mut self, chunk_blocks: u32) {
        self.stripes.push(None);
        self.entries.extend(std::iter::repeat_n(IndexEntry::EMPTY, chunk_blocks as usize));
    }
}

/// Findings for one column in some rows.
#[derive(Clone, Copy)]
pub(in crate::log) struct ScannedRows<'a> {
    /// The stripe of each row's chunk, counted through the segment; `None` if it did not verify.
    pub(in crate::log) stripes: &'a [Option<StripeId>],
    /// An entry for each block of each row; meaningless for chunks that did not verify.
    pub(in crate::log) entries: &'a [IndexEntry],
}

pub(super) fn identity_entry(identity: &BlockIdentity, stripe_in_group: u16) -> IndexEntry {
    IndexEntry {
        sequence: identity.sequence,
        lba: identity.lba,
        kind: identity.kind.into(),
        stripe_in_group,
    }
}

/// A segment found, and how far each of its zones is written.
pub(in crate::log) struct FoundSegment {
    pub(in crate::log) slot: SegmentSlot,
    /// Write pointers by column; `None` where the column is missing.
    pub(in crate::log) written: Vec<Option<ZoneOffset>>,
    /// Columns the segment was made with whose members are in service: each should have a chunk
    /// of every stripe.
    pub(in crate::log) expected: Vec<Column>,
    pub(in crate::log) leftover: bool,
}

/// A block of a stripe that is readable but not fully redundant.
pub(in crate::log) struct WeakBlock {
    pub(in crate::log) place: BlockPlace,
    pub(in crate::log) entry: IndexEntry,
}
