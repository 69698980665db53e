//! Relocations that a scrub waits for: earlier ones before it begins, and its own at its end.

use std::rc::Rc;

use crate::array::repair::scrub::Scrub;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::{Phase, Segment};

/// Waits until earlier damage and leftovers are relocated, unless that is impossible. Members may
/// change meanwhile, and orders are heeded. Returns whether the scrub goes on, with the permit for
/// changes of membership.
pub(super) async fn relocations_ended(
    core: &Rc<Core>,
    scrub: &mut Scrub<Core>,
) -> Result<bool, StopReason> {
    // Segments opened since are not waited for: a drive whose writes fail leaves more and more.
    let end = core.state.borrow().registry.next_segment;
    let is_under_way = |segment: &Segment| {
        let has_blocks = segment.valid() > 0 && !segment.retained_for_restart;
        let is_to_go = segment.is_damaged() || segment.phase() == Phase::Leftover && has_blocks;
        segment.id < end && is_to_go && !segment.waits()
    };
    while core.state.borrow().segments.iter().any(|(_, segment)| is_under_way(segment)) {
        if check_going_on(core).is_err() || core.state.borrow().mapping.has_lost_page() {
            break;
        }
        mark(Mark::ScrubAwaitedRelocation);
        close_open_segments(&mut core.state.borrow_mut(), Segment::is_damaged);
        scrub.release_members();
        core.changed.open();
        core.changed.wait().await;
        if !scrub.goes_on().await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fails if damage cannot be relocated: writes have stopped, or no space is free.
pub(super) fn check_going_on(core: &Core) -> Result<(), StopReason> {
    let state = core.state.borrow();
    let closing = || core.closing.get().then_some(StopReason::ShuttingDown);
    let out_of_space = || state.out_of_space(StreamKind::Relocation);
    state.array.stopped.or_else(closing).or_else(out_of_space).map_or(Ok(()), Err)
}

/// Gives up open segments, so that they do not change; returns them.
pub(super) fn close_open_segments(
    state: &mut State,
    wanted: impl Fn(&Segment) -> bool,
) -> Vec<SegmentSlot> {
    let open = state.writes.open_segments().into_iter();
    let open: Vec<_> = open.filter(|slot| wanted(&state.segments[*slot])).collect();
    for slot in &open {
        mark(Mark::ScrubClosedSegment);
        state.abandon(*slot);
    }
    open
}
