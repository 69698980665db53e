//! Putting a drive into a slot: whether it fits, what goes before it may come in, and its first
//! records.
//!
//! What the drive holds is destroyed, once it is certain that it fits. Until the record that names
//! it is on every member it is none: a crash before leaves the slot as it was. What has to be
//! rebuilt is, from then on, a member's that may be lost again at any time (`rebuild.rs`).

use crate::log::members::error::ReplaceError;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt};

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::limits::check_drive;
use crate::log::engine::state::{State, UNRECORDED};
use crate::log::format::{MemberEntry, MemberState, MemberUuid};
use crate::log::members::create::{empty_drive, holds_something, is_usable, superblock_zones};
use crate::log::members::member::Member;
use crate::log::members::superblock_cursor::SuperblockCursor;
use crate::log::recover::find::header_votes::may_hold_segment;
use crate::log::repair::rebuild::rebuild;
use crate::scheme::Column;

/// Puts a drive into a slot and rebuilds it. What the drive holds is destroyed.
///
/// # Errors
/// As [`ReplaceError`] tells.
pub(in crate::log) async fn replace(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check(core, column, &device)?;
    let asked_for = core.state.borrow().members[column.index()].entry.uuid;
    let _admin = core.admin.acquire().await;
    {
        // Behind a rebuild or a scrub that takes hours, and who asked had this drive in mind,
        // working or not.
        let state = core.state.borrow();
        let member = &state.members[column.index()];
        if member.entry.uuid != asked_for && member.writable().is_some() {
            mark(Mark::SlotFilledMeanwhile);
            return Err(ReplaceError::FilledMeanwhile { slot: column });
        }
    }
    put_in(core, column, device, uuid).await?;
    rebuild(core, column).await
}

/// Puts a drive into a slot, of which nothing is rebuilt yet. Whoever does has the turn for it.
pub(in crate::log) async fn put_in(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check(core, column, &device)?;
    // Before a drive that works is taken out for it; meanwhile others may have gone.
    if core.state.borrow().members[column.index()].writable().is_some() {
        let (zones, _) = look(core, &*device).await?;
        check(core, column, &device)?;
        if is_foreign(&core.state.borrow(), &device) {
            // A drive that cannot be erased costs nothing then, and erasing none of the redundancy.
            empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
            check(core, column, &device)?;
        }
    }
    retire(core, column).await?;
    // What is under way from when the drive was a member before would come upon what it holds then.
    let former = core.state.borrow().former_of(&device);
    for membership in former {
        mark(Mark::FormerMembershipAwaited);
        membership.ended().await;
    }
    let (zones, superblocks) = look(core, &*device).await?;
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
        state.dead.note_replaced(column);
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

/// Whether a drive is in no slot, and was in none since the start.
fn is_foreign(state: &State, device: &Rc<dyn ZonedDevice>) -> bool {
    state.slot_of(device).is_none() && state.former_of(device).is_empty()
}

/// A drive's zones, and those for its superblock, if it can be a member as it is.
async fn look(
    core: &Core,
    device: &dyn ZonedDevice,
) -> Result<(Vec<ZoneInfo>, [ZoneId; 2]), ReplaceError> {
    let zones = device.report().await.map_err(ReplaceError::DriveFailed)?;
    let superblocks = superblock_zones(&zones).ok_or(ReplaceError::NoSuperblockZones)?;
    check_zones(core, device, &zones)?;
    check_kept(core, device, &zones).await?;
    Ok((zones, superblocks))
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
pub(in crate::log) fn check_fit(
    state: &State,
    device: &dyn ZonedDevice,
) -> Result<(), ReplaceError> {
    let config = &state.config;
    let geometry = device.geometry();
    check_drive(geometry, config.write_unit, config.chunk_blocks, config.tabled)
        .map_err(ReplaceError::DoesNotFit)?;
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

/// What died while the drive was out of service could count again: any one copy of a mirror, and
/// with parity what is on as many such drives as are enough, or where others cannot tell that they
/// have nothing of it.
async fn check_kept(
    core: &Core,
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
) -> Result<(), ReplaceError> {
    for info in zones.iter().filter(|info| info.state == ZoneState::ReadOnly) {
        if may_hold_segment(core, device, info).await {
            mark(Mark::FormerMemberRefused);
            return Err(ReplaceError::KeepsSegments { zone: info.zone });
        }
    }
    Ok(())
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
