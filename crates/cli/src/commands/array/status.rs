//! `zoneweave array status`.

use std::path::PathBuf;

use clap::Args;

use crate::control::Request;
use crate::error::{CliError, Exit};
use crate::output::Output;
use crate::session::Session;
use crate::start::locate;
use crate::status::{ArrayStatus, inactive_status, render};

#[derive(Args)]
pub(crate) struct StatusOf {
    /// The array's drives; one is enough if it is served
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Exit with 0 if healthy, 10 if degraded and being rebuilt, 11 if degraded, 12 if failed
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(request: &StatusOf, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let located = locate(&session, &request.drives)?;
    let status = match located.client {
        Some(client) => parse_status(client.ask(&Request::Status, |_| {})?)?,
        None => inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray)?,
    };
    output.result("array-status", &status, |output| render(&status, output));
    Ok(if request.check { status.check() } else { Exit::Done })
}

/// The status that a server sent.
pub(super) fn parse_status(value: serde_json::Value) -> Result<ArrayStatus, CliError> {
    serde_json::from_value(value).map_err(|error| CliError::System {
        action: "read the server's answer",
        error: error.into(),
    })
}
