//! `zoneweave array list`: what each file is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_raid::log::format::SuperblockRecord;
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{DriveRole, OpenError, survey};
use zoneweave_zoned::{Status, ZoneState};

use super::status::parse_status;
use crate::control::{Client, Request, same_file, socket_of};
use crate::error::{CliError, Exit};
use crate::format;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session, offer};
use crate::status::{ArrayStatus, ShardStatus};

#[derive(Args)]
pub(crate) struct List {
    /// Drives, or directories of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Listed {
    drives: Vec<Listing>,
}

/// What a file is.
#[derive(Serialize)]
struct Listing {
    path: PathBuf,
    /// `member`, `spare` (blank, and kept ready by a server), `blank`, `unknown` (written, but by no array), `no-drive` or `unreadable`.
    kind: &'static str,
    array: Option<String>,
    name: Option<String>,
    scheme: Option<String>,
    /// Which part of a volume its array is, if the volume has others.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<ShardStatus>,
    slot: Option<u8>,
    /// What its own newest record calls it, or `stale`, if others of its array say that it left.
    state: Option<&'static str>,
    epoch: Option<u64>,
    capacity_bytes: Option<u64>,
    damaged_records: usize,
    served: bool,
    problem: Option<String>,
}

pub(crate) fn run(request: &List, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let mut drives = Vec::new();
    let mut members = BTreeMap::<_, (Vec<_>, Vec<_>)>::new();
    let mut missing = None;
    for path in files(&request.paths)? {
        match session.open(&path, Access::Look) {
            Ok(named) => {
                let listing = session.executor.run(describe(path, &named));
                if let Some(array) = listing.array.clone() {
                    let (places, of_one) = members.entry(array).or_default();
                    places.push(drives.len());
                    of_one.push(named);
                }
                drives.push(listing);
            }
            Err(error) => {
                let gone = error.is_not_found();
                drives.push(problem(path, "no-drive", error.to_string()));
                if gone {
                    missing = Some(error);
                }
            }
        }
    }
    for (places, of_one) in members.values() {
        mark_left(&session, &mut drives, places, of_one);
    }
    mark_spares(&mut drives);
    let listed = Listed { drives };
    output.result("array-list", &listed, |output| tell(&listed, output));
    Ok(if missing.is_some() { Exit::NotFound } else { Exit::Done })
}

/// The files named, and those in the directories named, in order.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed =
            |error| CliError::File { path: path.clone(), action: "list the directory", error };
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.is_file() {
                found.push(entry);
            }
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

async fn describe(path: PathBuf, named: &NamedDrive) -> Listing {
    let records = match read_records(&*named.member).await {
        Ok(records) => records,
        Err(status) => return problem(path, "unreadable", describe_status(status)),
    };
    use zoneweave_zoned::ZonedDevice;
    let capacity = named.drive.geometry().capacity_blocks() * zoneweave_zoned::BLOCK_BYTES as u64;
    let blank = records.zones.iter().all(|info| info.state == ZoneState::Empty);
    let mut listing = Listing {
        capacity_bytes: Some(capacity),
        damaged_records: records.damaged.len(),
        ..problem(path, if blank { "blank" } else { "unknown" }, String::new())
    };
    listing.problem = records
        .other_version
        .map(|version| format!("belongs to an array in format version {version}"));
    if let Some(record) = records.newest() {
        member(&mut listing, record);
    }
    listing
}

fn describe_status(status: Status) -> String {
    format!("the drive does not report its zones: {status}")
}

fn member(listing: &mut Listing, record: &SuperblockRecord) {
    use zoneweave_raid::log::format::MemberState;
    let own = record.members.get(record.slot.index());
    listing.kind = "member";
    listing.array = Some(record.config.array.to_string());
    listing.name = Some(record.config.name.clone());
    listing.scheme = Some(record.config.scheme.to_string());
    listing.shard = ShardStatus::of(record.config.shard);
    listing.slot = Some(record.slot.0);
    listing.state = own.map(|member| match member.state {
        MemberState::Online => "online",
        MemberState::Rebuilding => "rebuilding",
        MemberState::Failed => "failed",
    });
    listing.epoch = Some(record.epoch);
    listing.served = matches!(Client::connect(&socket_of(record.config.array)), Ok(Some(_)));
}

