//! Eviction of pages.
//!
//! One task drops clean pages and writes dirty ones. Its writes may have to wait for space that
//! other tasks free, and users may wait for evictions. Meanwhile a second task drops clean pages.
//! Both move the same CLOCK hand.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::Lba;

use super::LOOKED_AT;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{Page, Pba};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::Sequence;
use crate::log::index::checkpoint;

/// Pages examined for a clean one if no dirty page can be written.
const LOOKED_AT_FOR_FIXED: u64 = 1024;

/// Evicts pages whenever too many are in memory, until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>) {
    let mut looked_at = 0;
    while !core.closing.get() {
        let evicted = core.state.borrow_mut().evict(!core.refusing.get(), looked_at);
        if evicted.left_out > 0 {
            core.changed.open();
        }
        if let Some(so_far) = evicted.goes_on {
            looked_at = so_far;
            core.handle.yield_now().await;
            continue;
        }
        looked_at = 0;
        if evicted.to_write.is_empty() {
            core.changed.wait().await;
            continue;
        }
        set_writing(&core, true);
        let written = write(&core, evicted.to_write).await;
        set_writing(&core, false);
        core.changed.open();
        if !written && !core.closing.get() {
            // The reason why they were not written has to change first.
            core.changed.wait().await;
        }
    }
}

/// Drops clean pages while dirty ones are being written, until the volume closes.
pub(in crate::log) async fn run_beside(core: Rc<Core>) {
    while !core.closing.get() {
        let left_out = core.state.borrow_mut().leave_out_beside();
        if left_out == 0 {
            core.changed.wait().await;
            continue;
        }
        mark(Mark::PageLeftOutBeside);
        core.changed.open();
        core.handle.yield_now().await;
    }
}

fn set_writing(core: &Core, writing: bool) {
    if let Some(offload) = &mut core.state.borrow_mut().mapping.offload {
        offload.writing = writing;
    }
}

/// Outcome of a pass over candidates.
#[derive(Default)]
struct Evicted {
    /// Pages removed from memory.
    left_out: u64,
    /// Dirty pages to be written.
    to_write: Vec<Page>,
    /// The pass ended at its limit: there may be more.
    looked_at_all: bool,
    /// The pass found none; the position at which the next one continues.
    goes_on: Option<u64>,
}

/// Writes pages, and drops the ones that did not change meanwhile. Returns whether the writes
/// succeeded.
async fn write(core: &Rc<Core>, pages: Vec<Page>) -> bool {
    let mut fixed = Vec::new();
    let fix = |state: &mut State| {
        let mut pieces = Vec::new();
        for page in &pages {
            if let Some(piece) = state.fix_to_leave(*page) {
                fixed.push((*page, piece.sequence));
                pieces.push(piece);
            }
        }
        pieces
    };
    let places = checkpoint::write(core, pages.len(), fix).await;
    core.state.borrow_mut().end_leaving(&fixed, places.as_deref());
    places.is_some()
}

impl State {
    /// Drops clean pages and returns dirty ones to be written, if `writable`. `looked_at` pages
    /// were examined by earlier passes.
    fn evict(&mut self, writable: bool, looked_at: u64) -> Evicted {
        let Some(offload) = &self.mapping.offload else { return Evicted::default() };
        let (beyond, may_go) = self.mapping.pages_beyond(offload);
        let writable = writable && self.array.stopped.is_none() && !offload.failed;
        let most = if writable { offload.limit.batch.min(offload.credit) } else { 0 };
        // Two rounds: in the first, every page may have its reference bit set.
        let round = 2 * offload.pages();
        // If no page can be written, no request waits for evictions, and the passes may be short.
        let round = if most > 0 { round } else { round.min(LOOKED_AT_FOR_FIXED) };
        let end = round.min(looked_at + LOOKED_AT);
        let mut evicted = self.go_round(looked_at..end, beyond.min(may_go), most);
        let found_none = evicted.looked_at_all && evicted.to_write.is_empty();
        evicted.goes_on = (found_none && end < round).then_some(end);
        evicted
    }

    /// Drops clean pages while others are being written, if the number of pages approaches the one
    /// at which users wait, or exceeds it because there is no space. Returns how many.
    fn leave_out_beside(&mut self) -> u64 {
        let Some(offload) = self.mapping.offload.as_ref().filter(|offload| offload.writing) else {
            return 0;
        };
        let (beyond, may_go) = self.mapping.pages_beyond(offload);
        // Below this, the pages being written are enough, and the hand rests.
        let enough = offload.limit.pages + offload.limit.batch / 2;
        let soon = (may_go + offload.coming.len() as u64).saturating_sub(enough);
        let end = LOOKED_AT_FOR_FIXED.min(2 * offload.pages());
        self.go_round(0..end, beyond.min(may_go).min(soon), 0).left_out
    }

