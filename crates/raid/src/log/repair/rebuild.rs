//! Rebuilds the column of a replaced member, segment by segment; `array::rebuild` drives it.
//!
//! New segments include the new drive from the start. A sealed segment gets its missing column in a
//! zone of the new drive: header, chunks in the rows of the index, and summaries. The zone counts
//! only when it is written to its end and durable. A restart therefore continues with the segments
//! that lack a complete column, and nothing else needs to be recorded. Incomplete segments are
//! relocated instead. A block that cannot be reconstructed becomes a typed hole: the column is
//! complete, and reading that block is an error. A drive that gives no answer about its block makes
//! no hole: if the block cannot be reconstructed without it, the segment does not get the column.

use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::JoinHandle;
use zoneweave_zoned::{
    BlockCount, OOB_BYTES, Payload, Status, ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt,
    zero_blocks,
};

use crate::array::health::Members;
use crate::array::repair::ask_again::wait_for_answer;
use crate::array::repair::rebuild::{self, RebuildState, RebuildUnits};
use crate::array::repair::source::{FailedSource, LeftOut};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::format::structured::structured_payload;
use crate::log::format::{
    CODED_BYTES, EntryKind, IndexEntry, MemberState, Oob, Place, SegmentHeader, StreamKind,
};
use crate::log::members::error::ReplaceError;
use crate::log::read::reconstruct::{self, Rebuilt, may_yet_return, rebuild_or_name};
use crate::log::repair::holes::{Hole, note_hole};
use crate::log::segment::active_zones::{self, is_active_no_more};
use crate::log::segment::pin::Pin;
use crate::log::segment::resolve::rebuild_stubbornly;
use crate::log::segment::scan::span_entries;
use crate::log::segment::spans::{fill_up, run_of, write_run};
use crate::log::segment::table::{ColumnZone, Phase, Work};
use crate::log::write::stripe::{StripeIdentity, oob_record};
use crate::scheme::{Column, Role};

/// Blocks of a column that are reconstructed by one batch of reads.
const BATCH_BLOCKS: u32 = 64;

/// Batches read ahead while one is written: enough to cover the difference in latency between a
/// read and a write.
const BATCHES_AHEAD: usize = 6;

/// Whether a restart has interrupted a rebuild.
#[must_use]
pub(in crate::log) fn is_interrupted(core: &Core) -> bool {
    let state = core.state.borrow();
    let mut members = state.array.members.iter();
    members.any(|member| member.entry.state == MemberState::Rebuilding && member.device.is_some())
}

/// Continues a rebuild that a restart interrupted.
///
/// # Errors
/// A [`ReplaceError`] with the reason.
pub(in crate::log) async fn resume(core: &Rc<Core>) -> Result<(), ReplaceError> {
    let _admin = core.admin.acquire().await;
    Ok(rebuild::resume(core).await?)
}

impl RebuildUnits for Core {
    type Unit = SegmentSlot;
    type Claim = (SegmentSlot, ColumnZone);

    fn rebuild_state(&self) -> &RebuildState {
        &self.rebuild
    }

    fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Segments that lack the column and are not about to be freed. Dead ones may come back until
    /// their death is recorded, and the record that the member is online may come before that.
    fn lacking(&self, column: Column) -> Vec<SegmentSlot> {
        let state = self.state.borrow();
        let segments = state.segments.iter();
        let lacking = segments.filter(|(_, segment)| {
            let vanishes = segment.life.is_recorded_dead()
                || segment.phase() == Phase::Dead && mutant(Mutant::OnlineBeforeDeaths);
            !vanishes && segment.lacks(column)
        });
        lacking.map(|(slot, _)| slot).collect()
    }

