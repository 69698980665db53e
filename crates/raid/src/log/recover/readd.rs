//! Re-adds a former member: it keeps the columns that still count, and only the others are rebuilt.
//!
//! A segment never changes once it is complete, and its number and generation are never used again.
//! A complete column on a former member is therefore valid as long as its segment is alive, however
//! long the drive was away. All other zones are reset, durably, before the drive becomes a member:
//! a segment that was reclaimed in its absence must not come back.
//!
//! From then on the drive is in the state of a replacement whose rebuild was interrupted: a new
//! UUID, `Rebuilding`, with some columns complete. Nothing else needs to be recorded, and a restart
//! continues as with any rebuild. It counts as redundancy when the rebuild has ended.
//!
//! Without Zone Append the row of a chunk is its stripe. With it, the summaries say which stripe it
//! is of. If no summary of a column could be read in its drive's absence, its chunks were assigned
//! to stripes in any order: the index maps them so, and other drives may have them so by now. A
//! column whose own summaries say otherwise is rebuilt in that order.
//!
//! Only a drive of the present lineage is re-added: a history that was started apart may have used
//! the same segment numbers for other contents.
//!
//! Fault model: a crash at any step leaves the slot vacant or its member rebuilding. Segments may
//! be reclaimed while the drive's zones are read; those found late are reset before the drive
//! joins. A drive that cannot be reset is refused.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use zoneweave_journal::read_stubbornly;
use zoneweave_zoned::{ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice};

use crate::array::health::Members;
use crate::array::member::Member;
use crate::array::repair::fit::{empty_drive, holds_something, is_usable};
use crate::array::repair::rebuild::{Progress, RebuildUnits, rebuild};
use crate::array::start::assemble::check_numbers;
use crate::array::state::UNRECORDED;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{MemberEntry, MemberState, MemberUuid, SegmentHeader};
use crate::log::members::error::ReplaceError;
use crate::log::members::replace::{await_former, check, check_kept, check_zones};
use crate::log::recover::find::segments::{ends_column, header_of};
use crate::log::recover::records::{DriveRecords, read_records};
use crate::log::segment::spans::has_known_order;
use crate::log::segment::table::{ColumnZone, Phase, Segment, Work};
use crate::scheme::Column;

/// Zones of the drive that are examined at a time.
const ZONES_AT_A_TIME: usize = 32;

/// Puts a former member back into its vacant slot and rebuilds what it missed.
///
/// # Errors
/// A [`ReplaceError`] with the reason. Before the drive joins, the slot is as it was.
pub(in crate::log) async fn readd(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check_vacant(core, column, &device)?;
    let _admin = core.admin.acquire().await;
    core.membership_settled().await;
    check_vacant(core, column, &device)?;
    await_former(core, &device).await;
    let records = read_records(&*device).await.map_err(ReplaceError::DriveFailed)?;
    check_history(core, column, &records)?;
    let log = records.log().ok_or(ReplaceError::NoSuperblockZones)?;
    let (all, of_log) = (&records.scan.zones, log.zones());
    let zones: Vec<_> = all.iter().filter(|info| !of_log.contains(&info.zone)).copied().collect();
    check_zones(core, &*device, all)?;
    let mut kept = kept_columns(core, column, &device, &zones).await;
    let useless = |info: &&ZoneInfo| !kept.iter().any(|(zone, _)| zone.zone == info.zone);
    let mut to_empty: Vec<_> = zones.iter().filter(useless).copied().collect();
    check_kept(core, &*device, &to_empty).await?;
    loop {
        if !mutant(Mutant::StaleColumnNotReset) {
            empty_drive(&device, &to_empty).await.map_err(ReplaceError::DriveFailed)?;
        }
        // Segments may have been reclaimed meanwhile. Their zones are reset before the drive joins:
        // no record of their death names it. A segment that was about to be freed may live on, but
        // without the column, which is gone.
        let died = reclaimed(&core.state.borrow(), column, &kept);
        if died.is_empty() {
            break;
        }
        mark(Mark::ReclaimedWhileAway);
        kept.retain(|(zone, _)| !died.contains(&zone.zone));
        to_empty = zones.iter().filter(|info| died.contains(&info.zone)).copied().collect();
    }
    check_vacant(core, column, &device)?;
    join(core, column, &device, uuid, &zones, &kept);
    // A start that a crash cut short may have left newer numbers on this drive alone.
    for (_, record) in &records.scan.records {
        let mut state = core.state.borrow_mut();
        state.array.version.epoch = state.array.version.epoch.max(record.epoch);
        core.superblock.raise_record_sequence(record.record_sequence);
    }
    // A slot that is being rebuilt has a rebuild, also while its membership is being recorded.
    let total = core.lacking(column).len() as u64;
    core.rebuild.progress.set(Some(Progress { done: 0, total }));
    core.superblock.set_log(column, log);
    if let Err(reason) = core.superblock.commit_snapshot(core).await {
        core.rebuild.progress.set(None);
        return Err(ReplaceError::Stopped(reason));
    }
    core.changed.open();
    Ok(rebuild(core, column).await?)
}

/// Checks that the slot is vacant, and that the drive fits.
fn check_vacant(
    core: &Core,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
) -> Result<(), ReplaceError> {
    if core.state.borrow().array.members[column.index()].writable().is_some() {
        mark(Mark::SlotFilledMeanwhile);
        return Err(ReplaceError::FilledMeanwhile { slot: column });
    }
    check(core, column, device)
}

