//! Rebuilding a replaced member, while users are served.
//!
//! New segments include the new drive from the start. A sealed segment gets its missing column
//! back in a zone of the new drive: header, chunks in the rows the index knows, index runs. The
//! zone counts only when it is written to its end and durable, so a restart goes on with the
//! segments that lack a whole column, and nothing else needs to be recorded. Segments that were
//! open are moved out instead. A block that cannot be rebuilt becomes a typed hole: the column
//! is whole, and reading that block is an error.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use thiserror::Error;
use zoneweave_runtime::JoinHandle;
use zoneweave_zoned::{
    BlockCount, OOB_BYTES, Payload, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt, zero_blocks,
};

use crate::layout::{Column, Role};
use crate::log::core::Core;
use crate::log::create::{empty_drive, holds_something, superblock_zones};
use crate::log::format::{
    CODED_BYTES, IndexEntry, MemberEntry, MemberState, MemberUuid, Oob, Place, SegmentHeader,
    StreamKind,
};
use crate::log::index::{BlockPlace, SegmentSlot};
use crate::log::index_run::{fill_up, run_of, write_run};
use crate::log::limits::{LimitError, check_drive};
use crate::log::member::Member;
use crate::log::moving::span_entries;
use crate::log::policy::PolicyError;
use crate::log::read::Pin;
use crate::log::reconstruct;
use crate::log::segment::{ColumnZone, Phase};
use crate::log::state::{State, UNRECORDED};
use crate::log::status::Progress;
use crate::log::stripe::{StripeIdentity, oob_record};
use crate::log::superblock::{SuperblockCursor, structured_payload};
use crate::log::volume::AdminError;
use crate::marks::{Mark, mark};
use crate::mutants::{Mutant, mutant};

/// Blocks rebuilt together.
const BATCH_BLOCKS: u32 = 64;

/// Batches that are read while one is written: enough to cover what a read takes longer than a write.
const BATCHES_AHEAD: usize = 6;

/// Why a replacement or rebuild did not come to its end.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// The request makes no sense.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The drive does not offer what a member must.
    #[error("the new drive does not fit: {0}")]
    DoesNotFit(LimitError),
    /// The drive cannot be written as the volume is.
    #[error("the drive does not fit: {0}")]
    Policy(#[from] PolicyError),
    /// The drive is smaller than the others.
    #[error(
        "the new drive is too small: it has {zones} zones of {capacity}, {needed_zones} of \
         {needed_capacity} are needed"
    )]
    TooSmall {
        /// Its zones.
        zones: u32,
        /// Their capacity.
        capacity: BlockCount,
        /// Zones needed.
        needed_zones: u32,
        /// Capacity needed.
        needed_capacity: BlockCount,
    },
    /// The drive has no zones for a superblock.
    #[error("the new drive has no two writable zones for its superblock")]
    NoSuperblockZones,
    /// The drive is a member already.
    #[error("the new drive is in service in {slot}")]
    InService {
        /// The slot.
        slot: Column,
    },
    /// The slot's drive works, and another replacement is under way.
    #[error("{slot} is being rebuilt already")]
    AlreadyRebuilding {
        /// The slot.
        slot: Column,
    },
    /// The drive failed while it was prepared or rebuilt.
    #[error("the new drive failed: {0}")]
    DriveFailed(Status),
    /// The volume stopped.
    #[error("the volume has stopped: {0}")]
    Stopped(&'static str),
}

/// Puts a drive into a slot and rebuilds it. What the drive holds is destroyed.
///
/// # Errors
/// As [`ReplaceError`] tells.
pub(super) async fn replace(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    let _admin = core.admin.acquire().await;
    put_in(core, column, device, uuid).await?;
    rebuild(core, column).await
}

