//! Opens a segment: zones, numbers, and a header that is durable before any other block.

use std::rc::Rc;

use zoneweave_zoned::{BlockError, ZoneAddress, ZoneId, ZonedDeviceExt};

use crate::array::health::Members;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::ChunkClass;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::structured::structured_payload;
use crate::log::format::{Generation, Place, RecordBody, SegmentHeader, StreamKind};
use crate::log::members::volume::commit_narrow_list;
use crate::log::segment::lane::{Lane, LaneId, LaneMode};
use crate::log::segment::table::{ColumnZone, Segment};
use crate::log::segment::{active_zones, open};
use crate::scheme::Column;

/// Segment numbers reserved on media at a time.
pub(in crate::log) const SEGMENT_STEP: u64 = 64;

/// Opens a segment for a lane of a stream. On failure the state holds the reason, and the writer
/// decides again.
pub(in crate::log) async fn open_segment(core: &Rc<Core>, kind: StreamKind, lane: LaneId) {
    if !raise_ceilings(core).await {
        return;
    }
    active_zones::make_room(core).await;
    let allocated = allocate(&mut core.state.borrow_mut(), kind, lane);
    let Some((slot, header)) = allocated else { return };
    let _held = crate::log::segment::pin::Hold::new(core, slot);
    if header.geometry.scheme().is_narrow() && commit_narrow_list(core).await.is_err() {
        return;
    }
    let array = core.state.borrow().array.config.array;
    let block = header.encode(array);
    let absent = header.geometry.scheme().absent();
    let writes = header.zones.iter().enumerate().filter_map(|(column, zone)| {
        let column = Column::of(column);
        let zone = (*zone)?;
        let device = core.device(column).filter(|_| core.has_zone(slot, column, zone));
        let (block, place) = (block.clone(), Place::Header);
        let payload = structured_payload(array, block, place, header.generation, column, absent);
        Some(async move {
            let Some(device) = device else { return Some(column) };
            let before = core.failures_before(column);
            let written = device.write(ZoneAddress::new(zone, 0), payload, true).await.map(|_| ());
            core.record_write(column, &device, before, written);
            written.is_err().then_some(column)
        })
    });
    let failed = futures_util::future::join_all(writes).await;
    let aborted_by = failed.into_iter().flatten().next();
    match aborted_by {
        None => seal_unfilled(core, slot).await,
        Some(column) => {
            mark(Mark::HeaderNotWritten);
            core.abort_segment(slot, column);
        }
    }
    core.changed.open();
}

impl Core {
    /// Whether a segment still has a zone: its drive may have been replaced.
    fn has_zone(&self, slot: SegmentSlot, column: Column, zone: ZoneId) -> bool {
        let of_column = self.state.borrow().segments[slot].zones[column.index()];
        of_column.is_some_and(|one| one.zone == zone)
    }
}

/// During recovery, durably seals the segment as empty.
async fn seal_unfilled(core: &Rc<Core>, slot: SegmentSlot) {
    let seal = core.state.borrow_mut().seal_unfilled(slot);
    if let Some(seal) = seal {
        // If that fails, writes stop and nothing is written to the segment.
        let _stopped = core.superblock.commit(core, RecordBody::Seals(vec![seal])).await;
    }
}

/// Keeps the ceilings on media well above all assigned numbers. No number above a ceiling is
/// assigned before the record that raises it is durable.
pub(in crate::log) async fn raise_ceilings(core: &Rc<Core>) -> bool {
    // A task that waited here finds them raised.
    let _turn = core.ceilings.acquire().await;
    let raised = {
        let mut state = core.state.borrow_mut();
        let step = sequence_step(&state);
        let sequences = state.writes.next_sequence.plus(step / 2) >= state.writes.sequence_ceiling;
        if !sequences && state.registry.next_segment.next() < state.registry.segment_ceiling {
            return true;
        }
        let raised =
            (state.writes.next_sequence.plus(step), state.registry.next_segment.plus(SEGMENT_STEP));
        let (sequences, segments) = (state.writes.sequence_ceiling, state.registry.segment_ceiling);
        assert!(raised.0 >= sequences, "ceiling {sequences} of sequences falls to {}", raised.0);
        assert!(raised.1 >= segments, "ceiling {segments} of segments falls to {}", raised.1);
        if !mutant(Mutant::CeilingNotRecorded) {
            state.writes.ceilings_to_record = raised;
        }
        raised
    };
    mark(Mark::CeilingsRaised);
    let committed = mutant(Mutant::CeilingNotRecorded)
        || core.superblock.commit(core, RecordBody::State).await.is_ok();
    if committed {
        let mut state = core.state.borrow_mut();
        state.writes.sequence_ceiling = state.writes.sequence_ceiling.max(raised.0);
        state.registry.segment_ceiling = state.registry.segment_ceiling.max(raised.1);
    }
    committed
}

