//! Reclaiming segments: which are moved out, and when.
//!
//! The order makes every crash harmless: live blocks are copied with the sequences they have
//! (`moving.rs`); the copies are made durable; the segment is recorded dead on every member; readers leave;
//! the zones are reset; the resets are made durable; only then are the zones used again (`freeing.rs`). A crash
//! before the record leaves two equal copies, one after it leaves zones that nobody believes.

use std::rc::Rc;

use crate::log::core::Core;
use crate::log::index::SegmentSlot;
use crate::log::moving::evacuate;
use crate::log::segment::{Phase, Segment};
use crate::log::state::State;
use crate::marks::{Mark, mark};

/// Moves live blocks out of segments whenever that is needed, until the volume closes. What is
/// empty then is freed by [`sweep`].
pub(super) async fn run(core: Rc<Core>) {
    while !core.closing.get() {
        let victim = {
            let mut state = core.state.borrow_mut();
            let need = state.need_of_room();
            let stopped = state.stopped.is_some() || state.membership_dirty;
            let can_move = !stopped && state.can_move();
            let victim = if can_move { state.victim(need) } else { None };
            victim.inspect(|slot| mark(why_moved(&state.segments[*slot])));
            hold(&mut state, victim)
        };
        let Some(slot) = victim else {
            core.changed.wait().await;
            continue;
        };
        evacuate(&core, slot).await;
        release(&core, slot);
        // Something in the array may have changed for the worse; what, the state says.
        core.handle.yield_now().await;
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
pub(super) async fn move_out(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    hold(&mut core.state.borrow_mut(), Some(slot));
    let moved = evacuate(core, slot).await;
    release(core, slot);
    moved
}

pub(super) fn hold(state: &mut State, slot: Option<SegmentSlot>) -> Option<SegmentSlot> {
    if let Some(slot) = slot {
        state.segments[slot].busy = true;
    }
    slot
}

pub(super) fn release(core: &Core, slot: SegmentSlot) {
    if let Some(segment) = core.state.borrow_mut().segments.get_mut(slot) {
        segment.busy = false;
    }
    core.changed.open();
}
