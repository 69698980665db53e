//! `zoneweave array destroy`.
//!
//! All members are checked before the first is marked, and marked before the first is erased. So a
//! member that cannot be marked leaves the array as it was. An array which is interrupted in
//! between does not start with those that are left, and can be destroyed by the same command again.
//!
//! Fault model: a drive may fail at any command. Then the others are marked or erased all the same,
//! and the message lists what was done.

use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use zoneweave_raid::array::repair::destroy::DestroyError;
use zoneweave_raid::log::DriveRole;
use zoneweave_raid::log::recover::records;
use zoneweave_raid::raizn;
use zoneweave_zoned::{BLOCK_BYTES, ZonedDeviceExt};

use super::configured::tell_configured;
use super::target::Target;
use super::whole::{Histories, OneArray, Whole};
use crate::drives::consent::Erasure;
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::format::{bytes, table};
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session};
use crate::start::refuse_full_disk;

#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    erasure: Erasure,
    /// Destroy it although drives are missing, or cannot be written: they keep their superblocks;
    /// or although its drives disagree about its history
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Destroyed {
    name: String,
    uuid: String,
    /// Absent if too little is known of the drives.
    size_bytes: Option<u64>,
    /// Written blocks of all drives, with parity and what is reclaimed some day.
    written_bytes: u64,
    drives: Vec<Erased>,
    /// Whether nothing was erased.
    dry_run: bool,
}

/// A drive that is erased.
#[derive(Serialize)]
struct Erased {
    drive: String,
    /// Absent for a volume of one array.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u8>,
    /// Absent for a former member.
    slot: Option<u8>,
    written_bytes: u64,
}

pub(crate) fn destroy(request: &Destroy, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let paths = request.target.drives(&session)?;
    let histories = if request.force { Histories::Any } else { Histories::OneThatCounts };
    let whole = match request.erasure.dry_run {
        true => Whole::open(&session, &paths, Access::Look, histories)?,
        false => Whole::lock(&session, &paths, histories)?,
    };
    whole.refuse_served()?;
    for problem in &whole.unopened {
        output.warning(format_args!("{problem}: this drive keeps what it holds"));
    }
    if let Some(what) = whole.absent().filter(|_| !request.force && !whole.is_marked()) {
        return Err(LifecycleError::Absent { name: whole.name, what }.into());
    }
    let planned = plan(&session, &whole, request.erasure.dry_run)?;
    if request.erasure.dry_run {
        output.result("array-destroy", &planned, |output| tell(&planned, output));
        return Ok(Exit::Done);
    }
    agree(request, &planned, output)?;
    if !request.force {
        refuse_full(&whole)?;
        refuse_unmarkable(&session, &whole)?;
    }
    mark_all(&session, &whole, request.force)?;
    erase_all(&session, &whole)?;
    output.result("array-destroy", &planned, |output| tell(&planned, output));
    tell_configured(&whole.name, output);
    Ok(Exit::Done)
}

/// What would be erased.
fn plan(session: &Session, whole: &Whole, dry_run: bool) -> Result<Destroyed, CliError> {
    let mut drives = Vec::new();
    for array in &whole.shards {
        let shard = array.membership.config.shard;
        for (named, verdict) in array.drives.iter().zip(&array.verdicts) {
            let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
            let zones = session.executor.run(named.drive.report()).map_err(failed)?;
            let blocks = zones.iter().map(|info| u64::from(info.write_pointer.0)).sum::<u64>();
            drives.push(Erased {
                drive: named.label.clone(),
                shard: (whole.of > 1).then(|| shard.number()),
                slot: match verdict.role {
                    DriveRole::Member { slot, .. } => Some(slot.0),
                    _ => None,
                },
                written_bytes: blocks * BLOCK_BYTES as u64,
            });
        }
    }
    let given: usize = whole.shards.iter().map(|array| array.drives.len()).sum();
    assert_eq!(drives.len(), given, "every drive that is erased is shown");
    Ok(Destroyed {
        name: whole.name.clone(),
        uuid: whole.uuid.to_string(),
        size_bytes: whole.size_bytes(),
        written_bytes: drives.iter().map(|drive| drive.written_bytes).sum(),
        drives,
        dry_run,
    })
}

