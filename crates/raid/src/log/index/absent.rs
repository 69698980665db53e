//! Pages of the index that a start left on media.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::format::Sequence;
use crate::log::index::deferred::Deferred;

/// State of absent pages.
pub(in crate::log) struct Absent {
    /// Address of each absent page's mapping block.
    pub(in crate::log) pages: BTreeMap<Page, Pba>,
    /// Replayed entries that are not in the index yet, also for pages that no checkpoint has.
    pub(in crate::log) deferred: Deferred,
    /// Addresses of tombstone blocks among replayed entries.
    pub(in crate::log) trims: BTreeSet<Pba>,
    /// Segments with tombstones according to pages.
    pub(in crate::log) hiding: BTreeSet<SegmentSlot>,
    /// Sequences of the entries that were replayed and entered for absent pages, in order.
    pub(in crate::log) replayed: BTreeMap<Page, Vec<(Lba, Sequence)>>,
    /// Bound above the sequences in all pages.
    pub(in crate::log) newest: Sequence,
    /// Pages prefetched at a time.
    pub(in crate::log) at_a_time: usize,
    /// Pages that are being read.
    pub(in crate::log) under_way: BTreeSet<Page>,
    /// Whether a page was invalid.
    pub(in crate::log) failed: bool,
}

impl Absent {
    /// Absent pages of a range that are not being read.
    pub(super) fn to_be_read(&self, range: Range<Page>, most: usize) -> Vec<Page> {
        let absent = self.pages.range(range).map(|(page, _)| *page);
        absent.filter(|page| !self.under_way.contains(page)).take(most).collect()
    }
}