    /// A second segment at a time needs more active zones on the drive than open segments may need.
    fn claim(
        &self,
        column: Column,
        lacking: &[SegmentSlot],
        beside: bool,
    ) -> Option<(SegmentSlot, ColumnZone)> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if beside && active_zones::is_tight_for_one(&state.array.members[column.index()]) {
            return None;
        }
        let ready = lacking.iter().filter(|slot| {
            let segment = &state.segments[**slot];
            // A segment without valid blocks is about to be freed, unless it waits for a
            // checkpoint.
            let freed = segment.holds_nothing() && segment.checkpoint_blocks == 0;
            let rebuilds = segment.phase() == Phase::Sealed && !segment.is_busy();
            rebuilds && !freed && !segment.has_no_summary()
        });
        // If the drive has fewer zones than others, taking those in the reserve would make
        // relocation impossible.
        let reserve = state.reserve_for(StreamKind::User) as usize;
        if state.array.members[column.index()].pool.len() <= reserve {
            mark(Mark::RebuildLeavesReserve);
            return None;
        }
        let member = &mut state.array.members[column.index()];
        let (slot, (zone, resets)) = ready.copied().find_map(|slot| {
            let listed = state.segments[slot].listed[column.index()];
            Some((slot, member.pool.take_other_than(listed)?))
        })?;
        member.active_zones += 1;
        state.segments[slot].life.claim(Work::Rebuild);
        Some((slot, ColumnZone { zone, resets }))
    }

    fn rebuild_claimed(
        self: &Rc<Self>,
        column: Column,
        (slot, zone): (SegmentSlot, ColumnZone),
    ) -> impl Future<Output = Option<LeftOut<SegmentSlot>>> + use<> {
        let (core, device) = (self.clone(), self.device(column));
        let device = device.expect("a zone of it was taken");
        async move {
            let result = rebuild_segment(&core, &device, slot, column, zone.zone).await;
            finish_segment(&core, &device, slot, column, zone, result.is_ok()).await;
            match result {
                Err(NotWritten::Source(source)) => Some(LeftOut { unit: slot, source }),
                _ => None,
            }
        }
    }

    fn waits_for_ever(&self) -> Option<StopReason> {
        self.state.borrow().out_of_space(StreamKind::Relocation)
    }

    fn member_entered_service(self: &Rc<Self>) {
        let columns: Vec<_> = self.state.borrow().array.scheme().iter().collect();
        columns.into_iter().for_each(|column| self.fail_if_worn_out(column));
    }
}

/// Enters the column into the segment, or returns the zone to the pool; neither if the drive is no
/// longer a member.
async fn finish_segment(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    zone: ColumnZone,
    rebuilt: bool,
) {
    mark(if rebuilt { Mark::ColumnRebuilt } else { Mark::ColumnNotRebuilt });
    let reset = match rebuilt {
        true => Ok(()),
        false => core.reset_in_turn(column, zone.zone).await,
    };
    let is_member = core.is_of_member(column, device);
    {
        let mut state = core.state.borrow_mut();
        state.segments[slot].life.release(|work| work == Work::Rebuild);
        if is_member && rebuilt {
            let before = state.segments[slot].zones[column.index()].replace(zone);
            assert!(before.is_none(), "{column} is rebuilt beside its zone {before:?}");
        }
        let member = &mut state.array.members[column.index()];
        if is_member && is_active_no_more(reset) {
            assert!(member.active_zones > 0, "no zone is active beside {} of {column}", zone.zone);
            member.active_zones -= 1;
        }
        if is_member && !rebuilt && reset.is_ok() {
            member.pool.add(zone.zone, zone.resets + 1);
        }
    }
    if is_member && reset.is_err() {
        core.state.borrow_mut().registry.mark_unclear(column);
        core.record_lost_zone(column);
    }
    core.changed.open();
}

/// Why a column was not written.
#[derive(Clone, Copy)]
enum NotWritten {
    /// The new drive failed.
    ByDrive(Status),
    /// Sources have vanished, or have lost parts of the summaries.
    Incomplete,
    /// A drive has said nothing of blocks that no other can stand in for.
    Source(FailedSource),
}

impl From<Status> for NotWritten {
    fn from(status: Status) -> Self {
        Self::ByDrive(status)
    }
}

/// Writes the whole column of a sealed segment to a zone and makes it durable.
async fn rebuild_segment(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
) -> Result<(), NotWritten> {
    let _pin = Pin::new(core, slot);
    let before = core.failures_before(column);
    let result = write_column(core, device, slot, column, zone).await;
    let of_drive = match result {
        Ok(()) => Some(Ok(())),
        Err(NotWritten::ByDrive(status)) => Some(Err(status)),
        Err(NotWritten::Incomplete | NotWritten::Source(_)) => None,
    };
    if let Some(outcome) = of_drive
        && core.state.borrow().array.stopped.is_none()
    {
        core.record_write(column, device, before, outcome);
    }
    result
}

