//! Makes the decisions of recovery durable before anything is served.
//!
//! Until the decision on an unfinished segment is on media, the next start may decide otherwise
//! from the same chunks. Until then nothing may go that the next start would need. It also has to
//! repeat the rewrites, so the segments that receive them are sealed as empty before they are
//! filled. An interrupted recovery, or a failed write after which recovery begins anew, therefore
//! costs no segment, however often it happens.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_runtime::JoinHandle;

use crate::array::health::Members;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{Lineage, RecordBody, SealRecord};
use crate::log::index::load;
use crate::log::index::partition::Candidate;
use crate::log::reclaim::collector::{self, move_out};
use crate::log::recover::dead;
use crate::log::recover::rewrite::rewrite_weak;
use crate::log::segment::active_zones::seal_of_written;
use crate::log::segment::table::Segment;

/// Makes the decisions of recovery durable.
///
/// # Errors
/// If writes stop, or recovery has to begin anew.
pub(in crate::log) async fn publish(
    core: &Rc<Core>,
    candidates: Vec<Candidate>,
    seals: Vec<SealRecord>,
    forced: Option<Lineage>,
) -> Result<(), StopReason> {
    {
        let mut state = core.state.borrow_mut();
        assert!(state.recovering.is_some(), "{} seals after a recovery ended", seals.len());
        if let Some(lineage) = forced {
            state.array.version.lineage = lineage;
            state.array.membership_dirty = true;
        }
        for (_, segment) in state.segments.iter_mut() {
            segment.retained_for_restart |= segment.valid() > 0;
        }
    }
    // Recovery read through caches in which a killed writer may have left its blocks, so they are
    // flushed before a decision relies on them.
    if !mutant(Mutant::DecisionBeforeFlush) {
        core.flush_caches().await;
    }
    core.superblock.commit_snapshot(core).await?;
    {
        let mut state = core.state.borrow_mut();
        (state.writes.sequence_ceiling, state.registry.segment_ceiling) =
            state.writes.ceilings_to_record;
        // Otherwise a number on media could be assigned again.
        let (sequence, segment) = (state.writes.next_sequence, state.registry.next_segment);
        assert!(
            sequence < state.writes.sequence_ceiling && segment < state.registry.segment_ceiling,
            "sequence {sequence} or segment {segment} reaches a ceiling that was just recorded"
        );
    }
    dead::reset_dead(core).await?;
    let tasks = collector::start(core);
    let published = decide(core, &candidates, seals).await;
    if published.is_err() {
        stop(core, tasks).await;
        return published;
    }
    let mut state = core.state.borrow_mut();
    let ended = state.recovering.take();
    assert!(ended.is_some(), "a recovery ends while its decisions are made durable");
    if state.mapping.absent.is_none() {
        state.segments.iter_mut().for_each(|(_, segment)| segment.retained_for_restart = false);
    }
    state.counters = crate::log::engine::counters::Counters::default();
    drop(state);
    core.changed.open();
    Ok(())
}

/// Ends the tasks that were started, so that recovery can begin anew.
async fn stop(core: &Rc<Core>, tasks: Vec<JoinHandle<()>>) {
    core.begin_closing();
    join_all(tasks).await;
    core.superblock.commits_ended().await;
}

async fn decide(
    core: &Rc<Core>,
    candidates: &[Candidate],
    seals: Vec<SealRecord>,
) -> Result<(), StopReason> {
    rewrite_weak(core, candidates).await?;
    make_room(core).await?;
    if !mutant(Mutant::DecisionBeforeFlush) {
        core.flush_members().await?;
    }
    // The rewritten blocks become valid before the stripes that they replace are discarded.
    for seal in close_filled(core).await {
        core.record_seal(seal).await?;
    }
    for seal in seals {
        // The segment may be gone already, and needs no decision then.
        let is_it = |(_, segment): (_, &Segment)| segment.id == seal.segment;
        if !core.state.borrow().segments.iter().any(is_it) {
            mark(Mark::SealNotNeeded);
            continue;
        }
        if mutant(Mutant::DecisionNotRecorded) {
            continue;
        }
        if mutant(Mutant::DecisionRecordedLate) {
            record_late(core, seal);
            continue;
        }
        core.record_seal(seal).await?;
    }
    Ok(())
}

/// Relocates another segment if rewriting took the last free one and failed writes took the
/// reserve: with no free segment nothing could ever be relocated.
async fn make_room(core: &Rc<Core>) -> Result<(), StopReason> {
    if core.state.borrow().free_segments() == 0 {
        // Picking a victim needs the complete index.
        load::read_all(core).await?;
    }
    let Some(slot) = core.state.borrow().must_move_first() else { return Ok(()) };
    mark(Mark::RecoveryMadeRoom);
    move_out(core, slot).await;
    core.state.borrow().array.stopped.map_or(Ok(()), Err)
}

/// Closes the segments that recovery has filled; returns the seals that make their contents valid.
async fn close_filled(core: &Rc<Core>) -> Vec<SealRecord> {
    while filled(&core.state.borrow()).any(|(_, segment)| segment.in_flight() > 0) {
        core.changed.wait().await;
    }
    let mut state = core.state.borrow_mut();
    let mut seals = Vec::new();
    let slots: Vec<_> = filled(&state).map(|(slot, _)| slot).collect();
    for slot in slots {
        let segment = &state.segments[slot];
        // Until its own seal is on media, a next start takes none of its blocks.
        assert!(
            state.registry.seals.contains_key(&segment.id),
            "segment {} was filled before it was sealed as empty",
            segment.id
        );
        assert!(
            segment.in_flight() == 0,
            "segment {} is closed with {} stripes in flight",
            segment.id,
            segment.in_flight()
        );
        state.close(slot);
        state.forget_moves_to(slot);
        if state.segments[slot].valid() > 0 {
            mark(Mark::RescueSealed);
            // A copy of its blocks in a segment sealed as empty would not count.
            state.segments[slot].retained_for_restart = true;
            seals.push(seal_of_written(&state.segments[slot]));
        }
    }
    seals
}

fn filled(state: &State) -> impl Iterator<Item = (SegmentSlot, &Segment)> {
    let ours = |segment: &Segment| {
        state.recovering.as_ref().is_some_and(|recovering| recovering.filled(segment.id))
    };
    state.segments.iter().filter(move |(_, segment)| ours(segment))
}

/// Records the seal after users are served; for [`Mutant::DecisionRecordedLate`].
fn record_late(core: &Rc<Core>, seal: SealRecord) {
    core.state.borrow_mut().registry.seals.insert(seal.segment, seal.clone());
    let inner = core.clone();
    let commit =
        async move { inner.superblock.commit(&inner, RecordBody::Seals(vec![seal])).await };
    core.handle.spawn("late seal", commit);
}
