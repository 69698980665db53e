//! The status of an array that is not served, from its superblocks. Nothing is started or written.

use std::path::{Path, PathBuf};

use zoneweave_raid::log::format::{ArrayConfig, MemberEntry, VolumeKind};
use zoneweave_raid::log::{
    AssemblyError, DriveRole, DriveVerdict, MemberHealth, OpenError, Survey,
};
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::BLOCK_BYTES;

use super::judge::{Facts, Verdict, judge};
use super::lost::lost_on_record;
use super::{
    ArrayStatus, Health, LostRanges, MemberStatus, OtherDrive, ScrubEntry, ShardStatus, ZoneCounts,
    losses_left,
};
use crate::conditions::position_of;
use crate::drives::space::full_disk;
use crate::error::CliError;
use crate::format::{bytes, slots, word};
use crate::session::{Drives, NamedDrive};

/// The status of the array of the drives; `None` without one.
pub(crate) fn inactive_status(drives: &Drives, survey: &Survey) -> Option<ArrayStatus> {
    let record = survey.membership.as_ref()?;
    let config = &record.config;
    let members = record.members.iter().enumerate().map(|(slot, entry)| {
        let place = position_of(&survey.drives, slot);
        let found = place.map(|at| (&drives.opened[at], survey.drives[at].damaged_records));
        inactive_member(slot, entry, found)
    });
    let members: Vec<_> = members.collect();
    let named = count_named(drives, &survey.drives, config);
    let losses_left = losses_left(config.scheme, &members);
    let refusal = survey.refusal.as_ref().map(ToString::to_string);
    let stopped = refusal.as_deref();
    let faults = survey.faults.clone().unwrap_or_default();
    let lost = LostRanges::of_faults(&faults, config.shard);
    let facts = Facts {
        members: &members,
        losses_left,
        stopped,
        lost_blocks: lost_on_record(&faults),
        awaited_blocks: 0,
        ..Facts::default()
    };
    let refused = match &survey.refusal {
        Some(OpenError::Array(error)) => Some(error),
        _ => None,
    };
    let verdict = few_named(named, refused, &members).unwrap_or_else(|| judge(&facts));
    let Verdict { health, why, action } = no_space(&drives.opened, &survey.drives, verdict);
    let status = ArrayStatus {
        is_elsewhere: false,
        losses_left: Some(losses_left).filter(|_| health != Health::Unknown),
        name: config.name.clone(),
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        shard: ShardStatus::of(config.shard),
        health,
        why,
        action,
        epoch: record.epoch.0,
        size_bytes: config.log().volume_blocks * BLOCK_BYTES as u64,
        chunk_bytes: u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: config.log().group_rows,
        mode: mode_word(config.log().tabled).to_owned(),
        zones: None,
        server: None,
        is_silent: false,
        lost,
        awaited: LostRanges::default(),
        scrubs: ScrubEntry::list(&survey.scrubs.0, false),
        members,
        others: describe_drives(drives, &survey.drives, config),
    };
    Some(status.with_drives_named())
}

/// Why nothing is known of an array whose drives are here.
pub(crate) enum Unknown {
    /// Its server does not answer, for this reason.
    Silent(String),
    /// Another process has its drives, and no server answers at this socket.
    Elsewhere(PathBuf),
}

impl ArrayStatus {
    /// The status while a server assembles the array.
    pub(crate) fn starting(self) -> Self {
        let why = Some("a server is assembling it".to_owned());
        let action = Some("none: repeat this in a moment".to_owned());
        Self { health: Health::Starting, why, action, losses_left: None, ..self }
    }

    /// Whether nothing in the superblocks forbids a start.
    pub(crate) fn may_start(&self) -> bool {
        !matches!(self.health, Health::Failed | Health::Unknown)
    }

    /// The status if a start would be refused, for what the drives hold.
    pub(crate) fn refused(self, refusal: &CliError) -> Self {
        let cannot = "it cannot start".to_owned();
        let why = Some(self.why.map_or(cannot.clone(), |why| format!("{cannot}; {why}")));
        Self { health: Health::Failed, why, action: Some(refusal.to_string()), ..self }
    }

