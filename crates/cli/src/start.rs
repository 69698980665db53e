//! Finds the server of an array, or starts the array in this process.

mod unusable;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use zoneweave_linux::Drive;
use zoneweave_raid::log::format::{
    ArrayConfig, Lineage, MemberEntry, MemberState, SuperblockRecord,
};
use zoneweave_raid::log::{
    AssemblyError, DriveRole, DriveVerdict, OpenError, OpenOptions, OpenReport, Survey, Volume,
    WriteChoice, open_array, survey,
};
use zoneweave_runtime::Nanos;

use crate::conditions::{is_present, refuse_hopeless};
use crate::control::{Claim, Client, GivenDrive, ServedDrive, Starting, claim, socket_of};
use crate::drives::paths::same_file;
use crate::drives::space::{FullDisk, WRITE_BYTES, full_disk};
use crate::drives::strangers::refuse_strangers;
use crate::error::CliError;
use crate::job::Job;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::session::{Access, Drives, NamedDrive, Session, offer, random_number};
use crate::shards::refuse_several;
use crate::status::{ArrayStatus, OtherDrive, describe_drives, inactive_status};
use crate::wait::{unless, until};
use crate::writing::{with_presets, with_spares};
use crate::zoned::refuse_zoned;
pub(crate) use unusable::{refuse_unopened, refuse_unreadable};

/// Period of progress updates of a job in this process.
const PROGRESS_PERIOD: Nanos = Nanos::from_millis(100);

/// Index pages that servers read at a time in the background.
pub(crate) const INDEX_PAGES: NonZeroU32 = NonZeroU32::new(64).expect("some");

/// Drives, their survey and their server.
pub(crate) struct Located {
    pub drives: Drives,
    pub survey: Survey,
    pub client: Option<Client>,
    /// Socket of a server; `None` if the drives have no array.
    pub socket: Option<PathBuf>,
}

/// Who serves the array of some drives.
pub(crate) enum Contact {
    /// No server answers.
    Nobody,
    /// The server of these drives.
    Server(Client),
    /// The server of their array, which continued without them; with the error for verbs that
    /// change something.
    Former(Client, CliError),
    /// A server of other drives, of which one of these is a copy.
    Copies(CliError),
    /// A server that does not answer, or that cannot be trusted.
    Silent(CliError),
}

/// Surveys drives without writing, and connects to the server of their array, if there is one.
pub(crate) fn find(session: &Session, paths: &[PathBuf]) -> Result<(Located, Contact), CliError> {
    let located = look(session, paths)?;
    let Located { drives, survey, socket, .. } = &located;
    let members = survey.membership.as_ref();
    let members = members.map(|record| (&*record.config.name, &*record.members));
    let contact = match socket {
        None => Contact::Nobody,
        Some(socket) => contact_at(socket, drives, &survey.drives, members),
    };
    Ok((located, contact))
}

/// Surveys drives without writing, and asks no server.
pub(crate) fn look(session: &Session, paths: &[PathBuf]) -> Result<Located, CliError> {
    let drives = session.open_some(paths, Access::Look)?;
    let survey = one_array(session.executor.run(survey(offer(&drives.opened))))?;
    refuse_several(session, paths, &drives)?;
    if survey.membership.is_none() {
        refuse_zoned(session, &drives)?;
    }
    let socket = survey.membership.as_ref().map(|record| socket_of(record.config.array));
    Ok(Located { drives, survey, client: None, socket })
}

/// Who answers at the socket of an array; `membership` is its name with its members.
pub(crate) fn contact_at(
    socket: &Path,
    drives: &Drives,
    verdicts: &[DriveVerdict],
    membership: Option<(&str, &[MemberEntry])>,
) -> Contact {
    match Client::connect(socket) {
        Ok(Some(client)) => contact(client, drives, verdicts, membership),
        Ok(None) => Contact::Nobody,
        Err(error) => Contact::Silent(error),
    }
}

