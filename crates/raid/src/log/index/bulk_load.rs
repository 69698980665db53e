//! Entering what pages say of settled segments, and counting what is valid, many entries at a time.
//!
//! An entry that leads to a block of a settled segment counts as it is, unless something was
//! replayed for its block of the volume. All that has to be known of the segment is how long its
//! columns are, so it is not looked at for each entry, and what is valid in it is counted for all
//! of them together. (6 ns an entry where looking at each takes 15; a TiB has 2^28.)
//!
//! Whatever may be something else is left to [`tell`](super::pages::tell): trims, entries that lead
//! to other segments, and blocks of segments in which pages told of tombstones, as one that is
//! damaged may name one. Where all pages are read first the last are known in the end only, and
//! counted again then ([`counting`](super::counting)).

use zoneweave_zoned::Lba;

use crate::log::engine::address::{Page, Pba, PbaSpace, SegmentSlot};
use crate::log::format::checkpoint::{Mapped, MappingBlock};
use crate::log::index::map::{Entry, Index};
use crate::log::segment::table::{Phase, Segment, SegmentTable};

/// Entries that lead to settled segments. Columns go by their numbers among those of all slots: to
/// find the segment would be one more division for every entry.
pub(in crate::log) struct Plain {
    space: PbaSpace,
    /// Blocks of each column; none of segments whose entries have to be looked at.
    blocks: Vec<u32>,
    /// How many entries lead to each column.
    entered: Vec<u32>,
    /// Those of a page.
    of_page: Vec<Entry>,
}

impl Plain {
    /// None yet, of these segments.
    pub(in crate::log) fn of<'a>(
        space: PbaSpace,
        segments: impl Iterator<Item = (SegmentSlot, &'a Segment)>,
    ) -> Self {
        let mut blocks = Vec::new();
        for (slot, segment) in segments {
            let columns = space.columns_of(slot);
            blocks.resize(columns.end, 0);
            for column in segment.geometry.scheme().iter() {
                blocks[columns.start + column.index()] = segment.geometry.column_blocks();
            }
        }
        let entered = vec![0; blocks.len()];
        Self { space, blocks, entered, of_page: Vec::new() }
    }

    /// Enters what leads to one of them, except for blocks of which something is `known`; returns
    /// the places of the other entries in the page.
    pub(in crate::log) fn enter(
        &mut self,
        index: &mut Index,
        page: Page,
        block: &MappingBlock,
        known: &[(Lba, u64)],
    ) -> Vec<usize> {
        let mut others = Vec::new();
        let mut plain = std::mem::take(&mut self.of_page);
        plain.clear();
        plain.resize(block.entries.len(), Entry::default());
        for (at, (entry, plain)) in block.entries.iter().zip(&mut plain).enumerate() {
            match entry {
                Mapped::Nowhere => {}
                Mapped::Block(address) if self.count(Pba::from(*address)) => {
                    *plain = Pba::from(*address).into();
                }
                _ => others.push(at),
            }
        }
        // Taken out again: to look for each entry among them would cost more.
        for (lba, _) in known {
            let at = Lba(lba.0 - block.first.0).index();
            if let Some(pba) = std::mem::take(&mut plain[at]).address() {
                self.entered[Lba(self.space.column(pba).0).index()] -= 1;
                others.push(at);
            }
        }
        index.fill(page, &plain);
        self.of_page = plain;
        others
    }

    /// Enters what leads to one of them, except for blocks that are mapped already; returns the
    /// entries, and the places of the other ones in the page.
    pub(in crate::log) fn enter_unmapped(
        &mut self,
        index: &mut Index,
        page: Page,
        block: &MappingBlock,
    ) -> (&[Entry], Vec<usize>) {
        let Self { space, blocks, entered, of_page: plain } = self;
        let mut others = Vec::new();
        plain.clear();
        plain.resize(block.entries.len(), Entry::default());
        // The last page may tell of fewer blocks than it has room for in memory.
        let mut told = block.entries.iter().zip(plain.iter_mut()).enumerate();
        index.tell_all(page, |mapped| match told.next() {
            None | Some((_, (Mapped::Nowhere, _))) => {}
            Some((_, (Mapped::Block(address), plain)))
                if mapped.is_none() && count(*space, blocks, entered, (*address).into()) =>
            {
                *plain = Pba::from(*address).into();
            }
            Some((at, _)) => others.push(at),
        });
        assert!(told.next().is_none(), "the page is in memory");
        index.fill(page, plain);
        (plain, others)
    }

    /// Counts an entry, if it leads to one of them.
    pub(in crate::log) fn count(&mut self, pba: Pba) -> bool {
        count(self.space, &self.blocks, &mut self.entered, pba)
    }

    /// Whether anything was counted in a segment.
    pub(in crate::log) fn has_entered(&self, slot: SegmentSlot) -> bool {
        let columns = self.entered.get(self.space.columns_of(slot));
        columns.is_some_and(|entered| entered.iter().any(|entered| *entered > 0))
    }

    /// Counts what was entered as valid in its segments.
    pub(in crate::log) fn end(self, segments: &mut SegmentTable) {
        let columns = self.space.columns_of(SegmentSlot(0)).len();
        for (slot, entered) in (0..).map(SegmentSlot).zip(self.entered.chunks(columns)) {
            let entered: u64 = entered.iter().copied().map(u64::from).sum();
            if entered > 0 {
                let segment = &mut segments[slot];
                assert!(segment.phase != Phase::Dead, "mapped into dead segment {}", segment.id);
                segment.valid += entered;
            }
        }
    }
}

/// Counts an address, if it is in one of the columns that have so many blocks.
#[inline]
fn count(space: PbaSpace, blocks: &[u32], entered: &mut [u32], pba: Pba) -> bool {
    let (column, block) = space.column(pba);
    let column = Lba(column).index();
    let is_in = blocks.get(column).is_some_and(|blocks| block < u64::from(*blocks));
    if is_in {
        entered[column] += 1;
    }
    is_in
}
