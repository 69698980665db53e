//! Writing the chunks of a stripe.
//!
//! In segments with a stripe table, chunks are appended at once: the drive picks the row. In
//! aligned segments they are queued for their zone (`queue`), and one task per zone empties
//! the queue.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use zoneweave_zoned::{Command, Completion, Payload, Reply, Status, ZoneAddress, ZonedDevice};

use crate::array::health::Members;
use crate::array::member::FailuresBefore;
use crate::instrument::marks::INSTRUMENTED;
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::write::in_flight::{ChunkUnderWay, Placed};
use crate::log::write::zone::coalescing::{Coalescing, WriteLimit};
use crate::log::write::zone::open_zone::{OpenZone, queue_of};
use crate::log::write::zone::queue::{Chunk, Queued, ZoneWrite};
use crate::scheme::Column;

/// A chunk that was submitted as a zone append; the completion reports its address.
pub(in crate::log) struct Append {
    column: Column,
    device: Rc<dyn ZonedDevice>,
    completion: Completion,
    before: FailuresBefore,
    done: ChunkUnderWay,
    /// The same append, issued again after an error; for [`Mutant::AppendRetriedBlindly`].
    again: Option<Command>,
}

/// Appends a chunk to a zone.
pub(in crate::log) fn append(
    core: &Core,
    open: OpenZone,
    payload: Payload,
    fua: bool,
    done: ChunkUnderWay,
) -> Append {
    let OpenZone { slot, column, zone, device } = open;
    {
        let segment = &core.state.borrow().segments[slot];
        assert!(segment.table.is_some(), "segment {} keeps no table of its stripes", segment.id);
    }
    let command = Command::Append { zone, payload, fua };
    let again = INSTRUMENTED.then(|| command.clone());
    let before = core.failures_before(column);
    let completion = device.submit(command);
    Append { column, device, completion, before, done, again }
}

/// Waits for chunks that were appended.
pub(in crate::log) async fn appended(core: Rc<Core>, appends: Vec<Append>) {
    let appends = appends.into_iter().map(|append| {
        let core = &core;
        async move {
            let Append { column, device, completion, before, done, again } = append;
            let mut placed = place_of(completion.await);
            core.record_chunk_write(column, &device, before, placed.map(|_| ()));
            if let (Err(_), Some(again)) = (placed, again)
                && mutant(Mutant::AppendRetriedBlindly)
            {
                placed = place_of(device.submit(again).await);
                core.record_chunk_write(column, &device, before, placed.map(|_| ()));
            }
            if done.written(core, placed) {
                core.changed.open();
            }
        }
    });
    futures_util::future::join_all(appends).await;
}

fn place_of(reply: Result<Reply, Status>) -> Placed {
    match reply? {
        Reply::Written(at) => Ok(at),
        _ => Err(Status::InternalError),
    }
}

/// Queues a chunk for its zone, and starts a task that empties the queue if none is running. The
/// chunk comes back if its zone takes no more writes.
pub(in crate::log) fn queue(
    core: &Rc<Core>,
    open: OpenZone,
    chunk: Chunk<ChunkUnderWay>,
) -> Option<ChunkUnderWay> {
    let queued = {
        let mut state = core.state.borrow_mut();
        let limit = write_limit(&state, &open);
        queue_of(&mut state, &open).push(chunk, limit)
    };
    match queued {
        Queued::Behind => None,
        Queued::Refused(done) => Some(done),
        Queued::Start => {
            core.handle.spawn_alone("zone", empty_queue(core.clone(), open));
            None
        }
    }
}

/// Limits of the next write to a zone. Relocated blocks coalesce without bound, as no request waits
/// for them.
fn write_limit(state: &State, open: &OpenZone) -> WriteLimit {
    let appends = state.segments[open.slot].table.is_some();
    assert!(!appends, "a chunk for {} of {} is appended and queued", open.zone, open.column);
    let segment = &state.segments[open.slot];
    if !state.writes.queues.coalesces(open.slot) {
        return WriteLimit::ALONE;
    }
    let max_transfer = open.device.geometry().max_transfer.0;
    let even_blocks =
        state.writes.policy.even_blocks.filter(|_| segment.stream == StreamKind::User);
    let Some(even_blocks) = even_blocks else { return WriteLimit::largest(max_transfer) };
    let request_blocks = u32::try_from(state.writes.user.request_blocks()).unwrap_or(u32::MAX);
    let others = state.writes.user.open_segments().filter(|slot| *slot != open.slot);
    let to_write = |slot| state.writes.queues.zone(slot, open.column).blocks_to_write();
    let other_blocks = others.map(to_write).max().unwrap_or(0);
    Coalescing::new(even_blocks).of_zone(max_transfer, request_blocks, other_blocks)
}

/// Writes to a zone and records the latency. Durable writes are not recorded, as they wait for more
/// than the drive's buffer.
async fn write(
    core: &Core,
    open: &OpenZone,
    at: ZoneAddress,
    payload: Payload,
    fua: bool,
) -> Result<Reply, Status> {
    let blocks = payload.blocks();
    let mut write = pin!(open.device.submit(Command::Write { at, payload, fua }));
    // A write that completes on submit delays no request.
    if let Poll::Ready(result) = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await
    {
        return result;
    }
    let begun = core.handle.now();
    let beside = core.state.borrow_mut().writes.drain.begin_write(open.column);
    let result = write.await;
    let mut state = core.state.borrow_mut();
    let among = state.writes.drain.end_write(open.column, beside);
    if result.is_ok() && !fua && state.writes.queues.coalesces(open.slot) {
        let now = core.handle.now();
        state.writes.drain.note(blocks, now.since(begun), among, now);
    }
    result
}

/// Writes the queue of a zone, one write after the other, until it is empty; it is emptied at once
/// if the member is taken out of service. Stripes in flight pin the segment.
async fn empty_queue(core: Rc<Core>, open: OpenZone) {
    let OpenZone { column, zone, ref device, .. } = open;
    loop {
        let next = queue_of(&mut core.state.borrow_mut(), &open).next();
        let Some(ZoneWrite { at, payload, fua, mut done, .. }) = next else { return };
        let at = ZoneAddress { zone, offset: at };
        assert!(!done.is_empty(), "a write at {at} of no chunk");
        let before = core.failures_before(column);
        let placed = place_of(write(&core, &open, at, payload, fua).await);
        let elsewhere =
            |told: ZoneAddress| if told == at { Ok(()) } else { Err(Status::InternalError) };
        let written = placed.and_then(elsewhere);
        core.record_chunk_write(column, device, before, written);
        let behind = match written {
            Ok(()) => Vec::new(),
            Err(_) => queue_of(&mut core.state.borrow_mut(), &open).break_off(),
        };
        let mut told = false;
        for done in done.drain(..) {
            told |= done.written_in_place(&core, written);
        }
        for done in behind {
            told |= done.written_in_place(&core, Err(Status::Aborted));
        }
        if told {
            core.changed.open();
        }
    }
}
