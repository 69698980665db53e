//! Zones of a segment that go on together.
//!
//! Where each request fills a chunk of the size that suits drives, and those in flight fill two stripes, a zone has one more
//! chunk to write whenever one is written. Whoever is answered then may ask for more in the same instant: that makes
//! another stripe, and drives write two chunks sooner than one and one. So a zone *lingers* before it writes the chunk that
//! waits: until no other zone of the segment is behind, as then the stripe before is answered, and for one turn of the tasks.
//! What came is written along. After that one chunk is written by itself, since with two and two all would wait for both.
//!
//! Clients that take longer than an instant, as all do beyond a socket, bring nothing in time. Where nothing came zones linger
//! at one row of [`TRIED_ROWS`] only, until something does.
//!
//! Invariants: a zone lingers only while users fill no other segment. It waits for writes under way, of rows before its own,
//! which drives end, and for no zone that lingers; the end of every write wakes those that do. So all go on, whatever
//! fails. Its segment may be gone by then, as one of which a member is taken out of service.

use std::rc::Rc;

use crate::log::chunk_write::OpenZone;
use crate::log::core::Core;
use crate::log::format::StreamKind;
use crate::log::segment::Segment;
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};

/// Of so many rows zones linger at one where nothing came. What that takes in vain is 0.4 % of the throughput of eight
/// requests of 16 KiB to drives like a ZN540; at every row it is 10 %. (A prime: no rhythm of writes leaves them all out.)
const TRIED_ROWS: u32 = 127;

/// Lingers before the next write of a zone where that may pay; whether the segment is still there.
pub(super) async fn linger(core: &Rc<Core>, open: &OpenZone) -> bool {
    let Some(segment_id) = begin(&mut core.state.borrow_mut(), open) else { return true };
    mark(Mark::ZoneLingered);
    while others_are_behind(&core.state.borrow(), open, segment_id) {
        core.changed.wait().await;
    }
    core.handle.yield_now().await;
    end(&mut core.state.borrow_mut(), open, segment_id)
}

/// Whether zones of a segment linger.
pub(super) fn any_lingers(state: &State, open: &OpenZone) -> bool {
    state.segments[open.slot].queues.iter().any(|queue| queue.lingers())
}

/// Has a zone linger, if that may pay; the number of its segment.
fn begin(state: &mut State, open: &OpenZone) -> Option<u64> {
    let even_blocks = state.policy.even_blocks?;
    let alone = state.user.open_segments().eq([open.slot]);
    let segment = &mut state.segments[open.slot];
    let chunk_blocks = segment.geometry.chunk_blocks();
    let pays = segment.gathers && segment.stream == StreamKind::User && chunk_blocks >= even_blocks;
    if !alone || !pays {
        return None;
    }
    let at = segment.queues[open.column.index()].few_from(even_blocks)?;
    let tried = at.0 / chunk_blocks % TRIED_ROWS == 0;
    if !segment.more_comes && !tried {
        return None;
    }
    segment.queues[open.column.index()].linger();
    Some(segment.id)
}

fn others_are_behind(state: &State, open: &OpenZone, segment_id: u64) -> bool {
    let segment = state.segments.get(open.slot).filter(|segment| segment.id == segment_id);
    let behind = |segment: &Segment| {
        let at = segment.queues.get(open.column.index())?.next_at()?;
        Some(segment.queues.iter().any(|queue| queue.writes_before(at)))
    };
    segment.and_then(behind).unwrap_or(false)
}

fn end(state: &mut State, open: &OpenZone, segment_id: u64) -> bool {
    let segment = state.segments.get_mut(open.slot).filter(|segment| segment.id == segment_id);
    let Some(segment) = segment else { return false };
    let Some(queue) = segment.queues.get(open.column.index()) else { return false };
    segment.more_comes = queue.has_grown();
    mark_if(Mark::WrittenAlong, || queue.has_grown());
    true
}
