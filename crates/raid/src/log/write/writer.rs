//! The stream writers: one task per stream turns queued blocks into stripes.
//!
//! `State::next_step` decides; the task carries the decision out. Stripes in flight run by
//! themselves (`completion`), bounded per segment. A stripe takes effect (the index points at it,
//! requests are answered) only when every column of its segment has its chunk.
//!
//! If any write fails, the segment is given up, and the stripe's blocks return to the head of the
//! queue with their sequences. An append is never retried in place, so no address can hold a block
//! twice.

use crate::log::segment::pin::Hold;
use std::pin::pin;
use std::rc::Rc;

use zoneweave_zoned::{BlockError, Lba, Status, ZoneAddress};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::{Origin, PendingBlock, PendingData, PendingTrim, Ticket};
use crate::log::engine::address::{BlockPlace, Pba};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::{ContentKind, IndexEntry, StreamKind};
use crate::log::index::remap::{Move, Moved};
use crate::log::segment::open;
use crate::log::segment::spans;
use crate::log::segment::table::Phase;
use crate::log::write::chunk;
use crate::log::write::completion::{ChunkUnderWay, Placed, UnderWay};
use crate::log::write::lane::{Class, LaneId};
use crate::log::write::open_zone::OpenZone;
use crate::log::write::plan::{Chore, Step, StripePlan};
use crate::log::write::stripe::{StripeIdentity, build};
use crate::log::write::zone_queue::Chunk;
use crate::scheme::{Column, Role};

/// Runs a stream's writer until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>, kind: StreamKind) {
    while !core.closing.get() {
        end_aborted(&core);
        let now = core.handle.now();
        let step = core.state.borrow_mut().next_step(kind, now);
        match step {
            Step::Wait => wait(&core, kind).await,
            Step::LetRun => core.handle.yield_now().await,
            Step::Stripe(plan) => start_stripe(&core, plan),
            Step::Tend(lane, chore) => tend(&core, kind, lane, chore),
            Step::FailQueue(reason) => fail_queue(&core, kind, reason),
        }
    }
    // Stripes in flight may still return their blocks to the queue.
    loop {
        end_aborted(&core);
        fail_queue(&core, kind, "the volume is shutting down");
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
    core.state.borrow_mut().aborted.pop_front()
}

/// Prepares a lane in a task of its own while others go on; one task at a time for each lane.
fn tend(core: &Rc<Core>, kind: StreamKind, lane: LaneId, chore: Chore) {
    let inner = core.clone();
    // Pinned from now on: other tasks run before this one starts.
    let held = match chore {
        Chore::OpenSegment => None,
        Chore::EndGroup(slot) | Chore::EndSpan(slot, _) => Some(Hold::new(core, slot)),
    };
    core.handle.spawn("lane", async move {
        match chore {
            Chore::OpenSegment => open::open_segment(&inner, kind, lane).await,
            Chore::EndGroup(slot) => end_group(&inner, slot).await,
            Chore::EndSpan(slot, span) => spans::write(&inner, slot, span).await,
        }
        drop(held);
        inner.state.borrow_mut().stream_mut(kind).lane_mut(lane).busy = false;
        inner.changed.open();
    });
}

/// No write enters a group before the one before it is durable.
async fn end_group(core: &Rc<Core>, slot: crate::log::engine::address::SegmentSlot) {
    let flush = !core.state.borrow().fua_always && !mutant(Mutant::GroupNotFlushed);
    if flush && core.flush_members().await.is_err() {
        mark(Mark::GroupEndStopped);
        return;
    }
    let mut state = core.state.borrow_mut();
    if state.segments[slot].phase == Phase::Open {
        state.advance_group(slot);
    } else {
        mark(Mark::GroupGivenUp);
    }
}

