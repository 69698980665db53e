//! `zoneweave array list`: drives, and the array that each belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zoneweave_linux::Drive;
use zoneweave_raid::array::format::config::VolumeKind;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::{ArrayUuid, MemberEntry, MemberState};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{AssemblyError, DriveRole, DriveVerdict, OpenError, survey};
use zoneweave_raid::raizn;
use zoneweave_zoned::{Status, ZoneState};

use super::status::parse_status;
use crate::control::{Answer, ask_all, socket_of, sockets};
use crate::drives::candidates::files;
use crate::drives::paths::same_file;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session, offer};
use crate::status::{ArrayStatus, ShardStatus, SpareState};

#[derive(Args)]
pub(crate) struct List {
    /// Drives, or directories of drives
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Listed {
    drives: Vec<Listing>,
}

/// One line of the list.
#[derive(Serialize)]
struct Listing {
    path: PathBuf,
    kind: Kind,
    array: Option<String>,
    name: Option<String>,
    /// Kind of the array's volume.
    volume: Option<VolumeWord>,
    scheme: Option<String>,
    /// The shard that the array is; absent for a volume of one array.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<ShardStatus>,
    slot: Option<u8>,
    /// State by its own newest record, or `stale` if other members have dropped it.
    state: Option<State>,
    epoch: Option<u64>,
    capacity_bytes: Option<u64>,
    damaged_records: usize,
    served: bool,
    problem: Option<String>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Member,
    /// A blank hot spare of a server.
    Spare,
    Blank,
    /// Written, but not by an array.
    Unknown,
    NoDrive,
    Unreadable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "member",
            Self::Spare => "spare",
            Self::Blank => "blank",
            Self::Unknown => "unknown",
            Self::NoDrive => "no-drive",
            Self::Unreadable => "unreadable",
        })
    }
}

/// The kind of an array's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum VolumeWord {
    Block,
    Zoned,
}

impl VolumeWord {
    fn of(volume: &VolumeKind) -> Self {
        match volume {
            VolumeKind::Log(_) => Self::Block,
            VolumeKind::Zoned(_) => Self::Zoned,
        }
    }
}

/// The state of a member by its own records, or stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Online,
    Rebuilding,
    Failed,
    Stale,
}

pub(crate) fn run(request: &List, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let mut drives = Vec::new();
    let mut members = BTreeMap::<_, Vec<_>>::new();
    let mut missing = None;
    for path in files(&request.paths)? {
        match session.open(&path, Access::Look) {
            Ok(named) => {
                let (listing, record) = session.executor.run(describe(path, &named));
                if let Some(record) = record {
                    let member = Member { place: drives.len(), named, record };
                    members.entry(member.record.config.array).or_default().push(member);
                }
                drives.push(listing);
            }
            Err(error) => {
                let gone = error.is_not_found();
                drives.push(problem(path, Kind::NoDrive, error.to_string()));
                if gone {
                    missing = Some(error);
                }
            }
        }
    }
    for of_one in members.values() {
        mark_left(&session, &mut drives, of_one);
    }
    ask_servers(&mut drives, &members, output);
    let listed = Listed { drives };
    output.result("array-list", &listed, |output| tell(&listed, output));
    Ok(if missing.is_some() { Exit::NotFound } else { Exit::Done })
}

/// Describes a drive by its own contents; with its newest record if it is a member.
async fn describe(path: PathBuf, named: &NamedDrive) -> (Listing, Option<MembershipRecord>) {
    let records = match read_records(&*named.member).await {
        Ok(records) => records,
        Err(status) => return (problem(path, Kind::Unreadable, describe_status(status)), None),
    };
    use zoneweave_zoned::ZonedDevice;
    let capacity = named.drive.geometry().capacity_blocks() * zoneweave_zoned::BLOCK_BYTES as u64;
    let blank = records.scan.zones.iter().all(|info| info.state == ZoneState::Empty);
    let mut listing = Listing {
        capacity_bytes: Some(capacity),
        damaged_records: records.scan.damaged.len(),
        ..problem(path, if blank { Kind::Blank } else { Kind::Unknown }, String::new())
    };
    listing.problem = records
        .other_version
        .map(|version| format!("belongs to an array in format version {version}"));
    let newest = match records.newest() {
        Some(record) => Some(MembershipRecord::of(record)),
        None => raizn::membership_of(&*named.drive).await.ok().flatten(),
    };
    if let Some(record) = &newest {
        member(&mut listing, record);
    }
    (listing, newest)
}

