//! `zoneweave array assemble`: starts the servers of the volumes whose drives are all here.
//!
//! The command writes to no drive, and may run as often as one likes: each drive that appears runs
//! it. A volume of which drives are missing is not started. They may come, and a start without them
//! would evict them; `zoneweave serve named` waits for them as long as the volume says, and starts
//! without them if it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::Serialize;
use zoneweave_raid::log::format::MemberState;

use crate::commands::serve::{ConfigFile, Served};
use crate::control::{Answer, ask_all, socket_of};
use crate::drives::membership::{absent_members, membership_of};
use crate::drives::search::{FoundMember, Search, of_array};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{Access, Session};

#[derive(Args)]
pub(crate) struct Assemble {
    /// Look for the volumes of the configuration file among all zoned drives of this machine
    #[arg(long, required = true)]
    scan: bool,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Serialize)]
struct Assembled {
    volumes: Vec<Volume>,
}

/// A volume of the configuration file.
#[derive(Serialize)]
struct Volume {
    name: String,
    state: State,
    /// Members in service, and shards, that are not here.
    missing: usize,
    /// The command that serves it, if nothing starts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

/// How far a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// None of its drives is here.
    Absent,
    /// Some of them are.
    Incomplete,
    /// Several arrays have its name.
    Ambiguous,
    /// The array is being destroyed.
    Destroyed,
    /// A server has it.
    Served,
    /// The service manager starts its server.
    Starting,
    /// All of its drives are here, and no service manager is.
    Ready,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Incomplete => "incomplete",
            Self::Ambiguous => "ambiguous",
            Self::Destroyed => "destroyed",
            Self::Served => "served",
            Self::Starting => "starting",
            Self::Ready => "ready",
        })
    }
}

pub(crate) fn run(request: &Assemble, output: &Output) -> Result<Exit, CliError> {
    assert!(request.scan, "the parser requires it");
    let file = &request.file;
    let tables = match file.read() {
        // Without the file of units nothing is to be started; another one was named.
        Err(CliError::File { error, .. })
            if error.kind() == std::io::ErrorKind::NotFound && file.is_default() =>
        {
            Vec::new()
        }
        config => config?.volumes,
    };
    let session = Session::new()?;
    let mut machine = Machine { session: &session, scans: BTreeMap::new() };
    let (mut volumes, mut problems) = (Vec::new(), Vec::new());
    for table in &tables {
        match table.array() {
            Ok(served) => volumes.push(machine.volume(table.name(), &served)?),
            // The other volumes are started nevertheless.
            Err(found) => problems.extend(found),
        }
    }
    let mut failed = None;
    for volume in volumes.iter_mut().filter(|volume| volume.state == State::Ready) {
        match file.is_default() && has_systemd() {
            // A unit may be masked; the others are started nevertheless.
            true => failed = failed.or(start(volume).err()),
            false => volume.command = Some(file.command(&volume.name)),
        }
    }
    let assembled = Assembled { volumes };
    output.result("array-assemble", &assembled, |output| tell(&assembled.volumes, output));
    match (problems.is_empty(), failed) {
        (false, _) => Err(file.error(&problems)),
        (true, Some(error)) => Err(error),
        (true, None) => Ok(Exit::Done),
    }
}

/// The drives of this machine.
struct Machine<'a> {
    session: &'a Session,
    /// Members found with each list of folders.
    scans: BTreeMap<Vec<PathBuf>, Vec<FoundMember>>,
}

