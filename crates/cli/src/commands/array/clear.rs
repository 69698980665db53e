//! `zoneweave array clear`: forget the errors and lost ranges on record.

use std::path::PathBuf;

use clap::Args;

use super::status::parse_status;
use crate::control::Request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::start::{locate, locate_one, start_whole};
use crate::status::{ArrayStatus, inactive_status, render};
use crate::zoned;

#[derive(Args)]
pub(crate) struct Clear {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
}

pub(crate) fn run(request: &Clear, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let status = match zoned::find(&session, &request.drives)? {
        Some(found) => match found.client()? {
            Some(client) => parse_status(client.ask(&Request::Clear, |_| {})?)?,
            None => zoned::clear(&session, &found, &request.drives, output)?,
        },
        None => clear(&session, request, output)?,
    };
    output.result("array-status", &status, |output| {
        if !status.lost.ranges.is_empty() {
            output.line("blocks are still lost, and stay on record until they are written again:");
        }
        render(&status, output);
    });
    Ok(Exit::Done)
}

/// Clears the faults of an array with a block volume; returns its status.
fn clear(session: &Session, request: &Clear, output: &Output) -> Result<ArrayStatus, CliError> {
    let mut located = locate_one(session, &request.drives)?;
    match located.client.take() {
        Some(client) => parse_status(client.ask(&Request::Clear, |_| {})?),
        None => {
            let started = start_whole(session, &request.drives, &located, None, &[], output)?;
            let volume = started.volume;
            session.executor.run(async {
                volume.clear_faults().await?;
                volume.close().await?;
                Ok::<_, CliError>(())
            })?;
            let located = locate(session, &request.drives)?;
            inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)
        }
    }
}
