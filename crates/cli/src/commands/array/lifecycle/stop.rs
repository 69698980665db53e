//! `zoneweave array stop`.
//!
//! The server ends as by SIGTERM: it answers the requests that have arrived, makes everything
//! durable, and exits with 0, so that systemd does not start it again. The command returns when the
//! drives are free for others, and not before.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::Serialize;
use zoneweave_linux::Drive;

use super::server::find;
use super::target::Target;
use crate::control::Request;
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::format::{parse_time, words};
use crate::output::Output;
use crate::status::ArrayStatus;

#[derive(Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    target: Target,
    /// Wait this long until the drives are free
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    wait: Duration,
    /// Stop even while clients use the volume: their requests fail. Also if drives would not open
    /// again, as the headers of their files were overwritten
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
    let Some(server) = find(&request.target)? else {
        let name = request.target.name().unwrap_or("the array");
        let stopped = Stopped { name, was_served: false, drives: &[] };
        output.result("array-stop", &stopped, |output| {
            output.line(format_args!("{name} is not served"));
        });
        return Ok(Exit::Done);
    };
    let status = server.status()?;
    let name = status.as_ref().map_or("the array", |status| &status.name);
    if !request.force {
        // The front ends are those of one shard, whichever was asked for.
        let shards = server.statuses(status.as_ref())?;
        let shards = shards.ok_or(LifecycleError::NoStatus { name: name.to_owned() })?;
        shards.iter().try_for_each(refuse_used)?;
        let lost = server.lost_on_media(status.as_ref())?;
        assert_eq!(lost.len(), shards.len(), "an answer of each shard");
        shards.iter().zip(lost).try_for_each(|(shard, lost)| refuse_losing(shard, lost))?;
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

/// Refuses to close drives that would not open again.
fn refuse_losing(status: &ArrayStatus, lost: Vec<u8>) -> Result<(), CliError> {
    match lost.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::LosesDrives { name: status.full_name(), lost }.into()),
    }
}

/// Whether a disk of the kernel is mounted, or has another exclusive user; also if that is unknown.
fn is_held(disk: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(disk, flags, Mode::empty()).is_err_and(|error| error != Errno::NOENT)
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
