//! `zoneweave array stop`.
//!
//! The server ends as by SIGTERM: it answers the requests that have arrived, makes everything
//! durable, and exits with 0, so that systemd does not start it again. The command returns when the
//! drives are free for others, and not before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::Serialize;
use zoneweave_linux::Drive;
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::shards::Shard;

use super::target::Target;
use crate::commands::array::status::parse_status;
use crate::control::{Answer, Client, Request, array_of, ask_all, socket_of, sockets};
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::format::{parse_time, words};
use crate::output::Output;
use crate::session::Session;
use crate::shards::by_shard;
use crate::start::locate_one;
use crate::status::ArrayStatus;
use crate::zoned;

#[derive(Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    target: Target,
    /// Wait this long until the drives are free
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    wait: Duration,
    /// Stop it although clients use the volume: their requests fail
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Stopped<'a> {
    name: &'a str,
    /// Whether a server had the array.
    was_served: bool,
    /// The drives that are free now.
    drives: &'a [PathBuf],
}

pub(crate) fn stop(request: &Stop, output: &Output) -> Result<Exit, CliError> {
    let Some(server) = find(request)? else {
        let name = request.target.name().unwrap_or("the array");
        let stopped = Stopped { name, was_served: false, drives: &[] };
        output.result("array-stop", &stopped, |output| {
            output.line(format_args!("{name} is not served"));
        });
        return Ok(Exit::Done);
    };
    let status = server.status()?;
    let name = status.as_ref().map_or("the array", |status| &status.name);
    if let Some(status) = status.as_ref().filter(|_| !request.force) {
        refuse_used(status)?;
    }
    let drives = server.drives(status.as_ref())?;
    server.client()?.ask(&Request::Stop, |_| {})?;
    output.note(format_args!("{name}: finishing requests in flight"));
    wait_for(&drives, request.wait, name)?;
    let stopped = Stopped { name, was_served: true, drives: &drives };
    output.result("array-stop", &stopped, |output| {
        output.line(format_args!("{name}: stopped; {} are free", words(&drives)));
    });
    Ok(Exit::Done)
}

/// A server by one of its sockets.
struct Server {
    socket: PathBuf,
}

/// The server of the array; `None` if it is not served.
///
/// # Errors
/// If there is no such array, or its server does not answer.
fn find(request: &Stop) -> Result<Option<Server>, CliError> {
    // A server is asked before drives are: it may have hung ones.
    if let Some(name) = request.target.name()
        && let Some(server) = called(name)?
    {
        return Ok(Some(server));
    }
    let session = Session::new()?;
    let mut drives = request.target.drives(&session)?;
    let (client, socket) = match zoned::find(&session, &drives)? {
        Some(found) => (found.client()?, socket_of(found.membership.config.array)),
        None => {
            if let Some(sharded) = by_shard(&session, &drives)? {
                let named = sharded.of_shards.into_iter().find(|drives| !drives.is_empty());
                drives = named.unwrap_or(drives);
            }
            let located = locate_one(&session, &drives)?;
            (located.client, located.socket.ok_or(CliError::NoArray)?)
        }
    };
    if client.is_none() {
        refuse_locked(&drives, &socket)?;
    }
    Ok(client.map(|_| Server { socket }))
}

/// The server of an array with this name or UUID.
fn called(name: &str) -> Result<Option<Server>, CliError> {
    let answers = ask_all(sockets().into_iter().collect(), true);
    let mut found: Option<(ArrayUuid, PathBuf)> = None;
    for (socket, answer) in answers {
        let Answer::Serves(_, Some(status)) = answer else { continue };
        let (status, Some(array)) = (parse_status(status)?, array_of(&socket)) else { continue };
        let volume = shard_of(&status).volume(array);
        let uuids = [array, volume].map(|uuid| uuid.to_string());
        if status.name != name && !uuids.iter().any(|uuid| uuid.eq_ignore_ascii_case(name)) {
            continue;
        }
        let (first, _) = found.get_or_insert((volume, socket));
        if *first != volume {
            let arrays = [*first, volume].map(|array| array.to_string());
            return Err(CliError::SameName { name: name.to_owned(), arrays });
        }
    }
    Ok(found.map(|(_, socket)| Server { socket }))
}

