//! The stream writers: one task per stream turns queued blocks into stripes.
//!
//! `State::next_step` decides; the task carries the decision out. Stripes in flight run by
//! themselves (`completion`), bounded per segment. A stripe takes effect (the index points at it,
//! requests are answered) only when every column of its segment has its chunk.
//!
//! If any write fails, the segment is given up, and the stripe's blocks return to the head of the
//! queue with their sequences. An append is never retried in place, so no address can hold a block
//! twice.

use std::pin::pin;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneAddress};

use crate::array::health::Members;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::Row;
use crate::log::format::StreamKind;
use crate::log::segment::lane::LaneId;
use crate::log::segment::pin::Hold;
use crate::log::segment::table::Phase;
use crate::log::segment::{open, spans};
use crate::log::write::commit::answer;
use crate::log::write::in_flight::{ChunkUnderWay, UnderWay};
use crate::log::write::plan::{LaneTask, Step, StripePlan};
use crate::log::write::stripe::{StripeIdentity, build};
use crate::log::write::zone::chunk;
use crate::log::write::zone::open_zone::OpenZone;
use crate::log::write::zone::queue::Chunk;

/// Runs a stream's writer until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>, kind: StreamKind) {
    while !core.closing.get() {
        end_aborted(&core);
        let now = core.handle.now();
        let step = core.state.borrow_mut().next_step(kind, now);
        match step {
            Step::Wait => wait(&core, kind).await,
            Step::Yield => core.handle.yield_now().await,
            Step::Stripe(plan) => start_stripe(&core, plan),
            Step::Run(lane, task) => run_task(&core, kind, lane, task),
            Step::FailQueue(reason) => fail_queue(&core, kind, reason),
        }
    }
    // Stripes in flight may still return their blocks to the queue.
    loop {
        end_aborted(&core);
        fail_queue(&core, kind, StopReason::ShuttingDown);
        if !core.state.borrow().is_writing(kind) {
            return;
        }
        core.changed.wait().await;
    }
}

/// Waits until a stream may have another step to take.
async fn wait(core: &Core, kind: StreamKind) {
    let changed = core.changed.wait();
    if kind == StreamKind::User {
        let queued = pin!(core.queued.wait());
        futures_util::future::select(pin!(changed), queued).await;
    } else {
        changed.await;
    }
}

/// Reports chunks as not written whose drive was taken out of service.
fn end_aborted(core: &Rc<Core>) {
    let mut ended = false;
    // The end of a stripe may take another drive out of service.
    while let Some(chunk) = next_aborted(core) {
        ended |= chunk.written(core, Err(Status::Aborted));
    }
    if ended {
        core.changed.open();
    }
}

fn next_aborted(core: &Core) -> Option<ChunkUnderWay> {
    core.state.borrow_mut().writes.aborted.pop_front()
}

/// Prepares a lane in a task of its own while others go on; one task at a time for each lane.
fn run_task(core: &Rc<Core>, kind: StreamKind, lane: LaneId, task: LaneTask) {
    let inner = core.clone();
    // Pinned from now on: other tasks run before this one starts.
    let held = match task {
        LaneTask::OpenSegment => None,
        LaneTask::EndGroup(slot) | LaneTask::EndSpan(slot, _) => Some(Hold::new(core, slot)),
    };
    core.handle.spawn("lane", async move {
        match task {
            LaneTask::OpenSegment => open::open_segment(&inner, kind, lane).await,
            LaneTask::EndGroup(slot) => end_group(&inner, slot).await,
            LaneTask::EndSpan(slot, span) => spans::write(&inner, slot, span).await,
        }
        drop(held);
        {
            let mut state = inner.state.borrow_mut();
            let prepared = state.writes.stream_mut(kind).lane_mut(lane);
            assert!(prepared.busy, "lane {} of {kind:?} was not being prepared", lane.0);
            prepared.busy = false;
        }
        inner.changed.open();
    });
}

/// No write enters a group before the one before it is durable.
async fn end_group(core: &Rc<Core>, slot: crate::log::engine::address::SegmentSlot) {
    let flush = !core.state.borrow().array.fua_always && !mutant(Mutant::GroupNotFlushed);
    if flush && core.flush_members().await.is_err() {
        mark(Mark::GroupEndStopped);
        return;
    }
    let mut state = core.state.borrow_mut();
    if state.segments[slot].phase() == Phase::Open {
        state.advance_group(slot);
    } else {
        mark(Mark::GroupGivenUp);
    }
}

fn fail_queue(core: &Core, kind: StreamKind, reason: StopReason) {
    let queue: Vec<_> = core.state.borrow_mut().writes.stream_mut(kind).take_all().collect();
    if queue.is_empty() {
        // The writer is not notified: two writers waiting for each other's stripes would wake each
        // other for ever.
        return;
    }
    mark(Mark::QueueRefused);
    for block in queue {
        answer(core, block, Err(reason));
    }
    core.changed.open();
}

/// Builds a stripe and submits its chunks in order, so that a drive sees writes of a zone in the
/// order of their rows.
fn start_stripe(core: &Rc<Core>, plan: StripePlan) {
    let (slot, stripe, fua) = (plan.slot, plan.stripe, plan.fua);
    let (built, geometry, tabled) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        assert!(segment.in_flight() > 0, "segment {} does not expect a stripe", segment.id);
        let geometry = segment.geometry;
        let group = geometry.group_of_stripe(stripe);
        let identity = StripeIdentity {
            array: state.array.config.array,
            generation: segment.generation,
            stripe,
            stripe_in_group: stripe.position_in(&group),
            columns: segment.columns(),
        };
        let built =
            build(core.code(geometry.scheme()), &geometry, identity, core.padding, &plan.blocks);
        (built, geometry, segment.table.is_some())
    };
    let (scheme, offset) = (geometry.scheme(), geometry.offset_of_row(Row(stripe.0)));
    let under_way = UnderWay::new(plan, built.entries, scheme.width());
    assert!(
        built.payloads.len() == scheme.columns(),
        "{} chunks for {} columns",
        built.payloads.len(),
        scheme.columns()
    );
    let mut appends = Vec::new();
    for (column, payload) in scheme.iter().zip(built.payloads) {
        let zone = core.state.borrow().segments[slot].zones[column.index()];
        let Some(zone) = zone.map(|zone| zone.zone) else {
            mark(Mark::DegradedStripe);
            continue;
        };
        let at = ZoneAddress { zone, offset };
        let is_parity = !scheme.is_data(scheme.role_of(column, stripe));
        let fua = fua && !(is_parity && mutant(Mutant::FuaSkipsParity));
        let mut done = under_way.share(column, at);
        if is_parity && mutant(Mutant::AckBeforeParity) {
            done.written_in_place(core, Ok(()));
            done = ChunkUnderWay::beside(column, at, Box::new(Hold::new(core, slot)));
        }
        let Some(device) = core.device(column) else {
            done.written(core, Err(Status::DeviceGone));
            continue;
        };
        let open = OpenZone { slot, column, zone, device };
        if tabled {
            appends.push(chunk::append(core, open, payload, fua, done));
        } else {
            let chunk = Chunk { at: offset, payload, fua, done };
            if let Some(refused) = chunk::queue(core, open, chunk) {
                refused.written(core, Err(Status::Aborted));
            }
        }
    }
    if tabled {
        core.handle.spawn_alone("stripe", chunk::appended(core.clone(), appends));
    }
    if under_way.end(core) {
        core.changed.open();
    }
}
