//! Zones of a segment that go on together.
//!
//! Where each request fills a chunk of the size that suits drives, and those in flight fill two
//! stripes, a zone has one more chunk to write whenever one is written. Whoever is answered then
//! may ask for more in the same instant: that makes another stripe, and drives write two chunks
//! sooner than one and one. So a zone *lingers* before it writes the chunk that waits: until no
//! other zone of the segment is behind, as then the stripe before is answered, and for some turns
//! of the tasks. What came is written along. After that one chunk is written by itself, since with
//! two and two all would wait for both.
//!
//! Whether that pays depends: clients that take longer than an instant, as all do beyond a socket,
//! bring nothing in time, and where drives are not as fast as each other all wait for the slowest.
//! So it is tried against going on at once, and what is faster is done ([`Trial`]).
//!
//! Invariants: a zone begins to linger only while users fill no other segment. It waits for writes
//! under way, of rows before its own, which drives end, and for no zone that lingers; the end of
//! every write wakes those that do. So all go on, whatever fails. Its segment may be gone by then,
//! as one of which a member is taken out of service.
//!
//! [`Trial`]: crate::log::write::trial::Trial

use std::rc::Rc;

use zoneweave_zoned::BlockCount;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::{Phase, Segment};
use crate::log::write::chunk::{OpenZone, queue_of};
use crate::log::write::zone_queue::ZoneQueue;

/// Turns in which those who were answered ask for more, and the writer, who lets all of them run
/// before it does, makes a stripe of that.
const TURNS: u32 = 3;

/// Blocks that a zone is written in a turn of the trial.
const TURN_BLOCKS: u64 = 512;

/// A write to a zone begins; whether its segment may linger.
pub(in crate::log) fn begin_write(core: &Core, open: &OpenZone) -> bool {
    let mut state = core.state.borrow_mut();
    let may_linger = even_blocks(&state, open).is_some();
    if may_linger {
        state.together.begin(core.handle.now());
    }
    may_linger
}

/// It has come to its end.
pub(in crate::log) fn end_write(core: &Core, open: &OpenZone, blocks: BlockCount) {
    let mut state = core.state.borrow_mut();
    let even_blocks = even_blocks(&state, open);
    let chance = even_blocks.is_some_and(|even| queue_of(&mut state, open).has_few(even));
    let turn_blocks = TURN_BLOCKS * state.scheme().columns() as u64;
    state.together.end(blocks.0.into(), chance, turn_blocks, core.handle.now());
}

/// Lingers before the next write of a zone where that may pay; whether the segment is still there.
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

/// Blocks of a write that suits drives, if the zones of a segment may linger for it: users fill
/// that one alone.
fn even_blocks(state: &State, open: &OpenZone) -> Option<u32> {
    let even_blocks = state.policy.even_blocks?;
    let segment = &state.segments[open.slot];
    let alone = state.user.open_wide().eq([open.slot]);
    let suits = segment.gathers && segment.geometry.chunk_blocks() == even_blocks;
    (alone && suits && segment.stream == StreamKind::User).then_some(even_blocks)
}

/// Has a zone linger, if that may pay; the number of its segment.
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
