//! Relocation, and its undo, while pages with the addresses of valid blocks are absent.
//!
//! Relocation pins the pages of one batch at a time, even if one block covers many. Data blocks are
//! examined in the order of the volume, trims part by part.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::Lba;

use super::{For, LOOKED_AT, Offload, hold};
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::limits::BATCH_BLOCKS;
use crate::log::engine::state::State;
use crate::log::format::{ContentKind, EntryKind, IndexEntry};
use crate::log::index::mapping::Mapping;
use crate::log::index::remap::{Move, Moved};
use crate::log::segment::scan::ListedBlock;
use crate::log::segment::verify::FoundBlock;

/// Relocations undone at a time.
const TAKEN_BACK_AT_A_TIME: usize = 32;

/// Splits listed blocks, in the order of the volume, into parts of so many pages; blocks without
/// data come last.
pub(in crate::log) fn parts_by_page(
    listed: &mut [ListedBlock],
    page_entries: u64,
    most_pages: u64,
) -> impl Iterator<Item = &[ListedBlock]> {
    assert!(most_pages > 0, "{} blocks in parts of no pages", listed.len());
    listed.sort_unstable_by_key(|(place, entry)| (page_of(entry, page_entries), *place));
    let mut rest = &*listed;
    std::iter::from_fn(move || {
        let end = end_of_part(rest, page_entries, most_pages);
        let (part, left) = rest.split_at_checked(end.min(BATCH_BLOCKS))?;
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

/// Number of blocks at the beginning of a list that belong to so many pages.
pub(in crate::log) fn end_of_part(
    listed: &[ListedBlock],
    page_entries: u64,
    most_pages: u64,
) -> usize {
    let (mut pages, mut last) = (0, None);
    for (at, (_, entry)) in listed.iter().enumerate() {
        let page = Some(page_of(entry, page_entries));
        pages += u64::from(last != page);
        last = page;
        if pages > most_pages {
            return at;
        }
    }
    listed.len()
}

fn page_of(entry: &IndexEntry, page_entries: u64) -> Page {
    match entry.kind {
        EntryKind::Data | EntryKind::Lost => Page(entry.lba.0 / page_entries),
        _ => Page(u64::MAX),
    }
}

/// Undoes relocations into abandoned segments whose pages were absent at the time. Their blocks
/// need not be relocated again, which would take space, and the abandoned segments become free.
/// `None` if that is impossible.
pub(in crate::log) async fn take_back_left(core: &Rc<Core>) -> Option<()> {
    loop {
        let moves = core.state.borrow().mapping.some_moves_left();
        if moves.is_empty() {
            return Some(());
        }
        mark(Mark::MovesTakenBackLate);
        let ranges: Vec<_> = moves.iter().map(|moved| range_of(moved.lba, moved.blocks)).collect();
        let _held = hold(core, For::Moving, &ranges).await.ok()?;
        core.state.borrow_mut().take_back_some(&moves);
        core.changed.open();
    }
}

/// The mapping blocks of absent pages in a segment, as a summary would list them.
pub(in crate::log) async fn pages_away_in(core: &Rc<Core>, slot: SegmentSlot) -> Vec<ListedBlock> {
    let mut listed = Vec::new();
    let mut start = 0;
    loop {
        {
            let state = core.state.borrow();
            let pages = state.mapping.offload.as_ref().map_or(0, Offload::pages);
            if start >= pages || listed.len() as u64 >= state.segments[slot].pages_away() {
                return listed;
            }
            for (page, at) in state.places_away(start..start + LOOKED_AT) {
                let place = state.space.place(at);
                if place.slot == slot {
                    let lba = Lba(state.mapping.index.blocks_of(page).start);
                    listed.push((
                        place,
                        IndexEntry { kind: EntryKind::Mapping, lba, ..IndexEntry::EMPTY },
                    ));
                }
            }
        }
        start += LOOKED_AT;
        core.handle.yield_now().await;
    }
}

pub(in crate::log) fn range_of(lba: Lba, blocks: u64) -> Range<u64> {
    lba.0..lba.0 + blocks
}

impl Mapping {
    fn pages_of_move(&self, first: u64, blocks: u64) -> impl Iterator<Item = Page> + use<> {
        assert!(blocks > 0, "a relocation of no blocks at {first}");
        let last = self.index.page_of(Lba(first + blocks - 1));
        (self.index.page_of(Lba(first)).0..=last.0).map(Page)
    }

    /// Some of the relocations that are to be undone, with as many pages as a batch.
    fn some_moves_left(&self) -> Vec<Move> {
        let Some(offload) = &self.offload else { return Vec::new() };
        let mut pages = 0;
        let fits = |moved: &&Move| {
            let first = pages == 0;
            pages += self.pages_of_move(moved.lba.0, moved.blocks).count() as u64;
            first || pages <= offload.limit.of_a_move
        };
        let left = offload.moves_left.iter().take(TAKEN_BACK_AT_A_TIME);
        left.take_while(fits).copied().collect()
    }

    /// Forgets relocations that are no longer to be undone.
    pub(in crate::log) fn forget_moves_left(&mut self, kept: impl Fn(&Move) -> bool) {
        if let Some(offload) = &mut self.offload {
            offload.moves_left.retain(kept);
        }
    }
}

impl State {
    /// Keeps a relocation to be undone until its pages are loaded, if one is absent.
    pub(in crate::log) fn leave_move(&mut self, moved: &Move) -> bool {
        let Move { lba: Lba(first), blocks, what, .. } = *moved;
        let mut pages = self.mapping.pages_of_move(first, blocks);
        let away = what != Moved::Page && pages.any(|page| self.is_away(page));
        match &mut self.mapping.offload {
            Some(offload) if away => offload.moves_left.push(*moved),
            _ => return false,
        }
        true
    }

    /// Whether relocations are still to be undone: that may free the only space there is.
    #[must_use]
    pub(in crate::log) fn has_moves_left(&self) -> bool {
        let left = |offload: &Offload| !offload.moves_left.is_empty() && !offload.failed;
        self.array.stopped.is_none() && self.mapping.offload.as_ref().is_some_and(left)
    }

    /// Undoes relocations whose pages are loaded, unless their source is gone meanwhile; then
    /// forgets them.
    fn take_back_some(&mut self, moves: &[Move]) {
        for moved in moves {
            let Some(offload) = &mut self.mapping.offload else { return };
            let left = &mut offload.moves_left;
            if let Some(at) = left.iter().position(|known| known == moved) {
                left.swap_remove(at);
                if left.is_empty() {
                    *left = Vec::new();
                }
                self.take_back_move(moved);
            }
        }
    }

    /// The blocks of the volume in the absent page whose mapping block has this summary entry.
    pub(in crate::log) fn blocks_of_page_at(
        &self,
        pba: Pba,
        entry: &IndexEntry,
    ) -> Option<Range<u64>> {
        if self.mapping.tombstones.contains_key(&pba) {
            return None;
        }
        let page = match entry.kind {
            EntryKind::Mapping if self.is_page_away(entry.lba, pba) => {
                self.mapping.index.page_of(entry.lba)
            }
            _ if self.segments[self.space.place(pba).slot].pages_away() == 0 => return None,
            _ => self.places_away(0..u64::MAX).find(|(_, at)| *at == pba)?.0,
        };
        Some(self.mapping.index.blocks_of(page))
    }

    /// Whether a block may concern more than one block of the volume, or unknown ones.
    pub(in crate::log) fn is_wide(
        &self,
        (place, entry): &ListedBlock,
        found: &Option<FoundBlock>,
    ) -> bool {
        let of_one = |found: &FoundBlock| {
            matches!(found.identity.kind, ContentKind::Data | ContentKind::Lost)
                && self.mapping.index.get(found.identity.lba) == Some(self.space.pba(*place))
                || found.identity.kind == ContentKind::Mapping
                    && self.is_page_away(found.identity.lba, self.space.pba(*place))
        };
        let known = matches!(entry.kind, EntryKind::Data | EntryKind::Lost);
        let tombstone = self.mapping.tombstones.contains_key(&self.space.pba(*place));
        tombstone || !(known || found.as_ref().is_some_and(of_one))
    }
}
