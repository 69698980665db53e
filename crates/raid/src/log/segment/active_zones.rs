//! Keeps the array within the drives' limits of active zones.
//!
//! Open segments take few active zones. Crashes and failed members leave more behind until
//! collection has relocated their contents. If zones become scarce, such leftovers are finished.
//! That needs a record of their valid stripes first, as a finished zone no longer shows how far it
//! was written.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneAction, ZoneId, ZonedDevice, ZonedDeviceExt};

use crate::array::health::Members;
use crate::array::member::Member;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{ChunkBlock, Row};
use crate::log::engine::state::State;
use crate::log::format::{IndexEntry, SealRecord};
use crate::log::segment::pin::Pin;
use crate::log::segment::table::{Phase, Segment};
use crate::scheme::Column;

/// Zones of a member that may become active beyond those counted and those of lanes when a segment
/// is opened: one that a rebuild fills, and both superblock zones. The next start needs these to
/// move from one to the other, with all other zones still active.
const ACTIVE_MARGIN: u32 = 3;

/// Finishes leftovers if crashes and failed members have left so many zones open that the drives
/// would refuse another. Leftovers that are being relocated or scrubbed are included. This takes
/// several crashes in a row.
///
/// If drives would refuse a zone now, or at the next start (when all present segments are
/// leftovers), this also waits for leftovers that cannot be finished yet.
pub(super) async fn make_room(core: &Rc<Core>) {
    // A leftover that cannot be finished is not tried again.
    let mut tried = BTreeSet::new();
    while is_tight(&core.state.borrow()) {
        let leftovers: Vec<_> = {
            let state = core.state.borrow();
            let leftovers =
                state.segments.iter().filter(|(_, segment)| may_finish(&state, segment));
            leftovers.map(|(slot, _)| slot).collect()
        };
        for slot in leftovers {
            if tried.insert(slot) {
                finish(core, slot).await;
            }
        }
        if !is_worth_waiting(&core.state.borrow()) {
            return;
        }
        mark(Mark::ActiveZonesAwaited);
        core.changed.wait().await;
    }
}

/// Finishes a leftover, if that is still possible.
async fn finish(core: &Rc<Core>, slot: SegmentSlot) {
    let seal = {
        let mut state = core.state.borrow_mut();
        let segment = state.segments.get(slot);
        if !segment.is_some_and(|segment| may_finish(&state, segment)) {
            return;
        }
        state.segments[slot].life.begin_finish();
        let segment = &state.segments[slot];
        mark_if(Mark::BusyLeftoverFinished, || segment.is_busy());
        let unsealed = !state.registry.seals.contains_key(&segment.id);
        unsealed.then(|| seal_of_written(segment))
    };
    // Its relocation may end meanwhile: a zone finished after its reset would be full and empty for
    // ever.
    let pin = Pin::new(core, slot);
    let mut finished = false;
    if seal_durably(core, seal).await {
        mark(Mark::LeftoverFinished);
        finished = finish_zones(core, slot).await;
    }
    core.state.borrow_mut().segments[slot].life.end_finish(finished);
    drop(pin);
    core.changed.open();
}

/// Whether active zones may not suffice for all lanes.
fn is_tight(state: &State) -> bool {
    let lanes = lanes(state);
    state.array.members.iter().any(|member| lacks_room(member, lanes))
}

impl State {
    /// Whether a member takes new segments, with active zones for one more than may be open at a
    /// time.
    #[must_use]
    pub(in crate::log) fn has_room_beside(&self, column: Column) -> bool {
        let member = &self.array.members[column.index()];
        member.writable().is_some() && !lacks_room(member, lanes(self) + 1)
    }
}

/// Most segments open at a time.
fn lanes(state: &State) -> u32 {
    let moved = u32::try_from(state.writes.relocation.lanes().count()).unwrap_or(u32::MAX);
    state.writes.policy.user_lanes() + moved
}

/// Whether a member lacks active zones for one more segment.
pub(in crate::log) fn is_tight_for_one(member: &Member) -> bool {
    lacks_room(member, 1)
}

fn lacks_room(member: &Member, segments: u32) -> bool {
    let limit = member.device.as_ref().and_then(|device| device.geometry().max_active);
    limit.is_some_and(|limit| member.active_zones + ACTIVE_MARGIN + segments > limit)
}

/// Whether active zones lack for one more segment, and some will be finished or reset by other
/// tasks.
fn is_worth_waiting(state: &State) -> bool {
    let comes_free = |segment: &Segment| match segment.phase() {
        Phase::Leftover => {
            segment.in_flight() > 0 || segment.life.is_finishing() || segment.is_freeing()
        }
        Phase::Dead => true,
        Phase::Open | Phase::Sealed => false,
    };
    let holds = |segment: &Segment| segment.life.holds_active_zones() && comes_free(segment);
    state.array.stopped.is_none()
        && state.array.members.iter().any(is_tight_for_one)
        && state.segments.iter().any(|(_, segment)| holds(segment))
        && !mutant(Mutant::ActiveZonesNotAwaited)
}

