//! `zoneweave array replace`: put a new drive into a slot and rebuild it.

use std::path::PathBuf;

use clap::Args;
use zoneweave_raid::log::format::{MemberState, MemberUuid};
use zoneweave_raid::log::{AdminError, DriveRole};

use super::status::parse_status;
use crate::control::{Client, Request, refuse_working};
use crate::drives::consent::{Consent, holdings, not_empty};
use crate::drives::paths::{absolute, same_file};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::{Access, Session, random_uuid, refuse_worse_way};
use crate::start::{Located, in_slots, locate, locate_one, run_job, start_whole};
use crate::status::{ArrayStatus, inactive_status, render};

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
    /// Overwrite the new drive if it holds data, and replace a drive that still works; except
    /// file systems and real drives (see --destroy)
    #[arg(long)]
    yes_destroy: bool,
    /// Overwrite the new drive, whatever it holds; names the same drive as --with
    #[arg(long, value_name = "NEWDRIVE")]
    destroy: Vec<PathBuf>,
}

impl Replace {
    fn is_named(&self) -> bool {
        self.destroy.iter().any(|path| same_file(path, &self.with))
    }
}

pub(crate) fn run(request: &Replace, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let mut located = locate_one(&session, &request.drives)?;
    let status = match located.client.take() {
        Some(client) => served(request, client, output)?,
        None => inactive(request, &session, &located, output)?,
    };
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}

fn served(request: &Replace, client: Client, output: &Output) -> Result<ArrayStatus, CliError> {
    let asked = Request::Replace {
        slot: request.slot,
        drive: absolute(&request.with)?,
        destroy: request.yes_destroy,
        by_name: request.is_named(),
    };
    let progress = Progress::new(output, "rebuild");
    let status = parse_status(client.ask(&asked, |job| progress.update(job))?);
    progress.finish();
    status
}

/// The drive in the slot, if it is online. A server checks this itself.
fn slot_works(request: &Replace, located: &Located) -> Result<Option<String>, CliError> {
    let Some(record) = &located.survey.membership else { return Err(CliError::NoArray) };
    let (slot, columns) = (request.slot, record.members.len());
    let Some(member) = record.members.get(slot) else {
        return Err(AdminError::NoSuchSlot { slot, columns }.into());
    };
    let here = located.survey.drives.iter().find(
        |verdict| matches!(verdict.role, DriveRole::Member { slot: at, .. } if at.index() == slot),
    );
    let here = here.filter(|_| member.state == MemberState::Online);
    Ok(here.map(|verdict| verdict.label.clone()))
}

fn inactive(
    request: &Replace,
    session: &Session,
    located: &Located,
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let works = slot_works(request, located)?;
    // A stale member that is re-added may be among the drives given.
    let drives: Vec<_> =
        request.drives.iter().filter(|path| !same_file(path, &request.with)).cloned().collect();
    let is_member = located.survey.drives.iter().zip(&located.drives.opened).any(|(at, named)| {
        matches!(at.role, DriveRole::Member { .. }) && same_file(named.drive.path(), &request.with)
    });
    if is_member {
        return Err(CliError::InService { label: request.with.display().to_string() });
    }
    let named = session.open(&request.with, Access::Exclusive)?;
    refuse_worse_way(&named, &session.ring, &session.handle)?;
    // Only after the new drive was opened: a missing one must not cost a working member.
    refuse_working(request.slot, works, request.yes_destroy)?;
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    if let Some(holds) = session.executor.run(holdings(&named))?
        && !consent.covers(&named, &holds)
    {
        return Err(not_empty(&named, &holds));
    }
    let started = start_whole(session, &drives, located, Some(request.slot), output)?;
    assert!(!in_slots(&started.slots, &request.with), "the new drive is locked by this process");
    let (volume, slot) = (started.volume.clone(), request.slot);
    let progress = Progress::new(output, "rebuild");
    let uuid = MemberUuid(random_uuid()?);
    let job = async move {
        volume.replace(slot, named.member.clone(), uuid).await?;
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
