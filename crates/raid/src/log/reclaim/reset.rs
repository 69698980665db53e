//! Frees segments without live blocks: their zones are reset and used again.

use std::rc::Rc;

use zoneweave_runtime::{Permit, Semaphore};

use crate::array::health::Members;
use crate::array::member::Member;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{Death, MemberState, RecordBody, Remains};
use crate::log::index::checkpoint;
use crate::log::segment::active_zones::is_active_no_more;
use crate::log::segment::table::{Phase, Segment, SegmentTable, Work};
use crate::scheme::{Column, ColumnSet, MAX_COLUMNS};

/// Most segments freed at a time: one record contains all their deaths.
const FREED_AT_A_TIME: usize = 16;
/// Most dead segments with readers that are waited for in the background.
const READ_STILL: u64 = 256;
const _: () = assert!(FREED_AT_A_TIME <= RecordBody::deaths_most(MAX_COLUMNS));

/// Permits for dead segments that are or were read when they died.
struct ReadStill {
    /// One for each, from its death on.
    segments: Semaphore,
    /// One for each without readers, while it is freed.
    freed: Semaphore,
}

/// Frees segments without live blocks, until the volume closes. It is a task of its own, so that it
/// can free space while relocation waits for it.
pub(in crate::log) async fn sweep(core: Rc<Core>) {
    let read_still = ReadStill {
        segments: Semaphore::new(READ_STILL),
        freed: Semaphore::new(FREED_AT_A_TIME as u64),
    };
    while !core.closing.get() {
        let empty = core.state.borrow_mut().take_empty();
        if empty.is_empty() {
            let waiting = core.state.borrow().waiting_segment();
            if waiting.is_some_and(|slot| core.state.borrow_mut().want_checkpoint(slot)) {
                core.changed.open();
            }
            core.changed.wait().await;
            continue;
        }
        mark_if(Mark::FreedTogether, || empty.len() > 1);
        if !free(&core, &empty, &read_still).await {
            core.state.borrow_mut().segments.leave_alone(&empty);
            core.changed.open();
            core.handle.yield_now().await;
        }
    }
    read_still.segments.acquire_many(READ_STILL).await;
}

impl SegmentTable {
    /// Releases segments that will not be freed now, so that other tasks may use them.
    fn leave_alone(&mut self, slots: &[SegmentSlot]) {
        for slot in slots {
            if let Some(segment) = self.get_mut(*slot) {
                segment.life.release(|work| work == Work::Reset);
            }
        }
    }

    fn is_read(&self, slot: SegmentSlot) -> bool {
        self[slot].readers() > 0
    }
}

impl State {
    /// Claims segments without live blocks to be freed.
    fn take_empty(&mut self) -> Vec<SegmentSlot> {
        if self.array.stopped.is_some() || self.array.membership_dirty {
            return Vec::new();
        }
        let standing = self.segments.standing();
        // While pages have to be loaded from it, the newest checkpoint must stay valid.
        let needed =
            |segment: &Segment| self.mapping.absent.is_some() && segment.checkpoint_blocks > 0;
        let may_leave = |slot: &SegmentSlot| {
            let segment = &self.segments[*slot];
            self.may_leave_checkpoint(segment) && !needed(segment)
        };
        let mut empty: Vec<_> = standing.empty.iter().copied().filter(may_leave).collect();
        drop(standing);
        // Segments whose reset invalidates the newest checkpoint are freed only if there are no
        // others.
        let free_of_it = |slot: &SegmentSlot| self.segments[*slot].checkpoint_blocks == 0;
        if empty.iter().any(free_of_it) {
            empty.retain(free_of_it);
        }
        empty.truncate(FREED_AT_A_TIME);
        for slot in &empty {
            self.segments[*slot].life.claim(Work::Reset);
        }
        empty
    }

    /// A segment that only blocks of the newest checkpoint keep from being freed; incomplete ones
    /// first.
    fn waiting_segment(&self) -> Option<SegmentSlot> {
        if self.array.stopped.is_some() || self.array.membership_dirty {
            return None;
        }
        let standing = self.segments.standing();
        let whole = |slot: &SegmentSlot| {
            let segment = &self.segments[*slot];
            segment.phase() == Phase::Sealed && !segment.is_damaged()
        };
        let waiting = standing.empty.iter().copied().min_by_key(whole);
        mark_if(Mark::CheckpointHoldsSegment, || waiting.is_some());
        waiting
    }