async fn write_column(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
) -> Result<(), NotWritten> {
    let (header, array) = header_with(core, slot, column, zone);
    let block = header.encode(array);
    let (place, absent) = (Place::Header, header.geometry.scheme().absent());
    let payload = structured_payload(array, block, place, header.generation, column, absent);
    device.write(ZoneAddress::new(zone, 0), payload, false).await?;
    let geometry = header.geometry;
    for span in 0..geometry.spans() {
        let entries = span_entries(core, slot, span).await;
        check_lists(core, slot, &entries)?;
        let rows = geometry.rows_of_span(span);
        let first = geometry.first_of_span(span).0;
        let end = first + (rows.end - rows.start) * geometry.chunk_blocks();
        let (most, unit) = (BATCH_BLOCKS.min(device.geometry().max_transfer.0), geometry.unit().0);
        let most = (most / unit).max(1) * unit;
        let mut starts = (first..end).step_by(most as usize);
        let mut ahead = VecDeque::with_capacity(BATCHES_AHEAD);
        loop {
            for start in starts.by_ref().take(BATCHES_AHEAD - ahead.len()) {
                let blocks = start..end.min(start + most);
                ahead.push_back((start, begin_batch(core, device, slot, column, blocks)));
            }
            let Some((start, batch)) = ahead.pop_front() else { break };
            let batch = batch.await;
            check_sources(core)?;
            let (payload, holes) = batch.map_err(NotWritten::Source)?;
            if !core.is_of_member(column, device) {
                // A replacement of the drive, or a task that needs the segment, does not wait for
                // the end of the zone.
                return Err(Status::DeviceGone.into());
            }
            for hole in holes {
                let at = (hole.place.block.0 - first) as usize;
                note_hole(core, hole, entries[column.index()].get(at));
            }
            let offset = geometry.offset_of(crate::log::engine::geometry::ChunkBlock(start));
            let blocks = payload.blocks();
            let wanted = most.min(end - start);
            assert!(blocks.0 == wanted, "{blocks} of {wanted} blocks from {start} on are rebuilt");
            device.write(ZoneAddress { zone, offset }, payload, false).await?;
            rebuild::throttle(core, column, device, blocks).await;
        }
        let run = {
            let state = core.state.borrow();
            let listed = |of: Column| -> &[IndexEntry] { &entries[of.index()] };
            run_of(array, &state.segments[slot], span, column, listed)
        };
        check_sources(core)?;
        let start = ZoneAddress { zone, offset: geometry.index_offset(span, 0) };
        write_run(core, &**device, start, run).await?;
    }
    fill_up(core, &**device, column, ZoneAddress { zone, offset: geometry.end() }).await?;
    Ok(device.flush().await?)
}

/// Checks the summaries. The next start would trust an incomplete summary and take an older version
/// of a block for the newest. Such a segment is relocated instead, which records its lost blocks.
fn check_lists(
    core: &Core,
    slot: SegmentSlot,
    entries: &[Vec<IndexEntry>],
) -> Result<(), NotWritten> {
    let is_unknown = |entry: &IndexEntry| entry.kind == EntryKind::Empty;
    if !entries.iter().flatten().any(is_unknown) {
        return Ok(());
    }
    // The cause is then a source that vanished.
    check_sources(core)?;
    if core.state.borrow().array.stopped.is_some() {
        return Ok(());
    }
    mark(Mark::ListsIncomplete);
    core.state.borrow_mut().segments[slot].mark_no_summary();
    Err(NotWritten::Incomplete)
}

/// Checks the source drives. One that vanished leaves holes in blocks and summaries that it would
/// fill after its return: nothing made without it may enter a column that counts as complete.
fn check_sources(core: &Core) -> Result<(), NotWritten> {
    if core.state.borrow().array.stopped.is_none() || mutant(Mutant::SourceLossIgnored) {
        return Ok(());
    }
    mark(Mark::SourceVanished);
    Err(NotWritten::Incomplete)
}

