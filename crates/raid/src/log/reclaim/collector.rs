//! Reclaiming segments: which are moved out, and when.
//!
//! The order makes every crash harmless: live blocks are copied with the sequences they have
//! (`moving.rs`); the copies are made durable; the segment is recorded dead on every member;
//! readers leave; the zones are reset; the resets are made durable; only then are the zones used
//! again (`freeing.rs`). A crash before the record leaves two equal copies, one after it leaves
//! zones that nobody believes.
//!
//! Several segments are moved out at a time where reads are waited for, so that reading one
//! overlaps writing another and stripes of what is moved are full. A further one is begun only
//! where what is left of all of them finds room without any of them being freed: else all could be
//! half done, and none ever.

use crate::log::reclaim::relocate::MOVED_AT_A_TIME;
use std::rc::Rc;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::index::cache::moves::take_back_left;
use crate::log::members::member::Member;
use crate::log::reclaim::relocate::evacuate;
use crate::log::segment::table::{Phase, Segment};

/// Moves live blocks out of segments whenever that is needed, until the volume closes. What is
/// empty then is freed by the sweeper.
pub(in crate::log) async fn run(core: Rc<Core>) {
    while !core.closing.get() {
        let left = core.state.borrow().has_moves_left();
        if left {
            // That takes no room, and moving anything out may need what it frees.
            if take_back_left(&core).await.is_none() && !core.closing.get() {
                core.changed.wait().await;
            }
            continue;
        }
        let victim = {
            let mut state = core.state.borrow_mut();
            let victim = state.next_victim();
            victim.inspect(|slot| {
                mark(why_moved(&state.segments[*slot]));
                mark_if(Mark::MovedBeside, || !state.moving.is_empty());
                state.begin_move(*slot);
            })
        };
        let Some(slot) = victim else {
            core.changed.wait().await;
            continue;
        };
        let mover = core.clone();
        core.handle.spawn("mover", async move {
            evacuate(&mover, slot).await;
            mover.state.borrow_mut().end_move(slot);
            // Something in the array may have changed for the worse; what, the state says.
            mover.handle.yield_now().await;
            mover.changed.open();
        });
    }
    while !core.state.borrow().moving.is_empty() {
        core.changed.wait().await;
    }
}

fn why_moved(segment: &Segment) -> Mark {
    match segment.phase {
        Phase::Leftover => Mark::LeftoverMoved,
        _ if segment.damaged => Mark::DamagedMoved,
        _ => Mark::MovedForRoom,
    }
}

/// Moves every live block out of a segment that nobody else works on; `false` if writes stopped.
pub(in crate::log) async fn move_out(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    core.state.borrow_mut().begin_move(slot);
    let moved = evacuate(core, slot).await;
    core.state.borrow_mut().end_move(slot);
    core.changed.open();
    moved
}

impl State {
    /// The segment to be moved out now, if there is one.
    fn next_victim(&self) -> Option<SegmentSlot> {
        let stopped = self.stopped.is_some() || self.membership_dirty || self.has_lost_page();
        if stopped || self.moving.len() >= self.moved_at_a_time() || !self.can_move() {
            return None;
        }
        let need = self.need_of_room();
        self.victim(need).filter(|slot| self.may_move_beside(*slot))
    }

    /// Segments moved out at a time now. Where no read is waited for one overlaps nothing with
    /// another, and what was read is in the processor's caches still when it is written. But who
    /// needs room does not wait for one that has to go whatever that costs.
    fn moved_at_a_time(&self) -> usize {
        let to_go = |slot: &SegmentSlot| self.segments[*slot].is_to_go();
        match self.reads_at_once() && !self.moving.iter().any(to_go) {
            true => 1,
            false => MOVED_AT_A_TIME,
        }
    }

    /// Whether drives are faster than the engine, and are read as soon as they are asked.
    #[must_use]
    pub(in crate::log) fn reads_at_once(&self) -> bool {
        let waits = |member: &Member| member.device.is_some() && !member.answers_at_once;
        self.policy.fast_drives && !self.members.iter().any(waits)
    }

    /// Whether a segment may be moved out while others are: whatever happens to them, what is left
    /// of all of them finds room in the segments open for it and in what users leave, of which one
    /// is for a crash.
    fn may_move_beside(&self, slot: SegmentSlot) -> bool {
        if self.moving.is_empty() {
            return true;
        }
        if self.recovering.is_some() {
            return false;
        }
        let shape = self.relocation_shape();
        let kept = self.free_segments().min(self.reserve_for(StreamKind::User)).saturating_sub(1);
        let room = u64::from(kept) * shape.data_blocks() + self.room_in(StreamKind::Relocation);
        // Of each a stripe may be padded.
        let moving = self.moving.iter().chain([&slot]);
        let blocks = moving.map(|slot| self.segments[*slot].valid + shape.stripe_blocks() as u64);
        blocks.sum::<u64>() <= room || mutant(Mutant::MovesBesideAny)
    }

    /// A segment is being moved out: nobody else works on it.
    pub(in crate::log) fn begin_move(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        segment.busy = true;
        segment.valid_before_move = segment.valid;
        self.moving.push(slot);
    }

    /// A segment is moved out, or was given up.
    pub(in crate::log) fn end_move(&mut self, slot: SegmentSlot) {
        if let Some(segment) = self.segments.get_mut(slot) {
            segment.busy = false;
            segment.valid_before_move = 0;
        }
        self.moving.retain(|moving| *moving != slot);
    }
}
