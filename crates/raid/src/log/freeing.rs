//! Freeing segments in which nothing is live any more: their zones are reset and used again.

use std::rc::Rc;

use crate::layout::Column;
use crate::log::checkpoint;
use crate::log::collect::{hold, release};
use crate::log::core::Core;
use crate::log::format::RecordBody;
use crate::log::index::SegmentSlot;
use crate::log::segment::Phase;
use crate::log::state::Empty;
use crate::marks::{Mark, mark};
use crate::mutants::{Mutant, mutant};

/// Frees segments with nothing live in them, until the volume closes. A task of its own, so that
/// it can make room while blocks that are being moved wait for it.
pub(super) async fn sweep(core: Rc<Core>) {
    while !core.closing.get() {
        let empty = {
            let mut state = core.state.borrow_mut();
            let stopped = state.stopped.is_some() || state.membership_dirty;
            let empty = if stopped { None } else { state.empty_segment() };
            if let Some(Empty::Waits(slot)) = empty {
                mark(Mark::CheckpointHoldsSegment);
                if state.want_checkpoint(slot) {
                    core.changed.open();
                }
            }
            let free = if let Some(Empty::Free(slot)) = empty { Some(slot) } else { None };
            hold(&mut state, free)
        };
        let Some(slot) = empty else {
            core.changed.wait().await;
            continue;
        };
        if !free(&core, slot).await {
            release(&core, slot);
            core.handle.yield_now().await;
        }
    }
}

/// Frees a segment out of which everything live was moved. `false` if something came back, or
/// the volume stopped.
async fn free(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    if core.state.borrow().ends_checkpoint(slot) && checkpoint::end(core).await.is_err() {
        return false;
    }
    let flush = !mutant(Mutant::ResetBeforeMovesFlushed);
    if flush && core.flush_members().await.is_err() {
        return false;
    }
    let generation = {
        let mut state = core.state.borrow_mut();
        let segment = &mut state.segments[slot];
        if segment.valid > 0 || segment.in_flight > 0 {
            mark(Mark::CameBackToLife);
            return false;
        }
        if state.ends_checkpoint(slot) {
            mark(Mark::CheckpointBrokenMeanwhile);
            return false;
        }
        let segment = &mut state.segments[slot];
        segment.phase = Phase::Dead;
        let generation = segment.generation;
        state.note_freed(slot);
        state.note_lifespan(slot);
        state.forget_moves(slot);
        state.dead.insert(generation);
        generation
    };
    let record = !mutant(Mutant::DeadNotRecorded);
    if record && core.superblock.commit(core, RecordBody::Dead(vec![generation])).await.is_err() {
        return false;
    }
    while core.state.borrow().segments[slot].readers > 0 && !mutant(Mutant::ReadersNotAwaited) {
        mark(Mark::WaitedForReaders);
        core.changed.wait().await;
    }
    free_zones(core, slot).await
}

/// Resets the zones of a dead segment and gives them back.
async fn free_zones(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    let zones = core.state.borrow().segments[slot].zones.clone();
    let early = mutant(Mutant::ZonesReusedBeforeAllReset);
    if early {
        let mut state = core.state.borrow_mut();
        let generation = state.segments[slot].generation;
        state.dead.remove(&generation);
    }
    let columns = zones.iter().enumerate();
    let resets = columns.filter_map(|(column, zone)| Some((Column::of(column), (*zone)?)));
    let resets = resets.map(|(column, zone)| async move {
        let reset = core.reset_zone(column, zone.zone).await;
        if early && reset.is_ok() {
            let member = &mut core.state.borrow_mut().members[column.index()];
            member.pool.add(zone.zone, zone.resets + 1);
            core.changed.open();
        }
        (column, zone, reset)
    });
    let results = futures_util::future::join_all(resets).await;
    if core.flush_members().await.is_err() {
        return false;
    }
    let mut state = core.state.borrow_mut();
    let segment = state.segments.remove(slot);
    let mut lost = Vec::new();
    for (column, zone, result) in results {
        let member = &mut state.members[column.index()];
        // A member that failed meanwhile, or was replaced, does not have this zone any more.
        if segment.zones[column.index()] == Some(zone) {
            member.active_zones -= u32::from(segment.holds_active_zones);
            match result {
                Ok(()) if early => {}
                Ok(()) => member.pool.add(zone.zone, zone.resets + 1),
                // The zone keeps the dead segment's blocks: so does the record that says so.
                Err(_) => {
                    mark(Mark::ZoneNotReset);
                    lost.push(column);
                }
            }
        } else {
            mark(Mark::MemberLostWhileFreeing);
        }
    }
    if lost.is_empty() {
        state.dead.remove(&segment.generation);
    }
    state.seals.remove(&segment.id);
    state.counters.segments_reclaimed += 1;
    mark(Mark::SegmentFreed);
    drop(state);
    lost.into_iter().for_each(|column| core.note_lost_zone(column));
    core.changed.open();
    true
}
