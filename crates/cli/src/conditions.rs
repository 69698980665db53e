//! Conditions of verbs that are checked before anything is written, also before an array is started
//! in this process: a start may take a missing drive out of service.
//!
//! The engine checks the same, and more, before it changes a membership. The checks here need only
//! the superblocks and the drives.

use zoneweave_raid::array::repair::fit::superblock_zones;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::geometry::SegmentGeometry;
use zoneweave_raid::log::limits::{check_drive, zones_needed};
use zoneweave_raid::log::{
    AdminError, DriveRole, MemberHealth, ReplaceError, Survey, VolumeStatus,
};
use zoneweave_raid::scheme::{Column, ColumnSet};
use zoneweave_zoned::{ZoneInfo, ZoneState};

use crate::error::CliError;
use crate::session::NamedDrive;

/// Checks that a drive could become a member of an array: its shape, its limits, and its usable
/// zones.
pub(crate) fn check_fit(
    config: &ArrayConfig,
    drive: &NamedDrive,
    zones: &[ZoneInfo],
) -> Result<(), ReplaceError> {
    let (geometry, log) = (drive.member.geometry(), config.log());
    check_drive(geometry, config.write_unit, log.chunk_blocks, log.tabled)
        .map_err(ReplaceError::DoesNotFit)?;
    let too_small = |zones, needed_zones| ReplaceError::TooSmall {
        zones,
        capacity: geometry.zone_capacity,
        needed_zones,
        needed_capacity: config.zone_capacity,
    };
    if geometry.zones < config.zones || geometry.zone_capacity < config.zone_capacity {
        return Err(too_small(geometry.zones, config.zones));
    }
    superblock_zones(zones).ok_or(ReplaceError::NoSuperblockZones)?;
    let shape = SegmentGeometry::in_units(
        config.scheme,
        config.write_unit,
        config.zone_capacity,
        log.chunk_blocks,
        log.group_rows,
    );
    let needed = shape.map_or(0, |shape| zones_needed(&shape, log.volume_blocks, config.zones));
    let is_usable =
        |info: &&ZoneInfo| !matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly);
    let usable = u32::try_from(zones.iter().filter(is_usable).count()).unwrap_or(u32::MAX);
    if usable < needed { Err(too_small(usable, needed)) } else { Ok(()) }
}

/// The state of a slot of an array that is not served.
pub(crate) fn slot_health(survey: &Survey, slot: usize) -> Result<MemberHealth, CliError> {
    let record = survey.membership.as_ref().ok_or(CliError::NoArray)?;
    let columns = record.members.len();
    let member = record.members.get(slot).ok_or(AdminError::NoSuchSlot { slot, columns })?;
    Ok(MemberHealth::of(member.state, is_present(survey, slot)))
}

/// Whether the drive of a slot is among those given.
pub(crate) fn is_present(survey: &Survey, slot: usize) -> bool {
    drive_of(survey, slot).is_some()
}

/// The label of the drive of a slot.
pub(crate) fn drive_of(survey: &Survey, slot: usize) -> Option<&str> {
    let holds_slot =
        |role: &DriveRole| matches!(role, DriveRole::Member { slot: at, .. } if at.index() == slot);
    let mut drives = survey.drives.iter();
    drives.find(|verdict| holds_slot(&verdict.role)).map(|verdict| verdict.label.as_str())
}

/// Checks that the drive of a slot may be taken out: that alone must neither lose data nor stop
/// writes. A drive that is out already, or holds nothing yet, is no loss.
pub(crate) fn check_spared(survey: &Survey, slot: usize) -> Result<(), CliError> {
    let record = survey.membership.as_ref().ok_or(CliError::NoArray)?;
    let health = slot_health(survey, slot)?;
    if !health.is_in_service() {
        return Ok(());
    }
    let column = Column::of(slot);
    let healths = record.members.iter().enumerate().map(|(slot, member)| {
        (Column::of(slot), MemberHealth::of(member.state, is_present(survey, slot)))
    });
    let healths: Vec<_> = healths.collect();
    let lost: ColumnSet = (healths.iter())
        .filter(|(_, health)| *health != MemberHealth::Online)
        .map(|(column, _)| *column)
        .collect();
    let scheme = record.config.scheme;
    if health == MemberHealth::Online && !scheme.survives(lost.with(column)) {
        return Err(AdminError::WouldLoseData { slot: column }.into());
    }
    let left = healths.iter().filter(|(_, health)| health.is_in_service()).count() - 1;
    match left * 2 > scheme.columns() {
        true => Ok(()),
        false => Err(AdminError::WouldStop { slot: column }.into()),
    }
}

/// Refuses to replace a working member without consent.
pub(crate) fn refuse_working(
    slot: usize,
    works: Option<String>,
    destroy: bool,
) -> Result<(), CliError> {
    match works {
        Some(drive) if !destroy => Err(CliError::SlotInService { slot, drive }),
        _ => Ok(()),
    }
}

/// The error of a replacement, with the reason that the drives know: to the engine a drive that is
/// full, or whose file is gone, is only lost.
pub(crate) fn explained(
    error: ReplaceError,
    slot: usize,
    drive: &NamedDrive,
    status: &VolumeStatus,
) -> CliError {
    let reason_of = |slot: usize| status.members.get(slot).and_then(|member| member.reason.clone());
    match error {
        ReplaceError::DriveFailed(status) => {
            let reason = drive.drive.failure().or_else(|| reason_of(slot));
            let reason = reason.unwrap_or_else(|| status.to_string());
            CliError::NewDriveFailed { label: drive.label.clone(), reason }
        }
        ReplaceError::Stopped(stopped) => {
            let lost = status.members.iter().filter(|member| !member.state.is_in_service());
            let lost: Vec<_> = lost
                .map(|member| match &member.reason {
                    Some(reason) => format!("slot {} {}: {reason}", member.slot, member.state),
                    None => format!("slot {} {}", member.slot, member.state),
                })
                .collect();
            CliError::VolumeStopped { reason: stopped.text(), members: lost.join("; ") }
        }
        other => other.into(),
    }
}