    /// Marks dead the segments that still have no live blocks; returns their deaths.
    fn mark_dead(&mut self, slots: &[SegmentSlot]) -> Vec<(SegmentSlot, Death)> {
        let mut dead = Vec::new();
        for slot in slots {
            let segment = &self.segments[*slot];
            let is_relocated = segment.life.work() != Work::Reset;
            if is_relocated || !segment.has_no_valid() || segment.in_flight() > 0 {
                mark(Mark::CameBackToLife);
                self.segments.leave_alone(&[*slot]);
                continue;
            }
            if self.ends_checkpoint(*slot) {
                mark(Mark::CheckpointBrokenMeanwhile);
                self.segments.leave_alone(&[*slot]);
                continue;
            }
            let segment = &mut self.segments[*slot];
            segment.life.die();
            let blocks = segment.geometry.data_blocks();
            let death = self.death_of(*slot);
            self.record_freed(*slot);
            self.class_counters(*slot).freed_blocks += blocks;
            self.record_lifespan(*slot);
            self.forget_moves(*slot);
            self.registry.dead.mark_dead(death.clone());
            self.registry.narrow.mark_dead(death.generation);
            dead.push((*slot, death));
        }
        dead
    }

    /// Zones that may hold blocks of a segment: its own, and those with unaccounted copies.
    fn death_of(&self, slot: SegmentSlot) -> Death {
        let segment = &self.segments[slot];
        let may_have_copy = |(column, member): (Column, &Member)| {
            self.registry.unclear.contains(column)
                && member.device.is_some()
                && segment.epoch < member.entry.since_epoch
        };
        let columns = self.array.scheme().iter().zip(&self.array.members).zip(&segment.zones);
        let remains = columns.map(|(member, zone)| match zone {
            _ if may_have_copy(member) => Remains::Anywhere,
            Some(zone) => Remains::In(zone.zone),
            None => Remains::Nothing,
        });
        Death { generation: segment.generation, remains: remains.collect() }
    }

    /// Marks deaths as recorded: no crash brings these segments back, so a rebuild need not wait
    /// for them. Returns `true` if a task may be waiting for that.
    fn mark_deaths_recorded(&mut self, dead: &[(SegmentSlot, Death)]) -> bool {
        for (slot, _) in dead {
            self.segments[*slot].life.record_death();
        }
        self.array.members.iter().any(|member| member.entry.state == MemberState::Rebuilding)
    }
}

/// Frees emptied segments, except those with live blocks again. Returns `false` if the volume
/// stopped. A segment with readers is freed once they end; other segments do not wait for it, as a
/// drive may hang in reads.
async fn free(core: &Rc<Core>, slots: &[SegmentSlot], read_still: &ReadStill) -> bool {
    let ends = slots.iter().any(|slot| core.state.borrow().ends_checkpoint(*slot));
    if ends && checkpoint::end(core).await.is_err() {
        return false;
    }
    let flush = !mutant(Mutant::ResetBeforeMovesFlushed);
    if flush && core.flush_members().await.is_err() {
        return false;
    }
    let dead = core.state.borrow_mut().mark_dead(slots);
    core.changed.open();
    if dead.is_empty() {
        return true;
    }
    let mut deaths: Vec<_> = dead.iter().map(|(_, death)| death.clone()).collect();
    deaths.sort_by_key(|death| death.generation);
    let record = !mutant(Mutant::DeadNotRecorded);
    if record && core.superblock.commit(core, RecordBody::Deaths(deaths)).await.is_err() {
        return false;
    }
    if core.state.borrow_mut().mark_deaths_recorded(&dead) {
        core.changed.open();
    }
    let mut here = Vec::new();
    for (slot, _) in dead {
        let is_read =
            core.state.borrow().segments.is_read(slot) && !mutant(Mutant::ReadersNotAwaited);
        match is_read.then(|| read_still.segments.try_acquire()).flatten() {
            Some(turn) => free_in_background(core, slot, read_still.freed.clone(), turn),
            None => here.push(free_unread(core, slot)),
        }
    }
    futures_util::future::join_all(here).await.into_iter().all(|freed| freed)
}