/// Puts a drive into a slot, of which nothing is rebuilt yet. Whoever does has the turn for it.
pub(super) async fn put_in(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check(core, column, &device)?;
    retire(core, column).await?;
    // What is under way from when the drive was a member before would come upon what it holds then.
    let former = core.state.borrow().former_of(&device);
    for membership in former {
        mark(Mark::FormerMembershipAwaited);
        membership.ended().await;
    }
    let zones = device.report().await.map_err(ReplaceError::DriveFailed)?;
    let superblocks = superblock_zones(&zones).ok_or(ReplaceError::NoSuperblockZones)?;
    check_zones(core, &*device, &zones)?;
    empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
    {
        let mut state = core.state.borrow_mut();
        let entry = MemberEntry { uuid, state: MemberState::Rebuilding, since_epoch: UNRECORDED };
        if device.geometry().volatile_cache && !state.volatile {
            // Users were told that there is no cache: it must not show.
            mark(Mark::ReplacementWithCache);
            state.volatile = true;
            state.fua_always = true;
        }
        let mut member = Member::new(entry, Some(device));
        member.seen = core.handle.now();
        for info in &zones {
            let usable = is_usable(info);
            member.lost_zones += u32::from(!usable);
            if usable && !superblocks.contains(&info.zone) {
                member.pool.add(info.zone, info.resets + u64::from(holds_something(info)));
            }
        }
        state.put_member(column, member);
        state.membership_dirty = true;
        // Open segments lack the new column: what comes next goes to segments that have it.
        for slot in state.open_segments() {
            state.abandon(slot);
        }
    }
    let cursor = SuperblockCursor { zones: superblocks, current: 1, next: 0, other_dirty: false };
    core.superblock.set_cursor(column, cursor);
    core.superblock.commit_snapshot(core).await.map_err(ReplaceError::Stopped)?;
    core.changed.open();
    Ok(())
}

/// Goes on with a rebuild that a restart interrupted.
///
/// # Errors
/// As [`ReplaceError`] tells.
pub(super) async fn resume(core: &Rc<Core>) -> Result<(), ReplaceError> {
    let _admin = core.admin.acquire().await;
    let columns: Vec<_> = {
        let state = core.state.borrow();
        let rebuilding = |column: &Column| {
            let member = &state.members[column.index()];
            member.entry.state == MemberState::Rebuilding && member.device.is_some()
        };
        state.scheme().iter().filter(rebuilding).collect()
    };
    for column in columns {
        mark(Mark::RebuildResumed);
        rebuild(core, column).await?;
    }
    Ok(())
}

fn check(core: &Core, column: Column, device: &Rc<dyn ZonedDevice>) -> Result<(), ReplaceError> {
    let state = core.state.borrow();
    if let Some(slot) = state.slot_of(device).filter(|slot| *slot != column) {
        return Err(ReplaceError::InService { slot });
    }
    if let Some(reason) = state.stopped {
        return Err(ReplaceError::Stopped(reason));
    }
    check_fit(&state, &**device)?;
    let member = &state.members[column.index()];
    if member.entry.state == MemberState::Rebuilding && member.device.is_some() {
        return Err(ReplaceError::AlreadyRebuilding { slot: column });
    }
    Ok(state.check_spared(column)?)
}

/// Checks that a drive offers what a member must.
///
/// # Errors
/// What it lacks.
pub(super) fn check_fit(state: &State, device: &dyn ZonedDevice) -> Result<(), ReplaceError> {
    let config = &state.config;
    let geometry = device.geometry();
    check_drive(geometry, config.chunk_blocks, config.tabled).map_err(ReplaceError::DoesNotFit)?;
    state.policy.check_drive(config, geometry)?;
    if geometry.zones < config.zones || geometry.zone_capacity < config.zone_capacity {
        mark(Mark::SmallDriveRefused);
        return Err(ReplaceError::TooSmall {
            zones: geometry.zones,
            capacity: geometry.zone_capacity,
            needed_zones: config.zones,
            needed_capacity: config.zone_capacity,
        });
    }
    Ok(())
}

fn is_usable(info: &ZoneInfo) -> bool {
    !matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly)
}