/// Whether a segment's zones may be finished: no write is in flight, and its valid stripes are
/// recorded, or can be. During recovery only recovery decides the record. Once writes have stopped,
/// a known seal may be one that failed to be recorded.
fn may_finish(state: &State, segment: &Segment) -> bool {
    let sealed = state.registry.seals.contains_key(&segment.id);
    let sealable = state.recovering.is_none();
    let quiet = segment.in_flight() == 0 && !(segment.life.is_finishing() || segment.is_freeing());
    let left = segment.phase() == Phase::Leftover && segment.life.holds_active_zones();
    let others_keep_away = segment.is_busy() && mutant(Mutant::ActiveZonesNotAwaited);
    state.array.stopped.is_none() && left && quiet && !others_keep_away && (sealed || sealable)
}

/// Records the valid stripes of a segment, once they are durable.
async fn seal_durably(core: &Rc<Core>, seal: Option<SealRecord>) -> bool {
    let Some(seal) = seal else { return true };
    mark(Mark::LeftoverSealed);
    if core.flush_members().await.is_err() {
        return false;
    }
    core.record_seal(seal).await.is_ok()
}

/// The seal of a segment with no write in flight: every stripe that took effect is valid.
pub(in crate::log) fn seal_of_written(segment: &Segment) -> SealRecord {
    let geometry = &segment.geometry;
    let writes = segment.in_flight();
    assert!(writes == 0, "segment {} is sealed with {writes} writes in flight", segment.id);
    let recorded = segment.entries.longest();
    let (end, _) = geometry.row_of(ChunkBlock(segment.entries.first().0 + recorded));
    let last = end.0.checked_sub(1).map_or(0..0, |row| geometry.group_of(Row(row)));
    // Spans covered by a summary are complete.
    let mut valid = vec![recorded == 0; last.len()];
    for (column, entries) in segment.entries.columns().iter().enumerate() {
        let blocks = (segment.entries.first().0..).zip(entries);
        for (block, _) in blocks.filter(|(_, entry)| **entry != IndexEntry::EMPTY) {
            let (row, _) = geometry.row_of(ChunkBlock(block));
            let stripe = segment.stripe_of(Column::of(column), row);
            if stripe.is_in(&last) {
                valid[usize::from(stripe.position_in(&last))] = true;
            }
        }
    }
    assert!(valid.len() == last.len(), "{} of {} stripes are judged", valid.len(), last.len());
    SealRecord { segment: segment.id, generation: segment.generation, rows: last.start, valid }
}

/// Whether a zone is inactive after a command that normally activates it: a zone that has become
/// read-only takes no active resource.
pub(in crate::log) fn is_active_no_more(result: Result<(), Status>) -> bool {
    result.map_or_else(Status::is_of_zone_state, |()| true)
}

/// Finishes zones that hold their whole column but are not full: a crash came before the filler
/// behind the last summary was written, or tore it. If a drive refuses, it has more active zones
/// than are counted, and will refuse to open another one earlier.
pub(in crate::log) async fn finish_ends(
    core: &Core,
    slot: SegmentSlot,
    ends: &BTreeSet<(Column, ZoneId)>,
) {
    let finishes = ends.iter().filter_map(|(column, zone)| {
        let kept = core.state.borrow().segments[slot].zones[column.index()];
        let device =
            core.device(*column).filter(|_| kept.is_some_and(|kept| kept.zone == *zone))?;
        Some(async move { finish_durably(&*device, *zone).await })
    });
    futures_util::future::join_all(finishes).await;
}

/// Finishes a zone once its contents are durable: it stays full even if a power loss takes its
/// contents.
///
/// # Errors
/// Status of the drive.
pub(super) async fn finish_durably(device: &dyn ZonedDevice, zone: ZoneId) -> Result<(), Status> {
    device.flush().await?;
    device.manage(zone, ZoneAction::Finish).await
}

/// Finishes a segment's zones; returns whether none of them is active any more.
async fn finish_zones(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    let zones = core.state.borrow().segments[slot].zones.clone();
    let finishes = zones.into_iter().enumerate().filter_map(|(column, zone)| {
        let column = Column::of(column);
        let device = core.device(column)?;
        let zone = zone?;
        Some(async move { (column, zone, device.manage(zone.zone, ZoneAction::Finish).await) })
    });
    let results = futures_util::future::join_all(finishes).await;
    let mut state = core.state.borrow_mut();
    if !results.iter().all(|(_, _, result)| is_active_no_more(*result)) {
        mark(Mark::LeftoverNotFinished);
        return false;
    }
    for (column, zone, _) in results {
        // A member that failed or was replaced meanwhile no longer has this zone.
        if state.segments[slot].zones[column.index()] == Some(zone) {
            let active = state.array.members[column.index()].active_zones;
            assert!(active > 0, "{} of {column} is finished, and none is active", zone.zone);
            state.array.members[column.index()].active_zones -= 1;
        }
    }
    true
}
