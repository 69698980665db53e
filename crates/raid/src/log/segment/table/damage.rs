//! Damaged blocks of segments: each place is counted once.
//!
//! A damaged block is met again and again: by readers, by a scrub, and by the relocation of its
//! segment. The counters of its member count places, until the segment is freed or the member
//! leaves it. Memory: two bits for each block of a zone in which damage was found, up to a bound.
//! Beyond it, the damage of other segments is forgotten, and may count again.
//!
//! Invariant: of a place that is known, the fate only gets worse. It counts as restored or as lost,
//! never as both.

use std::mem::size_of;

use fixedbitset::FixedBitSet;
use zoneweave_zoned::ZoneOffset;

use crate::log::engine::geometry::SegmentGeometry;
use crate::scheme::{Column, ColumnSet};

/// Most memory for the damage of all segments but one: 256 GiB of zones. Only a drive that fails
/// most reads has damage in as many.
pub(in crate::log) const DAMAGE_BYTES_MOST: u64 = 16 << 20;

/// A drive may have some more blocks behind a segment, which are filled.
const BLOCKS_BEHIND: u64 = 256;

/// What becomes of a damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum Fate {
    /// Nothing is decided yet: another copy was used, and the block stays as it is.
    Found,
    /// Its contents are on other members, and its segment is relocated.
    Restored,
    /// Its contents are on no other member.
    Lost,
}

impl Fate {
    fn of_bits(bits: (bool, bool)) -> Option<Self> {
        match bits {
            (false, false) => None,
            (true, false) => Some(Self::Found),
            (false, true) => Some(Self::Restored),
            (true, true) => Some(Self::Lost),
        }
    }

    fn bits(self) -> (bool, bool) {
        (self != Self::Restored, self != Self::Found)
    }
}

/// The known damaged blocks of a segment.
#[derive(Default)]
pub(in crate::log) struct DamagedBlocks {
    /// The fate of each block of the column's zone, in two bits. Most segments have no column here.
    columns: Vec<(Column, FixedBitSet)>,
}

impl DamagedBlocks {
    /// Records a fate unless a worse one is known; returns the one that was known. A zone has so
    /// many bits.
    pub(super) fn note(
        &mut self,
        column: Column,
        offset: ZoneOffset,
        fate: Fate,
        bits: usize,
    ) -> Option<Fate> {
        let known = self.columns.iter().position(|(known, _)| *known == column);
        let at = known.unwrap_or_else(|| {
            self.columns.push((column, FixedBitSet::with_capacity(bits)));
            self.columns.len() - 1
        });
        let (fates, first) = (&mut self.columns[at].1, 2 * offset.0 as usize);
        assert!(first + 1 < fates.len(), "damage at {offset:?}, behind the zone of {column}");
        let before = Fate::of_bits((fates.contains(first), fates.contains(first + 1)));
        if before.is_none_or(|before| before < fate) {
            let (low, high) = fate.bits();
            fates.set(first, low);
            fates.set(first + 1, high);
        }
        before
    }

    /// The fate of a block that is known to be damaged.
    #[must_use]
    pub(in crate::log) fn fate(&self, column: Column, offset: ZoneOffset) -> Option<Fate> {
        let (_, fates) = self.columns.iter().find(|(known, _)| *known == column)?;
        let first = 2 * offset.0 as usize;
        Fate::of_bits((fates.contains(first), fates.contains(first + 1)))
    }

    /// Whether a block is lost.
    #[must_use]
    pub(in crate::log) fn is_lost(&self, column: Column, offset: ZoneOffset) -> bool {
        self.fate(column, offset) == Some(Fate::Lost)
    }

    /// Columns with blocks whose contents are on other members only.
    #[must_use]
    pub(in crate::log) fn restored(&self) -> ColumnSet {
        let has_restored = |(_, fates): &&(Column, FixedBitSet)| {
            fates.ones().any(|bit| bit % 2 == 1 && !fates.contains(bit - 1))
        };
        self.columns.iter().filter(has_restored).map(|(column, _)| *column).collect()
    }

    /// The segment loses a column, or gets another zone for it.
    pub(in crate::log) fn forget(&mut self, column: Column) {
        self.columns.retain(|(known, _)| *known != column);
    }

    /// Memory, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        let words = self.columns.iter().map(|(_, fates)| fates.as_slice().len());
        words.map(|words| (words * size_of::<usize>()) as u64).sum()
    }

    /// Whether damage of a column is known.
    pub(super) fn has(&self, column: Column) -> bool {
        self.columns.iter().any(|(known, _)| *known == column)
    }

    /// Bits for a column of a segment of this shape.
    pub(super) fn bits_of(geometry: &SegmentGeometry) -> usize {
        let blocks = u64::from(geometry.end().0) + BLOCKS_BEHIND;
        usize::try_from(2 * blocks).expect("a zone has fewer than 2^32 blocks")
    }

    /// Most memory of a segment of this shape.
    #[must_use]
    pub(in crate::log) fn bytes_most(geometry: &SegmentGeometry) -> u64 {
        let bytes = Self::bits_of(geometry).div_ceil(usize::BITS as usize) * size_of::<usize>();
        (geometry.scheme().columns() * bytes) as u64
    }
}

/// Forgets the damage of all these segments.
pub(super) fn forget_all<'a>(segments: impl Iterator<Item = &'a mut DamagedBlocks>) {
    segments.for_each(|damage| *damage = DamagedBlocks::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_restored_blocks_are_on_other_members_only() {
        let fates = [(1, Fate::Found), (2, Fate::Restored), (3, Fate::Lost)];
        let mut damage = DamagedBlocks::default();
        for (column, fate) in fates {
            damage.note(Column(column), ZoneOffset(70), fate, 200);
        }
        let restored = |damage: &DamagedBlocks| damage.restored().iter().collect::<Vec<_>>();
        assert_eq!(restored(&damage), [Column(2)]);
        damage.note(Column(3), ZoneOffset(71), Fate::Restored, 200);
        assert_eq!(restored(&damage), [Column(2), Column(3)]);
    }

    #[test]
    fn a_fate_only_gets_worse() {
        let mut damage = DamagedBlocks::default();
        let mut note =
            |column, offset, fate| damage.note(Column(column), ZoneOffset(offset), fate, 200);
        assert_eq!(note(1, 70, Fate::Found), None);
        assert_eq!(note(1, 70, Fate::Restored), Some(Fate::Found));
        assert_eq!(note(1, 70, Fate::Found), Some(Fate::Restored));
        assert_eq!(note(1, 70, Fate::Lost), Some(Fate::Restored));
        assert_eq!(note(1, 70, Fate::Restored), Some(Fate::Lost));
        assert_eq!(note(1, 70, Fate::Lost), Some(Fate::Lost));
        assert_eq!(note(1, 69, Fate::Found), None, "another block");
        assert_eq!(note(2, 70, Fate::Lost), None, "another column");
        damage.forget(Column(1));
        assert_eq!(damage.note(Column(1), ZoneOffset(70), Fate::Found, 200), None);
        assert_eq!(damage.note(Column(2), ZoneOffset(70), Fate::Found, 200), Some(Fate::Lost));
        assert_eq!(damage.bytes(), 2 * 4 * 8);
        forget_all([&mut damage].into_iter());
        assert!(damage.bytes() == 0 && !damage.is_lost(Column(2), ZoneOffset(70)));
    }
}
