//! `zoneweave array fail`: take a drive out of service.

use std::path::PathBuf;

use clap::Args;

use super::status::parse_status;
use crate::control::Request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::start::{locate, locate_one, start_whole};
use crate::status::{inactive_status, render};

#[derive(Args)]
pub(crate) struct Fail {
    /// Drives of the array (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Slot of the drive to take out of service, from 0
    #[arg(long, value_name = "I")]
    slot: usize,
}

pub(crate) fn run(request: &Fail, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let mut located = locate_one(&session, &request.drives)?;
    let status = match located.client.take() {
        Some(client) => parse_status(client.ask(&Request::Fail { slot: request.slot }, |_| {})?)?,
        None => {
            let started =
                start_whole(&session, &request.drives, &located, Some(request.slot), output)?;
            let volume = started.volume;
            session.executor.run(async {
                volume.fail(request.slot).await?;
                volume.close().await?;
                Ok::<_, CliError>(())
            })?;
            let located = locate(&session, &request.drives)?;
            inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)?
        }
    };
    output.result("array-status", &status, |output| render(&status, output));
    Ok(Exit::Done)
}