/// Compares the drives given with those of the server.
fn contact(
    client: Client,
    drives: &Drives,
    verdicts: &[DriveVerdict],
    membership: Option<(&str, &[MemberEntry])>,
) -> Contact {
    let members = membership.map(|(_, members)| members);
    let member = |role| match role {
        DriveRole::Member { slot, .. } => Some(members?.get(slot.index())?.uuid.to_string()),
        _ => None,
    };
    let roles = verdicts.iter().map(|verdict| verdict.role.clone());
    let given = drives.opened.iter().zip(roles).map(|(named, role)| GivenDrive {
        label: named.label.clone(),
        member: member(role),
        identity: named.identity,
    });
    match claim(&given.collect::<Vec<_>>(), client.drives()) {
        Claim::Own => Contact::Server(client),
        Claim::Former => {
            let name = membership.map(|(name, _)| name.to_owned());
            let mut in_service = client.drives().iter().filter(|drive| drive.in_service);
            let instead = in_service.next().map(|drive| drive.path.clone());
            let error = CliError::FormerMembers { name: name.unwrap_or_default(), instead };
            Contact::Former(client, error)
        }
        Claim::Copy { label, original } => {
            let socket = client.socket().to_owned();
            Contact::Copies(CliError::CopyOfServed { label, original, socket })
        }
    }
}

/// As [`find`], for verbs that only read.
///
/// # Errors
/// Also if the server does not answer, or serves other drives.
pub(crate) fn locate(session: &Session, paths: &[PathBuf]) -> Result<Located, CliError> {
    let (located, contact) = find(session, paths)?;
    let client = match contact {
        Contact::Nobody => None,
        Contact::Server(client) | Contact::Former(client, _) => Some(client),
        Contact::Copies(error) | Contact::Silent(error) => return Err(error),
    };
    Ok(Located { client, ..located })
}

/// # Errors
/// If the drives have an array whose valid history cannot be determined.
fn one_array(survey: Survey) -> Result<Survey, CliError> {
    match survey {
        Survey { membership: None, refusal: Some(error), .. }
            if !matches!(error, OpenError::Array(AssemblyError::NoArray)) =>
        {
            Err(error.into())
        }
        survey => Ok(survey),
    }
}

/// As [`find`], for verbs that change something.
///
/// # Errors
/// Also for drives of two arrays, and if the server does not answer, or serves other drives.
pub(crate) fn locate_one(session: &Session, paths: &[PathBuf]) -> Result<Located, CliError> {
    let (located, contact) = find(session, paths)?;
    refuse_two(&located.survey)?;
    let client = match contact {
        Contact::Nobody => None,
        Contact::Server(client) => Some(client),
        Contact::Former(_, error) | Contact::Copies(error) | Contact::Silent(error) => {
            return Err(error);
        }
    };
    Ok(Located { client, ..located })
}

/// # Errors
/// If as many drives belong to another array as to the one found.
pub(crate) fn refuse_two(survey: &Survey) -> Result<(), CliError> {
    match &survey.membership {
        None => Ok(()),
        Some(record) => refuse_others(&record.config, &survey.drives),
    }
}

/// # Errors
/// If as many drives belong to another array as to this one.
pub(crate) fn refuse_others(ours: &ArrayConfig, verdicts: &[DriveVerdict]) -> Result<(), CliError> {
    let of = |array| {
        let is_of = move |verdict: &&DriveVerdict| match verdict.role {
            DriveRole::Foreign { array: other } => Some(other) == array,
            DriveRole::Member { .. }
            | DriveRole::Copy { .. }
            | DriveRole::Stale { .. }
            | DriveRole::Replaced { .. } => array.is_none(),
            _ => false,
        };
        verdicts.iter().filter(is_of)
    };
    let own = of(None).count();
    // Other histories of the same array do not count, nor drives that the survey did not reach.
    let foreign = verdicts.iter().find_map(|verdict| match verdict.role {
        DriveRole::Foreign { array } if array != ours.array && of(Some(array)).count() >= own => {
            Some(array)
        }
        _ => None,
    });
    let Some(foreign) = foreign else { return Ok(()) };
    let others: Vec<_> = of(Some(foreign)).map(|verdict| verdict.label.as_str()).collect();
    Err(CliError::SeveralArrays { name: ours.name.clone(), others: others.join(" ") })
}