    /// Evicts up to `excess` pages at the hand's next positions, as many as `places`; at most
    /// `most` of them are returned for writing.
    fn go_round(&mut self, places: Range<u64>, excess: u64, most: u64) -> Evicted {
        let mut evicted = Evicted::default();
        let no_others = self.mapping.index.page_pins().here() <= self.mapping.index.changed_pages();
        if most == 0 && no_others {
            return evicted;
        }
        for _ in places {
            let to_write = evicted.to_write.len() as u64;
            if evicted.left_out + to_write >= excess || most > 0 && to_write >= most {
                return evicted;
            }
            let Some(page) = self.next_to_go().filter(|page| !evicted.to_write.contains(page))
            else {
                continue;
            };
            let leads_to = self.page_at(page).map(|at| self.space.place(at).slot);
            if leads_to.is_some_and(|slot| self.segments.is_leaving(slot)) {
                // Dropping it would make its mapping block necessary in a segment that is being
                // relocated or freed.
                if most == 0 {
                    continue;
                }
                self.mapping.index.mark_changed(page);
            }
            if !self.mapping.index.has_changed(page) {
                self.leave_page_out(page);
                evicted.left_out += 1;
            } else if most > 0 {
                evicted.to_write.push(page);
            }
        }
        evicted.looked_at_all = true;
        evicted
    }

    /// The page under the hand, if it is unpinned and not referenced since the hand passed.
    fn next_to_go(&mut self) -> Option<Page> {
        let offload = self.mapping.offload.as_mut()?;
        let page = Page(offload.hand);
        assert!(offload.hand < offload.pages(), "the hand is at {} of {}", page.0, offload.pages());
        offload.hand = (offload.hand + 1) % offload.pages();
        if !self.may_go(page) {
            return None;
        }
        let asked_for = &mut self.mapping.offload.as_mut()?.asked_for;
        let at = Lba(page.0).index();
        let asked = asked_for.contains(at);
        asked_for.set(at, false);
        (!asked).then_some(page)
    }

    fn may_go(&self, page: Page) -> bool {
        self.mapping.index.holds(page)
            && !self.mapping.index.page_pins().is_pinned(page)
            && self.checkpoints.page_is_placed(page)
            && !self.mapping.is_absent(page)
    }

    /// Fixes a page for eviction: its mapping block will contain the current entries. `None` if it
    /// must stay, or has no mapped block: then it is dropped.
    fn fix_to_leave(&mut self, page: Page) -> Option<checkpoint::Piece> {
        if !self.may_go(page) || !self.mapping.index.has_changed(page) {
            return None;
        }
        let Some(piece) = self.encode_page(page) else {
            self.checkpoints.put_apart(page, None);
            self.mapping.index.leave_out(page);
            return None;
        };
        self.checkpoints.begin_leaving(page, piece.sequence);
        let offload = self.mapping.offload.as_mut()?;
        offload.credit = offload.credit.saturating_sub(1);
        Some(piece)
    }

    /// Records the addresses of written pages; unpinned ones that have not changed since are
    /// dropped.
    fn end_leaving(&mut self, fixed: &[(Page, Sequence)], places: Option<&[Pba]>) {
        assert!(
            places.is_none_or(|places| places.len() == fixed.len()),
            "{} pages were written to {:?} addresses",
            fixed.len(),
            places.map(<[Pba]>::len)
        );
        if let Some(offload) = &mut self.mapping.offload {
            assert!(offload.writing, "{} pages are written beside a pass", fixed.len());
            offload.stuck = places.is_none();
        }
        if places.is_none() {
            self.count_reached();
        }
        for (at, (page, sequence)) in fixed.iter().copied().enumerate() {
            let place = places.and_then(|places| places.get(at));
            if let Some(segment) =
                place.and_then(|place| self.segments.get_mut(self.space.place(*place).slot))
            {
                // It belongs to no checkpoint.
                assert!(segment.checkpoint_blocks > 0, "page {} is not in {}", page.0, segment.id);
                segment.checkpoint_blocks -= 1;
            }
            // A checkpoint may have fixed it again meanwhile.
            if !self.checkpoints.end_leaving(page, sequence) {
                continue;
            }
            let Some(place) = place else {
                self.mapping.index.mark_changed(page);
                continue;
            };
            self.counters.index_pages_written += 1;
            if self.segments.is_leaving(self.space.place(*place).slot) {
                // The segment was given up meanwhile.
                self.mapping.index.mark_changed(page);
            }
            let changed = self.mapping.index.has_changed(page);
            mark_if(Mark::PageChangedWhileLeaving, || changed);
            if changed {
                continue;
            }
            self.checkpoints.put_apart(page, Some(*place));
            if !self.mapping.index.page_pins().is_pinned(page) {
                self.leave_page_out(page);
            }
        }
    }
}