fn header_with(
    core: &Core,
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
) -> (SegmentHeader, crate::log::format::ArrayUuid) {
    let state = core.state.borrow();
    let segment = &state.segments[slot];
    let mut zones: Vec<_> = segment.zones.iter().map(|zone| zone.map(|zone| zone.zone)).collect();
    zones[column.index()] = Some(zone);
    let header = SegmentHeader {
        segment: segment.id,
        generation: segment.generation,
        epoch: state.array.version.epoch,
        stream: segment.stream,
        tabled: segment.table.is_some(),
        geometry: segment.geometry,
        zone_capacity: state.array.config.zone_capacity,
        zones,
    };
    (header, state.array.config.array)
}

/// Begins to reconstruct a batch in a task of its own, so that it proceeds while another is
/// written. If that write fails, the few tasks begun end by themselves.
fn begin_batch(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    blocks: std::ops::Range<u32>,
) -> JoinHandle<Result<(Payload, Vec<Hole>), FailedSource>> {
    let (pin, core, device) = (Pin::new(core, slot), core.clone(), device.clone());
    let handle = core.handle.clone();
    handle.spawn("rebuild", async move {
        let _pin = pin;
        rebuild_blocks(&core, &device, slot, column, blocks).await
    })
}

/// Reconstructs consecutive chunk blocks of a column for its new drive, with their metadata.
/// Returns the holes among them too.
async fn rebuild_blocks(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    blocks: std::ops::Range<u32>,
) -> Result<(Payload, Vec<Hole>), FailedSource> {
    let places = blocks.map(|block| BlockPlace {
        slot,
        column,
        block: crate::log::engine::geometry::ChunkBlock(block),
    });
    let places: Vec<_> = places.collect();
    let mut rebuilt = reconstruct::rebuild_blocks(core, &places).await;
    for (place, block) in places.iter().zip(&mut rebuilt).filter(|(_, block)| block.is_none()) {
        *block = rebuild_patiently(core, device, *place).await?;
    }
    let mut data = Vec::new();
    let mut oob = Vec::new();
    let mut holes = Vec::new();
    for (place, rebuilt) in places.into_iter().zip(rebuilt) {
        let (block, coded, found) = match rebuilt {
            Some(rebuilt) => (rebuilt.data, rebuilt.coded, true),
            None => (zero_blocks(BlockCount(1)), [0; CODED_BYTES], false),
        };
        if !found {
            holes.push(Hole { place, awaits_member: may_yet_return(core, place).await });
        }
        oob.extend_from_slice(&metadata(core, place, &block, coded, found));
        data.push(block);
    }
    let (blocks, bytes) = (data.len(), oob.len());
    assert!(bytes == blocks * OOB_BYTES, "{bytes} bytes of metadata for {blocks} blocks");
    Ok((Payload { data, oob: Bytes::from(oob) }, holes))
}

/// Reconstructs a block, again while a drive gives no answer about one that this needs. `None` if
/// it is lost.
async fn rebuild_patiently(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    place: BlockPlace,
) -> Result<Option<Rebuilt>, FailedSource> {
    let mut has_waited = false;
    let rebuilt = loop {
        if let Some(rebuilt) = rebuild_stubbornly(core, place).await {
            break Some(rebuilt);
        }
        match rebuild_or_name(core, place).await {
            Ok(rebuilt) => break rebuilt,
            Err(source) if !wait_for_answer(core, place.column, device).await => {
                return Err(source);
            }
            Err(_) => has_waited = true,
        }
    };
    if has_waited {
        core.rebuild.silence.end();
    }
    Ok(rebuilt)
}

fn metadata(
    core: &Core,
    place: BlockPlace,
    block: &[u8],
    coded: [u8; CODED_BYTES],
    found: bool,
) -> [u8; OOB_BYTES] {
    let state = core.state.borrow();
    let seed = state.array.seed;
    let segment = &state.segments[place.slot];
    let scheme = segment.geometry.scheme();
    let (row, within) = segment.geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    let role: Role = scheme.role_of(place.column, stripe);
    let group = segment.geometry.group_of(row);
    let identity = StripeIdentity {
        array: state.array.config.array,
        generation: segment.generation,
        stripe,
        stripe_in_group: stripe.position_in(&group),
        columns: segment.columns().with(place.column),
    };
    let within = u16::try_from(within).expect("at most 1024 blocks in a chunk");
    let record = oob_record(scheme, identity, place.column, role, within, coded);
    let record = if found { record } else { Oob { place: Place::Hole, ..record } };
    record.encode(seed, block, found && scheme.is_data(role))
}
