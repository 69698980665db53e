//! The map from LBA to PBA.
//!
//! A physical block address (PBA) is a dense ordinal over the chunk blocks of all segment slots,
//! `(slot * columns + column) * column_blocks + block`, so that four bytes reach 16 TiB. Zero in
//! the table means unmapped, which lets the operating system provide the table untouched; entries
//! are the ordinal plus one. The map is written to media by pages, and records which of them are
//! dirty.
//!
//! With a memory limit, each page has memory of its own, or none: then it is on media only, or has
//! no mapped block (`cache/`).

pub(in crate::log) mod table;

use crate::log::engine::address::{Divisor, Page, Pba};
use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::log::format::checkpoint::{AddressSpace, StoredEntries, mapping_entries};
use crate::log::index::cache::pins::{For, PagePins};
pub(in crate::log) use crate::log::index::map::table::Entry;
use crate::log::index::map::table::{ALLOCATED, Table, in_memory};

/// The logical-to-physical table, and the number of blocks mapped to each segment.
pub(in crate::log) struct Index {
    table: Table,
    is_paged: bool,
    /// Pages in memory and their pins, if not all have to be in memory.
    page_pins: PagePins,
    blocks: u64,
    page_entries: Divisor,
    /// Dirty pages, a bit each.
    changed: Vec<u64>,
    changed_pages: u64,
}

impl Index {
    /// An index of unmapped blocks, held in memory completely.
    #[must_use]
    pub(in crate::log) fn new(space: &AddressSpace) -> Self {
        Self::over(Table::whole(space.volume_blocks, space.entry_bytes), false, space)
    }

    /// An index of unmapped blocks, with none of its pages in memory.
    #[must_use]
    pub(in crate::log) fn paged(space: &AddressSpace) -> Self {
        Self::over(Table::paged(space.mapping_blocks(), space.entry_bytes), true, space)
    }

    fn over(table: Table, is_paged: bool, space: &AddressSpace) -> Self {
        assert!(space.page_entries > 0, "an index with pages of no entries");
        let words = Lba(space.mapping_blocks().div_ceil(64)).index();
        let page_entries = Divisor::new(space.page_entries.into());
        Self {
            table,
            is_paged,
            page_pins: PagePins::default(),
            blocks: space.volume_blocks,
            page_entries,
            changed: vec![0; words],
            changed_pages: 0,
        }
    }