fn fail_queue(core: &Core, kind: StreamKind, reason: &'static str) {
    let queue: Vec<_> = core.state.borrow_mut().stream_mut(kind).take_all().collect();
    if queue.is_empty() {
        // The writer is not notified: two writers waiting for each other's stripes would wake each
        // other for ever.
        return;
    }
    mark(Mark::QueueRefused);
    for block in queue {
        answer(core, block, &Err(BlockError::ReadOnly { reason }));
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
        let geometry = segment.geometry;
        let group = geometry.group_of(Row(stripe));
        let identity = StripeIdentity {
            array: state.config.array,
            generation: segment.generation,
            stripe,
            stripe_in_group: u16::try_from(stripe - group.start).expect("a group's rows"),
            columns: segment.columns(),
        };
        let built =
            build(core.code(geometry.scheme()), &geometry, identity, core.padding, &plan.blocks);
        (built, geometry, segment.table.is_some())
    };
    let (scheme, offset) = (geometry.scheme(), geometry.offset_of_row(Row(stripe)));
    let under_way = UnderWay::new(plan, built.entries, scheme.width());
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
            done = ChunkUnderWay::beside(column, at, Hold::new(core, slot));
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

/// Applies a stripe whose chunks are all written, or puts its blocks back.
pub(in crate::log) fn finish_stripe(
    core: &Rc<Core>,
    plan: StripePlan,
    entries: &[IndexEntry],
    placed: &[Option<Placed>],
) {
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[plan.slot];
    segment.in_flight -= 1;
    // Blocks relocated into a segment that is given up would have to be relocated again.
    let given_up = segment.phase != Phase::Open && segment.stream == StreamKind::Relocation;
    let rows = if given_up { Err(None) } else { locate(&state, &plan, placed).map_err(Some) };
    let rows = match rows {
        Ok(rows) => rows,
        Err(because) => {
            mark(Mark::StripeElsewhere);
            let kind = state.segments[plan.slot].stream;
            requeue(&mut state, kind, plan.class, plan.blocks);
            drop(state);
            if let Some(column) = because {
                core.spoil(plan.slot, column);
            }
            return;
        }
    };
    mark_if(Mark::StripeInGivenUpSegment, || state.segments[plan.slot].phase != Phase::Open);
    record(&mut state, &plan, entries, &rows);
    let geometry = state.segments[plan.slot].geometry;
    state.index.touch(plan.blocks.iter().filter_map(PendingBlock::lba));
    for (block, place) in plan.blocks.iter().zip(data_places(&geometry, &plan, &rows)) {
        apply(&mut state, block, place);
    }
    count(&mut state, &plan, &geometry);
    drop(state);
    for block in plan.blocks {
        answer(core, block, &Ok(()));
    }
}

/// Updates the counters for a written stripe.
fn count(state: &mut State, plan: &StripePlan, geometry: &SegmentGeometry) {
    let (full, scheme) = (geometry.stripe_blocks() as u64, geometry.scheme());
    let blocks = plan.blocks.len() as u64;
    let padding = full - blocks;
    state.counters.padding_blocks += padding;
    let class = state.class_counters(plan.slot);
    class.written_blocks += blocks;
    class.padding_blocks += padding;
    state.counters.parity_blocks += full / scheme.data() as u64 * scheme.parity() as u64;
}

/// The row of each column's chunk. A missing column has the row that it would have if all chunks
/// were written in order, so that a rebuild knows which chunk belongs there.
///
/// # Errors
/// The column whose chunk was not written to its place.
fn locate(state: &State, plan: &StripePlan, placed: &[Option<Placed>]) -> Result<Vec<Row>, Column> {
    let segment = &state.segments[plan.slot];
    let geometry = &segment.geometry;
    let group = geometry.group_of(Row(plan.stripe));
    let mut rows = vec![Row(plan.stripe); placed.len()];
    for (index, placed) in placed.iter().enumerate() {
        let column = Column::of(index);
        let Some(placed) = placed else { continue };
        if placed.is_err() && mutant(Mutant::FailedChunkIgnored) {
            continue;
        }
        let at = placed.map_err(|_| column)?;
        let row = geometry.row_at(at.offset).ok_or(column)?;
        mark_if(Mark::MemberFailedMeanwhile, || segment.zones[index].is_none());
        // A member that failed meanwhile has no column: its chunk is not required.
        let right_zone = segment.zones[index].is_none_or(|zone| zone.zone == at.zone);
        let free = geometry.block_of(row, 0) >= segment.first_unindexed
            && segment.recorded(column, geometry.block_of(row, 0)) == IndexEntry::EMPTY;
        let in_group = group.contains(&row.0) || mutant(Mutant::AppendRetriedBlindly);
        if !right_zone || !in_group || !free {
            mark(Mark::ChunkMisplaced);
            return Err(column);
        }
        rows[index] = row;
    }
    Ok(rows)
}

/// Enters the chunks into the segment's entries and stripe table.
fn record(state: &mut State, plan: &StripePlan, entries: &[IndexEntry], rows: &[Row]) {
    let segment = &mut state.segments[plan.slot];
    let geometry = segment.geometry;
    let chunks = entries.chunks_exact(geometry.chunk_blocks() as usize);
    for (column, chunk) in geometry.scheme().iter().zip(chunks) {
        let row = rows[column.index()];
        if let (Some(table), Some(entry)) = (&mut segment.table, chunk.first()) {
            table.set(column, row, entry.stripe_in_group);
        }
        segment.record(column, geometry.block_of(row, 0), chunk);
    }
}

/// Address of each data block of the stripe, in order.
fn data_places(
    geometry: &SegmentGeometry,
    plan: &StripePlan,
    rows: &[Row],
) -> impl Iterator<Item = BlockPlace> {
    let (scheme, slot, stripe) = (geometry.scheme(), plan.slot, plan.stripe);
    (0..scheme.data()).flat_map(move |role| {
        let column = scheme.column_of(Role::of(role), stripe);
        let first = geometry.block_of(rows[column.index()], 0);
        let place = move |within| BlockPlace { slot, column, block: ChunkBlock(first.0 + within) };
        (0..geometry.chunk_blocks()).map(place)
    })
}

/// Returns blocks to the head of a queue, in order.
fn requeue(state: &mut State, kind: StreamKind, class: Class, blocks: Vec<PendingBlock>) {
    let queue = state.stream_mut(kind).queue_mut(class);
    for block in blocks.into_iter().rev() {
        queue.push_front(block);
    }
}

/// Completes a block: answers its request, or reports its address.
fn answer(core: &Core, block: PendingBlock, result: &Result<(), BlockError>) {
    if result.is_err() {
        count_out_failed(&mut core.state.borrow_mut(), &block);
    }
    let done = |ticket: &Ticket| u64::from(ticket.done(result.clone()));
    let durable: u64 = match block {
        PendingBlock::Data(pending) => done(&pending.ticket),
        PendingBlock::Tombstone(trims) => trims.iter().map(|trim| done(&trim.ticket)).sum(),
    };
    if durable > 0 {
        core.state.borrow_mut().user.fua -= durable;
    }
}

fn count_out_failed(state: &mut State, block: &PendingBlock) {
    if let PendingBlock::Data(PendingData { lba, origin: Origin::User, .. }) = block {
        state.inflight.end_write(*lba, None);
    }
}

fn apply(state: &mut State, block: &PendingBlock, place: BlockPlace) {
    let pba = state.space.pba(place);
    match block {
        PendingBlock::Data(pending) => apply_data(state, pending, pba),
        PendingBlock::Tombstone(trims) => {
            state.add_tombstone(pba);
            for trim in trims {
                apply_trim(state, trim, pba);
            }
            state.drop_unused_tombstone(pba);
        }
    }
}

fn apply_data(state: &mut State, pending: &PendingData, pba: Pba) {
    let takes_effect = match pending.origin {
        Origin::Checkpoint { piece } => return state.place_piece(piece, pba),
        Origin::Relocation { from } if pending.kind == ContentKind::Mapping => {
            state.counters.relocated_blocks += 1;
            state.note_moved(state.space.place(from).slot);
            return state.move_page(pending.lba, from, pba);
        }
        Origin::User => {
            state.counters.user_blocks_written += 1;
            state.user.note_answered();
            state.checkpoints.note_written();
            if let Some(offload) = &mut state.offload {
                offload.note_written(1);
            }
            let newest = state.inflight.end_write(pending.lba, Some(pending.sequence));
            mark_if(Mark::OvertakenByNewer, || !newest);
            newest
        }
        Origin::Relocation { from } => {
            state.counters.relocated_blocks += 1;
            state.note_moved(state.space.place(from).slot);
            let unchanged = state.index.get(pending.lba) == Some(from);
            mark_if(Mark::MoveOvertaken, || !unchanged);
            unchanged || mutant(Mutant::MoveIgnoresIndex)
        }
    };
    assert!(matches!(pending.kind, ContentKind::Data | ContentKind::Lost));
    if takes_effect {
        if let Origin::Relocation { from } = pending.origin {
            let trimmed = state.tombstones.contains_key(&from);
            let what = if trimmed { Moved::Trimmed } else { Moved::Data };
            state.moves.push(Move { lba: pending.lba, blocks: 1, from, to: pba, what });
        }
        state.remap(pending.lba, Some(pba));
    }
}

fn apply_trim(state: &mut State, trim: &PendingTrim, pba: Pba) {
    let extent = trim.extent;
    if let (Origin::User, Some(offload)) = (trim.origin, &mut state.offload) {
        offload.note_written(2 + extent.blocks / state.index.page_entries());
    }
    let mut moves = MovedRuns::default();
    for lba in extent.lba.0..extent.lba.0 + extent.blocks {
        let lba = Lba(lba);
        let before = state.index.get(lba);
        let takes_effect = match trim.origin {
            // A trim excludes every other request of its range, so it is the newest. A trim that
            // recovery rewrites hides entries that may not be in the index yet.
            Origin::User => before.is_some() || state.recovering.is_some(),
            Origin::Relocation { from } => before == Some(from),
            Origin::Checkpoint { .. } => false,
        };
        if takes_effect {
            state.remap(lba, Some(pba));
            if let Origin::Relocation { from } = trim.origin {
                moves.add(state, lba, from, pba);
            }
        }
    }
    moves.end(state);
}

/// Applies a relocated trim to the index, run by run. Of two trims in one block, the older has
/// nothing to restore where the newer one is valid.
#[derive(Default)]
struct MovedRuns(Option<Move>);

impl MovedRuns {
    fn add(&mut self, state: &mut State, lba: Lba, from: Pba, to: Pba) {
        match &mut self.0 {
            Some(run) if run.lba.0 + run.blocks == lba.0 => run.blocks += 1,
            run => {
                let next = Move { lba, blocks: 1, from, to, what: Moved::Trimmed };
                state.moves.extend(run.replace(next));
            }
        }
    }

    fn end(self, state: &mut State) {
        state.moves.extend(self.0);
    }
}
