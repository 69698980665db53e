//! The index: where each block of the volume is.
//!
//! A physical block address (PBA) is a dense ordinal over the chunk blocks of all segment slots,
//! `(slot * columns + column) * column_blocks + block`, so that four bytes reach 16 TiB. Zero in
//! the table means unmapped, which lets the operating system hand out the table untouched; entries
//! are the ordinal plus one. It is fixed on media by pages; which of them have changed is known here.

use std::ops::Range;

use zoneweave_zoned::{BlockCount, Lba};

use crate::layout::{Column, Scheme};
use crate::log::format::checkpoint::{Address, mapping_entries};
use crate::log::geometry::ChunkBlock;

/// A place in the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentSlot(pub u32);

impl SegmentSlot {
    /// The slot as an index into the segment table.
    #[must_use]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A physical block address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pba(u64);

/// What a physical block address stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockPlace {
    /// The segment's slot.
    pub slot: SegmentSlot,
    /// The column.
    pub column: Column,
    /// The block in that column.
    pub block: ChunkBlock,
}

/// The arithmetic between addresses and places.
#[derive(Clone, Copy, Debug)]
pub(super) struct PbaSpace {
    columns: Divisor,
    column_blocks: Divisor,
}

/// A number that is divided by for every block of an index.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    /// 2^64 over it, rounded up: one multiplication divides what has 32 bits (Lemire, Kaser and Kurz,
    /// "Faster remainder by direct computation", 2019).
    reciprocal: u64,
}

impl Divisor {
    fn new(by: u64) -> Self {
        Self { by, reciprocal: (u64::MAX / by).wrapping_add(1) }
    }

    /// Quotient and remainder.
    fn divide(self, number: u64) -> (u64, u64) {
        let small = number >> 32 == 0 && self.by >> 32 == 0 && self.by > 1;
        let quotient = if small {
            let product = u128::from(number) * u128::from(self.reciprocal);
            u64::try_from(product >> 64).expect("the upper half")
        } else {
            number / self.by
        };
        (quotient, number - quotient * self.by)
    }
}

impl PbaSpace {
    /// The space of all segments that zones of a capacity can hold, whatever their chunks: each has
    /// a header and an index run.
    #[must_use]
    pub(super) fn new(scheme: Scheme, zone_capacity: BlockCount) -> Self {
        let besides = 1 + scheme.list_copies() as u64;
        Self {
            columns: Divisor::new(scheme.columns() as u64),
            column_blocks: Divisor::new(u64::from(zone_capacity.0).saturating_sub(besides).max(1)),
        }
    }

    /// The address of a place.
    #[must_use]
    pub(super) fn pba(&self, place: BlockPlace) -> Pba {
        let column = u64::from(place.slot.0) * self.columns.by + u64::from(place.column.0);
        assert!(u64::from(place.block.0) < self.column_blocks.by, "{place:?}");
        Pba(column * self.column_blocks.by + u64::from(place.block.0))
    }

    /// The place of an address.
    #[must_use]
    pub(super) fn place(&self, pba: Pba) -> BlockPlace {
        let narrow = |value: u64| u32::try_from(value).expect("derived from 32-bit parts");
        let (column, block) = self.column_blocks.divide(pba.0);
        let (slot, column) = self.columns.divide(column);
        BlockPlace {
            slot: SegmentSlot(narrow(slot)),
            column: Column(u8::try_from(column).expect("at most 32 columns")),
            block: ChunkBlock(narrow(block)),
        }
    }

    /// Blocks of a column that may be chunk blocks.
    #[must_use]
    pub(super) fn column_blocks(&self) -> u32 {
        u32::try_from(self.column_blocks.by).expect("fewer than a zone's")
    }

    /// Bytes that an entry takes when there are `slots` segments: 4, 5 or 8.
    #[must_use]
    pub(super) fn entry_bytes(&self, slots: u32) -> u8 {
        match u64::from(slots) * self.columns.by * self.column_blocks.by {
            0..0xFFFF_FFFF => 4,
            0xFFFF_FFFF..0xFF_FFFF_FFFF => 5,
            _ => 8,
        }
    }
}

impl Pba {
    /// The address so many blocks further in the same column.
    #[must_use]
    pub(super) fn plus(self, blocks: u32) -> Self {
        Self(self.0 + u64::from(blocks))
    }
}

impl From<Pba> for Address {
    fn from(pba: Pba) -> Self {
        Self(pba.0)
    }
}

impl From<Address> for Pba {
    fn from(address: Address) -> Self {
        Self(address.0)
    }
}

enum Table {
    Narrow(Vec<u32>),
    /// Entries of five bytes are kept in eight while in memory.
    Wide(Vec<u64>),
}

/// A page of the index: as many entries as a mapping block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Page(pub u64);

