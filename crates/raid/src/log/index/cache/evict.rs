//! Letting go of pages.
//!
//! One task leaves out what has not changed and writes what has. Writing may have to wait for room
//! that others make, and users for pages to go: until it is done another task leaves out what has
//! not changed. Both move the same hand.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{Page, Pba};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::index::checkpoint;

use super::LOOKED_AT;
/// Pages looked at for one that has not changed, where others cannot go.
const LOOKED_AT_FOR_FIXED: u64 = 1024;

/// Lets go of pages whenever there are more in memory than there are to be, until the volume
/// closes.
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
        note_writing(&core, true);
        let written = write(&core, evicted.to_write).await;
        note_writing(&core, false);
        core.changed.open();
        if !written && !core.closing.get() {
            // What kept them from being written has to change first.
            core.changed.wait().await;
        }
    }
}

/// Leaves out pages that have not changed while others are being written, until the volume closes.
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

fn note_writing(core: &Core, writing: bool) {
    if let Some(offload) = &mut core.state.borrow_mut().offload {
        offload.writing = writing;
    }
}

/// What became of pages that may go.
#[derive(Default)]
struct Evicted {
    /// How many are out of memory.
    left_out: u64,
    /// Those that are to be written.
    to_write: Vec<Page>,
    /// There may be more.
    looked_at_all: bool,
    /// None was found among so many: there may be some among the others.
    goes_on: Option<u64>,
}

/// Writes pages; those that did not change meanwhile may go. Whether that went well.
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
    /// Lets go of pages: those that can at once are left out, others are returned, to be written if
    /// they can be. So many were looked at before.
    fn evict(&mut self, writable: bool, looked_at: u64) -> Evicted {
        let Some(offload) = &self.offload else { return Evicted::default() };
        let (beyond, may_go) = self.pages_beyond(offload);
        let writable = writable && self.stopped.is_none() && !offload.failed;
        let most = if writable { offload.limit.batch.min(offload.credit) } else { 0 };
        // Twice round: the first time everything may have been asked for.
        let round = 2 * offload.pages();
        // Where nothing can be written nobody waits, and it may go on like that.
        let round = if most > 0 { round } else { round.min(LOOKED_AT_FOR_FIXED) };
        let end = round.min(looked_at + LOOKED_AT);
        let mut evicted = self.go_round(looked_at..end, beyond.min(may_go), most);
        let found_none = evicted.looked_at_all && evicted.to_write.is_empty();
        evicted.goes_on = (found_none && end < round).then_some(end);
        evicted
    }

    /// Leaves out pages that have not changed, if others are being written and there are soon so
    /// many that users wait; or there are more: nobody waits while there is no room. How many.
    fn leave_out_beside(&mut self) -> u64 {
        let Some(offload) = self.offload.as_ref().filter(|offload| offload.writing) else {
            return 0;
        };
        let (beyond, may_go) = self.pages_beyond(offload);
        // Before, those that are being written are enough, and the hand rests.
        let enough = offload.limit.pages + offload.limit.batch / 2;
        let soon = (may_go + offload.coming.len() as u64).saturating_sub(enough);
        let end = LOOKED_AT_FOR_FIXED.min(2 * offload.pages());
        self.go_round(0..end, beyond.min(may_go).min(soon), 0).left_out
    }

    /// Lets go of so many pages, of those that the hand passes: as many as these numbers. At the
    /// most `most` are to be written.
    fn go_round(&mut self, places: Range<u64>, excess: u64, most: u64) -> Evicted {
        let mut evicted = Evicted::default();
        let no_others = self.index.frames().here() <= self.index.changed_pages();
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
            if leads_to.is_some_and(|slot| self.is_leaving(slot)) {
                // What is being moved out or freed would have to be moved for it.
                if most == 0 {
                    continue;
                }
                self.index.mark_changed(page);
            }
            if !self.index.has_changed(page) {
                self.leave_page_out(page);
                evicted.left_out += 1;
            } else if most > 0 {
                evicted.to_write.push(page);
            }
        }
        evicted.looked_at_all = true;
        evicted
    }

    /// The page that the hand is at, if it may go and nobody has asked for it since the hand
    /// passed.
    fn next_to_go(&mut self) -> Option<Page> {
        let offload = self.offload.as_mut()?;
        let page = Page(offload.hand);
        offload.hand = (offload.hand + 1) % offload.pages();
        if !self.may_go(page) {
            return None;
        }
        let asked_for = &mut self.offload.as_mut()?.asked_for;
        let at = Lba(page.0).index();
        let asked = asked_for.contains(at);
        asked_for.set(at, false);
        (!asked).then_some(page)
    }

    fn may_go(&self, page: Page) -> bool {
        self.index.holds(page)
            && !self.index.frames().is_pinned(page)
            && self.page_is_placed(page)
            && !self.is_absent(page)
    }

    /// Fixes a page that is to leave memory: what it says from now on is what is known now. `None`
    /// if it is not to any more, or nothing of it is mapped: then it is gone.
    fn fix_to_leave(&mut self, page: Page) -> Option<checkpoint::Piece> {
        if !self.may_go(page) || !self.index.has_changed(page) {
            return None;
        }
        let Some(piece) = self.encode_page(page) else {
            self.checkpoints.put_apart(page, None);
            self.index.leave_out(page);
            return None;
        };
        self.checkpoints.begin_leaving(page, piece.sequence);
        let offload = self.offload.as_mut()?;
        offload.credit = offload.credit.saturating_sub(1);
        Some(piece)
    }

    /// Notes where pages came to be; those that have not changed since go, if nobody holds them.
    fn end_leaving(&mut self, fixed: &[(Page, u64)], places: Option<&[Pba]>) {
        if let Some(offload) = &mut self.offload {
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
                // It is of no checkpoint.
                segment.reached -= 1;
            }
            // A checkpoint may have fixed it again meanwhile.
            if !self.checkpoints.end_leaving(page, sequence) {
                continue;
            }
            let Some(place) = place else {
                self.index.mark_changed(page);
                continue;
            };
            self.counters.index_pages_written += 1;
            if self.is_leaving(self.space.place(*place).slot) {
                // The segment was given up meanwhile.
                self.index.mark_changed(page);
            }
            let changed = self.index.has_changed(page);
            mark_if(Mark::PageChangedWhileLeaving, || changed);
            if changed {
                continue;
            }
            self.checkpoints.put_apart(page, Some(*place));
            if !self.index.frames().is_pinned(page) {
                self.leave_page_out(page);
            }
        }
    }
}