    /// The status if another process has the drives and gives no status: their superblocks may be
    /// outdated.
    pub(crate) fn unknown(self, unknown: &Unknown) -> Self {
        let (is_silent, why, action) = match unknown {
            Unknown::Silent(problem) => (
                true,
                problem.clone(),
                "look at the server and its log; if it hangs, end it with `kill -9` and start it \
                 again: acknowledged writes are kept"
                    .to_owned(),
            ),
            Unknown::Elsewhere(socket) => (
                false,
                format!(
                    "served by someone else: its drives are locked, and no server answers this \
                     user at {}",
                    socket.display()
                ),
                "repeat this as the user of the server, with its ZONEWEAVE_RUNTIME_DIR".to_owned(),
            ),
        };
        let (why, action) = (Some(why), Some(action));
        let is_elsewhere = matches!(unknown, Unknown::Elsewhere(_));
        let health = Health::Unknown;
        Self { health, why, action, losses_left: None, is_silent, is_elsewhere, ..self }
    }
}

/// The write command of chunks, as a word.
pub(super) fn mode_word(tabled: bool) -> &'static str {
    if tabled { "zone-append" } else { "zone-write" }
}

/// The status of a member from its entry in the membership; `found` is its drive with its number of
/// damaged records.
pub(super) fn inactive_member(
    slot: usize,
    entry: &MemberEntry,
    found: Option<(&NamedDrive, u64)>,
) -> MemberStatus {
    let (drive, damaged) = found.map_or((None, 0), |(named, damaged)| (Some(named), damaged));
    let zones = drive.and_then(|named| {
        let info = zoneweave_linux::Drive::inspect(named.drive.path()).ok()?;
        Some(info.zones)
    });
    MemberStatus {
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        uuid: entry.uuid.to_string(),
        drive: drive.map(|named| named.label.clone()),
        path: drive.map(|named| named.path.clone()),
        state: MemberHealth::of(entry.state, drive.is_some()),
        reason: (damaged > 0).then(|| format!("{damaged} damaged superblock records")),
        header_lost: false,
        resets_max: zones.as_ref().map(|zones| zones.iter().map(|z| z.resets).max().unwrap_or(0)),
        zones: zones.map(|zones| ZoneCounts::of(&zones)),
        io: None,
        latencies: Vec::new(),
        segments_lacking: 0,
        segments_absent_at_start: 0,
    }
}

/// The drives named for an array, among them those in the places of lost ones, but none of another
/// array.
pub(super) fn count_named(drives: &Drives, roles: &[DriveVerdict], config: &ArrayConfig) -> usize {
    let is_of_another = |verdict: &&DriveVerdict| match verdict.role {
        DriveRole::Foreign { array } => array != config.array,
        _ => false,
    };
    let others = roles.iter().filter(is_of_another).count();
    assert!(others <= drives.opened.len(), "a verdict for each drive");
    drives.opened.len() - others + drives.unopened.len()
}

/// The verdict if too few drives were named, for which a start is refused, and the others may not
/// be lost.
pub(super) fn few_named(
    named: usize,
    refusal: Option<&AssemblyError>,
    members: &[MemberStatus],
) -> Option<Verdict> {
    let refusal = refusal.filter(|refusal| {
        matches!(refusal, AssemblyError::TooFewMembers { .. } | AssemblyError::NoQuorum { .. })
    })?;
    let missing = members.iter().filter(|member| member.state == MemberHealth::Missing);
    let missing: Vec<_> = missing.map(|member| member.slot).collect();
    if named >= members.len() || missing.is_empty() {
        return None;
    }
    let was = if named == 1 { "was" } else { "were" };
    let why = format!(
        "only {named} of its {} drives {was} named: {} missing",
        members.len(),
        slots(&missing)
    );
    let action = format!("name all of its drives; if no others are left: {refusal}");
    Some(Verdict { health: Health::Unknown, why: Some(why), action: Some(action) })
}

/// The verdict if a member's drive has no space for writes: the array does not start.
pub(super) fn no_space(opened: &[NamedDrive], roles: &[DriveVerdict], verdict: Verdict) -> Verdict {
    if matches!(verdict.health, Health::Failed | Health::Unknown) {
        return verdict;
    }
    let members = opened.iter().zip(roles);
    let mut members =
        members.filter(|(_, verdict)| matches!(verdict.role, DriveRole::Member { .. }));
    let full = members.find_map(|(named, _)| Some((named, full_disk(named.drive.path())?)));
    let Some((named, full)) = full else { return verdict };
    let folder = full.folder.display();
    let why = format!("no space left for {}: {folder} has {} free", named.label, bytes(full.free));
    let action = format!("free some space in {folder}, then serve the array");
    Verdict { health: Health::Failed, why: Some(why), action: Some(action) }
}