    /// Memory of an index of `blocks` blocks, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_of(blocks: u64, entry_bytes: u8) -> u64 {
        let pages = blocks.div_ceil(u64::from(mapping_entries(entry_bytes)));
        blocks * in_memory(entry_bytes) + pages.div_ceil(64) * size_of::<u64>() as u64
    }

    /// Memory of a page, in bytes.
    #[must_use]
    pub(super) fn bytes_of_page(space: &AddressSpace) -> u64 {
        u64::from(space.page_entries) * in_memory(space.entry_bytes) + ALLOCATED
    }

    /// Memory of an index with some of its pages in memory, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_of_paged(space: &AddressSpace, held: u64) -> u64 {
        let pages = space.mapping_blocks();
        pages * size_of::<Option<Box<[u32]>>>() as u64
            + pages.div_ceil(64) * size_of::<u64>() as u64
            + held * Self::bytes_of_page(space)
    }

    /// Memory of the index, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        let changed = (self.changed.len() * size_of::<u64>()) as u64;
        self.table.bytes(self.page_pins.here(), self.page_entries.by) + changed
    }

    /// The page of a block.
    #[must_use]
    #[inline]
    pub(in crate::log) fn page_of(&self, lba: Lba) -> Page {
        Page(self.page_entries.divide(lba.0).0)
    }

    /// Address of a block; `None` if it is unmapped, or its page is not in memory.
    #[must_use]
    #[inline]
    pub(in crate::log) fn get(&self, lba: Lba) -> Option<Pba> {
        self.table.get(lba, self.page_entries).checked_sub(1).map(Pba)
    }

    /// Prefetches the entries of blocks that are about to be looked up, in an index that is all in
    /// memory. Many cache misses take hardly longer than one, if no decision depends on each before
    /// the next. Blocks beyond the volume are ignored.
    pub(in crate::log) fn touch(&self, lbas: impl Iterator<Item = Lba>) {
        self.table.touch(lbas);
    }

    /// Maps or unmaps a block; returns its former address.
    #[inline]
    pub(in crate::log) fn set(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        self.mark_changed(self.page_of(lba));
        self.enter(lba, pba)
    }

    /// Maps a block as its page on media says; returns its former address.
    #[inline]
    pub(super) fn enter(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        if self.is_paged {
            self.take_in(self.page_of(lba));
        }
        let entry = pba.map_or(0, |pba| pba.0 + 1);
        self.table.replace(lba, self.page_entries, entry).checked_sub(1).map(Pba)
    }

    /// Maps blocks of a page as it says on media, from the first one on; unmapped entries change
    /// nothing.
    ///
    /// # Panics
    /// If one of them is mapped.
    pub(super) fn fill(&mut self, page: Page, entries: &[Entry]) {
        let (count, most) = (entries.len() as u64, self.page_entries.by);
        assert!(count <= most, "page {} has {count} of {most} entries", page.0);
        if self.is_paged {
            self.take_in(page);
        }
        self.table.fill(page, self.page_entries.by, entries);
    }

    /// Calls `to` with the address of each mapped block of a page, if it is in memory.
    pub(super) fn tell(&self, page: Page, mut to: impl FnMut(Pba)) {
        self.tell_all(page, |pba| pba.into_iter().for_each(&mut to));
    }

    /// The entries of a page as they are stored, in so many bytes each; `None` if it is not in
    /// memory.
    #[must_use]
    pub(super) fn stored(&self, page: Page, entry_bytes: u8) -> Option<StoredEntries> {
        let count = self.count_of(page);
        let stored = || self.table.stored(page, self.page_entries.by, count, entry_bytes);
        self.holds(page).then(stored)
    }

    /// Calls `to` with the address of each block of a page, if it is in memory.
    pub(in crate::log) fn tell_all(&self, page: Page, mut to: impl FnMut(Option<Pba>)) {
        self.table.tell(page, self.page_entries.by, |entry| to(entry.address()));
    }

    /// Whether a page is in memory.
    #[must_use]
    pub(in crate::log) fn holds(&self, page: Page) -> bool {
        self.table.holds(page)
    }

    /// The pages in memory and their pins; empty if all pages have to be in memory.
    #[must_use]
    pub(in crate::log) fn page_pins(&self) -> &PagePins {
        &self.page_pins
    }

    /// Pins a page, whether it is in memory or not.
    pub(super) fn pin(&mut self, page: Page, whom: For) {
        let here = self.holds(page);
        self.page_pins.pin(page, whom, here);
    }

    /// Unpins a page.
    pub(super) fn unpin(&mut self, page: Page, whom: For) {
        let here = self.holds(page);
        self.page_pins.unpin(page, whom, here);
    }

    /// Puts an empty page into memory, unless it is there.
    pub(super) fn take_in(&mut self, page: Page) {
        if !self.holds(page) {
            self.table.put(page, true, self.page_entries.by);
            self.page_pins.come(page);
        }
    }

    /// Drops a page from memory.
    ///
    /// # Panics
    /// If it is not in memory, is pinned, or is dirty.
    pub(in crate::log) fn leave_out(&mut self, page: Page) {
        assert!(!self.has_changed(page), "page {} is on no media", page.0);
        let held = self.table.put(page, false, self.page_entries.by);
        assert!(held, "page {} is not in memory", page.0);
        self.page_pins.go(page);
    }

    /// Whether a page is dirty.
    #[must_use]
    pub(in crate::log) fn has_changed(&self, page: Page) -> bool {
        self.changed[Lba(page.0 / 64).index()] >> (page.0 % 64) & 1 == 1
    }

    /// The blocks of the volume in a page.
    #[must_use]
    pub(in crate::log) fn blocks_of(&self, page: Page) -> Range<u64> {
        let start = page.0 * self.page_entries.by;
        start..self.blocks.min(start + self.page_entries.by)
    }

    /// Number of blocks of the volume in a page.
    #[must_use]
    pub(super) fn count_of(&self, page: Page) -> usize {
        let blocks = self.blocks_of(page);
        Lba(blocks.end - blocks.start).index()
    }

    /// Entries of a page; the last page may have fewer.
    #[must_use]
    pub(in crate::log) fn page_entries(&self) -> u64 {
        self.page_entries.by
    }

    /// Number of dirty pages.
    #[must_use]
    pub(in crate::log) fn changed_pages(&self) -> u64 {
        self.changed_pages
    }

    /// The dirty pages, in order.
    pub(super) fn changed(&self) -> impl Iterator<Item = Page> {
        let words = (0..).step_by(64).zip(&self.changed).filter(|(_, word)| **word != 0);
        words.flat_map(|(first, word)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| Page(first + bit))
        })
    }

    /// Marks a page dirty: its block on media no longer has the current entries.
    #[inline]
    pub(in crate::log) fn mark_changed(&mut self, page: Page) {
        let (word, bit) = (&mut self.changed[Lba(page.0 / 64).index()], 1 << (page.0 % 64));
        self.changed_pages += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// Marks a page clean: it is being written as it is now.
    pub(super) fn mark_fixed(&mut self, page: Page) {
        let (word, bit) = (&mut self.changed[Lba(page.0 / 64).index()], 1 << (page.0 % 64));
        let changed = u64::from(*word & bit != 0);
        assert!(changed <= self.changed_pages, "dirty page {} is not counted", page.0);
        self.changed_pages -= changed;
        *word &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::log::engine::address::{BlockPlace, PbaSpace, SegmentSlot};
    use crate::log::engine::geometry::{ChunkBlock, SegmentGeometry};
    use crate::scheme::Scheme;

    #[test]
    fn addresses_are_dense_and_invertible() {
        let scheme = Scheme::new(3, 1).unwrap();
        let geometry = SegmentGeometry::new(scheme, BlockCount(16), 1, 256).unwrap();
        let space = PbaSpace::new(scheme, BlockCount(16));
        let mut next = 0;
        for slot in 0..4 {
            for column in scheme.iter() {
                for block in 0..geometry.column_blocks() {
                    let place =
                        BlockPlace { slot: SegmentSlot(slot), column, block: ChunkBlock(block) };
                    assert_eq!(space.pba(place), Pba(next));
                    assert_eq!(space.place(Pba(next)), place);
                    next += 1;
                }
            }
        }
        assert_eq!(space.entry_bytes(4), 4);
    }

    #[test]
    fn multiplying_divides() {
        let numbers = [0, 1, 2, 3, 1 << 16, 275_709, u64::from(u32::MAX), 1 << 30];
        for by in [1, 2, 3, 4, 7, 32, 275_709, 65_537, u64::from(u32::MAX), 1 << 33] {
            let near = |at: &u64| {
                [
                    at.saturating_sub(1),
                    *at,
                    at.saturating_mul(by),
                    at.saturating_mul(by).saturating_sub(1),
                ]
            };
            for number in numbers.iter().flat_map(near) {
                let divided = Divisor::new(by).divide(number);
                assert_eq!(divided, (number / by, number % by), "{number} / {by}");
            }
        }
    }

    #[test]
    fn four_bytes_reach_the_array_of_the_paper() {
        let scheme = Scheme::new(3, 1).unwrap();
        let space = PbaSpace::new(scheme, BlockCount(275_712));
        assert_eq!(space.entry_bytes(3690), 4);
        assert_eq!(space.entry_bytes(8000), 5);
    }

    fn space(volume_blocks: u64, entry_bytes: u8) -> AddressSpace {
        let array = crate::log::format::ArrayUuid([1; 16]);
        let page_entries = mapping_entries(entry_bytes);
        let (slots, columns, column_blocks) = (10, 4, 100);
        AddressSpace {
            array,
            volume_blocks,
            entry_bytes,
            page_entries,
            slots,
            columns,
            column_blocks,
        }
    }

    #[test]
    fn pages_know_what_changed() {
        let mut index = Index::new(&space(2000, 4));
        assert_eq!(index.blocks_of(Page(2)), 1920..2000);
        index.enter(Lba(5), Some(Pba(1)));
        assert_eq!(index.changed_pages(), 0);
        index.set(Lba(1999), Some(Pba(2)));
        index.set(Lba(960), Some(Pba(3)));
        index.set(Lba(961), None);
        assert_eq!(index.changed().collect::<Vec<_>>(), [Page(1), Page(2)]);
        index.mark_fixed(Page(1));
        index.mark_fixed(Page(1));
        assert_eq!((index.changed_pages(), index.changed().next()), (1, Some(Page(2))));
    }

    #[test]
    fn pages_come_and_go() {
        let mut index = Index::paged(&space(4000, 4));
        assert_eq!((index.get(Lba(3)), index.page_pins().here()), (None, 0));
        index.set(Lba(3), Some(Pba(7)));
        index.enter(Lba(3999), Some(Pba(8)));
        assert_eq!((index.get(Lba(3)), index.get(Lba(3999))), (Some(Pba(7)), Some(Pba(8))));
        assert!(index.holds(Page(0)) && !index.holds(Page(1)) && index.holds(Page(4)));
        index.leave_out(Page(4));
        assert_eq!((index.get(Lba(3999)), index.page_pins().here()), (None, 1));
        index.take_in(Page(2));
        assert!((1920..2880).all(|lba| index.get(Lba(lba)).is_none()));
        assert_eq!((index.page_pins().here(), index.get(Lba(3))), (2, Some(Pba(7))));
    }

    #[test]
    fn a_page_is_filled_at_once() {
        for entry_bytes in [4, 5] {
            let space = space(2000, entry_bytes);
            for mut index in [Index::new(&space), Index::paged(&space)] {
                let last = Page(2000 / u64::from(space.page_entries));
                let first = index.blocks_of(last).start;
                let none = Entry::default();
                index.fill(last, &[Pba(5).into(), none, none, Pba(0).into()]);
                let entries: Vec<_> = (first..first + 4).map(|lba| index.get(Lba(lba))).collect();
                assert_eq!(entries, [Some(Pba(5)), None, None, Some(Pba(0))]);
                assert_eq!((index.get(Lba(first - 1)), index.changed_pages()), (None, 0));
                let mut told = Vec::new();
                (0..=last.0).for_each(|page| index.tell(Page(page), |pba| told.push(pba)));
                assert_eq!(told, [Pba(5), Pba(0)]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "page 0 is on no media")]
    fn a_page_that_changed_is_not_left_out() {
        let mut index = Index::paged(&space(4000, 4));
        index.set(Lba(3), Some(Pba(7)));
        index.leave_out(Page(0));
    }

    #[test]
    fn both_widths_remember() {
        for entry_bytes in [4, 5] {
            let mut index = Index::new(&space(10, entry_bytes));
            assert_eq!(index.get(Lba(3)), None);
            assert_eq!(index.set(Lba(3), Some(Pba(0))), None);
            index.touch([Lba(3), Lba(10), Lba(u64::MAX)].into_iter());
            assert_eq!(index.set(Lba(3), Some(Pba(9))), Some(Pba(0)));
            assert_eq!(index.set(Lba(3), None), Some(Pba(9)));
        }
    }
}
