//! Pages of the index that a start left on media.

use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::index::deferred::Deferred;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zoneweave_zoned::Lba;

/// What is known of pages that are not in memory.
pub(in crate::log) struct Absent {
    /// Address of each absent page's mapping block.
    pub(in crate::log) pages: BTreeMap<Page, Pba>,
    /// What was replayed and is not in the index yet, also for pages that no checkpoint has.
    pub(in crate::log) deferred: Deferred,
    /// Blocks that tell of trims among those that it leads to.
    pub(in crate::log) trims: BTreeSet<Pba>,
    /// Segments in which pages told of tombstones.
    pub(in crate::log) hiding: BTreeSet<SegmentSlot>,
    /// The sequences of what was replayed for blocks of them and entered, in order.
    pub(in crate::log) replayed: BTreeMap<Page, Vec<(Lba, u64)>>,
    /// What is newer than any of them.
    pub(in crate::log) newest: u64,
    /// How many are read at a time that nobody asks for.
    pub(in crate::log) at_a_time: usize,
    /// Those that are being read.
    pub(in crate::log) under_way: BTreeSet<Page>,
    /// One of them was not what it seemed.
    pub(in crate::log) failed: bool,
}

impl Absent {
    /// Some that nobody reads yet, of a range.
    pub(in crate::log) fn to_be_read(&self, range: Range<Page>, most: usize) -> Vec<Page> {
        let absent = self.pages.range(range).map(|(page, _)| *page);
        absent.filter(|page| !self.under_way.contains(page)).take(most).collect()
    }
}
