//! Garbage collection: runs relocations when space is needed.
//!
//! The order of steps makes every crash harmless. Live blocks are copied with their sequences
//! (`relocate`). The copies are made durable. The segment is recorded dead on every member. Its
//! readers are drained. Its zones are reset. The resets are made durable. Only then are the zones
//! used again (`reset`). A crash before the record leaves two equal copies; a crash after it leaves
//! zones that no start trusts.
//!
//! Several segments are relocated at a time if reads have to be waited for, so that reading one
//! overlaps writing another and stripes of relocated blocks are full. Another relocation begins
//! only if the rest of all of them fits into free space without any being freed: otherwise all
//! could be half done, and none ever finish.

use std::rc::Rc;

use zoneweave_runtime::JoinHandle;

use crate::array::member::Member;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::limits::MOVED_AT_A_TIME;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::index::cache::moves::take_back_left;
use crate::log::reclaim::relocate::evacuate;
use crate::log::reclaim::reset;
use crate::log::segment::table::{Phase, Segment, Work};
use crate::log::write::writer;

/// Starts the tasks of relocation, which recovery needs before users are served.
pub(in crate::log) fn start(core: &Rc<Core>) -> Vec<JoinHandle<()>> {
    let writer = writer::run(core.clone(), StreamKind::Relocation);
    vec![
        core.handle.spawn("relocation writer", writer),
        core.handle.spawn("collector", run(core.clone())),
        core.handle.spawn("sweeper", reset::sweep(core.clone())),
    ]
}

/// Relocates live blocks whenever space is needed, until the volume closes. The sweeper frees the
/// emptied segments.
async fn run(core: Rc<Core>) {
    while !core.closing.get() {
        let left = core.state.borrow().has_moves_left();
        if left {
            // Undoing takes no space, and may free the space that relocation needs.
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
                mark_if(Mark::MovedBeside, || !state.reclaim.moving.is_empty());
                state.begin_move(*slot);
            })
        };
        let Some(slot) = victim else {
            core.changed.wait().await;
            continue;
        };
        let mover = core.clone();
        core.handle.spawn("mover", async move {
            evacuate(&mover, slot, false).await;
            mover.state.borrow_mut().end_move(slot);
            // The relocation may have failed for a reason that the state now has.
            mover.handle.yield_now().await;
            mover.changed.open();
        });
    }
    while !core.state.borrow().reclaim.moving.is_empty() {
        core.changed.wait().await;
    }
}

fn why_moved(segment: &Segment) -> Mark {
    match segment.phase() {
        Phase::Leftover => Mark::LeftoverMoved,
        _ if segment.is_damaged() => Mark::DamagedMoved,
        _ => Mark::MovedForRoom,
    }
}

/// Empties a segment that no other task works on. Returns `false` if writes stopped.
pub(in crate::log) async fn move_out(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    core.state.borrow_mut().begin_move(slot);
    let moved = evacuate(core, slot, true).await;
    core.state.borrow_mut().end_move(slot);
    core.changed.open();
    moved
}

impl State {
    /// The segment to be relocated now, if any.
    fn next_victim(&self) -> Option<SegmentSlot> {
        let stopped = self.array.stopped.is_some()
            || self.array.membership_dirty
            || self.mapping.has_lost_page();
        if stopped || self.reclaim.moving.len() >= self.moved_at_a_time() || !self.can_move() {
            return None;
        }
        // One that begins now would have to give up its awaited blocks.
        let may_leave = !self.out_of_service().is_empty() && !self.reclaim.moving.is_empty();
        if may_leave && self.is_reserve_taken() {
            return None;
        }
        let need = self.need_of_space();
        self.victim(need).filter(|slot| self.may_move_concurrently(*slot))
    }

    /// Number of segments relocated at a time now. If reads complete on submit, relocations have
    /// nothing to overlap, and blocks read are still in the processor's caches when they are
    /// written. However, a task that needs space does not wait for a segment that is relocated at
    /// any cost.
    fn moved_at_a_time(&self) -> usize {
        let to_go = |slot: &SegmentSlot| self.segments[*slot].is_to_go();
        match self.reads_at_once() && !self.reclaim.moving.iter().any(to_go) {
            true => 1,
            false => MOVED_AT_A_TIME,
        }
    }

    /// Whether drives are faster than the engine, and reads complete on submit.
    #[must_use]
    pub(super) fn reads_at_once(&self) -> bool {
        let waits = |member: &Member| member.device.is_some() && !member.answers_at_once;
        self.writes.policy.fast_drives && !self.array.members.iter().any(waits)
    }

    /// Whether a segment may be relocated beside others. In any outcome, the rest of all of them
    /// must fit into the open segments of relocation and into the reserve of users, one segment of
    /// which is for a crash.
    fn may_move_concurrently(&self, slot: SegmentSlot) -> bool {
        if self.reclaim.moving.is_empty() {
            return true;
        }
        if self.recovering.is_some() {
            return false;
        }
        let shape = self.writes.relocation_shape();
        let kept = self.free_segments().min(self.reserve_for(StreamKind::User)).saturating_sub(1);
        let room = u64::from(kept) * shape.data_blocks() + self.space_in(StreamKind::Relocation);
        // A stripe of each may be padded.
        let moving = self.reclaim.moving.iter().chain([&slot]);
        let blocks = moving.map(|slot| self.segments[*slot].valid() + shape.stripe_blocks() as u64);
        blocks.sum::<u64>() <= room || mutant(Mutant::MovesBesideAny)
    }

    /// Claims a segment for relocation: other tasks leave it alone.
    fn begin_move(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        segment.life.claim(Work::Relocation { valid_before: segment.valid() });
        self.reclaim.moving.push(slot);
        let moving = self.reclaim.moving.len();
        assert!(moving <= MOVED_AT_A_TIME, "{moving} segments are relocated at a time");
    }

    /// Ends the relocation of a segment that is empty or given up.
    fn end_move(&mut self, slot: SegmentSlot) {
        if let Some(segment) = self.segments.get_mut(slot) {
            segment.life.release(|work| matches!(work, Work::Relocation { .. }));
        }
        let before = self.reclaim.moving.len();
        self.reclaim.moving.retain(|moving| *moving != slot);
        let ended = before - self.reclaim.moving.len();
        assert!(ended == 1, "{ended} relocations of {slot:?} end");
    }
}
