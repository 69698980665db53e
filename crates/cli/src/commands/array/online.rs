//! `zoneweave array offline` and `online`: take a drive out of service for a while.

use std::path::PathBuf;

use clap::Args;

use super::status::parse_status;
use crate::control::{Client, Request, Waiting};
use crate::drives::paths::absolute;
use crate::error::{CliError, NewMemberError};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::Session;
use crate::start::locate_one;
use crate::status::{ArrayStatus, render};

#[derive(Args)]
pub(crate) struct Offline {
    /// Drives of the served array (any one of them)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Slot of the drive to take out of service, from 0. Its file is closed
    #[arg(long, value_name = "I")]
    slot: usize,
    /// Take it out even if it would not open again, or too few of the others would, as their
    /// metadata on media cannot be read any more
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Online {
    /// Drives of the served array (any one of them)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Slot to put the drive back into, from 0
    #[arg(long, value_name = "I")]
    slot: usize,
    /// The drive, which was in this slot before [default: the slot's last drive of this server]
    #[arg(long, value_name = "DRIVE")]
    with: Option<PathBuf>,
}

pub(crate) fn offline(request: &Offline, output: &Output) -> Result<Exit, CliError> {
    let asked = Request::Offline { slot: request.slot, force: request.force };
    let session = Session::new()?;
    let status = parse_status(server(&session, &request.drives)?.ask(&asked, |_| {})?)?;
    show(&status, output);
    Ok(Exit::Done)
}

pub(crate) fn online(request: &Online, output: &Output) -> Result<Exit, CliError> {
    let drive = request.with.as_deref().map(absolute).transpose()?;
    let asked = Request::Online { slot: request.slot, drive };
    let session = Session::new()?;
    let client = server(&session, &request.drives)?;
    let progress = Progress::new(output, "rebuild");
    let flags = format!("--slot {}", request.slot);
    let stop = ("offline", &flags[..]);
    let waiting = Waiting::new(&session, output, "return", &request.drives, stop)?;
    let status = parse_status(client.ask(&asked, |job| {
        waiting.check();
        progress.update(job);
    })?);
    progress.finish();
    show(&status?, output);
    Ok(Exit::Done)
}

fn show(status: &ArrayStatus, output: &Output) {
    output.result("array-status", status, |output| render(status, output));
}

/// The server of an array.
fn server(session: &Session, drives: &[PathBuf]) -> Result<Client, CliError> {
    let located = locate_one(session, drives).map_err(|error| match error {
        CliError::IsZoned { name } => NewMemberError::NoReturn { name }.into(),
        other => other,
    })?;
    if located.survey.membership.is_none() {
        return Err(CliError::NoArray);
    }
    located.client.ok_or(CliError::OnlyServed)
}
