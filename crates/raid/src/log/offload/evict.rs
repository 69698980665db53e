//! Letting go of pages.

use std::rc::Rc;

use zoneweave_zoned::Lba;

use super::Offload;
use crate::log::checkpoint;
use crate::log::core::Core;
use crate::log::index::{Page, Pba};
use crate::log::state::State;
use crate::marks::{Mark, mark_if};

/// Pages looked at for one that has not changed, where others cannot go.
const LOOKED_AT: u64 = 1024;

/// Lets go of pages whenever there are more in memory than there are to be, until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>) {
    while !core.closing.get() {
        let (left_out, to_write) = core.state.borrow_mut().evict(!core.refusing.get());
        if left_out > 0 {
            core.changed.open();
        }
        if to_write.is_empty() {
            core.changed.wait().await;
            continue;
        }
        if !write(&core, to_write).await && !core.closing.get() {
            // What kept them from being written has to change first.
            core.changed.wait().await;
        }
        core.changed.open();
    }
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
    /// Pages that may go: those that can at once are left out, others are returned, to be written if they can be.
    fn evict(&mut self, writable: bool) -> (u64, Vec<Page>) {
        let Some(mut offload) = self.offload.take() else { return (0, Vec::new()) };
        let (beyond, may_go) = self.pages_beyond(&offload);
        let excess = beyond.min(may_go);
        let writable = writable && self.stopped.is_none() && !offload.failed;
        let most = if writable { offload.limit.batch.min(offload.credit) } else { 0 };
        let (mut left_out, mut to_write) = (0, Vec::new());
        // Twice round: the first time everything may have been asked for.
        let round = 2 * offload.pages();
        // Where nothing can be written nobody waits, and it may go on like that.
        for _ in 0..if most > 0 { round } else { round.min(LOOKED_AT) } {
            let written = to_write.len() as u64;
            if left_out + written >= excess || most > 0 && written >= most {
                break;
            }
            let page = Page(offload.hand);
            offload.hand = (offload.hand + 1) % offload.pages();
            if !self.may_go(&offload, page) || to_write.contains(&page) {
                continue;
            }
            if offload.asked_for.contains(Lba(page.0).index()) {
                offload.asked_for.remove(Lba(page.0).index());
                continue;
            }
            let leads_to = self.page_at(page).map(|at| self.space.place(at).slot);
            if most > 0 && leads_to.is_some_and(|slot| self.is_leaving(slot)) {
                // What is being moved out or freed would have to be moved for it.
                self.index.mark_changed(page);
            }
            if !self.index.has_changed(page) {
                self.offload = Some(offload);
                self.leave_page_out(page);
                offload = self.offload.take().expect("it was put back");
                left_out += 1;
            } else if most > 0 {
                to_write.push(page);
            }
        }
        self.offload = Some(offload);
        (left_out, to_write)
    }

    fn may_go(&self, offload: &Offload, page: Page) -> bool {
        self.index.holds(page)
            && !offload.held.contains_key(&page)
            && self.page_is_placed(page)
            && !self.is_absent(page)
    }

    /// Fixes a page that is to leave memory: what it says from now on is what is known now. `None` if it is not to
    /// any more, or nothing of it is mapped: then it is gone.
    fn fix_to_leave(&mut self, page: Page) -> Option<checkpoint::Piece> {
        let offload = self.offload.as_ref()?;
        if !self.may_go(offload, page) || !self.index.has_changed(page) {
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
            let held = self.offload.as_ref().is_some_and(|o| o.held.contains_key(&page));
            if !held {
                self.leave_page_out(page);
            }
        }
    }
}
