//! Lingering: coalescing writes across the zones of a segment.
//!
//! If requests fill a chunk of the preferred size, and those in flight fill two stripes, a zone has
//! one more chunk to write whenever a write completes. Clients answered then may write more in the
//! same instant, which makes another stripe, and drives write two chunks sooner than one and one. A
//! zone therefore *lingers* before it writes its pending chunk: until no other zone of the segment
//! is behind, when the stripe before is answered, and for a few turns of the tasks. New chunks join
//! the write. The write after that is a single chunk, since with two and two all would wait for
//! both.
//!
//! The benefit varies. Clients that take longer than an instant, as all do over a socket, write
//! nothing in time, and if drives differ in speed, all wait for the slowest. So lingering is tested
//! against writing at once, and the faster way is used ([`Trial`]).
//!
//! Invariants: a zone lingers only while users fill no other segment. It waits for writes in
//! flight, of earlier rows, which drives complete, and for no lingering zone; the end of every
//! write wakes lingering zones. So all make progress after any failure. The segment may be gone by
//! then, for example after an eviction.
//!
//! [`Trial`]: crate::log::write::trial::Trial

use std::rc::Rc;

use zoneweave_zoned::BlockCount;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::{Phase, Segment};
use crate::log::write::open_zone::{OpenZone, queue_of};
use crate::log::write::zone_queue::ZoneQueue;

/// Turns in which answered clients write more, and the writer, which yields to them first, makes a
/// stripe of it.
const TURNS: u32 = 3;

/// Blocks written to a zone in a turn of the trial.
const TURN_BLOCKS: u64 = 512;

/// Records the start of a write to a zone; returns whether its segment may linger.
pub(in crate::log) fn begin_write(core: &Core, open: &OpenZone) -> bool {
    let mut state = core.state.borrow_mut();
    let may_linger = even_blocks(&state, open).is_some();
    if may_linger {
        state.together.begin(core.handle.now());
    }
    may_linger
}

/// Records the end of a write.
pub(in crate::log) fn end_write(core: &Core, open: &OpenZone, blocks: BlockCount) {
    let mut state = core.state.borrow_mut();
    let even_blocks = even_blocks(&state, open);
    let chance = even_blocks.is_some_and(|even| queue_of(&mut state, open).has_few(even));
    let turn_blocks = TURN_BLOCKS * state.scheme().columns() as u64;
    state.together.end(blocks.0.into(), chance, turn_blocks, core.handle.now());
}

/// Lingers before the next write of a zone if that may pay; returns whether the segment still
/// exists.
pub(in crate::log) async fn linger(core: &Rc<Core>, open: &OpenZone) -> bool {
    let Some(segment_id) = begin(&mut core.state.borrow_mut(), open) else { return true };
    mark(Mark::ZoneLingered);
    while others_are_behind(&core.state.borrow(), open, segment_id) {
        core.changed.wait().await;
    }
    for _ in 0..TURNS {
        core.handle.yield_now().await;
    }
    is_there(&core.state.borrow(), open, segment_id)
}

/// Whether zones of a segment linger.
pub(in crate::log) fn any_lingers(state: &State, open: &OpenZone) -> bool {
    let queues = &state.segments[open.slot].queues;
    state.policy.even_blocks.is_some() && queues.iter().any(ZoneQueue::lingers)
}

/// Blocks of a preferred write, if the zones of a segment may linger for it: it is the only one
/// that users fill.
fn even_blocks(state: &State, open: &OpenZone) -> Option<u32> {
    let even_blocks = state.policy.even_blocks?;
    let segment = &state.segments[open.slot];
    let alone = state.user.open_wide().eq([open.slot]);
    let suits = segment.gathers && segment.geometry.chunk_blocks() == even_blocks;
    (alone && suits && segment.stream == StreamKind::User).then_some(even_blocks)
}

/// Lets a zone linger, if that may pay; returns the number of its segment.
fn begin(state: &mut State, open: &OpenZone) -> Option<u64> {
    let even_blocks = even_blocks(state, open).filter(|_| state.together.is_new())?;
    let queue = queue_of(state, open);
    if !queue.has_few(even_blocks) {
        return None;
    }
    queue.linger();
    Some(state.segments[open.slot].id)
}

fn others_are_behind(state: &State, open: &OpenZone, segment_id: u64) -> bool {
    let segment = segment(state, open, segment_id).filter(|segment| segment.phase == Phase::Open);
    let behind = |segment: &Segment| {
        let at = segment.queues.get(open.column.index())?.next_at()?;
        Some(segment.queues.iter().any(|queue| queue.writes_before(at)))
    };
    segment.and_then(behind).unwrap_or(false)
}

fn is_there(state: &State, open: &OpenZone, segment_id: u64) -> bool {
    segment(state, open, segment_id).is_some_and(|segment| !segment.queues.is_empty())
}

fn segment<'a>(state: &'a State, open: &OpenZone, id: u64) -> Option<&'a Segment> {
    state.segments.get(open.slot).filter(|segment| segment.id == id)
}