/// The logical-to-physical table.
pub(super) struct Index {
    table: Table,
    blocks: u64,
    page_entries: Divisor,
    /// Pages with entries that changed since they were last fixed, a bit each.
    changed: Vec<u64>,
    changed_pages: u64,
}

impl Index {
    /// An index of `blocks` unmapped blocks.
    #[must_use]
    pub(super) fn new(blocks: u64, entry_bytes: u8) -> Self {
        let length = Lba(blocks).index();
        let table = if entry_bytes == 4 {
            Table::Narrow(vec![0; length])
        } else {
            Table::Wide(vec![0; length])
        };
        let page_entries = u64::from(mapping_entries(entry_bytes));
        let words = Lba(blocks.div_ceil(page_entries).div_ceil(64)).index();
        let page_entries = Divisor::new(page_entries);
        Self { table, blocks, page_entries, changed: vec![0; words], changed_pages: 0 }
    }

    /// Memory of an index of `blocks` blocks.
    #[must_use]
    pub(super) fn bytes_of(blocks: u64, entry_bytes: u8) -> u64 {
        let in_memory = if entry_bytes == 4 { size_of::<u32>() } else { size_of::<u64>() };
        let pages = blocks.div_ceil(u64::from(mapping_entries(entry_bytes)));
        blocks * in_memory as u64 + pages.div_ceil(64) * size_of::<u64>() as u64
    }

    /// Memory that it takes.
    #[must_use]
    pub(super) fn bytes(&self) -> u64 {
        let entries = match &self.table {
            Table::Narrow(table) => table.len() * size_of::<u32>(),
            Table::Wide(table) => table.len() * size_of::<u64>(),
        };
        (entries + self.changed.len() * size_of::<u64>()) as u64
    }

    /// Where a block is; `None` if it is unmapped.
    #[must_use]
    pub(super) fn get(&self, lba: Lba) -> Option<Pba> {
        let entry = match &self.table {
            Table::Narrow(table) => u64::from(table[lba.index()]),
            Table::Wide(table) => table[lba.index()],
        };
        entry.checked_sub(1).map(Pba)
    }

    /// Maps or unmaps a block; returns what it was mapped to.
    pub(super) fn set(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        self.mark_changed(self.page_of(lba));
        self.enter(lba, pba)
    }

    /// Maps a block as its page on media says; returns what it was mapped to.
    pub(super) fn enter(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        let before = self.get(lba);
        let entry = pba.map_or(0, |pba| pba.0 + 1);
        match &mut self.table {
            Table::Narrow(table) => {
                table[lba.index()] = u32::try_from(entry).expect("the entry width was chosen so");
            }
            Table::Wide(table) => table[lba.index()] = entry,
        }
        before
    }

    /// The page that tells of a block.
    #[must_use]
    pub(super) fn page_of(&self, lba: Lba) -> Page {
        Page(self.page_entries.divide(lba.0).0)
    }

    /// The blocks of the volume that a page tells of.
    #[must_use]
    pub(super) fn blocks_of(&self, page: Page) -> Range<u64> {
        let start = page.0 * self.page_entries.by;
        start..self.blocks.min(start + self.page_entries.by)
    }

    /// Blocks of the volume that a page tells of; the last one may tell of fewer.
    #[must_use]
    pub(super) fn page_entries(&self) -> u64 {
        self.page_entries.by
    }

    /// How many pages have changed since they were fixed.
    #[must_use]
    pub(super) fn changed_pages(&self) -> u64 {
        self.changed_pages
    }

    /// The pages that have changed since they were fixed, in order.
    pub(super) fn changed(&self) -> impl Iterator<Item = Page> {
        let words = (0..).step_by(64).zip(&self.changed).filter(|(_, word)| **word != 0);
        words.flat_map(|(first, word)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| Page(first + bit))
        })
    }

    /// Notes that a page on media does not tell what is here.
    pub(super) fn mark_changed(&mut self, page: Page) {
        let (word, bit) = (&mut self.changed[Lba(page.0 / 64).index()], 1 << (page.0 % 64));
        self.changed_pages += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// Notes that a page is fixed as it is now.
    pub(super) fn mark_fixed(&mut self, page: Page) {
        let (word, bit) = (&mut self.changed[Lba(page.0 / 64).index()], 1 << (page.0 % 64));
        self.changed_pages -= u64::from(*word & bit != 0);
        *word &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::geometry::SegmentGeometry;

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

    #[test]
    fn pages_know_what_changed() {
        let mut index = Index::new(2000, 4);
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
    fn both_widths_remember() {
        for entry_bytes in [4, 5] {
            let mut index = Index::new(10, entry_bytes);
            assert_eq!(index.get(Lba(3)), None);
            assert_eq!(index.set(Lba(3), Some(Pba(0))), None);
            assert_eq!(index.set(Lba(3), Some(Pba(9))), Some(Pba(0)));
            assert_eq!(index.set(Lba(3), None), Some(Pba(9)));
        }
    }
}
