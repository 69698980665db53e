//! The valid blocks of a segment.

use fixedbitset::FixedBitSet;

use crate::instrument::marks::INSTRUMENTED;
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::geometry::SegmentGeometry;

/// Blocks that the index maps, mapping blocks of pages that are not in memory, and tombstone blocks
/// in use.
#[derive(Debug, Default)]
pub(in crate::log) struct ValidBlocks {
    count: u64,
    /// Mapping blocks among them.
    pages_away: u64,
    /// The blocks that the index maps, column by column. Kept if pages may leave memory, so that
    /// these need not be read to know. `None` if unknown.
    mapped: Option<FixedBitSet>,
}

impl ValidBlocks {
    /// Starts to track which blocks are mapped, in a segment that has none.
    pub(super) fn track(&mut self, geometry: &SegmentGeometry) {
        assert!(self.count == 0, "{} blocks are valid before", self.count);
        self.mapped = Some(FixedBitSet::with_capacity(geometry.chunk_blocks_in_all()));
    }

    #[must_use]
    pub(in crate::log) fn count(&self) -> u64 {
        self.count
    }

    /// Valid mapping blocks of pages that are not in memory.
    #[must_use]
    pub(in crate::log) fn pages_away(&self) -> u64 {
        self.pages_away
    }

    /// Adds blocks that no longer need to be tracked, such as tombstones.
    pub(super) fn add(&mut self, blocks: u64) {
        self.count += blocks;
    }

    /// Takes out a block that is not tracked.
    pub(super) fn take(&mut self) {
        self.count = self.count.checked_sub(1).expect("a valid block");
    }

    /// Adds a block that the index maps now.
    pub(super) fn map(&mut self, geometry: &SegmentGeometry, place: BlockPlace) {
        self.count += 1;
        if let Some(mapped) = &mut self.mapped {
            mapped.insert(bit_of(geometry, place));
        }
    }

    /// Takes out a block that the index no longer maps.
    pub(super) fn unmap(&mut self, geometry: &SegmentGeometry, place: BlockPlace) {
        self.take();
        if let Some(mapped) = &mut self.mapped {
            mapped.set(bit_of(geometry, place), false);
        }
    }

    /// Adds the mapping block of a page that left memory.
    pub(super) fn add_page(&mut self) {
        self.count += 1;
        self.pages_away += 1;
    }

    /// Takes out the mapping block of a page that is loaded.
    pub(super) fn take_page(&mut self) {
        self.take();
        self.pages_away = self.pages_away.checked_sub(1).expect("a page that is away");
        assert!(self.count >= self.pages_away, "pages that are away are valid blocks");
    }

    /// Whether the index may map a block.
    #[must_use]
    pub(super) fn may_be_mapped(&self, geometry: &SegmentGeometry, place: BlockPlace) -> bool {
        self.mapped.as_ref().is_none_or(|mapped| mapped.contains(bit_of(geometry, place)))
    }

    /// Whether there are none. The tracked blocks are not enough: pages and tombstones are not
    /// among them.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        let none_mapped = || self.mapped.as_ref().is_some_and(FixedBitSet::is_clear);
        self.count == 0 || INSTRUMENTED && none_mapped() && mutant(Mutant::LiveBitsDecide)
    }

    /// Whether mapped blocks are tracked.
    #[must_use]
    pub(super) fn are_tracked(&self) -> bool {
        self.mapped.is_some()
    }
}

fn bit_of(geometry: &SegmentGeometry, place: BlockPlace) -> usize {
    place.column.index() * geometry.column_blocks() as usize + place.block.0 as usize
}