/// Tells drives of an array that it went on without, by what the others of it say.
fn mark_left(session: &Session, drives: &mut [Listing], places: &[usize], of_one: &[NamedDrive]) {
    let survey = session.executor.run(survey(offer(of_one)));
    // Else the survey may have ended before it came to all of them.
    let all_looked_at = matches!(
        survey.refusal,
        None | Some(OpenError::TooFewMembers { .. } | OpenError::NoQuorum { .. })
    );
    for (place, verdict) in places.iter().zip(survey.drives) {
        let why = match verdict.role {
            DriveRole::Stale { .. } => "stale: the array went on without it",
            DriveRole::Foreign { .. } if all_looked_at => {
                "holds another history: the array was started by force"
            }
            _ => continue,
        };
        drives[*place].state = Some("stale");
        drives[*place].problem = Some(why.to_owned());
    }
}

/// Tells spares from other blank drives. Nothing is on a drive that says so: only the server knows that keeps it.
fn mark_spares(drives: &mut [Listing]) {
    let mut blank: Vec<_> = drives.iter_mut().filter(|drive| drive.kind == "blank").collect();
    if blank.is_empty() {
        return;
    }
    // A server that does not answer keeps nobody from a list of drives.
    let ask = |client: Client| parse_status(client.ask(&Request::Status, |_| {}).ok()?).ok();
    for status in Client::all().into_iter().filter_map(ask) {
        for drive in blank.iter_mut().filter(|drive| keeps(&status, &drive.path)) {
            spare(drive, &status);
        }
    }
}

/// Whether a server keeps a drive ready.
fn keeps(status: &ArrayStatus, path: &Path) -> bool {
    let mut spares = status.server.iter().flat_map(|server| &server.spares);
    spares.any(|spare| {
        let is_it = |kept: &PathBuf| same_file(kept, path);
        spare.state == "waiting" && spare.path.as_ref().is_some_and(is_it)
    })
}

fn spare(listing: &mut Listing, status: &ArrayStatus) {
    listing.kind = "spare";
    listing.array = Some(status.array.clone());
    listing.name = Some(status.name.clone());
    listing.scheme = Some(status.scheme.clone());
    listing.shard = status.shard;
    listing.served = true;
}

fn problem(path: PathBuf, kind: &'static str, problem: String) -> Listing {
    Listing {
        path,
        kind,
        array: None,
        name: None,
        scheme: None,
        shard: None,
        slot: None,
        state: None,
        epoch: None,
        capacity_bytes: None,
        damaged_records: 0,
        served: false,
        problem: Some(problem),
    }
}

fn tell(listed: &Listed, output: &Output) {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let rows = listed.drives.iter().map(|drive| {
        vec![
            drive.path.display().to_string(),
            drive.kind.to_owned(),
            match (&drive.name, drive.shard) {
                (Some(name), Some(shard)) => format!("{name}, {shard}"),
                (name, _) => text(name),
            },
            text(&drive.scheme),
            text(&drive.slot.map(|slot| slot.to_string())),
            text(&drive.epoch.map(|epoch| epoch.to_string())),
            text(&drive.capacity_bytes.map(format::bytes)),
            // Names need not differ.
            text(&drive.array),
            drive
                .problem
                .clone()
                .unwrap_or_else(|| if drive.served { "served".to_owned() } else { String::new() }),
        ]
    });
    let headings = ["DRIVE", "KIND", "ARRAY", "LEVEL", ">SLOT", ">EPOCH", ">CAPACITY", "UUID", ""];
    for line in format::table(&headings, &rows.collect::<Vec<_>>()) {
        output.line(line);
    }
}
