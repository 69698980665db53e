//! Puts a drive into a slot.
//!
//! Everything is checked before the drive in the slot is taken out. The new drive's contents are
//! destroyed once it is certain that it fits, and it becomes a member when the record with its name
//! is on every member.

use std::rc::Rc;

use thiserror::Error;
use zoneweave_journal::TwinLog;
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Status, ZoneId, ZoneInfo, ZonedDevice, ZonedDeviceExt,
};

use crate::array::error::{AdminError, RebuildError};
use crate::array::format::config::{ArrayConfig, Checksums};
use crate::array::format::record::{MemberEntry, MemberState, MemberUuid};
use crate::array::health::Members;
use crate::array::member::Member;
use crate::array::repair::fit::{empty_drive, is_usable, superblock_zones};
use crate::array::repair::rebuild::{Progress, RebuildUnits, rebuild, resume};
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::array::superblock_logs::mark_event;
use crate::raizn::core::Core;
use crate::raizn::layout::ACTIVE_RESERVE;
use crate::scheme::{Column, ColumnSet};

/// Why a drive was not put into a slot, or its rebuild ended early.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReplaceError {
    /// The volume cannot do without the drive in the slot, or has stopped.
    #[error("{0}")]
    Admin(#[from] AdminError),
    /// The drive is a member already.
    #[error("the drive is in {slot} of this array")]
    InService {
        /// Its slot.
        slot: Column,
    },
    /// The slot is being rebuilt already.
    #[error("{slot} is being rebuilt: wait for it, or fail the drive in it first")]
    AlreadyRebuilding {
        /// The slot.
        slot: Column,
    },
    /// While this waited for the rebuild of another drive, the slot got a working drive.
    #[error("{slot} has got another drive meanwhile: look at the array's status")]
    FilledMeanwhile {
        /// The slot.
        slot: Column,
    },
    /// The drive is too small.
    #[error(
        "the drive has {zones} zones of {capacity}: the array uses {needed} of {needed_capacity}"
    )]
    TooSmall {
        /// Its zones.
        zones: u32,
        /// Their capacity.
        capacity: BlockCount,
        /// The zones that the array uses.
        needed: u32,
        /// Their capacity.
        needed_capacity: BlockCount,
    },
    /// The drive cannot hold the array's blocks.
    #[error("the drive has no metadata beside its blocks, which holds the checksums of this array")]
    NoMetadata,
    /// The drive writes units of several blocks.
    #[error("the drive keeps metadata among its blocks, which a zoned volume cannot use")]
    WriteUnit,
    /// The drive allows fewer active zones than the others.
    #[error("the drive allows {active} active zones: the array needs {needed}")]
    TooFewActiveZones {
        /// Its limit.
        active: u32,
        /// What the array needs.
        needed: u32,
    },
    /// A zone that the volume needs cannot be written.
    #[error(
        "zone {zone} of the drive is read-only or offline: the zones of a zoned volume are fixed"
    )]
    UnusableZone {
        /// The zone.
        zone: u32,
    },
    /// A command to the drive failed.
    #[error("the drive failed: {0}")]
    DriveFailed(Status),
    /// Writes have stopped.
    #[error("the volume has stopped: {0}")]
    Stopped(StopReason),
    /// The rebuild ended early.
    #[error("{0}")]
    Rebuild(#[from] RebuildError),
}

impl Core {
    /// Puts a drive into a slot and rebuilds it. The drive's contents are destroyed.
    pub(crate) async fn replace(
        self: &Rc<Self>,
        column: Column,
        device: Rc<dyn ZonedDevice>,
        uuid: MemberUuid,
    ) -> Result<(), ReplaceError> {
        self.check_replacement(column, &device)?;
        let asked_for = self.state.borrow().array.members[column.index()].entry.uuid;
        let _admin = self.admin.acquire().await;
        self.check_still_meant(column, asked_for)?;
        self.check_replacement(column, &device)?;
        let zones = device.report().await.map_err(ReplaceError::DriveFailed)?;
        let superblocks = check_zones(&self.state.borrow().array.config, &zones)?;
        // An order that is refused evicts nobody. The drive may be one that is missing, so what it
        // holds is kept until that is recorded.
        self.published().await.map_err(ReplaceError::Stopped)?;
        self.check_replacement(column, &device)?;
        let former = self.state.borrow().array.former_of(&device);
        // A drive that cannot be erased then costs no redundancy. One that left a slot of this
        // array may still have commands in flight.
        let is_erased = former.is_empty();
        if is_erased {
            empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
        }
        self.check_replacement(column, &device)?;
        self.retire(column).await?;
        for membership in former {
            membership.ended().await;
        }
        if !is_erased {
            empty_drive(&device, &zones).await.map_err(ReplaceError::DriveFailed)?;
        }
        self.writers_ended(column).await;
        self.put_in(column, device, uuid);
        let total = self.lacking(column).len() as u64;
        self.rebuild.progress.set(Some(Progress { done: 0, total }));
        self.superblock.set_log(column, TwinLog::begin(superblocks, mark_event));
        if let Err(reason) = self.superblock.commit_snapshot(self).await {
            self.rebuild.progress.set(None);
            return Err(ReplaceError::Stopped(reason));
        }
        self.changed.open();
        Ok(rebuild(self, column).await?)
    }

    /// Continues rebuilds that a restart interrupted.
    pub(crate) async fn resume_rebuilds(self: &Rc<Self>) -> Result<(), RebuildError> {
        let _admin = self.admin.acquire().await;
        // A start waits only where no member is being rebuilt.
        if self.is_unpublished() {
            return Ok(());
        }
        resume(self).await
    }