/// An array running in this process.
pub(crate) struct Started {
    pub volume: Volume,
    pub config: ArrayConfig,
    /// The drives by slot.
    pub slots: Vec<Option<NamedDrive>>,
    /// The last members of slots without one among the drives given, with their slots. One that
    /// was replaced returns only by order.
    pub former: Vec<(usize, NamedDrive)>,
    /// Drives given that are not members.
    pub others: Vec<OtherDrive>,
}

/// A start before its first write: the drives are locked, and their array is known.
///
/// Everything that a start needs is opened while it is in this state, because the next step may
/// write.
pub(crate) struct Prepared {
    drives: Drives,
    survey: Survey,
    membership: SuperblockRecord,
    options: OpenOptions,
}

/// Treatment of drives that were given and cannot be opened or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The array is not started.
    Refuse,
    /// The array is started without them.
    LeaveOut,
}

/// Opens drives and checks that their array can be started, if `accept` does not refuse it. Writes
/// nothing.
///
/// # Errors
/// If it cannot be started, its drives are in use, or one is `unusable`.
pub(crate) fn prepare(
    session: &Session,
    paths: &[PathBuf],
    unusable: Unusable,
    options: OpenOptions,
    accept: impl FnOnce(&ArrayConfig) -> Result<(), CliError>,
    output: &Output,
) -> Result<Prepared, CliError> {
    let mut drives = session.open_some(paths, Access::Exclusive)?;
    if unusable == Unusable::Refuse {
        refuse_unopened(session, &mut drives)?;
    }
    let survey = one_array(session.executor.run(survey(offer(&drives.opened))))?;
    refuse_two(&survey)?;
    if unusable == Unusable::Refuse {
        refuse_unreadable(&survey.drives, survey.refusal.is_none())?;
    }
    let Some(membership) = survey.membership.clone() else {
        refuse_zoned(session, &drives)?;
        return Err(CliError::NoArray);
    };
    accept(&membership.config)?;
    let mut survey = match survey {
        // Without advice for the other drives, one of which may be the original.
        Survey {
            refusal:
                Some(
                    error @ OpenError::Array(
                        AssemblyError::Duplicate { .. } | AssemblyError::Destroyed { .. },
                    ),
                ),
            ..
        } => {
            return Err(error.into());
        }
        survey => survey,
    };
    if unusable == Unusable::Refuse && !options.force && survey.refusal.is_none() {
        refuse_strangers(&membership.config, &membership.members, &survey.drives)?;
    }
    refuse_full_disk(&drives.opened, &survey.drives)?;
    tell_others(&describe_drives(&drives, &survey.drives, &membership.config), output);
    refuse_hopeless(&mut survey, options.force)?;
    let writes = with_presets(options.writes, || presets(&drives.opened));
    let options = OpenOptions { lineage: Lineage(random_number()?), writes, ..options };
    Ok(Prepared { drives, survey, membership, options })
}

/// Refuses members in files on a full file system: their first write would fail, and take them out
/// of service.
pub(crate) fn refuse_full_disk(
    drives: &[NamedDrive],
    verdicts: &[DriveVerdict],
) -> Result<(), CliError> {
    for (named, verdict) in drives.iter().zip(verdicts) {
        if !matches!(verdict.role, DriveRole::Member { .. }) {
            continue;
        }
        if let Some(FullDisk { folder, free }) = full_disk(named.drive.path()) {
            let label = named.label.clone();
            return Err(CliError::NoSpace { label, folder, free, needed: WRITE_BYTES });
        }
    }
    Ok(())
}

