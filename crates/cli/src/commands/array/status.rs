//! `zoneweave array status`: the state of an array or of all shards of a volume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use zoneweave_linux::Drive;
use zoneweave_raid::log::recover::examine::lost_parts;

use crate::control::{Answer, PATIENCE, Request, ask_all, socket_of};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{NamedDrive, Session, offer};
use crate::shards::{ShardedDrives, by_shard};
use crate::start::{Contact, Located, find, look};
use crate::status::{
    ArrayStatus, Unknown, VolumeStatus, inactive_status, inactive_zoned_status, render,
    render_volume,
};
use crate::zoned::{Found, find as find_zoned};

#[derive(Args)]
pub(crate) struct StatusOf {
    /// Drives of the array, or of all shards of a volume (any one of them if it is served)
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// Exit with the health: 0 healthy, 10 rebuilding, 11 degraded, 12 failed, 13 damaged (blocks
    /// could not be read). 14: unknown, as too few drives are named or another user serves them.
    /// 15: a server is assembling it. 5: the server does not answer
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(request: &StatusOf, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    if let Some(found) = find_zoned(&session, &request.drives)? {
        let status = of_zoned(&found, output)?;
        output.result("array-status", &status, |output| render(&status, output));
        return Ok(VolumeStatus::One(Box::new(status)).exit(request.check));
    }
    let volume = match by_shard(&session, &request.drives)? {
        None => VolumeStatus::One(Box::new(of(&session, &request.drives, output)?)),
        Some(sharded) => of_shards(&session, &sharded, output)?,
    };
    output.result("array-status", &volume, |output| render_volume(&volume, output));
    Ok(volume.exit(request.check))
}

/// The status of all shards. Their control sockets are asked at once: they are those of one
/// process, which would hang for each of them in turn.
fn of_shards(
    session: &Session,
    sharded: &ShardedDrives,
    output: &Output,
) -> Result<VolumeStatus, CliError> {
    sharded.tell_strangers(output);
    let numbers = 0..sharded.of_shards.len();
    let sockets = numbers.map(|number| socket_of(sharded.array(number)));
    let mut answers = ask_all(sockets.collect(), true);
    let mut known = Vec::new();
    for (number, drives) in sharded.of_shards.iter().enumerate() {
        let socket = socket_of(sharded.array(number));
        let answer = answers.remove(&socket).expect("it was asked");
        match answer {
            Answer::Silent if !drives.is_empty() => known.push(of_silent(session, drives, socket)?),
            _ if !drives.is_empty() => known.push(of(session, drives, output)?),
            Answer::Serves(_, Some(status)) => known.push(parse_status(status)?),
            _ => {}
        }
    }
    Ok(VolumeStatus::of_shards(sharded.of_shards.len(), known))
}

/// Time that the drives of a killed server may stay locked.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The status of a shard whose server does not answer.
fn of_silent(
    session: &Session,
    drives: &[PathBuf],
    socket: PathBuf,
) -> Result<ArrayStatus, CliError> {
    let Located { drives, survey, .. } = look(session, drives)?;
    let error = CliError::ServerSilent { socket, seconds: PATIENCE.as_secs() };
    let inactive = inactive_status(&drives, &survey).ok_or(CliError::NoArray)?;
    Ok(inactive.unknown(&Unknown::Silent(error.to_string())))
}

fn of(session: &Session, drives: &[PathBuf], output: &Output) -> Result<ArrayStatus, CliError> {
    let (located, contact) = find(session, drives)?;
    let Located { drives, survey, socket, .. } = &located;
    let inactive = || inactive_status(drives, survey).ok_or(CliError::NoArray);
    // Superblocks say nothing of it.
    let refusal = || {
        let lost = session.executor.run(lost_parts(&session.handle, &offer(&drives.opened)))?;
        Some(CliError::from(lost))
    };
    ask(contact, &drives.opened, socket.as_deref(), (inactive, refusal), output)
}

fn of_zoned(found: &Found, output: &Output) -> Result<ArrayStatus, CliError> {
    let socket = socket_of(found.membership.config.array);
    let inactive = || inactive_zoned_status(found);
    ask(found.contact(), &found.drives.opened, Some(&socket), (inactive, || None), output)
}

/// The status from the server of the drives, or what is known of an array without one: by its
/// superblocks, and why its contents would not let it start.
fn ask(
    contact: Contact,
    drives: &[NamedDrive],
    socket: Option<&Path>,
    (inactive, refusal): (
        impl Fn() -> Result<ArrayStatus, CliError>,
        impl FnOnce() -> Option<CliError>,
    ),
    output: &Output,
) -> Result<ArrayStatus, CliError> {
    let silent = |error: CliError| Ok(inactive()?.unknown(&Unknown::Silent(error.to_string())));
    let elsewhere = || {
        let socket = socket.ok_or(CliError::NoArray)?.to_owned();
        Ok(inactive()?.unknown(&Unknown::Elsewhere(socket)))
    };
    let is_locked = |named: &NamedDrive| Drive::is_locked(&named.path, LOCK_PATIENCE);
    let unasked = || {
        if drives.iter().any(is_locked) {
            return elsewhere();
        }
        let status = inactive()?;
        let refusal = if status.may_start() { refusal() } else { None };
        match refusal {
            None => Ok(status),
            // The contents change while a server starts.
            Some(_) if drives.iter().any(is_locked) => elsewhere(),
            Some(error) => Ok(status.refused(&error)),
        }
    };
    let client = match contact {
        Contact::Server(client) => client,
        Contact::Former(client, error) => {
            output.warning(&error);
            client
        }
        Contact::Copies(error) => return Err(error),
        Contact::Silent(error @ CliError::ServerOfAnother { .. }) => {
            output.warning(&error);
            return elsewhere();
        }
        // There may be none: this user does not see the sockets of others.
        Contact::Silent(CliError::ServerForbidden { .. }) | Contact::Nobody => return unasked(),
        Contact::Silent(error) => return silent(error),
    };
    match client.ask(&Request::Status, |_| {}) {
        Ok(answer) => parse_status(answer),
        Err(error) if error.is_silence() => silent(error),
        Err(error) => Err(error),
    }
}

/// Parses the status sent by a server.
pub(super) fn parse_status(value: serde_json::Value) -> Result<ArrayStatus, CliError> {
    serde_json::from_value(value).map_err(|error| CliError::System {
        action: "read the server's answer",
        error: error.into(),
    })
}
