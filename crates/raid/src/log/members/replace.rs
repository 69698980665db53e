//! Puts a drive into a slot: checks that it fits, erases it, and writes its first records.
//!
//! The drive's contents are destroyed once it is certain that it fits. It becomes a member when the
//! record with its name is on every member: an earlier crash leaves the slot as it was. From then
//! on its rebuild (`repair/rebuild`) may be interrupted by another loss at any time.

use std::rc::Rc;

use zoneweave_journal::TwinLog;
use zoneweave_zoned::{Status, ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt};

use crate::array::health::Members;
use crate::array::member::Member;
use crate::array::repair::fit::{empty_drive, holds_something, is_usable, superblock_zones};
use crate::array::repair::rebuild::{Progress, RebuildUnits, rebuild};
use crate::array::state::UNRECORDED;
use crate::array::superblock_logs::mark_event;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::limits::check_drive;
use crate::log::engine::state::State;
use crate::log::format::{MemberEntry, MemberState, MemberUuid};
use crate::log::members::error::ReplaceError;
use crate::log::members::fit::{check_size, check_usable_zones};
use crate::log::recover::find::header_votes::may_hold_segment;
use crate::scheme::Column;

/// Puts a drive into a slot and rebuilds it. The drive's contents are destroyed.
///
/// # Errors
/// A [`ReplaceError`] with the reason.
pub(in crate::log) async fn replace(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check(core, column, &device)?;
    let asked_for = core.state.borrow().array.members[column.index()].entry.uuid;
    let _admin = core.admin.acquire().await;
    {
        // This may have waited hours for a rebuild or scrub; the request referred to the drive in
        // the slot then, working or not.
        let state = core.state.borrow();
        let member = &state.array.members[column.index()];
        if member.entry.uuid != asked_for && member.writable().is_some() {
            mark(Mark::SlotFilledMeanwhile);
            return Err(ReplaceError::FilledMeanwhile { slot: column });
        }
    }
    put_in(core, column, device, uuid).await?;
    Ok(rebuild(core, column).await?)
}

/// Puts a drive into a slot, without rebuilding anything yet. The caller has the permit for
/// membership changes.
pub(super) async fn put_in(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check(core, column, &device)?;
    // Checked before a working drive is taken out; other members may have failed meanwhile.
    if core.state.borrow().array.members[column.index()].writable().is_some() {
        let (zones, _) = look(core, &*device).await?;
        check(core, column, &device)?;
        if is_foreign(&core.state.borrow(), &device) {
            // Before that, as a drive that cannot be erased then costs nothing, and erasing costs
            // no redundancy.
            empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
            check(core, column, &device)?;
        }
    }
    retire(core, column).await?;
    await_former(core, &device).await;
    let (zones, superblocks) = look(core, &*device).await?;
    empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
    {
        let mut state = core.state.borrow_mut();
        let entry = MemberEntry { uuid, state: MemberState::Rebuilding, since_epoch: UNRECORDED };
        let mut member = Member::new(entry, Some(device));
        member.seen = core.handle.now();
        for info in &zones {
            let usable = is_usable(info);
            member.lost_zones += u32::from(!usable);
            if usable && !superblocks.contains(&info.zone) {
                member.pool.add(info.zone, info.resets + u64::from(holds_something(info)));
            }
        }
        state.attach(column, member);
    }
    assert!(
        core.state.borrow().array.membership_dirty,
        "a drive in {column} is not going to be recorded"
    );
    // A slot that is being rebuilt has a rebuild, also while its membership is being recorded.
    let total = core.lacking(column).len() as u64;
    core.rebuild.progress.set(Some(Progress { done: 0, total }));
    core.superblock.set_log(column, TwinLog::begin(superblocks, mark_event));
    if let Err(reason) = core.superblock.commit_snapshot(core).await {
        core.rebuild.progress.set(None);
        return Err(ReplaceError::Stopped(reason));
    }
    core.changed.open();
    Ok(())
}