    /// Checks that a request still means the drive in the slot: it may have waited hours for a
    /// rebuild.
    fn check_still_meant(&self, column: Column, asked_for: MemberUuid) -> Result<(), ReplaceError> {
        if self.closing.get() {
            return Err(ReplaceError::Stopped(StopReason::ShuttingDown));
        }
        let state = self.state.borrow();
        let member = &state.array.members[column.index()];
        match member.entry.uuid != asked_for && member.writable().is_some() {
            true => Err(ReplaceError::FilledMeanwhile { slot: column }),
            false => Ok(()),
        }
    }

    fn check_replacement(
        &self,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<(), ReplaceError> {
        let state = self.state.borrow();
        let (array, geometry) = (&state.array, device.geometry());
        let columns = self.layout.scheme().columns();
        if column.index() >= columns {
            return Err(AdminError::NoSuchSlot { slot: column.index(), columns }.into());
        }
        if let Some(slot) = array.slot_of(device) {
            return Err(ReplaceError::InService { slot });
        }
        if let Some(reason) = array.stopped {
            return Err(ReplaceError::Stopped(reason));
        }
        let member = &array.members[column.index()];
        if member.entry.state == MemberState::Rebuilding && member.device.is_some() {
            return Err(ReplaceError::AlreadyRebuilding { slot: column });
        }
        check_shape(&array.config, state.zones.geometry(), geometry)?;
        Ok(array.check_spared(column)?)
    }

    /// Takes the slot's present drive out, if it is in service.
    async fn retire(self: &Rc<Self>, column: Column) -> Result<(), ReplaceError> {
        if self.state.borrow().array.members[column.index()].writable().is_some() {
            self.fail_member(column, Status::Aborted);
            self.state.borrow_mut().array.members[column.index()].failure =
                Some("replaced by the administrator".to_owned());
        }
        self.membership_settled().await;
        self.state.borrow().array.stopped.map_or(Ok(()), |why| Err(ReplaceError::Stopped(why)))
    }

    /// Waits until no task writes to the drive that was in a slot.
    async fn writers_ended(&self, column: Column) {
        loop {
            {
                let state = self.state.borrow();
                let writes = |zone: &crate::raizn::zone::LogicalZone| {
                    let queue = &zone.columns[column.index()];
                    queue.writing || !queue.queue.is_empty()
                };
                let log = &state.logs[column.index()];
                let logs = log.writing || log.needs_writer();
                if !logs && !state.logical.iter().any(writes) {
                    return;
                }
            }
            self.changed.wait().await;
        }
    }

    /// Makes an empty drive the member of a slot. Zones with data lack its column.
    fn put_in(&self, column: Column, device: Rc<dyn ZonedDevice>, uuid: MemberUuid) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        assert!(state.array.slot_of(&device).is_none(), "a drive is in one slot");
        assert!(!state.logs[column.index()].writing, "the drive before is being written");
        let entry = MemberEntry { uuid, state: MemberState::Rebuilding, since_epoch: UNRECORDED };
        state.array.volatile |= device.geometry().volatile_cache;
        let mut member = Member::new(entry, Some(device));
        member.seen = self.handle.now();
        state.array.put_member(column, member);
        state.array.membership_dirty = true;
        let of_column: ColumnSet = std::iter::once(column).collect();
        for zone in &mut state.logical {
            let of_drive = &mut zone.columns[column.index()];
            of_drive.relocated.clear();
            zone.absent = match zone.submitted > 0 || zone.record.resetting {
                true => zone.absent.union(of_column),
                false => zone.absent.without(of_column),
            };
        }
        state.logs[column.index()] = state.logs[column.index()].of_next_drive();
    }
}

/// Checks that a drive could be a member: its shape, its limits and its zones.
///
/// # Errors
/// What does not fit.
pub fn check_fit(
    config: &ArrayConfig,
    volume: &Geometry,
    drive: &Geometry,
    zones: &[ZoneInfo],
) -> Result<(), ReplaceError> {
    check_shape(config, volume, drive)?;
    check_zones(config, zones).map(|_| ())
}

fn check_shape(
    config: &ArrayConfig,
    volume: &Geometry,
    geometry: &Geometry,
) -> Result<(), ReplaceError> {
    if geometry.zones < config.zones || geometry.zone_capacity < config.zone_capacity {
        let (zones, capacity) = (geometry.zones, geometry.zone_capacity);
        let (needed, needed_capacity) = (config.zones, config.zone_capacity);
        return Err(ReplaceError::TooSmall { zones, capacity, needed, needed_capacity });
    }
    if geometry.write_unit.0 != 1 {
        return Err(ReplaceError::WriteUnit);
    }
    let has_checksums = config.zoned().checksums == Checksums::Metadata;
    if has_checksums && geometry.oob == OobKind::None {
        return Err(ReplaceError::NoMetadata);
    }
    let needed = volume.max_active.map_or(u32::MAX, |active| active + ACTIVE_RESERVE);
    let active = geometry.max_active.into_iter().chain(geometry.max_open).min();
    if let Some(active) = active.filter(|active| *active < needed) {
        return Err(ReplaceError::TooFewActiveZones { active, needed });
    }
    Ok(())
}

/// Checks that all zones of the volume can be written; returns the drive's superblock zones.
fn check_zones(config: &ArrayConfig, zones: &[ZoneInfo]) -> Result<[ZoneId; 2], ReplaceError> {
    let unusable = zones.iter().take(config.zones as usize).find(|info| !is_usable(info));
    let zone = unusable.map_or(0, |info| info.zone.0);
    match superblock_zones(zones) {
        Some(superblocks) if unusable.is_none() => Ok(superblocks),
        _ => Err(ReplaceError::UnusableZone { zone }),
    }
}
