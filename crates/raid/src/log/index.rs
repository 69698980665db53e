//! The index: where each block of the volume is.
//!
//! A physical block address (PBA) is a dense ordinal over the chunk blocks of all segment slots,
//! `(slot * columns + column) * column_blocks + block`, so that four bytes reach 16 TiB. Zero in
//! the table means unmapped, which lets the operating system hand out the table untouched; entries
//! are the ordinal plus one.

use zoneweave_zoned::{BlockCount, Lba};

use crate::layout::{Column, Scheme};
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
    columns: u64,
    column_blocks: u64,
}

impl PbaSpace {
    /// The space of all segments that zones of a capacity can hold, whatever their chunks: each has
    /// a header and an index run.
    #[must_use]
    pub(super) fn new(scheme: Scheme, zone_capacity: BlockCount) -> Self {
        let besides = 1 + scheme.list_copies() as u64;
        Self {
            columns: scheme.columns() as u64,
            column_blocks: u64::from(zone_capacity.0).saturating_sub(besides).max(1),
        }
    }

    /// The address of a place.
    #[must_use]
    pub(super) fn pba(&self, place: BlockPlace) -> Pba {
        let column = u64::from(place.slot.0) * self.columns + u64::from(place.column.0);
        assert!(u64::from(place.block.0) < self.column_blocks, "{place:?}");
        Pba(column * self.column_blocks + u64::from(place.block.0))
    }

    /// The place of an address.
    #[must_use]
    pub(super) fn place(&self, pba: Pba) -> BlockPlace {
        let narrow = |value: u64| u32::try_from(value).expect("derived from 32-bit parts");
        let column = pba.0 / self.column_blocks;
        BlockPlace {
            slot: SegmentSlot(narrow(column / self.columns)),
            column: Column(u8::try_from(column % self.columns).expect("at most 32 columns")),
            block: ChunkBlock(narrow(pba.0 % self.column_blocks)),
        }
    }

    /// Bytes that an entry takes when there are `slots` segments: 4, 5 or 8.
    #[must_use]
    pub(super) fn entry_bytes(&self, slots: u32) -> u8 {
        match u64::from(slots) * self.columns * self.column_blocks {
            0..0xFFFF_FFFF => 4,
            0xFFFF_FFFF..0xFF_FFFF_FFFF => 5,
            _ => 8,
        }
    }
}

enum Table {
    Narrow(Vec<u32>),
    /// Entries of five bytes are kept in eight while in memory.
    Wide(Vec<u64>),
}

/// The logical-to-physical table.
pub(super) struct Index(Table);

impl Index {
    /// An index of `blocks` unmapped blocks.
    #[must_use]
    pub(super) fn new(blocks: u64, entry_bytes: u8) -> Self {
        let length = Lba(blocks).index();
        Self(if entry_bytes == 4 {
            Table::Narrow(vec![0; length])
        } else {
            Table::Wide(vec![0; length])
        })
    }

    /// Where a block is; `None` if it is unmapped.
    #[must_use]
    pub(super) fn get(&self, lba: Lba) -> Option<Pba> {
        let entry = match &self.0 {
            Table::Narrow(table) => u64::from(table[lba.index()]),
            Table::Wide(table) => table[lba.index()],
        };
        entry.checked_sub(1).map(Pba)
    }

    /// Maps or unmaps a block; returns what it was mapped to.
    pub(super) fn set(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        let before = self.get(lba);
        let entry = pba.map_or(0, |pba| pba.0 + 1);
        match &mut self.0 {
            Table::Narrow(table) => {
                table[lba.index()] = u32::try_from(entry).expect("the entry width was chosen so");
            }
            Table::Wide(table) => table[lba.index()] = entry,
        }
        before
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
    fn four_bytes_reach_the_array_of_the_paper() {
        let scheme = Scheme::new(3, 1).unwrap();
        let space = PbaSpace::new(scheme, BlockCount(275_712));
        assert_eq!(space.entry_bytes(3690), 4);
        assert_eq!(space.entry_bytes(8000), 5);
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