fn shard_of(status: &ArrayStatus) -> Shard {
    let shard = status.shard.and_then(|shard| Shard::new(shard.number.into(), shard.of));
    shard.unwrap_or(Shard::WHOLE)
}

/// Refuses an array that is not served by anybody whom this user can ask.
fn refuse_locked(drives: &[PathBuf], socket: &Path) -> Result<(), CliError> {
    match drives.iter().find(|path| Drive::is_locked(path, Duration::ZERO)) {
        None => Ok(()),
        Some(path) => {
            let problem = format!("{} is in use by another process", path.display());
            Err(CliError::NoServer { problem, socket: socket.to_owned() })
        }
    }
}

/// Refuses to stop a volume that clients use.
fn refuse_used(status: &ArrayStatus) -> Result<(), CliError> {
    let Some(server) = &status.server else { return Ok(()) };
    let name = status.name.clone();
    if server.clients > 0 {
        return Err(LifecycleError::HasClients { name, clients: server.clients }.into());
    }
    let is_disk = |export: &&String| export.starts_with("/dev/");
    match server.exports.iter().filter(is_disk).find(|disk| is_held(disk)) {
        Some(disk) => Err(LifecycleError::DiskInUse { name, disk: disk.clone() }.into()),
        None => Ok(()),
    }
}

/// Whether a disk of the kernel is mounted, or has another exclusive user.
fn is_held(disk: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(disk, flags, Mode::empty()).is_err_and(|error| error == Errno::BUSY)
}

impl Server {
    fn client(&self) -> Result<Client, CliError> {
        let gone = || CliError::ServerBroken {
            socket: self.socket.clone(),
            problem: "it has ended meanwhile".to_owned(),
        };
        Client::connect(&self.socket)?.ok_or_else(gone)
    }

    /// The status of the array; `None` if the server gives none, while its drives hang.
    fn status(&self) -> Result<Option<ArrayStatus>, CliError> {
        match self.client()?.ask(&Request::Status, |_| {}) {
            Ok(status) => parse_status(status).map(Some),
            Err(error) if error.is_silence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All drives that the process has, of all shards.
    fn drives(&self, status: Option<&ArrayStatus>) -> Result<Vec<PathBuf>, CliError> {
        let mut sockets = BTreeSet::from([self.socket.clone()]);
        let shard = status.map_or(Shard::WHOLE, shard_of);
        if let Some(array) = array_of(&self.socket) {
            let shards = (0..shard.of()).filter_map(|number| Shard::new(number, shard.of()));
            sockets.extend(shards.map(|other| socket_of(other.array(array))));
        }
        let mut drives = Vec::new();
        for socket in sockets {
            if let Some(client) = Client::connect(&socket)? {
                drives.extend(client.drives().iter().map(|drive| drive.path.clone()));
            }
        }
        Ok(drives)
    }
}

/// Waits until nobody has the drives.
///
/// # Errors
/// If somebody still has one at the end of the budget.
fn wait_for(drives: &[PathBuf], budget: Duration, name: &str) -> Result<(), LifecycleError> {
    let end = Instant::now() + budget;
    let is_locked =
        |path: &&PathBuf| Drive::is_locked(path, end.saturating_duration_since(Instant::now()));
    let locked: Vec<_> = drives.iter().filter(is_locked).cloned().collect();
    match locked.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::StillStops {
            name: name.to_owned(),
            seconds: budget.as_secs(),
            drives: locked,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn drives_that_stay_in_use_end_the_wait_at_its_budget() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["free", "kept"].map(|name| folder.path().join(name));
        let [_free, kept] = paths.clone().map(|path| File::create(path).unwrap());
        flock(&kept, FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = wait_for(&paths, Duration::ZERO, "vol0").unwrap_err();
        assert_eq!(error.exit(), Exit::Unreachable);
        assert!(error.to_string().contains(&*paths[1].to_string_lossy()), "{error}");
        assert!(!error.to_string().contains(&*paths[0].to_string_lossy()), "{error}");
        drop(kept);
        wait_for(&paths, Duration::ZERO, "vol0").unwrap();
    }
}