/// Answers for clients while an array of these members is assembled.
pub(crate) fn starting(
    drives: &Drives,
    verdicts: &[DriveVerdict],
    members: &[MemberEntry],
    status: ArrayStatus,
) -> Starting {
    let found = drives.opened.iter().zip(verdicts);
    let drives = found.filter_map(|(named, verdict)| match verdict.role {
        DriveRole::Member { slot, .. } => Some(ServedDrive {
            in_service: true,
            member: members[slot.index()].uuid.to_string(),
            path: named.path.clone(),
            identity: named.identity,
        }),
        _ => None,
    });
    Starting { drives: drives.collect(), status: status.starting() }
}

impl Prepared {
    pub(crate) const fn config(&self) -> &ArrayConfig {
        &self.membership.config
    }

    /// Answers for clients while the array is assembled.
    pub(crate) fn starting(&self) -> Result<Starting, CliError> {
        let status = inactive_status(&self.drives, &self.survey).ok_or(CliError::NoArray)?;
        Ok(starting(&self.drives, &self.survey.drives, &self.membership.members, status))
    }

    /// Starts the array. Its first write takes missing members out of service. `stop` ends the
    /// start.
    ///
    /// # Errors
    /// If it cannot be started, or is stopped.
    pub(crate) fn assemble(
        self,
        session: &Session,
        stop: impl Future<Output = CliError>,
        output: &Output,
    ) -> Result<Started, CliError> {
        let Self { drives, membership, options, .. } = self;
        let opening = open_array(&session.handle, offer(&drives.opened), options);
        let opened = session.executor.run(unless(stop, opening))?;
        let (volume, report) = opened
            .map_err(|error| CliError::from(error).because_of(failed_write(&drives.opened)))?;
        let mut slots = vec![None; membership.members.len()];
        let mut former = Vec::new();
        for (verdict, named) in report.drives.iter().zip(&drives.opened) {
            match verdict.role {
                DriveRole::Member { slot, .. } => slots[slot.index()] = Some(named.clone()),
                DriveRole::Stale { slot } => former.push((slot.index(), named.clone())),
                _ => {}
            }
            if verdict.damaged_records > 0 {
                output.warning(format_args!(
                    "{}: {} superblock records are damaged; `zoneweave array scrub` rewrites them",
                    verdict.label, verdict.damaged_records
                ));
            }
        }
        let others = describe_drives(&drives, &report.drives, &membership.config);
        tell_recovery(&report, output);
        for reason in &volume.status().writing.fell_back {
            output.detail(format_args!("not using the best write layout for the drives: {reason}"));
        }
        Ok(Started { volume, config: membership.config, slots, former, others })
    }
}

/// The presets of drives; `None` for a drive without one.
fn presets(drives: &[NamedDrive]) -> Vec<Option<String>> {
    drives.iter().map(|named| Drive::inspect(named.drive.path()).ok()?.preset).collect()
}

/// Why a write to one of these drives failed, as the system says: to an array it is a drive lost.
fn failed_write(drives: &[NamedDrive]) -> Option<String> {
    drives.iter().find_map(|named| Some(format!("{}: {}", named.label, named.drive.write_error()?)))
}

pub(crate) fn tell_others(others: &[OtherDrive], output: &Output) {
    for other in others {
        output.warning(format_args!("{}: {}: {}", other.drive, other.role, other.detail));
    }
}

fn tell_recovery(report: &OpenReport, output: &Output) {
    let accepted = report.unaccounted_segments > 0;
    let discarded = if accepted { "" } else { " unacknowledged ones" };
    let text = format!(
        "{} of {} segments were incomplete; {} stripes rewritten, {}{discarded} discarded",
        report.leftover_segments, report.segments, report.rescued_stripes, report.discarded_stripes
    );
    if accepted {
        output.warning(format_args!(
            "{} segments have lost blocks, which --force accepts: their latest writes may read as \
             older data or zeros without an error; compare the volume with a copy",
            report.unaccounted_segments
        ));
    }
    let index = match report.checkpoint {
        Some(number) => format!(
            "the index was read from checkpoint {number} and the summaries of {} of {} segments",
            report.replayed_segments, report.segments
        ),
        None => {
            format!("the index was read from the summaries of all {} segments", report.segments)
        }
    };
    output.detail(index);
    if report.absent_pages > 0 {
        output
            .detail(format_args!("{} index pages are read in the background", report.absent_pages));
    }
    // An orderly stop leaves incomplete segments too: only stripes show an interruption.
    if report.rescued_stripes + report.discarded_stripes > 0 {
        output.note(format_args!("recovered from an interruption: {text}"));
    } else {
        output.detail(text);
    }
}