/// Zones that have failed do not count.
fn check_zones(
    core: &Core,
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
) -> Result<(), ReplaceError> {
    let state = core.state.borrow();
    let config = &state.config;
    let needed_zones = state.zones_needed_to_write();
    let usable = zones.iter().filter(|info| is_usable(info)).count();
    let usable = u32::try_from(usable).unwrap_or(u32::MAX);
    if usable >= needed_zones {
        return Ok(());
    }
    mark(Mark::WornDriveRefused);
    let (capacity, needed_capacity) = (device.geometry().zone_capacity, config.zone_capacity);
    Err(ReplaceError::TooSmall { zones: usable, capacity, needed_zones, needed_capacity })
}

/// Takes the slot's present drive out, if it is in service.
async fn retire(core: &Rc<Core>, column: Column) -> Result<(), ReplaceError> {
    if core.state.borrow().members[column.index()].writable().is_some() {
        mark(Mark::WorkingDriveRetired);
        core.fail_member(column, Status::Aborted);
        core.state.borrow_mut().members[column.index()].failure =
            Some("replaced by the administrator".to_owned());
    }
    core.membership_settled().await;
    core.state.borrow().stopped.map_or(Ok(()), |reason| Err(ReplaceError::Stopped(reason)))
}

/// Rebuilds every segment that lacks the column, then puts the member in service for good.
pub(super) async fn rebuild(core: &Rc<Core>, column: Column) -> Result<(), ReplaceError> {
    let total = lacking(core, column).len() as u64;
    let mut progress = Progress { done: 0, total };
    core.rebuild_progress.set(Some(progress));
    let result = rebuild_segments(core, column, &mut progress).await;
    core.rebuild_progress.set(None);
    result?;
    enter_service(core, column).await
}

/// A member whose every segment has its column is in service for good.
pub(super) async fn enter_service(core: &Rc<Core>, column: Column) -> Result<(), ReplaceError> {
    {
        let mut state = core.state.borrow_mut();
        let member = &mut state.members[column.index()];
        if member.entry.state != MemberState::Rebuilding {
            mark(Mark::RebuildGivenUp);
            return Err(ReplaceError::DriveFailed(Status::DeviceGone));
        }
        mark(Mark::RebuildEnded);
        member.entry.state = MemberState::Online;
        member.entry.since_epoch = UNRECORDED;
        state.membership_dirty = true;
    }
    core.superblock.record_membership(core).await;
    // The others can do without one more now.
    let columns: Vec<_> = core.state.borrow().scheme().iter().collect();
    columns.into_iter().for_each(|column| core.fail_if_worn_out(column));
    core.changed.open();
    core.state.borrow().stopped.map_or(Ok(()), |reason| Err(ReplaceError::Stopped(reason)))
}

/// Segments that lack the column and are not about to vanish.
fn lacking(core: &Core, column: Column) -> Vec<SegmentSlot> {
    let state = core.state.borrow();
    let segments = state.segments.iter();
    let lacking = segments.filter(|(_, segment)| {
        segment.phase != Phase::Dead && segment.zones[column.index()].is_none()
    });
    lacking.map(|(slot, _)| slot).collect()
}

async fn rebuild_segments(
    core: &Rc<Core>,
    column: Column,
    progress: &mut Progress,
) -> Result<(), ReplaceError> {
    loop {
        check_going_on(core, column)?;
        let left = lacking(core, column);
        // Segments reclaimed meanwhile count as done; new ones have the column.
        progress.done = progress.done.max(progress.total.saturating_sub(left.len() as u64));
        core.rebuild_progress.set(Some(*progress));
        if left.is_empty() {
            return Ok(());
        }
        let Some((slot, zone)) = next_segment(core, column, &left) else {
            // What is left is being reclaimed, or waits for a zone that reclaiming frees.
            mark(Mark::RebuildWaits);
            let no_room = core.state.borrow().no_room(StreamKind::Relocation);
            if let Some(reason) = no_room {
                return Err(ReplaceError::Stopped(reason));
            }
            core.changed.wait().await;
            continue;
        };
        let result = rebuild_segment(core, slot, column, zone.zone).await;
        finish_segment(core, slot, column, zone, result.is_ok()).await;
    }
}

