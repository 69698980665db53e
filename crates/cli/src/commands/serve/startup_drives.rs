//! The drives to start with: those given, or those of the array that was named, and those that
//! appear in time.
//!
//! At boot, drives appear one after the other. After a start that waits for none of them, the first
//! write takes the late ones out of service.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use zoneweave_linux::Drive;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_runtime::Nanos;

use super::options::Served;
use super::stop::Stop;
use crate::drives::membership::{absent_members, membership_of};
use crate::drives::paths::same_file;
use crate::error::CliError;
use crate::format;
use crate::output::Output;
use crate::session::{Access, NamedDrive};

/// Period at which absent drives are looked for.
const LOOKING: Nanos = Nanos::from_millis(100);

/// The drives to start with.
///
/// # Errors
/// If no drive is left, one to be left out is none of them or a spare, or a signal ends the wait.
pub(super) fn startup_drives(
    stop: &Stop<'_>,
    request: &Served,
    output: &Output,
) -> Result<Vec<PathBuf>, CliError> {
    let left_out = |path: &&PathBuf| request.without.iter().any(|other| same_file(path, other));
    refuse_left_out_spares(request)?;
    let mut search = request.by_name.search();
    if search.is_none() {
        refuse_unknown(request)?;
    }
    let mut drives = match &mut search {
        Some(search) => search.next(stop.session)?,
        None => request.drives.clone(),
    };
    drives.retain(|path| !left_out(&path));
    let handle = &stop.session.handle;
    let limit = Nanos(u64::try_from(request.wait.as_nanos()).unwrap_or(u64::MAX));
    let since = handle.now();
    let mut told = false;
    while handle.now().since(since) < limit {
        let late: Vec<_> = drives.iter().filter(|path| !path.exists()).cloned().collect();
        let missing = if late.is_empty() { missing_members(stop, &drives)? } else { Vec::new() };
        let none_yet = drives.is_empty() && search.is_some();
        if late.is_empty() && missing.is_empty() && !none_yet {
            break;
        }
        if !told {
            told = true;
            let subject = match (&search, late.is_empty()) {
                (Some(search), _) if drives.is_empty() => format!("array {}", search.array()),
                (_, true) => format!("{} members that were not given", missing.len()),
                (_, false) => format::words(&late),
            };
            output.note(format_args!("waiting for {subject}"));
        }
        let mut found = match &mut search {
            Some(search) => search.next(stop.session)?,
            None => appeared(stop, &drives, &missing, &left_out)?,
        };
        found.retain(|path| !left_out(&path));
        if !found.is_empty() {
            output.note(format_args!("found {}", format::words(&found)));
            drives.extend(found);
            continue;
        }
        stop.run(handle.sleep(LOOKING))?;
    }
    match (drives.is_empty(), search) {
        // Nobody named the drives: those that are here may be a part of them.
        (false, Some(search)) if request.without.is_empty() => {
            let missing = missing_members(stop, &drives)?.len();
            let array = search.array().to_owned();
            if missing > 0 { Err(CliError::MembersMissing { array, missing }) } else { Ok(drives) }
        }
        (false, _) => Ok(drives),
        (true, None) => Err(CliError::NoArray),
        (true, Some(search)) => Err(CliError::NoSuchArray { array: search.array().to_owned() }),
    }
}

/// Refuses a drive to be left out that is a spare too: it would be served if it is a member by now.
fn refuse_left_out_spares(request: &Served) -> Result<(), CliError> {
    let is_spare = |path: &&PathBuf| request.spare.iter().any(|spare| same_file(spare, path));
    let mut names = request.without.iter().filter(|path| *path != Path::new("any"));
    names.find(is_spare).map_or(Ok(()), |path| {
        let problem =
            format!("{} is given with --spare too, and would not be left out", path.display());
        Err(CliError::Usage { option: "without", problem })
    })
}

/// Refuses a drive to be left out that was not given: by a mistake in typing, the drive that was
/// meant would be served. One that exists may be found while the start waits.
fn refuse_unknown(request: &Served) -> Result<(), CliError> {
    let is_known = |path: &PathBuf| {
        path == Path::new("any")
            || request.drives.iter().any(|drive| same_file(drive, path))
            || !request.wait.is_zero() && path.exists()
    };
    let unknown = request.without.iter().find(|path| !is_known(path));
    unknown.map_or(Ok(()), |path| {
        let problem = format!("{} is none of the drives given", path.display());
        Err(CliError::Usage { option: "without", problem })
    })
}

/// The newest record of a drive.
fn newest(stop: &Stop<'_>, named: &NamedDrive) -> Result<Option<MembershipRecord>, CliError> {
    Ok(stop.run(membership_of(named))?.ok().flatten())
}

/// Members in service, of the arrays of the drives, that none of the drives is.
fn missing_members(stop: &Stop<'_>, drives: &[PathBuf]) -> Result<Vec<MemberUuid>, CliError> {
    let mut records = Vec::new();
    for named in &stop.session.open_some(drives, Access::Look)?.opened {
        records.extend(newest(stop, named)?);
    }
    Ok(absent_members(&records).into_iter().collect())
}

/// Drives beside the others, with names like theirs, that are one of these members.
fn appeared(
    stop: &Stop<'_>,
    drives: &[PathBuf],
    members: &[MemberUuid],
    left_out: &dyn Fn(&&PathBuf) -> bool,
) -> Result<Vec<PathBuf>, CliError> {
    let mut found = Vec::new();
    if members.is_empty() {
        return Ok(found);
    }
    let known = |path: &PathBuf| drives.iter().any(|drive| same_file(path, drive));
    for path in beside(drives).iter().filter(|path| !known(path) && !left_out(path)) {
        // Before it is opened: anything may have such a name.
        if Drive::inspect(path).is_err() {
            continue;
        }
        let Ok(named) = stop.session.open(path, Access::Look) else { continue };
        if newest(stop, &named)?.is_some_and(|record| members.contains(&record.member)) {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// Files in the folders of the drives whose names begin as theirs do, up to the first digit.
fn beside(drives: &[PathBuf]) -> BTreeSet<PathBuf> {
    let stem = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.split(|letter: char| letter.is_ascii_digit()).next().unwrap_or_default().to_owned()
    };
    let folder = |path: &Path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let places: BTreeSet<_> = drives.iter().map(|path| (folder(path), stem(path))).collect();
    let mut found = BTreeSet::new();
    for (folder, start) in places {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path()).filter(|path| stem(path) == start));
    }
    found
}