impl State {
    /// Makes a drive the member of a slot. The membership is dirty until that is on media.
    pub(in crate::log) fn attach(&mut self, column: Column, member: Member) {
        let before = &self.array.members[column.index()];
        assert!(before.writable().is_none(), "{column} has a drive in service");
        let device = member.device.as_ref().expect("a new member has a drive");
        if device.geometry().volatile_cache && !self.array.volatile {
            // The array promised users that no cache needs a flush.
            mark(Mark::ReplacementWithCache);
            self.array.volatile = true;
            self.array.fua_always = true;
        }
        self.array.put_member(column, member);
        self.registry.dead.record_replaced(column);
        self.array.membership_dirty = true;
        // Open segments lack the new column: later stripes go to segments that have it.
        for slot in self.writes.open_segments() {
            self.abandon(slot);
        }
        // It may have brought what they wait for, or be in the place of the drive that had it:
        // either way, relocation finds out.
        for slot in self.awaited_segments() {
            self.segments[slot].mark_damaged();
        }
        self.segments.iter_mut().for_each(|(_, segment)| segment.awaits_member = false);
        self.awaited.forget();
    }
}

/// Waits until no command of an earlier membership of a drive is in flight: it would hit the new
/// contents.
pub(in crate::log) async fn await_former(core: &Core, device: &Rc<dyn ZonedDevice>) {
    let former = core.state.borrow().array.former_of(device);
    for membership in former {
        mark(Mark::FormerMembershipAwaited);
        membership.ended().await;
    }
}

/// Whether a drive is in no slot, and was in none since the start.
fn is_foreign(state: &State, device: &Rc<dyn ZonedDevice>) -> bool {
    state.array.slot_of(device).is_none() && state.array.former_of(device).is_empty()
}

/// The zones of a drive, and its future superblock zones, if it can be a member as it is.
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

/// Checks that a drive can take a slot.
///
/// # Errors
/// The requirement that it lacks.
pub(in crate::log) fn check(
    core: &Core,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
) -> Result<(), ReplaceError> {
    let state = core.state.borrow();
    if let Some(slot) = state.array.slot_of(device).filter(|slot| *slot != column) {
        return Err(ReplaceError::InService { slot });
    }
    if let Some(reason) = state.array.stopped {
        return Err(ReplaceError::Stopped(reason));
    }
    check_fit(&state, &**device)?;
    let member = &state.array.members[column.index()];
    if member.entry.state == MemberState::Rebuilding && member.device.is_some() {
        return Err(ReplaceError::AlreadyRebuilding { slot: column });
    }
    Ok(state.array.check_spared(column)?)
}

/// Checks that a drive meets the requirements for a member.
///
/// # Errors
/// The requirement that it lacks.
pub(super) fn check_fit(state: &State, device: &dyn ZonedDevice) -> Result<(), ReplaceError> {
    let config = &state.array.config;
    let geometry = device.geometry();
    check_drive(geometry, config.write_unit, config.log().chunk_blocks, config.log().tabled)
        .map_err(ReplaceError::DoesNotFit)?;
    state.writes.policy.check_drive(config, geometry)?;
    check_size(config, geometry).inspect_err(|_| mark(Mark::SmallDriveRefused))
}

/// Checks that the volume could be written with the usable zones of a drive.
pub(in crate::log) fn check_zones(
    core: &Core,
    device: &dyn ZonedDevice,
    zones: &[ZoneInfo],
) -> Result<(), ReplaceError> {
    let state = core.state.borrow();
    let needed = state.zones_needed_to_write();
    check_usable_zones(&state.array.config, device.geometry(), zones, needed)
        .inspect_err(|_| mark(Mark::WornDriveRefused))
}

/// Refuses a drive with read-only zones of segments that died while it was out of service, as these
/// could become valid again. With a mirror any single copy is enough. With parity it takes as many
/// such drives as can reconstruct the data, or other drives that cannot prove that they have
/// nothing of the segment.
pub(in crate::log) async fn check_kept(
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
    if core.state.borrow().array.members[column.index()].writable().is_some() {
        mark(Mark::WorkingDriveRetired);
        core.fail_member(column, Status::Aborted);
        core.state.borrow_mut().array.members[column.index()].failure =
            Some("replaced by the administrator".to_owned());
    }
    core.membership_settled().await;
    core.state.borrow().array.stopped.map_or(Ok(()), |reason| Err(ReplaceError::Stopped(reason)))
}
