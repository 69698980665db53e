//! Takes drives out of an array with a zoned volume that is not served, and replaces them.
//!
//! Everything that may refuse a change is checked before the volume is started, as a start writes
//! to the drives.

use std::path::{Path, PathBuf};

use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{AdminError, MemberHealth};
use zoneweave_raid::raizn::check_fit;
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{ZonedDevice, ZonedDeviceExt};

use super::found::{Found, find};
use super::start::start_whole;
use crate::conditions::{refuse_working, spared};
use crate::drives::consent::{Consent, Destroyed, Holdings, Prospect, holdings, not_empty};
use crate::drives::paths::same_file;
use crate::drives::space::check_space;
use crate::error::CliError;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::{Access, NamedDrive, Session, random_uuid, refuse_worse_way};
use crate::start::run_job;
use crate::status::{ArrayStatus, inactive_zoned_status};

impl Found {
    /// The state of a slot.
    pub(crate) fn health(&self, slot: usize) -> Result<MemberHealth, CliError> {
        let columns = self.membership.members.len();
        let member = self.membership.members.get(slot);
        let member = member.ok_or(AdminError::NoSuchSlot { slot, columns })?;
        Ok(MemberHealth::of(member.state, self.position_of(slot).is_some()))
    }

    /// Checks that the array can do without the drive of a slot.
    fn check_spared(&self, slot: usize) -> Result<(), CliError> {
        let is_present = |slot| self.position_of(slot).is_some();
        spared(self.membership.config.scheme, &self.membership.members, is_present, slot)
    }
}

/// The status after a change.
fn status(session: &Session, paths: &[PathBuf]) -> Result<ArrayStatus, CliError> {
    inactive_zoned_status(&find(session, paths)?.ok_or(CliError::NotZoned)?)
}

/// Takes the drive of a slot out of service.
///
/// # Errors
/// If the array cannot do without it, or other members are missing.
pub(crate) fn fail(
    session: &Session,
    found: &Found,
    paths: &[PathBuf],
    slot: usize,
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    if found.health(slot)? != MemberHealth::Failed {
        found.refuse_missing(Some(slot))?;
        found.check_spared(slot)?;
        let volume = start_whole(session, paths, found, Some(slot), output)?;
        session.executor.run(async {
            let failed = volume.fail(Column::of(slot)).await;
            volume.close().await;
            failed
        })?;
    }
    status(session, paths)
}

/// Forgets the faults on record.
///
/// # Errors
/// If members are missing, or writes stop.
pub(crate) fn clear(
    session: &Session,
    found: &Found,
    paths: &[PathBuf],
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let volume = start_whole(session, paths, found, None, output)?;
    session.executor.run(async {
        let cleared = volume.clear_faults().await;
        volume.close().await;
        cleared
    })?;
    status(session, paths)
}

/// A drive for a slot, and the consent to overwrite it.
pub(crate) struct Replacement<'a> {
    pub slot: usize,
    pub with: &'a Path,
    pub yes_destroy: bool,
    pub destroy: &'a [PathBuf],
}

/// Puts a drive into a slot and rebuilds it.
///
/// # Errors
/// If the drive does not fit, or has contents, or if the array cannot do without the drive in the
/// slot.
pub(crate) fn replace(
    session: &Session,
    found: &Found,
    paths: &[PathBuf],
    replacement: &Replacement<'_>,
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let (named, holds) = checked(session, found, replacement)?;
    let consent = Consent { all: replacement.yes_destroy, named: replacement.destroy };
    if let Some(holds) = holds.filter(|holds| !consent.covers(&named, holds)) {
        return Err(not_empty(&named, &holds));
    }
    let (slot, label) = (replacement.slot, named.label.clone());
    let is_new = |path: &&PathBuf| !same_file(path, replacement.with);
    let mut paths: Vec<_> = paths.iter().filter(is_new).cloned().collect();
    let volume = start_whole(session, &paths, found, Some(slot), output)?;
    let progress = Progress::of(output, "rebuild", "zones");
    let uuid = MemberUuid(random_uuid()?);
    let (rebuilt, watched) = (volume.clone(), volume);
    let job = async move {
        let replaced = rebuilt.replace(Column::of(slot), named.drive.clone(), uuid).await;
        rebuilt.close().await;
        replaced
    };
    let how_far = || watched.status().rebuild.map(Into::into);
    run_job(session, job, how_far, &progress)?;
    progress.finish();
    output.detail(format_args!("{label} is in slot {slot}"));
    paths.push(replacement.with.to_owned());
    status(session, &paths)
}

/// What a replacement would overwrite. Nothing is changed.
///
/// # Errors
/// As [`replace`], but for consent to overwrite the drive.
pub(crate) fn prospect(
    session: &Session,
    found: &Found,
    replacement: &Replacement<'_>,
) -> Result<Prospect, CliError> {
    let (named, holds) = checked(session, found, replacement)?;
    let destroys = holds.iter().map(|holds| Destroyed::new(&named, holds)).collect();
    let name = found.membership.config.name.clone();
    Ok(Prospect { name, health: found.health(replacement.slot)?, destroys })
}

/// The new drive, opened, and what it holds.
fn checked(
    session: &Session,
    found: &Found,
    replacement: &Replacement<'_>,
) -> Result<(NamedDrive, Option<Holdings>), CliError> {
    let &Replacement { slot, with, yes_destroy, .. } = replacement;
    let health = found.health(slot)?;
    let members = (0..found.membership.members.len()).filter_map(|slot| found.position_of(slot));
    let mut members = members.map(|at| &found.drives.opened[at]);
    if members.any(|member| member.identity.is_at(with)) {
        return Err(CliError::InService { label: with.display().to_string() });
    }
    let named = session.open(with, Access::Exclusive)?;
    refuse_worse_way(&named, &session.ring, &session.handle)?;
    let zones = session.executor.run(named.drive.report());
    let zones =
        zones.map_err(|status| CliError::DriveFailed { label: named.label.clone(), status })?;
    let config = &found.membership.config;
    check_fit(config, &found.geometry()?, named.drive.geometry(), &zones)?;
    check_space(&named, &zones)?;
    let in_slot = found.position_of(slot).map(|at| found.drives.opened[at].label.clone());
    refuse_working(slot, in_slot.filter(|_| health == MemberHealth::Online), yes_destroy)?;
    let holds = session.executor.run(holdings(&named))?;
    found.refuse_missing(Some(slot))?;
    found.check_spared(slot)?;
    Ok((named, holds))
}
