//! Commits a stripe after its last chunk: points the index at its blocks, and answers their
//! tickets.
//!
//! If a chunk failed or is in the wrong place, all blocks of the stripe return to the head of the
//! queue, and the segment is given up.

use std::rc::Rc;

use zoneweave_zoned::Lba;

use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::{Origin, PendingBlock, PendingData, PendingTrim, Ticket};
use crate::log::engine::address::{BlockPlace, Pba};
use crate::log::engine::class::Class;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::{ContentKind, IndexEntry, StreamKind};
use crate::log::index::remap::{Move, Moved};
use crate::log::segment::table::Phase;
use crate::log::write::in_flight::Placed;
use crate::log::write::plan::StripePlan;
use crate::scheme::{Column, Role};

/// Applies a stripe whose chunks are all written, or puts its blocks back.
pub(super) fn finish_stripe(
    core: &Rc<Core>,
    plan: StripePlan,
    entries: &[IndexEntry],
    placed: &[Option<Placed>],
) {
    let mut state = core.state.borrow_mut();
    let columns = state.array.scheme().columns();
    assert!(placed.len() == columns, "{} outcomes on {columns} columns", placed.len());
    let segment = &mut state.segments[plan.slot];
    segment.end_write();
    // Blocks relocated into a segment that is given up would have to be relocated again.
    let given_up = segment.phase() != Phase::Open && segment.stream == StreamKind::Relocation;
    let rows = if given_up { Err(None) } else { locate(&state, &plan, placed).map_err(Some) };
    let rows = match rows {
        Ok(rows) => rows,
        Err(because) => {
            mark(Mark::StripeElsewhere);
            let kind = state.segments[plan.slot].stream;
            requeue(&mut state, kind, plan.class, plan.blocks);
            drop(state);
            if let Some(column) = because {
                core.abort_segment(plan.slot, column);
            }
            return;
        }
    };
    mark_if(Mark::StripeInGivenUpSegment, || state.segments[plan.slot].phase() != Phase::Open);
    record(&mut state, &plan, entries, &rows);
    let geometry = state.segments[plan.slot].geometry;
    state.mapping.index.touch(plan.blocks.iter().filter_map(PendingBlock::lba));
    for (block, place) in plan.blocks.iter().zip(data_places(&geometry, &plan, &rows)) {
        apply(&mut state, block, place);
    }
    count(&mut state, &plan, &geometry);
    drop(state);
    for block in plan.blocks {
        answer(core, block, Ok(()));
    }
}

/// Updates the counters for a written stripe.
fn count(state: &mut State, plan: &StripePlan, geometry: &SegmentGeometry) {
    let (full, scheme) = (geometry.stripe_blocks() as u64, geometry.scheme());
    let blocks = plan.blocks.len() as u64;
    assert!(blocks <= full, "{blocks} blocks in a stripe of {full}");
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
    let group = geometry.group_of_stripe(plan.stripe);
    let mut rows = vec![Row(plan.stripe.0); placed.len()];
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
        let free = geometry.block_of(row, 0) >= segment.entries.first()
            && segment.entries.get(column, geometry.block_of(row, 0)) == IndexEntry::EMPTY;
        let in_group = group.contains(&row.0) || mutant(Mutant::AppendRetriedBlindly);
        if !right_zone || !in_group || !free {
            mark(Mark::ChunkMisplaced);
            return Err(column);
        }
        rows[index] = row;
    }
    let taken = |column: Column| {
        placed[column.index()].is_some() || segment.zones[column.index()].is_none()
    };
    assert!(
        geometry.scheme().iter().all(taken),
        "stripe {} of segment {} lacks a chunk: {placed:?}",
        plan.stripe,
        segment.id
    );
    Ok(rows)
}

