//! Conditions of verbs that are checked before anything is written, also before an array is started
//! in this process: a start may take a missing drive out of service.
//!
//! The engine checks the same, and more, before it changes a membership. The checks here need only
//! the superblocks and the drives.

use zoneweave_raid::array::repair::fit::superblock_zones;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::fit::{check_size, check_usable_zones};
use zoneweave_raid::log::format::{ArrayConfig, MemberEntry, VolumeKind};
use zoneweave_raid::log::geometry::SegmentGeometry;
use zoneweave_raid::log::limits::{check_drive, zones_needed};
use zoneweave_raid::log::{
    AdminError, AssemblyError, DriveRole, DriveVerdict, MemberHealth, MemberStatus, OpenError,
    ReplaceError, StopReason, Survey, VolumeStatus,
};
use zoneweave_raid::scheme::{Column, ColumnSet, Scheme};
use zoneweave_zoned::{Status, ZoneInfo};

use crate::drives::failure::with_error;
use crate::error::{CliError, LifecycleError, NewMemberError};
use crate::format::slot_state;
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
    check_size(config, geometry)?;
    superblock_zones(zones).ok_or(ReplaceError::NoSuperblockZones)?;
    let shape = SegmentGeometry::in_units(
        config.scheme,
        config.write_unit,
        config.zone_capacity,
        log.chunk_blocks,
        log.group_rows,
    );
    let needed = shape.map_or(0, |shape| zones_needed(&shape, log.volume_blocks, config.zones));
    check_usable_zones(config, geometry, zones, needed)
}

/// Refuses an array that cannot start, before the start of another shard takes a missing drive out
/// of service.
///
/// # Errors
/// Why it does not start, unless `force` overrides that.
pub(crate) fn refuse_hopeless(found: &mut Survey, force: bool) -> Result<(), CliError> {
    let may_be_read = found.membership.as_ref().is_some_and(|record| {
        let scheme = record.config.scheme;
        let missing = (0..scheme.columns()).filter(|slot| !is_present(found, *slot));
        scheme.survives(missing.map(Column::of).collect())
    });
    let overridden = |refusal: &mut OpenError| {
        let no_quorum = matches!(refusal, OpenError::Array(AssemblyError::NoQuorum { .. }));
        force && no_quorum && may_be_read
    };
    match found.refusal.take_if(|refusal| !overridden(refusal)) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
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
    position_of(&survey.drives, slot).map(|at| survey.drives[at].label.as_str())
}

/// Which of the drives given is the drive of a slot.
pub(crate) fn position_of(drives: &[DriveVerdict], slot: usize) -> Option<usize> {
    let holds_slot =
        |role: &DriveRole| matches!(role, DriveRole::Member { slot: at, .. } if at.index() == slot);
    drives.iter().position(|verdict| holds_slot(&verdict.role))
}

/// Checks that the drive of a slot may be taken out: that alone must neither lose data nor stop
/// writes. A drive that is out already, or holds nothing yet, is no loss.
pub(crate) fn check_spared(survey: &Survey, slot: usize) -> Result<(), CliError> {
    let record = survey.membership.as_ref().ok_or(CliError::NoArray)?;
    // There is such a slot.
    slot_health(survey, slot)?;
    spared(record.config.scheme, &record.members, |slot| is_present(survey, slot), slot)
}

/// As [`check_spared`], of an array with these members.
pub(crate) fn spared(
    scheme: Scheme,
    members: &[MemberEntry],
    is_present: impl Fn(usize) -> bool,
    slot: usize,
) -> Result<(), CliError> {
    let members = members.iter().enumerate();
    let healths = members.map(|(slot, member)| MemberHealth::of(member.state, is_present(slot)));
    spared_of(scheme, &healths.collect::<Vec<_>>(), slot)
}

/// As [`check_spared`], of members in these states.
pub(crate) fn spared_of(
    scheme: Scheme,
    healths: &[MemberHealth],
    slot: usize,
) -> Result<(), CliError> {
    assert!(slot < healths.len(), "slot {slot} of {}", healths.len());
    let columns_with = |wanted: fn(MemberHealth) -> bool| -> ColumnSet {
        let found = healths.iter().enumerate().filter(|(_, health)| wanted(**health));
        found.map(|(slot, _)| Column::of(slot)).collect()
    };
    let lost = columns_with(|health| health != MemberHealth::Online);
    let in_service = columns_with(MemberHealth::is_in_service);
    Ok(zoneweave_raid::log::check_spared(scheme, lost, in_service, false, Column::of(slot))?)
}

/// Refuses to take the drive of a slot out where the next start would not have enough of the
/// others: the drives of the slots `lost` live only as long as their server.
///
/// # Errors
/// Which others are lost on media. Not if the array cannot do without the drive anyway.
pub(crate) fn refuse_lost_on_media(
    scheme: Scheme,
    members: &[MemberStatus],
    lost: &[u8],
    slot: usize,
) -> Result<(), LifecycleError> {
    let mut healths: Vec<_> = members.iter().map(|member| member.state).collect();
    let others = lost.iter().copied().filter(|other| usize::from(*other) != slot);
    let others: Vec<_> = others.collect();
    if slot >= healths.len() || spared_of(scheme, &healths, slot).is_err() {
        return Ok(());
    }
    for other in &others {
        healths[usize::from(*other)] = MemberHealth::Failed;
    }
    match spared_of(scheme, &healths, slot) {
        Ok(()) => Ok(()),
        Err(_) => Err(LifecycleError::OthersNotOnMedia { slot, others }),
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

/// Refuses a new drive for a slot that is the drive of another slot: of a member that is absent and
/// has missed nothing.
///
/// # Errors
/// Which slot it has.
pub(crate) fn refuse_of_other_slot(
    config: &ArrayConfig,
    members: &[MemberStatus],
    slot: usize,
    named: &NamedDrive,
    record: Option<&MembershipRecord>,
) -> Result<(), NewMemberError> {
    let Some(record) = record.filter(|record| record.config.array == config.array) else {
        return Ok(());
    };
    let uuid = record.member.to_string();
    let is_it = |member: &&MemberStatus| {
        member.state == MemberHealth::Missing
            && member.uuid == uuid
            && usize::from(member.slot) != slot
    };
    match members.iter().find(is_it) {
        None => Ok(()),
        Some(member) => {
            let is_zoned = matches!(config.volume, VolumeKind::Zoned(_));
            let (label, slot) = (named.label.clone(), member.slot);
            Err(NewMemberError::OfOtherSlot { label, slot, is_zoned })
        }
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
        ReplaceError::DriveFailed(failed) => {
            // The reason of the slot is that of the drive before, unless a rebuild lost this one.
            let is_gone = failed == Status::DeviceGone;
            let reason = drive.drive.failure().or_else(|| reason_of(slot).filter(|_| is_gone));
            let told = || with_error(&failed.to_string(), drive.drive.write_error());
            let reason = reason.unwrap_or_else(told);
            CliError::NewDriveFailed { label: drive.label.clone(), reason }
        }
        ReplaceError::Stopped(stopped) => volume_stopped(stopped, &status.members),
        other => other.into(),
    }
}

/// The error of a volume that has stopped, with the drives that it has lost.
pub(crate) fn volume_stopped(stopped: StopReason, members: &[MemberStatus]) -> CliError {
    let lost = members.iter().filter(|member| !member.state.is_in_service());
    let lost = lost.map(|member| slot_state(member.slot, member.state, member.reason.as_deref()));
    let members = lost.collect::<Vec<_>>().join("; ");
    CliError::VolumeStopped { reason: stopped.text(), members }
}
