//! `zoneweave array status`: the state of an array or of all shards of a volume.

use std::path::PathBuf;

use clap::Args;

use crate::control::{Client, Request, socket_of};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::shards::{ShardedDrives, by_shard};
use crate::start::locate;
use crate::status::{ArrayStatus, VolumeStatus, inactive_status, render_volume};

#[derive(Args)]
pub(crate) struct StatusOf {
    /// Drives of the array, or of all shards of a volume (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Exit with 0 if healthy, 10 if degraded and rebuilding, 11 if degraded, 12 if failed or
    /// unknown
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(request: &StatusOf, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let volume = match by_shard(&session, &request.drives)? {
        None => VolumeStatus::One(Box::new(of(&session, &request.drives)?)),
        Some(sharded) => of_shards(&session, &sharded, output)?,
    };
    output.result("array-status", &volume, |output| render_volume(&volume, output));
    Ok(if request.check { volume.check() } else { Exit::Done })
}

/// The status of all shards. Shards without a named drive are asked from their servers.
fn of_shards(
    session: &Session,
    sharded: &ShardedDrives,
    output: &Output,
) -> Result<VolumeStatus, CliError> {
    sharded.tell_strangers(output);
    let mut known = Vec::new();
    for (number, drives) in sharded.of_shards.iter().enumerate() {
        if !drives.is_empty() {
            known.push(of(session, drives)?);
        } else if let Some(client) = Client::connect(&socket_of(sharded.array(number)))? {
            known.push(parse_status(client.ask(&Request::Status, |_| {})?)?);
        }
    }
    Ok(VolumeStatus::of_shards(sharded.of_shards.len(), known))
}

fn of(session: &Session, drives: &[PathBuf]) -> Result<ArrayStatus, CliError> {
    let located = locate(session, drives)?;
    match located.client {
        Some(client) => parse_status(client.ask(&Request::Status, |_| {})?),
        None => inactive_status(&located.drives, &located.survey).ok_or(CliError::NoArray),
    }
}

/// Parses the status sent by a server.
pub(super) fn parse_status(value: serde_json::Value) -> Result<ArrayStatus, CliError> {
    serde_json::from_value(value).map_err(|error| CliError::System {
        action: "read the server's answer",
        error: error.into(),
    })
}