/// The next segment to rebuild, now busy, and the zone for its column.
fn next_segment(
    core: &Core,
    column: Column,
    lacking: &[SegmentSlot],
) -> Option<(SegmentSlot, ColumnZone)> {
    let mut state = core.state.borrow_mut();
    let state = &mut *state;
    let ready = lacking.iter().filter(|slot| {
        let segment = &state.segments[**slot];
        // What holds nothing is about to be freed, unless it waits for a checkpoint.
        let freed = segment.holds_nothing() && segment.reached == 0;
        segment.phase == Phase::Sealed && !segment.busy && !freed
    });
    let member = &mut state.members[column.index()];
    let (slot, (zone, resets)) = ready.copied().find_map(|slot| {
        let listed = state.segments[slot].listed[column.index()];
        Some((slot, member.pool.take_other_than(listed)?))
    })?;
    member.active_zones += 1;
    state.segments[slot].busy = true;
    Some((slot, ColumnZone { zone, resets }))
}

fn check_going_on(core: &Core, column: Column) -> Result<(), ReplaceError> {
    if core.closing.get() {
        return Err(ReplaceError::Stopped("the volume is shutting down"));
    }
    let state = core.state.borrow();
    if let Some(reason) = state.stopped {
        return Err(ReplaceError::Stopped(reason));
    }
    match &state.members[column.index()].device {
        Some(_) => Ok(()),
        None => {
            mark(Mark::RebuildGivenUp);
            Err(ReplaceError::DriveFailed(Status::DeviceGone))
        }
    }
}

/// Gives the segment its column, or the zone back.
async fn finish_segment(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    zone: ColumnZone,
    rebuilt: bool,
) {
    mark(if rebuilt { Mark::ColumnRebuilt } else { Mark::ColumnNotRebuilt });
    if !rebuilt {
        match core.reset_zone(column, zone.zone).await {
            Ok(()) => {
                let member = &mut core.state.borrow_mut().members[column.index()];
                member.pool.add(zone.zone, zone.resets + 1);
            }
            Err(_) => core.note_lost_zone(column),
        }
    }
    let mut state = core.state.borrow_mut();
    let in_service = state.members[column.index()].device.is_some();
    let segment = &mut state.segments[slot];
    segment.busy = false;
    if rebuilt && in_service {
        segment.zones[column.index()] = Some(zone);
    }
    let member = &mut state.members[column.index()];
    member.active_zones = member.active_zones.saturating_sub(1);
    drop(state);
    core.changed.open();
}

/// Writes the whole column of a sealed segment to a zone and makes it durable.
async fn rebuild_segment(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
) -> Result<(), Status> {
    let _pin = Pin::new(core, slot);
    let device = core.device(column).ok_or(Status::DeviceGone)?;
    let result = write_column(core, &device, slot, column, zone).await;
    if core.state.borrow().stopped.is_none() {
        core.note_write(column, &device, result);
    }
    result
}