/// Enters the chunks into the segment's entries and stripe table.
fn record(state: &mut State, plan: &StripePlan, entries: &[IndexEntry], rows: &[Row]) {
    let segment = &mut state.segments[plan.slot];
    let geometry = segment.geometry;
    let (blocks, chunk) = (entries.len(), geometry.chunk_blocks() as usize);
    assert!(
        blocks == geometry.scheme().columns() * chunk,
        "stripe {} of segment {} has {blocks} entries",
        plan.stripe,
        segment.id
    );
    let chunks = entries.chunks_exact(geometry.chunk_blocks() as usize);
    for (column, chunk) in geometry.scheme().iter().zip(chunks) {
        let row = rows[column.index()];
        if let (Some(table), Some(entry)) = (&mut segment.table, chunk.first()) {
            table.set(column, row, entry.stripe_in_group);
        }
        segment.enter(column, geometry.block_of(row, 0), chunk);
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
    let queue = state.writes.stream_mut(kind).queue_mut(class);
    for block in blocks.into_iter().rev() {
        queue.push_front(block);
    }
}

/// Completes a block: answers its request, or reports its address.
pub(super) fn answer(core: &Core, block: PendingBlock, result: Result<(), StopReason>) {
    if result.is_err() {
        count_out_failed(&mut core.state.borrow_mut(), &block);
    }
    let done = |ticket: &Ticket| u64::from(ticket.done(result));
    let durable: u64 = match block {
        PendingBlock::Data(pending) => done(&pending.ticket),
        PendingBlock::Tombstone(trims) => trims.iter().map(|trim| done(&trim.ticket)).sum(),
    };
    if durable > 0 {
        let waiting = core.state.borrow().writes.user.fua;
        assert!(waiting >= durable, "{durable} durable writes are answered of {waiting}");
        core.state.borrow_mut().writes.user.fua -= durable;
    }
}

fn count_out_failed(state: &mut State, block: &PendingBlock) {
    if let PendingBlock::Data(PendingData { lba, origin: Origin::User, .. }) = block {
        state.writes.inflight.end_write(*lba, None);
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
            state.count_moved(state.space.place(from).slot);
            return state.move_page(pending.lba, from, pba);
        }
        Origin::User => {
            state.counters.user_blocks_written += 1;
            state.writes.user.returning.record_answer();
            state.checkpoints.count_written();
            if let Some(offload) = &mut state.mapping.offload {
                offload.record_write(1);
            }
            let newest = state.writes.inflight.end_write(pending.lba, Some(pending.sequence));
            mark_if(Mark::OvertakenByNewer, || !newest);
            newest
        }
        Origin::Relocation { from } => {
            state.counters.relocated_blocks += 1;
            state.count_moved(state.space.place(from).slot);
            let unchanged = state.mapping.index.get(pending.lba) == Some(from);
            mark_if(Mark::MoveOvertaken, || !unchanged);
            unchanged || mutant(Mutant::MoveIgnoresIndex)
        }
    };
    assert!(matches!(pending.kind, ContentKind::Data | ContentKind::Lost));
    if takes_effect {
        if let Origin::Relocation { from } = pending.origin {
            let trimmed = state.mapping.tombstones.contains_key(&from);
            let what = if trimmed { Moved::Trimmed } else { Moved::Data };
            state.reclaim.moves.push(Move { lba: pending.lba, blocks: 1, from, to: pba, what });
        }
        state.remap(pending.lba, Some(pba));
    }
}

fn apply_trim(state: &mut State, trim: &PendingTrim, pba: Pba) {
    let extent = trim.extent;
    if let (Origin::User, Some(offload)) = (trim.origin, &mut state.mapping.offload) {
        offload.record_write(2 + extent.blocks / state.mapping.index.page_entries());
    }
    let (end, capacity) = (extent.lba.0 + extent.blocks, state.array.config.log().volume_blocks);
    assert!(end <= capacity, "a trim up to block {end} of {capacity} was written");
    let mut moves = MovedRuns::default();
    for lba in extent.lba.0..extent.lba.0 + extent.blocks {
        let lba = Lba(lba);
        let before = state.mapping.index.get(lba);
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
        assert!(
            self.0.as_ref().is_none_or(|run| (run.from, run.to) == (from, to)),
            "block {lba} moves from {from:?} to {to:?} with another tombstone block"
        );
        match &mut self.0 {
            Some(run) if run.lba.0 + run.blocks == lba.0 => run.blocks += 1,
            run => {
                let next = Move { lba, blocks: 1, from, to, what: Moved::Trimmed };
                state.reclaim.moves.extend(run.replace(next));
            }
        }
    }

    fn end(self, state: &mut State) {
        state.reclaim.moves.extend(self.0);
    }
}