/// Checks that every member but `but` is present, because a change without a member takes it out of
/// service.
///
/// # Errors
/// The slots that are missing.
pub(crate) fn refuse_missing(located: &Located, but: Option<usize>) -> Result<(), CliError> {
    refuse_incomplete(&located.survey, but)
        .map_err(|error| error.because_of(located.drives.first_failure()))
}

fn refuse_incomplete(survey: &Survey, but: Option<usize>) -> Result<(), CliError> {
    let Some(membership) = &survey.membership else { return Err(CliError::NoArray) };
    let present = |slot: usize| is_present(survey, slot);
    let members = (0_u8..).zip(&membership.members);
    let missing = members.filter(|(slot, member)| {
        member.state != MemberState::Failed && !present(usize::from(*slot))
    });
    let missing: Vec<_> = missing.map(|(slot, _)| slot).collect();
    let name = || membership.config.name.clone();
    match missing[..] {
        [] => Ok(()),
        [slot] if Some(usize::from(slot)) == but => Ok(()),
        [slot] => Err(CliError::Incomplete { name: name(), slot }),
        // Replacing one would be refused because of the others.
        _ => {
            let starts = survey.refusal.is_none();
            Err(CliError::SeveralMissing { name: name(), slots: missing, starts })
        }
    }
}

/// Starts an array for one change. `spares` are to become members.
pub(crate) fn start_whole(
    session: &Session,
    paths: &[PathBuf],
    located: &Located,
    but: Option<usize>,
    spares: &[NamedDrive],
    output: &Output,
) -> Result<Started, CliError> {
    refuse_missing(located, but)?;
    let Some(socket) = &located.socket else { return Err(CliError::NoArray) };
    let geometries = spares.iter().map(|spare| spare.member.geometry());
    let writes = with_spares(WriteChoice::default(), geometries);
    let options = OpenOptions { writes, ..OpenOptions::default() };
    // The drives belong to one array, as `locate_one` checked.
    let prepared = prepare(session, paths, Unusable::LeaveOut, options, |_| Ok(()), output);
    let prepared = prepared.map_err(|error| match error {
        // Another process has the drives, and it is not the server of the array.
        CliError::Drive(error) | CliError::NoDrives { first: error } if error.is_in_use() => {
            CliError::NoServer { problem: error.to_string(), socket: socket.clone() }
        }
        other => other,
    })?;
    // Again: a drive that can be read may still not be writable.
    refuse_incomplete(&prepared.survey, but)
        .map_err(|error| error.because_of(prepared.drives.first_failure()))?;
    prepared.assemble(session, std::future::pending(), output)
}

/// Runs a job on a volume in this process and shows its progress.
pub(crate) fn run_job<T>(
    session: &Session,
    job: impl Future<Output = T> + 'static,
    how_far: impl Fn() -> Option<Job>,
    progress: &Progress<'_>,
) -> T
where
    T: 'static,
{
    let work = session.handle.spawn("job", job);
    session.executor.run(async {
        let mut work = std::pin::pin!(work);
        loop {
            let pause = session.handle.sleep(PROGRESS_PERIOD);
            match until(pause, work.as_mut()).await {
                Some(result) => return result,
                None => {
                    if let Some(job) = how_far() {
                        progress.update(job);
                    }
                }
            }
        }
    })
}

/// Whether a path is one of the drives in service.
pub(crate) fn in_slots(slots: &[Option<NamedDrive>], path: &Path) -> bool {
    slots.iter().flatten().any(|named| same_file(named.drive.path(), path))
}
