//! `zoneweave array replace`: put a new drive into a slot and rebuild it.

mod dry_run;

use std::path::PathBuf;

use clap::Args;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{DriveRole, MemberHealth};
use zoneweave_zoned::ZonedDeviceExt;

use super::status::parse_status;
use crate::conditions::{
    check_fit, check_spared, drive_of, explained, refuse_working, slot_health,
};
use crate::control::{Client, Request, Waiting, refuse_of_siblings};
use crate::drives::consent::{Consent, Holdings, holdings, not_empty};
use crate::drives::paths::{absolute, same_file};
use crate::drives::space::check_space;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::{Access, NamedDrive, Session, random_uuid, refuse_worse_way};
use crate::start::{Located, in_slots, locate, locate_one, refuse_missing, run_job, start_whole};
use crate::status::{ArrayStatus, inactive_status, render};
use crate::zoned::{self, Replacement};

#[derive(Args)]
pub(crate) struct Replace {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Slot to replace, from 0
    #[arg(long, value_name = "I")]
    slot: usize,
    /// New drive for the slot
    #[arg(long, value_name = "NEWDRIVE")]
    with: PathBuf,
    /// Overwrite the new drive even if it holds data, unless that is a file system or the drive is
    /// a real one (see --destroy). Also needed to replace a drive that still works
    #[arg(long)]
    yes_destroy: bool,
    /// Overwrite the new drive, whatever it holds; names the same drive as --with
    #[arg(long, value_name = "NEWDRIVE")]
    destroy: Vec<PathBuf>,
    /// Print what the new drive holds that would be overwritten; change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Replace {
    fn replacement(&self) -> Replacement<'_> {
        let Self { slot, with, yes_destroy, destroy, .. } = self;
        Replacement { slot: *slot, with, yes_destroy: *yes_destroy, destroy }
    }

    fn is_named(&self) -> bool {
        self.destroy.iter().any(|path| same_file(path, &self.with))
    }
}

pub(crate) fn run(request: &Replace, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    if request.dry_run {
        return dry_run::run(request, &session, output);
    }
    if let Some(found) = zoned::find(&session, &request.drives)? {
        let status = match found.client()? {
            Some(client) => served(request, &session, client, "zones", output)?,
            None => {
                let replacement = request.replacement();
                zoned::replace(&session, &found, &request.drives, &replacement, output)?
            }
        };
        output.result("array-status", &status, |output| render(&status, output));
        return Ok(Exit::Done);
    }
    let mut located = locate_one(&session, &request.drives)?;
    let status = match located.client.take() {
        Some(client) => {
            if let Some(record) = &located.survey.membership {
                refuse_of_siblings(client.socket(), record.config.shard, &request.with)?;
            }
            served(request, &session, client, "segments", output)?
        }
        None => inactive(request, &session, &located, output)?,
    };
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}

/// Has the server do it; its progress counts `unit`.
fn served(
    request: &Replace,
    session: &Session,
    client: Client,
    unit: &'static str,
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let asked = Request::Replace {
        slot: request.slot,
        drive: absolute(&request.with)?,
        destroy: request.yes_destroy,
        by_name: request.is_named(),
    };
    let progress = Progress::of(output, "rebuild", unit);
    let flags = format!("--slot {}", request.slot);
    let stop = ("fail", &flags[..]);
    let waiting = Waiting::new(session, output, "replacement", &request.drives, stop)?;
    let status = parse_status(client.ask(&asked, |job| {
        waiting.check();
        progress.update(job);
    })?);
    progress.finish();
    status
}

/// The new drive of an array that is not served, opened, and what it holds. Everything that may
/// refuse it is checked before the array is started: a start may take a missing drive out of
/// service.
fn checked(
    request: &Replace,
    session: &Session,
    located: &Located,
) -> Result<(NamedDrive, Option<Holdings>), CliError> {
    let Some(record) = &located.survey.membership else { return Err(CliError::NoArray) };
    let health = slot_health(&located.survey, request.slot)?;
    let in_slot = drive_of(&located.survey, request.slot).map(str::to_owned);
    let works = in_slot.filter(|_| health == MemberHealth::Online);
    let is_member = located.survey.drives.iter().zip(&located.drives.opened).any(|(at, named)| {
        matches!(at.role, DriveRole::Member { .. }) && named.identity.is_at(&request.with)
    });
    if is_member {
        return Err(CliError::InService { label: request.with.display().to_string() });
    }
    let named = session.open(&request.with, Access::Exclusive)?;
    refuse_worse_way(&named, &session.ring, &session.handle)?;
    let zones = session.executor.run(named.member.report());
    let zones =
        zones.map_err(|status| CliError::DriveFailed { label: named.label.clone(), status })?;
    check_fit(&record.config, &named, &zones)?;
    check_space(&named, &zones)?;
    // Only after the new drive was examined: a useless one must not cost a working member.
    refuse_working(request.slot, works, request.yes_destroy)?;
    let holds = session.executor.run(holdings(&named))?;
    refuse_missing(located, Some(request.slot))?;
    check_spared(&located.survey, request.slot)?;
    Ok((named, holds))
}

fn inactive(
    request: &Replace,
    session: &Session,
    located: &Located,
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let (named, holds) = checked(request, session, located)?;
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    if let Some(holds) = holds.filter(|holds| !consent.covers(&named, holds)) {
        return Err(not_empty(&named, &holds));
    }
    // A stale member that is re-added may be among the drives given.
    let drives: Vec<_> =
        request.drives.iter().filter(|path| !same_file(path, &request.with)).cloned().collect();
    let new = std::slice::from_ref(&named);
    let started = start_whole(session, &drives, located, Some(request.slot), new, output)?;
    assert!(!in_slots(&started.slots, &request.with), "the new drive is locked by this process");
    let (volume, slot) = (started.volume.clone(), request.slot);
    let progress = Progress::new(output, "rebuild");
    let uuid = MemberUuid(random_uuid()?);
    let job = async move {
        let replaced = volume.replace(slot, named.member.clone(), uuid).await;
        replaced.map_err(|error| explained(error, slot, &named, &volume.status()))?;
        volume.close().await?;
        Ok::<_, CliError>(())
    };
    let how_far = || started.volume.status().rebuild.map(Into::into);
    run_job(session, job, how_far, &progress)?;
    progress.finish();
    let mut paths = drives;
    paths.push(request.with.clone());
    let located = locate(session, &paths)?;
    inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)
}