/// Sequences reserved on media at a time: those of several segments.
#[must_use]
pub(in crate::log) fn sequence_step(state: &State) -> u64 {
    (state.geometry.data_blocks() * 8).max(1 << 20)
}

/// Takes a slot, a zone of every member, and numbers; `None` if the conditions changed meanwhile.
fn allocate(
    state: &mut State,
    kind: StreamKind,
    lane: LaneId,
) -> Option<(SegmentSlot, SegmentHeader)> {
    let allowed = state.array.stopped.is_none()
        && state.writes.stream(kind).lane(lane).open.is_none()
        // Another lane may have taken the last number.
        && state.registry.next_segment < state.registry.segment_ceiling
        && (!state.array.membership_dirty || mutant(Mutant::EvictionNotAwaited))
        && match state.writes.stream(kind).lane(lane).class.chunk {
            ChunkClass::Narrow => state.may_open_narrow(),
            chunk => state.may_open(kind, chunk),
        };
    if !allowed {
        mark(Mark::OpeningOvertaken);
        return None;
    }
    let slot = state.segments.vacant()?;
    let Lane { geometry, mode, class, .. } = *state.writes.stream(kind).lane(lane);
    let geometry = match class.chunk {
        ChunkClass::Narrow => geometry.on(state.narrow_columns()),
        _ => geometry,
    };
    let columns = geometry.scheme();
    let zones: Vec<_> = (0..)
        .map(Column)
        .zip(&mut state.array.members)
        .map(|(column, member)| {
            member.writable().filter(|_| columns.contains(column))?;
            let (zone, resets) = member.pool.take().expect("free segments were counted");
            member.active_zones += 1;
            Some(ColumnZone { zone, resets })
        })
        .collect();
    let segment = state.registry.next_segment;
    let ceiling = state.registry.segment_ceiling;
    assert!(segment < ceiling, "segment number {segment} reaches its ceiling {ceiling}");
    state.registry.next_segment = segment.next();
    let header = SegmentHeader {
        segment,
        generation: Generation::of(state.writes.take_sequence()),
        epoch: state.array.version.epoch,
        stream: kind,
        tabled: mode.is_tabled(),
        geometry,
        zone_capacity: state.array.config.zone_capacity,
        zones: zones.iter().map(|zone| zone.map(|zone| zone.zone)).collect(),
    };
    let mut opened = Segment::open(&header, zones);
    if state.may_track_mapped(&geometry) {
        opened.track_mapped();
    }
    opened.lifetime = class.lifetime;
    assert!(
        !state.array.membership_dirty || mutant(Mutant::EvictionNotAwaited),
        "segment {segment} opens before epoch {} is on media",
        header.epoch
    );
    assert!(
        columns.is_readable_from(opened.columns()) || mutant(Mutant::WritesNotStopped),
        "segment {segment} opens on too few columns: {:?}",
        header.zones
    );
    state.segments.insert(slot, opened);
    state.writes.queues.open(slot, columns.width(), mode == LaneMode::Gather);
    state.registry.narrow.enter(&header);
    state.writes.stream_mut(kind).lane_mut(lane).open = Some(slot);
    Some((slot, header))
}

/// Checks that the volume takes writes, and reserves sequences if necessary.
pub(in crate::log) async fn check_writable(core: &Rc<Core>) -> Result<(), BlockError> {
    let scarce = core.state.borrow().writes.has_few_sequences();
    if scarce {
        open::raise_ceilings(core).await;
    }
    if core.closing.get() || core.refusing.get() {
        mark(Mark::RefusedAtClose);
        return Err(BlockError::ShuttingDown);
    }
    Ok(core.state.borrow().array.stopped.map_or(Ok(()), Err)?)
}