/// Frees a dead segment in a task of its own.
fn free_in_background(core: &Rc<Core>, slot: SegmentSlot, freed: Semaphore, turn: Permit) {
    let (handle, core) = (core.handle.clone(), core.clone());
    handle.spawn_alone("free a segment that is read", async move {
        let _turn = turn;
        if core.comes_unread(slot).await {
            let _turn = freed.acquire().await;
            free_zones(&core, slot).await;
        }
    });
}

/// Frees a dead segment without readers. Returns `false` if the volume stopped.
async fn free_unread(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    core.comes_unread(slot).await && free_zones(core, slot).await
}

impl Core {
    /// Waits until a dead segment has no readers. Returns `false` if the volume closes before. Its
    /// death is recorded, so the next start frees it.
    async fn comes_unread(&self, slot: SegmentSlot) -> bool {
        while self.state.borrow().segments.is_read(slot) && !mutant(Mutant::ReadersNotAwaited) {
            if self.closing.get() {
                return false;
            }
            mark(Mark::WaitedForReaders);
            self.unread.wait().await;
        }
        true
    }
}

/// Resets the zones of a dead segment and returns them to the pools.
async fn free_zones(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    let zones = core.state.borrow().segments[slot].zones.clone();
    {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        assert!(
            segment.life.is_recorded_dead(),
            "zones of {} segment {} are reset before its death is on media",
            segment.phase(),
            segment.id
        );
        assert!(
            segment.readers() == 0 || mutant(Mutant::ReadersNotAwaited),
            "zones of segment {} are reset under {} readers",
            segment.id,
            segment.readers()
        );
    }
    let early = mutant(Mutant::ZonesReusedBeforeAllReset);
    if early {
        let mut state = core.state.borrow_mut();
        let generation = state.segments[slot].generation;
        state.registry.dead.record_freed(generation, ColumnSet::default());
    }
    let columns = zones.iter().enumerate();
    let resets = columns.filter_map(|(column, zone)| Some((Column::of(column), (*zone)?)));
    let resets = resets.map(|(column, zone)| async move {
        let reset = core.reset_in_turn(column, zone.zone).await;
        if early && reset.is_ok() {
            let member = &mut core.state.borrow_mut().array.members[column.index()];
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
    assert!(
        segment.valid() == 0 || mutant(Mutant::LiveBitsDecide),
        "segment {} is freed with {} valid blocks",
        segment.id,
        segment.valid()
    );
    assert!(
        segment.readers() == 0 || mutant(Mutant::ReadersNotAwaited),
        "segment {} was read during its reset",
        segment.id
    );
    assert!(segment.in_flight() == 0, "segment {} is freed during a write", segment.id);
    state.writes.queues.close(slot);
    let mut lost = Vec::new();
    for (column, zone, result) in results {
        let member = &mut state.array.members[column.index()];
        // A member that failed or was replaced meanwhile no longer has this zone.
        if segment.zones[column.index()] == Some(zone) {
            if segment.life.holds_active_zones() && is_active_no_more(result) {
                assert!(member.active_zones > 0, "no zone is active beside {}", zone.zone);
                member.active_zones -= 1;
            }
            match result {
                Ok(()) if early => {}
                Ok(()) => member.pool.add(zone.zone, zone.resets + 1),
                // The zone keeps the dead segment's blocks, so the record of the death is kept too.
                Err(_) => {
                    mark(Mark::ZoneNotReset);
                    lost.push(column);
                }
            }
        } else {
            mark(Mark::MemberLostWhileFreeing);
        }
    }
    state.registry.dead.record_freed(segment.generation, lost.iter().copied().collect());
    state.registry.seals.remove(&segment.id);
    state.counters.segments_reclaimed += 1;
    mark(Mark::SegmentFreed);
    drop(state);
    lost.into_iter().for_each(|column| core.record_lost_zone(column));
    core.changed.open();
    true
}
