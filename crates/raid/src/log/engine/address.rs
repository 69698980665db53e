//! Addresses inside the volume: physical block addresses, segment slots, pages of the index.
//!
//! A physical block address (PBA) is a dense ordinal over the chunk blocks of all segment slots.

use std::ops::Range;

use zoneweave_zoned::{BlockCount, Lba};

use crate::log::engine::geometry::ChunkBlock;
use crate::scheme::{Column, Scheme};

/// A physical block address: the dense ordinal of a block that may be a chunk block, `(slot *
/// columns + column) * column_blocks + block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

/// A place in the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct SegmentSlot(pub u32);

impl SegmentSlot {
    /// The slot as an index into the segment table.
    #[must_use]
    pub(in crate::log) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A physical block address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct Pba(pub(in crate::log) u64);

/// The block that a physical block address refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct BlockPlace {
    /// Slot of the segment.
    pub slot: SegmentSlot,
    /// Column of the segment.
    pub column: Column,
    /// The block in that column.
    pub block: ChunkBlock,
}

/// The arithmetic between addresses and places.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct PbaSpace {
    columns: Divisor,
    column_blocks: Divisor,
}

/// A divisor that is used for every block of an index.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Divisor {
    pub(in crate::log) by: u64,
    /// 2^64 divided by it, rounded up: one multiplication divides a 32-bit number (Lemire, Kaser
    /// and Kurz, "Faster remainder by direct computation", 2019).
    reciprocal: u64,
}

impl Divisor {
    pub(in crate::log) fn new(by: u64) -> Self {
        assert!(by > 0, "a division of addresses by zero");
        Self { by, reciprocal: (u64::MAX / by).wrapping_add(1) }
    }

    #[inline]
    pub(in crate::log) fn divide(self, number: u64) -> (u64, u64) {
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
    /// The space of all segments that zones of a capacity can hold, with any chunk size: each has a
    /// header and a summary.
    #[must_use]
    pub(in crate::log) fn new(scheme: Scheme, zone_capacity: BlockCount) -> Self {
        let besides = 1 + scheme.list_copies() as u64;
        Self {
            columns: Divisor::new(scheme.columns() as u64),
            column_blocks: Divisor::new(u64::from(zone_capacity.0).saturating_sub(besides).max(1)),
        }
    }

    /// The address of a place.
    #[must_use]
    pub(in crate::log) fn pba(&self, place: BlockPlace) -> Pba {
        let column = u64::from(place.slot.0) * self.columns.by + u64::from(place.column.0);
        assert!(u64::from(place.column.0) < self.columns.by, "{place:?}");
        assert!(u64::from(place.block.0) < self.column_blocks.by, "{place:?}");
        Pba(column * self.column_blocks.by + u64::from(place.block.0))
    }

    /// The number of an address's column across all slots, and the block in it.
    #[must_use]
    #[inline]
    pub(in crate::log) fn column(&self, pba: Pba) -> (u64, u64) {
        self.column_blocks.divide(pba.0)
    }

    /// The place of an address.
    #[must_use]
    #[inline]
    pub(in crate::log) fn place(&self, pba: Pba) -> BlockPlace {
        let narrow = |value: u64| u32::try_from(value).expect("derived from 32-bit parts");
        let (column, block) = self.column(pba);
        let (slot, column) = self.columns.divide(column);
        BlockPlace {
            slot: SegmentSlot(narrow(slot)),
            column: Column(u8::try_from(column).expect("at most 32 columns")),
            block: ChunkBlock(narrow(block)),
        }
    }

    /// Numbers of a slot's columns across all slots.
    #[must_use]
    pub(in crate::log) fn columns_of(&self, slot: SegmentSlot) -> Range<usize> {
        let first = slot.index() * Lba(self.columns.by).index();
        first..first + Lba(self.columns.by).index()
    }

    /// Blocks of a column that may be chunk blocks.
    #[must_use]
    pub(in crate::log) fn column_blocks(&self) -> u32 {
        u32::try_from(self.column_blocks.by).expect("fewer than a zone's")
    }

    /// Bytes of an entry with `slots` segments: 4, 5 or 8.
    #[must_use]
    pub(in crate::log) fn entry_bytes(&self, slots: u32) -> u8 {
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
    #[inline]
    pub(in crate::log) fn plus(self, blocks: u32) -> Self {
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

/// A page of the index: as many entries as a mapping block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct Page(pub u64);