async fn write_column(
    core: &Rc<Core>,
    device: &Rc<dyn ZonedDevice>,
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
) -> Result<(), Status> {
    let (header, array) = header_with(core, slot, column, zone);
    let block = header.encode(array);
    let payload = structured_payload(array, block, Place::Header, header.generation, column);
    device.write(ZoneAddress::new(zone, 0), payload, false).await?;
    let geometry = header.geometry;
    for span in 0..geometry.spans() {
        let entries = span_entries(core, slot, span).await;
        let rows = geometry.rows_of_span(span);
        let first = geometry.first_of_span(span).0;
        let end = first + (rows.end - rows.start) * geometry.chunk_blocks();
        let most = BATCH_BLOCKS.min(device.geometry().max_transfer.0);
        let mut starts = (first..end).step_by(most as usize);
        let mut ahead = VecDeque::with_capacity(BATCHES_AHEAD);
        loop {
            for start in starts.by_ref().take(BATCHES_AHEAD - ahead.len()) {
                let blocks = start..end.min(start + most);
                ahead.push_back((start, begin_batch(core, slot, column, blocks)));
            }
            let Some((start, batch)) = ahead.pop_front() else { break };
            let payload = batch.await;
            check_sources(core)?;
            let offset = geometry.offset_of(crate::log::geometry::ChunkBlock(start));
            let blocks = payload.blocks();
            device.write(ZoneAddress { zone, offset }, payload, false).await?;
            core.throttle_rebuild(blocks).await;
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
    device.flush().await
}

/// A source that vanished leaves holes in blocks and lists that it will fill when it is back:
/// nothing made without it may get into a column that counts as whole.
fn check_sources(core: &Core) -> Result<(), Status> {
    if core.state.borrow().stopped.is_none() || mutant(Mutant::SourceLossIgnored) {
        return Ok(());
    }
    mark(Mark::SourceVanished);
    Err(Status::Aborted)
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
        epoch: state.epoch.number,
        stream: segment.stream,
        tabled: segment.table.is_some(),
        geometry: segment.geometry,
        zone_capacity: state.config.zone_capacity,
        zones,
    };
    (header, state.config.array)
}

/// Begins to rebuild a batch: a task of its own, so that it goes on while another one is written. Should
/// that fail, those begun, a few, end by themselves.
fn begin_batch(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    blocks: std::ops::Range<u32>,
) -> JoinHandle<Payload> {
    let (pin, core) = (Pin::new(core, slot), core.clone());
    let handle = core.handle.clone();
    handle.spawn("rebuild", async move {
        let _pin = pin;
        rebuild_blocks(&core, slot, column, blocks).await
    })
}

/// Rebuilds consecutive chunk blocks of a column, with their metadata.
async fn rebuild_blocks(
    core: &Rc<Core>,
    slot: SegmentSlot,
    column: Column,
    blocks: std::ops::Range<u32>,
) -> Payload {
    let places = blocks.map(|block| BlockPlace {
        slot,
        column,
        block: crate::log::geometry::ChunkBlock(block),
    });
    let places: Vec<_> = places.collect();
    let rebuilt = reconstruct::rebuild_blocks(core, &places).await;
    let mut data = Vec::new();
    let mut oob = Vec::new();
    for (place, rebuilt) in places.into_iter().zip(rebuilt) {
        let (block, coded, found) = match rebuilt {
            Some(rebuilt) => (rebuilt.data, rebuilt.coded, true),
            None => (zero_blocks(BlockCount(1)), [0; CODED_BYTES], false),
        };
        oob.extend_from_slice(&metadata(core, place, &block, coded, found));
        data.push(block);
    }
    Payload { data, oob: Bytes::from(oob) }
}

fn metadata(
    core: &Core,
    place: BlockPlace,
    block: &[u8],
    coded: [u8; CODED_BYTES],
    found: bool,
) -> [u8; OOB_BYTES] {
    let mut state = core.state.borrow_mut();
    let (scheme, seed) = (state.scheme(), state.seed);
    let segment = &state.segments[place.slot];
    let (row, within) = segment.geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    let role: Role = scheme.role_of(place.column, stripe);
    let group = segment.geometry.group_of(row);
    let identity = StripeIdentity {
        array: state.config.array,
        generation: segment.generation,
        stripe,
        stripe_in_group: u16::try_from(stripe - group.start).expect("a group's rows"),
        columns: segment.column_map() | 1 << place.column.index(),
    };
    let within = u16::try_from(within).expect("at most 1024 blocks in a chunk");
    let record = oob_record(scheme, identity, place.column, role, within, coded);
    let record = if found { record } else { Oob { place: Place::Hole, ..record } };
    if !found {
        mark(Mark::HoleWritten);
        state.members[place.column.index()].errors.unrepairable += 1;
    }
    record.encode(seed, block, found && scheme.is_data(role))
}