fn describe_status(status: Status) -> String {
    format!("the drive does not report its zones: {status}")
}

fn member(listing: &mut Listing, record: &MembershipRecord) {
    let own = record.members.get(record.slot.index());
    listing.kind = Kind::Member;
    listing.array = Some(record.config.array.to_string());
    listing.name = Some(record.config.name.clone());
    listing.volume = Some(VolumeWord::of(&record.config.volume));
    listing.scheme = Some(record.config.scheme.to_string());
    listing.shard = ShardStatus::of(record.config.shard);
    listing.slot = Some(record.slot.0);
    listing.state = own.map(|member| match member.state {
        MemberState::Online => State::Online,
        MemberState::Rebuilding => State::Rebuilding,
        MemberState::Failed => State::Failed,
    });
    listing.epoch = Some(record.epoch.0);
}

/// A member of an array.
struct Member {
    /// Index in the list.
    place: usize,
    named: NamedDrive,
    record: MembershipRecord,
}

/// Whether all members have the same member table, and are in service by it.
fn agree(members: &[Member]) -> bool {
    let table = |record: &MembershipRecord| {
        (record.lineage, record.epoch, record.epoch_tag, record.members.clone())
    };
    let first = members.first().map(|member| table(&member.record));
    members.iter().map(|member| &member.record).all(|own| {
        let is_in =
            |entry: &MemberEntry| entry.uuid == own.member && entry.state != MemberState::Failed;
        own.members.iter().any(is_in) && Some(table(own)) == first
    })
}

/// Marks members that the array has dropped, by the records of the others.
fn mark_left(session: &Session, drives: &mut [Listing], members: &[Member]) {
    // A survey reads all records; it is needed only if the newest ones disagree.
    if agree(members) {
        return;
    }
    let named: Vec<_> = members.iter().map(|member| member.named.clone()).collect();
    let is_zoned = matches!(members[0].record.config.volume, VolumeKind::Zoned(_));
    let (verdicts, refusal) = match is_zoned {
        true => zoned_verdicts(session, &named),
        false => verdicts(session, &named),
    };
    // With any other refusal the survey may have ended before it reached all drives.
    let all_looked_at = matches!(
        refusal,
        Ok(()) | Err(Some(AssemblyError::TooFewMembers { .. } | AssemblyError::NoQuorum { .. }))
    );
    for (member, verdict) in members.iter().zip(verdicts) {
        let why = match verdict.role {
            DriveRole::Copy { .. } => "copy: another drive says that it is the same member",
            DriveRole::Stale { .. } | DriveRole::Replaced { .. } => {
                "stale: the array continued without it"
            }
            DriveRole::Foreign { .. } if all_looked_at => {
                "diverged: the array was started with --force without it"
            }
            _ => continue,
        };
        drives[member.place].state = Some(State::Stale);
        drives[member.place].problem = Some(why.to_owned());
    }
}

/// The roles of drives, and why their array would not start.
type Verdicts = (Vec<DriveVerdict>, Result<(), Option<AssemblyError>>);

fn verdicts(session: &Session, named: &[NamedDrive]) -> Verdicts {
    let survey = session.executor.run(survey(offer(named)));
    let refusal = survey.refusal.map(|error| match error {
        OpenError::Array(error) => Some(error),
        _ => None,
    });
    (survey.drives, refusal.map_or(Ok(()), Err))
}