impl Machine<'_> {
    fn volume(&mut self, name: &str, served: &Served) -> Result<Volume, CliError> {
        let volume =
            |state, missing| Volume { name: name.to_owned(), state, missing, command: None };
        let members = match &served.by_name.array {
            Some(array) => match self.called(array, &served.by_name.search)? {
                Some(members) => members,
                None => return Ok(volume(State::Ambiguous, 0)),
            },
            None => served.drives.iter().filter_map(|path| self.member(path)).collect(),
        };
        let missing = missing(&members);
        let state = match (members.is_empty(), missing) {
            (true, _) => State::Absent,
            _ if is_destroyed(&members) => State::Destroyed,
            (false, 0) if is_served(&members) => State::Served,
            (false, 0) => State::Ready,
            (false, _) => State::Incomplete,
        };
        Ok(volume(state, missing))
    }

    /// Members of the array that has a name or UUID; `None` if several have it.
    fn called(
        &mut self,
        array: &str,
        folders: &[PathBuf],
    ) -> Result<Option<Vec<FoundMember>>, CliError> {
        if !self.scans.contains_key(folders) {
            let found = Search::of(folders).next(self.session)?;
            self.scans.insert(folders.to_vec(), found);
        }
        match of_array(&self.scans[folders], array) {
            Ok(members) => Ok(Some(members)),
            Err(CliError::SameName { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn member(&self, path: &Path) -> Option<FoundMember> {
        let named = self.session.open(path, Access::Look).ok()?;
        let record = self.session.executor.run(membership_of(&named)).ok().flatten()?;
        Some(FoundMember { path: path.to_owned(), record })
    }
}

/// Members in service that are not here, and shards of which no member is.
fn missing(members: &[FoundMember]) -> usize {
    let absent = absent_members(members.iter().map(|member| &member.record));
    let shards: BTreeSet<_> = members.iter().map(|member| member.record.config.array).collect();
    let of = members.iter().map(|member| member.record.config.shard.of()).max();
    absent.len() + of.unwrap_or(0).saturating_sub(shards.len())
}

/// Whether a member in service is marked to be erased.
fn is_destroyed(members: &[FoundMember]) -> bool {
    let marked = members.iter().filter(|member| member.record.is_destroyed);
    marked.map(|member| &member.record).any(|record| {
        let of_array = members.iter().filter(|at| at.record.config.array == record.config.array);
        let newest = of_array.max_by_key(|at| (at.record.epoch, at.record.record_sequence));
        let mut entries = newest.into_iter().flat_map(|newest| &newest.record.members);
        entries.any(|entry| entry.uuid == record.member && entry.state != MemberState::Failed)
    })
}

fn is_served(members: &[FoundMember]) -> bool {
    let sockets = members.iter().map(|member| socket_of(member.record.config.array));
    let answers = ask_all(sockets.collect(), false);
    answers.values().any(|answer| !matches!(answer, Answer::Nobody))
}

/// Whether systemd is the service manager of this machine, as sd_booted(3) finds out.
fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Starts the unit of a volume, or leaves it running. Its drives may take a while to read.
fn start(volume: &mut Volume) -> Result<(), CliError> {
    assert!(volume.state == State::Ready && volume.missing == 0, "all of its drives are here");
    let unit = format!("zoneweave@{}.service", volume.name);
    let started = Command::new("systemctl").args(["start", "--no-block", &unit]).status();
    let action = "start the unit with systemctl";
    match started {
        Ok(status) if status.success() => {
            volume.state = State::Starting;
            Ok(())
        }
        Ok(status) => {
            let error = std::io::Error::other(format!("{unit}: {status}"));
            Err(CliError::System { action, error })
        }
        Err(error) => Err(CliError::System { action, error }),
    }
}

fn tell(volumes: &[Volume], output: &Output) {
    for Volume { name, state, missing, command } in volumes {
        match (state, command) {
            (State::Incomplete, _) => {
                output
                    .line(format_args!("{name}: incomplete, {missing} of its drives are missing"));
            }
            (State::Ambiguous, _) => output.line(format_args!(
                "{name}: ambiguous, two arrays have this name: set `array` to the UUID of one"
            )),
            (State::Destroyed, _) => output.line(format_args!(
                "{name}: being destroyed; to finish that: zoneweave array destroy"
            )),
            (_, Some(command)) => {
                output.line(format_args!("{name}: {state}; to serve it: {command}"))
            }
            _ => output.line(format_args!("{name}: {state}")),
        }
    }
    if volumes.is_empty() {
        output.line("the configuration file names no volume");
    }
}