/// Describes every drive that is not a member of the array.
pub(crate) fn describe_drives(
    drives: &Drives,
    verdicts: &[DriveVerdict],
    config: &ArrayConfig,
) -> Vec<OtherDrive> {
    let others = verdicts.iter().filter_map(|verdict| other(verdict, verdicts, config));
    let mut others: Vec<_> = others.collect();
    others.extend(drives.unopened.iter().map(|unopened| OtherDrive {
        drive: unopened.label.clone(),
        path: Some(absolute_path(&unopened.label)),
        role: "unopened".to_owned(),
        detail: unopened.error.to_string(),
    }));
    others
}

fn other(
    verdict: &DriveVerdict,
    verdicts: &[DriveVerdict],
    config: &ArrayConfig,
) -> Option<OtherDrive> {
    let (path, ours) = (absolute_path(&verdict.label), config.array);
    let detail = match &verdict.role {
        DriveRole::Member { .. } => return None,
        DriveRole::Copy { slot } => {
            format!("says that it is slot {}, as another drive does: leave the copy out", slot.0)
        }
        DriveRole::Replaced { slot } if position_of(verdicts, slot.index()).is_none() => {
            replaced(*slot, &path, config)
        }
        DriveRole::Stale { slot } | DriveRole::Replaced { slot } => {
            stale(*slot, &path, verdicts, config)
        }
        DriveRole::Foreign { array } if *array == ours => format!(
            "has diverged from this array, which was started with --force without it; to re-add it: \
             zoneweave array replace DRIVE... --slot I --with {} --yes-destroy",
            word(path.display())
        ),
        DriveRole::Foreign { array } => {
            // Both may have the same name.
            format!("belongs to another array, {array}; this one is {ours}")
        }
        DriveRole::OtherVersion { version } => {
            format!("belongs to an array in format version {version}")
        }
        DriveRole::Unknown => "holds data, but no superblock".to_owned(),
        DriveRole::Blank => "holds nothing".to_owned(),
        DriveRole::Unreadable(status) => format!("cannot be read: {status}"),
    };
    let role = role_word(&verdict.role).to_owned();
    Some(OtherDrive { drive: verdict.label.clone(), path: Some(path), role, detail })
}

/// What to do with a former member of a slot.
fn stale(slot: Column, path: &Path, verdicts: &[DriveVerdict], config: &ArrayConfig) -> String {
    let (number, drive) = (slot.0, word(path.display()));
    if position_of(verdicts, slot.index()).is_some() {
        return format!(
            "was {slot} of this array, which has another drive now: leave it out, or erase it: zoneweave \
             drive wipe {drive}"
        );
    }
    match config.volume {
        VolumeKind::Log(_) => format!(
            "was {slot} of this array and missed writes; a server re-adds it at its start, or: \
             zoneweave array online DRIVE... --slot {number} --with {drive}"
        ),
        VolumeKind::Zoned(_) => format!(
            "was {slot} of this array and is out of service; drives of a zoned volume cannot be put \
             back, only rebuilt as new ones: zoneweave array replace DRIVE... --slot {number} --with \
             {drive} --yes-destroy"
        ),
    }
}

/// What to do with a former member of a slot whose next drive is not there.
fn replaced(slot: Column, path: &Path, config: &ArrayConfig) -> String {
    let (number, drive) = (slot.0, word(path.display()));
    let back = match config.volume {
        VolumeKind::Log(_) => format!("online DRIVE... --slot {number} --with {drive}"),
        VolumeKind::Zoned(_) => {
            format!("replace DRIVE... --slot {number} --with {drive} --yes-destroy")
        }
    };
    format!(
        "was {slot} of this array until it was replaced, and does not return by itself: give the drive that \
         replaced it, or, if that one is lost: zoneweave array {back}"
    )
}

/// The absolute path of a drive by its label, which is the path that was given.
fn absolute_path(label: &str) -> PathBuf {
    std::path::absolute(label).unwrap_or_else(|_| PathBuf::from(label))
}

/// The role of a drive, as a word.
const fn role_word(role: &DriveRole) -> &'static str {
    match role {
        DriveRole::Member { .. } => "member",
        DriveRole::Copy { .. } => "copy",
        DriveRole::Stale { .. } | DriveRole::Replaced { .. } => "stale",
        DriveRole::Foreign { .. } => "foreign",
        DriveRole::OtherVersion { .. } => "other-version",
        DriveRole::Unknown => "unknown",
        DriveRole::Blank => "blank",
        DriveRole::Unreadable(_) => "unreadable",
    }
}