fn zoned_verdicts(session: &Session, named: &[NamedDrive]) -> Verdicts {
    let survey = session.executor.run(raizn::survey(crate::zoned::offer(named)));
    let refusal = survey.refusal.map(|error| match error {
        raizn::OpenError::Assembly(error) => Some(error),
        _ => None,
    });
    (survey.drives, refusal.map_or(Ok(()), Err))
}

/// Marks the drives that are served, and the blank drives that are spares. A spare carries no
/// mark of its own: only its server knows it.
fn ask_servers(
    drives: &mut [Listing],
    members: &BTreeMap<ArrayUuid, Vec<Member>>,
    output: &Output,
) {
    let any_blank = drives.iter().any(|drive| drive.kind == Kind::Blank);
    let mut asked: BTreeSet<_> = members.keys().map(|array| socket_of(*array)).collect();
    asked.extend(sockets().into_iter().filter(|_| any_blank));
    let answers = ask_all(asked, any_blank);
    for (array, of_one) in members {
        let answer = &answers[&socket_of(*array)];
        of_one.iter().for_each(|member| mark_served(&mut drives[member.place], member, answer));
    }
    let mut blank: Vec<_> = drives.iter_mut().filter(|drive| drive.kind == Kind::Blank).collect();
    for (socket, answer) in answers {
        match answer {
            Answer::Serves(_, Some(status)) => {
                let Ok(status) = parse_status(status) else { continue };
                let spares = blank.iter_mut().filter(|drive| keeps(&status, &drive.path));
                spares.for_each(|drive| spare(drive, &status));
            }
            Answer::Silent | Answer::Serves(_, None) if any_blank => output.warning(format_args!(
                "the server at {} does not answer: its spares are listed as blank",
                socket.display()
            )),
            _ => {}
        }
    }
}

fn mark_served(listing: &mut Listing, member: &Member, answer: &Answer) {
    let Member { named, record, .. } = member;
    let mut add = |problem: String| {
        listing.problem = Some(match listing.problem.take() {
            Some(others) => format!("{others}; {problem}"),
            None => problem,
        });
    };
    match answer {
        Answer::Nobody => {
            if Drive::is_locked(named.drive.path(), Duration::ZERO) {
                add("in use by a process that does not answer this user".to_owned());
            }
        }
        Answer::Silent => {
            listing.served = true;
            add("its server does not answer".to_owned());
        }
        Answer::Serves(served, _) => {
            let own = served.iter().find(|drive| drive.identity.is_same(&named.identity));
            listing.served = own.is_some_and(|drive| drive.in_service);
            let uuid = record.member.to_string();
            let mut others = served.iter().filter(|drive| drive.in_service && own.is_none());
            if let Some(original) = others.find(|drive| drive.member == uuid) {
                add(format!("a copy of {}, which is served", original.path.display()));
            }
        }
    }
}

/// Whether a drive is a waiting spare of a server.
fn keeps(status: &ArrayStatus, path: &Path) -> bool {
    let mut spares = status.server.iter().flat_map(|server| &server.spares);
    spares.any(|spare| {
        let is_it = |kept: &PathBuf| same_file(kept, path);
        spare.state == SpareState::Waiting && spare.path.as_ref().is_some_and(is_it)
    })
}

fn spare(listing: &mut Listing, status: &ArrayStatus) {
    listing.kind = Kind::Spare;
    listing.array = Some(status.array.clone());
    listing.name = Some(status.name.clone());
    listing.scheme = Some(status.scheme.clone());
    listing.shard = status.shard;
    listing.served = true;
}

fn problem(path: PathBuf, kind: Kind, problem: String) -> Listing {
    Listing {
        path,
        kind,
        array: None,
        name: None,
        volume: None,
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
            drive.kind.to_string(),
            match (&drive.name, drive.shard) {
                (Some(name), Some(shard)) => format!("{name}, {shard}"),
                (name, _) => text(name),
            },
            match (&drive.scheme, drive.volume) {
                (Some(scheme), Some(VolumeWord::Zoned)) => format!("{scheme}, zoned"),
                (scheme, _) => text(scheme),
            },
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