fn tell(planned: &Destroyed, output: &Output) {
    let Destroyed { name, uuid, size_bytes, written_bytes, drives, dry_run } = planned;
    let done = if *dry_run { "would be destroyed" } else { "destroyed" };
    let size = size_bytes.map(|size| format!("volume of {}, ", bytes(size))).unwrap_or_default();
    output.line(format_args!("{name} {done}: {size}{} on media · {uuid}", bytes(*written_bytes)));
    let word = |number: Option<u8>| number.map_or("-".to_owned(), |number| number.to_string());
    let with_shards = drives.iter().any(|drive| drive.shard.is_some());
    let row = |drive: &Erased| {
        let shard = with_shards.then(|| word(drive.shard));
        let rest = [word(drive.slot), drive.drive.clone(), bytes(drive.written_bytes)];
        shard.into_iter().chain(rest).collect()
    };
    let rows: Vec<_> = drives.iter().map(row).collect();
    let headings = ["shard", "slot", "drive", "written"];
    let headings = if with_shards { &headings[..] } else { &headings[1..] };
    table(headings, &rows).iter().for_each(|line| output.line(format_args!("  {line}")));
}

/// Has the operator agree.
fn agree(request: &Destroy, planned: &Destroyed, output: &Output) -> Result<(), CliError> {
    let Destroyed { name, written_bytes, drives, .. } = planned;
    let (count, written) = (drives.len(), bytes(*written_bytes));
    let what = format!("array {name} with its {count} drives ({written} on media)");
    let warning = |erased: &Erased| {
        format!("{}: {} will be erased", erased.drive, bytes(erased.written_bytes))
    };
    request.erasure.agree(name, what, drives.iter().map(warning), output)
}

/// Refuses drives in files that have no space for the mark, before the first is marked.
fn refuse_full(whole: &Whole) -> Result<(), CliError> {
    for array in &whole.shards {
        refuse_full_disk(&array.drives, &array.verdicts)?;
    }
    Ok(())
}

/// Refuses members that cannot be marked, before the first is marked.
fn refuse_unmarkable(session: &Session, whole: &Whole) -> Result<(), CliError> {
    let checked = session.executor.run(of_each(whole, check));
    match checked.problems.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::Unmarkable { problems: checked.problems }.into()),
    }
}

/// Marks all members. Those that cannot be marked are left out by force only.
fn mark_all(session: &Session, whole: &Whole, force: bool) -> Result<(), CliError> {
    let Outcomes { done, problems } = session.executor.run(of_each(whole, mark));
    match problems.is_empty() || force {
        true => Ok(()),
        false => Err(LifecycleError::NotMarked { marked: done, problems }.into()),
    }
}

/// Erases all members that are marked.
fn erase_all(session: &Session, whole: &Whole) -> Result<(), CliError> {
    let Outcomes { done, problems } = session.executor.run(of_each(whole, async |array, named| {
        // Without a mark it is not erased: a crash could leave it as a member of others.
        mark(array, named).await?;
        erase(array, named).await
    }));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::NotErased { erased: done, problems }.into()),
    }
}

/// The drives for which something was done, and the problems of the others.
#[derive(Default)]
struct Outcomes {
    done: Vec<String>,
    problems: Vec<String>,
}

/// Does something to all drives at once.
async fn of_each(
    whole: &Whole,
    work: impl AsyncFn(&OneArray, &NamedDrive) -> Result<(), DestroyError>,
) -> Outcomes {
    let drives =
        whole.shards.iter().flat_map(|array| array.drives.iter().map(move |it| (array, it)));
    let work = &work;
    let done = join_all(
        drives.map(async |(array, named)| (named.label.clone(), work(array, named).await)),
    );
    let mut outcomes = Outcomes::default();
    for (label, outcome) in done.await {
        match outcome {
            Ok(()) => outcomes.done.push(label),
            Err(error) => outcomes.problems.push(format!("{label}: {error}")),
        }
    }
    let counted = outcomes.done.len() + outcomes.problems.len();
    let given: usize = whole.shards.iter().map(|array| array.drives.len()).sum();
    assert_eq!(counted, given, "each drive has an outcome");
    outcomes
}

async fn check(array: &OneArray, named: &NamedDrive) -> Result<(), DestroyError> {
    let uuid = array.membership.config.array;
    match array.is_zoned() {
        true => raizn::check_markable(&*named.drive, uuid).await,
        false => records::check_markable(&*named.member, uuid).await,
    }
}

async fn mark(array: &OneArray, named: &NamedDrive) -> Result<(), DestroyError> {
    let uuid = array.membership.config.array;
    match array.is_zoned() {
        true => raizn::mark_destroyed(&*named.drive, uuid).await,
        false => records::mark_destroyed(&*named.member, uuid).await,
    }
}

async fn erase(array: &OneArray, named: &NamedDrive) -> Result<(), DestroyError> {
    let uuid = array.membership.config.array;
    match array.is_zoned() {
        true => raizn::erase_destroyed(&(named.drive.clone() as _), uuid).await,
        false => records::erase_destroyed(&named.member, uuid).await,
    }
}
