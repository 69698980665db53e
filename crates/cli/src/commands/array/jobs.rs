//! `zoneweave array jobs`: rebuilds and scrubs of a served array, and the scrubs on record.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::status::parse_status;
use crate::control::{Client, Request, only_served};
use crate::error::CliError;
use crate::exit::Exit;
use crate::job::JobStatus;
use crate::output::Output;
use crate::session::Session;
use crate::start::locate;
use crate::status::{ScrubEntry, inactive_status, inactive_zoned_status, job_line, scrub_line};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Jobs {
    /// Drives of the served array (any one of them)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Show the last scrubs on record, the newest first; also of an array that is not served
    #[arg(long)]
    history: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
struct JobList<'a> {
    jobs: &'a [JobStatus],
}

/// The document of `--history`.
#[derive(Serialize)]
struct History<'a> {
    scrubs: &'a [ScrubEntry],
}

pub(crate) fn run(request: &Jobs, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    if request.history {
        return history(&session, request, output);
    }
    let (client, array) = match zoned::find(&session, &request.drives)? {
        Some(found) => (found.client()?, found.membership.config.array),
        None => {
            let located = locate(&session, &request.drives)?;
            let record = located.survey.membership.ok_or(CliError::NoArray)?;
            (located.client, record.config.array)
        }
    };
    let client = only_served(client, array, &request.drives, "its jobs")?;
    let status = parse_status(client.ask(&Request::Status, |_| {})?)?;
    let unit = if status.zones.is_some() { "zones" } else { "segments" };
    let jobs = status.server.map(|server| server.jobs).unwrap_or_default();
    output.result("array-jobs", &JobList { jobs: &jobs }, |output| {
        if jobs.is_empty() {
            output.line("no jobs since the server started");
        }
        for job in &jobs {
            job_line(job, unit, None, output);
        }
    });
    Ok(Exit::Done)
}

/// Shows the scrubs on record.
fn history(session: &Session, request: &Jobs, output: &Output) -> Result<Exit, CliError> {
    let of_server = |client: Client| parse_status(client.ask(&Request::Status, |_| {})?);
    let status = match zoned::find(session, &request.drives)? {
        Some(found) => match found.client()? {
            Some(client) => of_server(client)?,
            None => inactive_zoned_status(&found)?,
        },
        None => {
            let located = locate(session, &request.drives)?;
            match located.client {
                Some(client) => of_server(client)?,
                None => {
                    inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)?
                }
            }
        }
    };
    output.result("array-history", &History { scrubs: &status.scrubs }, |output| {
        if status.scrubs.is_empty() {
            output.line("no scrub on record");
        }
        for scrub in &status.scrubs {
            output.line(scrub_line(scrub));
        }
    });
    Ok(Exit::Done)
}
