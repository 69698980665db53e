//! `zoneweave array fail`: take a drive out of service.

use std::path::PathBuf;

use clap::Args;
use zoneweave_raid::log::MemberHealth;

use super::status::parse_status;
use crate::conditions::{check_spared, slot_health};
use crate::control::Request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::start::{Located, locate, locate_one, refuse_missing, start_whole};
use crate::status::{inactive_status, render};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Fail {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Slot of the drive to take out of service, from 0
    #[arg(long, value_name = "I")]
    slot: usize,
    /// Of a served array: take it out even if too few of the others could be started again, as
    /// their metadata on media cannot be read any more
    #[arg(long)]
    force: bool,
}

impl Fail {
    const fn order(&self) -> Request {
        Request::Fail { slot: self.slot, force: self.force }
    }
}

pub(crate) fn run(request: &Fail, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    if let Some(found) = zoned::find(&session, &request.drives)? {
        let status = match found.client()? {
            Some(client) => parse_status(client.ask(&request.order(), |_| {})?)?,
            None => zoned::fail(&session, &found, &request.drives, request.slot, output)?,
        };
        output.result("array-status", &status, |output| render(&status, output));
        return Ok(Exit::Done);
    }
    let mut located = locate_one(&session, &request.drives)?;
    let status = match located.client.take() {
        Some(client) => parse_status(client.ask(&request.order(), |_| {})?)?,
        None => {
            take_out(request, &session, &located, output)?;
            let located = locate(&session, &request.drives)?;
            inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)?
        }
    };
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}

/// Takes the drive out of an array that is not served. Everything that may refuse it is checked
/// before the array is started, as a start writes to the drives.
fn take_out(
    request: &Fail,
    session: &Session,
    located: &Located,
    output: &Output,
) -> Result<(), CliError> {
    let Fail { drives, slot, .. } = request;
    if slot_health(&located.survey, *slot)? == MemberHealth::Failed {
        return Ok(());
    }
    refuse_missing(located, Some(*slot))?;
    check_spared(&located.survey, *slot)?;
    let started = start_whole(session, drives, located, Some(*slot), &[], output)?;
    let volume = started.volume;
    session.executor.run(async {
        volume.fail(*slot).await?;
        volume.close().await?;
        Ok::<_, CliError>(())
    })
}