/// Checks that the drive was in this slot, in the history that went on.
fn check_history(core: &Core, column: Column, records: &DriveRecords) -> Result<(), ReplaceError> {
    let state = core.state.borrow();
    let Some(own) = records.newest() else {
        mark(Mark::ReaddRefused);
        return Err(ReplaceError::NoSuperblock);
    };
    let was_member = own.config.array == state.array.config.array
        && own.lineage == state.array.version.lineage
        && own.slot == column;
    let numbers = records.scan.records.iter().map(|(_, record)| {
        check_numbers(&[("epoch", record.epoch.0), ("record sequence", record.record_sequence)])
    });
    let is_possible = numbers.collect::<Result<(), _>>().is_ok();
    if !was_member || !is_possible || records.scan.may_hide_newer() {
        mark(Mark::ReaddRefused);
        return Err(ReplaceError::NotOfSlot { slot: column });
    }
    Ok(())
}

/// The zones with complete columns of segments that are alive.
async fn kept_columns(
    core: &Rc<Core>,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
    zones: &[ZoneInfo],
) -> Vec<(ColumnZone, SegmentHeader)> {
    let full = |info: &&ZoneInfo| {
        info.state == ZoneState::Full
            || holds_something(info) && mutant(Mutant::UnfinishedColumnKept)
    };
    let looks = zones.iter().filter(full).map(|info| look(core, column, &**device, *info));
    let found: Vec<_> = stream::iter(looks).buffered(ZONES_AT_A_TIME).collect().await;
    let mut kept: Vec<(ColumnZone, SegmentHeader)> = found.into_iter().flatten().collect();
    // Of two complete copies one counts, and the other must not outlive the segment.
    let mut segments = BTreeSet::new();
    kept.retain(|(_, header)| segments.insert(header.segment));
    kept
}

/// The column in a full zone, if it is complete and its segment is alive.
async fn look(
    core: &Core,
    column: Column,
    device: &dyn ZonedDevice,
    info: ZoneInfo,
) -> Option<(ColumnZone, SegmentHeader)> {
    let first = read_stubbornly(device, ZoneAddress::new(info.zone, 0)).await.ok()?;
    let (header, slot) = {
        let state = core.state.borrow();
        let header = header_of(&state.array, column, info.zone, &first)?;
        let slot = find(&state, column, &header)?;
        (header, slot)
    };
    if !has_known_order(core, slot, column, device, info.zone).await {
        mark(Mark::OtherOrderLeftOut);
        return None;
    }
    let last = ZoneAddress { zone: info.zone, offset: header.geometry.last_index_block() };
    let last = read_stubbornly(device, last).await.ok();
    let state = core.state.borrow();
    let whole = last.is_some_and(|last| ends_column(&state.array, header.generation, &last))
        || mutant(Mutant::UnfinishedColumnKept);
    mark_if(Mark::UnfinishedColumnLeftOut, || !whole);
    whole.then_some((ColumnZone { zone: info.zone, resets: info.resets }, header))
}

/// Whether its blocks are being relocated. It is not freed before that has ended. Some of its
/// blocks may be on the returning drive only.
fn is_relocated(segment: &Segment) -> bool {
    matches!(segment.life.work(), Work::Relocation { .. })
}

/// The complete segment that lacks the column of this header.
fn find(state: &State, column: Column, header: &SegmentHeader) -> Option<SegmentSlot> {
    let lacks = |segment: &Segment| {
        segment.id == header.segment
            && segment.generation == header.generation
            && segment.phase() == Phase::Sealed
            && (!segment.is_busy() || is_relocated(segment))
            && segment.lacks(column)
    };
    state.segments.iter().find(|(_, segment)| lacks(segment)).map(|(slot, _)| slot)
}

/// Zones with columns of segments that are not alive any more, or are about to be freed.
fn reclaimed(
    state: &State,
    column: Column,
    kept: &[(ColumnZone, SegmentHeader)],
) -> BTreeSet<ZoneId> {
    let gone = kept.iter().filter(|(_, header)| find(state, column, header).is_none());
    gone.map(|(zone, _)| zone.zone).collect()
}

/// Makes the drive a member with the columns that are still wanted. Nothing is durable yet.
fn join(
    core: &Core,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
    zones: &[ZoneInfo],
    kept: &[(ColumnZone, SegmentHeader)],
) {
    let mut state = core.state.borrow_mut();
    let state = &mut *state;
    let former = &state.array.members[column.index()];
    assert!(former.writable().is_none(), "{column} joins twice");
    let entry = MemberEntry { uuid, state: MemberState::Rebuilding, since_epoch: UNRECORDED };
    let mut member = Member::new(entry, Some(device.clone()));
    member.seen = core.handle.now();
    // It is the same drive.
    member.errors = former.errors;
    let mut taken = Vec::new();
    for (zone, header) in kept {
        if let Some(slot) = find(state, column, header) {
            assert!(!taken.contains(&zone.zone), "two segments in {} of {column}", zone.zone);
            taken.push(zone.zone);
            state.segments[slot].zones[column.index()] = Some(*zone);
        }
    }
    mark(if taken.is_empty() { Mark::ReaddedWithNothing } else { Mark::ReaddedWithColumns });
    for info in zones.iter().filter(|info| !taken.contains(&info.zone)) {
        if holds_something(info) && mutant(Mutant::StaleColumnNotReset) {
            continue;
        }
        let usable = is_usable(info);
        member.lost_zones += u32::from(!usable);
        if usable {
            member.pool.add(info.zone, info.resets + u64::from(holds_something(info)));
        }
    }
    state.attach(column, member);
}

#[cfg(test)]
mod tests;
