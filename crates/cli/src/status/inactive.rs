//! The status of an array that is not served, from its superblocks. Nothing is started or written.

use zoneweave_raid::log::format::{ArrayUuid, SuperblockRecord};
use zoneweave_raid::log::{
    AssemblyError, DriveRole, DriveVerdict, MemberHealth, OpenError, Survey,
};
use zoneweave_zoned::BLOCK_BYTES;

use super::{ArrayStatus, Health, MemberStatus, OtherDrive, ShardStatus, ZoneCounts, losses_left};
use crate::format::{slots, word};
use crate::session::{Drives, NamedDrive};

/// The status of the array of the drives; `None` without one.
pub(crate) fn inactive_status(drives: &Drives, survey: &Survey) -> Option<ArrayStatus> {
    let record = survey.membership.as_ref()?;
    let config = &record.config;
    let members: Vec<_> = (0..record.members.len())
        .map(|slot| member(slot, record, survey, &drives.opened))
        .collect();
    let named = drives.opened.len() + drives.unopened.len();
    let (health, why, action) =
        few_named(named, survey, &members).unwrap_or_else(|| judge(record, survey, &members));
    let left = losses_left(config.scheme, &members);
    let status = ArrayStatus {
        losses_left: Some(left).filter(|_| health != Health::Unknown),
        name: config.name.clone(),
        array: config.array.to_string(),
        scheme: config.scheme.to_string(),
        shard: ShardStatus::of(config.shard),
        health,
        why,
        action,
        epoch: record.epoch,
        size_bytes: config.log().volume_blocks * BLOCK_BYTES as u64,
        chunk_bytes: u64::from(config.log().chunk_blocks) * BLOCK_BYTES as u64,
        group_rows: config.log().group_rows,
        mode: mode_word(config.log().tabled).to_owned(),
        server: None,
        members,
        others: describe_drives(drives, &survey.drives, config.array),
    };
    Some(status.with_drives_named())
}

/// The write command of chunks, as a word.
pub(super) fn mode_word(tabled: bool) -> &'static str {
    if tabled { "zone-append" } else { "zone-write" }
}

fn member(
    slot: usize,
    record: &SuperblockRecord,
    survey: &Survey,
    opened: &[NamedDrive],
) -> MemberStatus {
    let entry = &record.members[slot];
    let holds_slot = |verdict: &DriveVerdict| matches!(verdict.role, DriveRole::Member { slot: at, .. } if at.index() == slot);
    let place = survey.drives.iter().position(holds_slot);
    let drive = place.map(|at| &opened[at]);
    let damaged = place.map_or(0, |at| survey.drives[at].damaged_records);
    let zones = drive.and_then(|named| {
        let info = zoneweave_linux::Drive::inspect(named.drive.path()).ok()?;
        Some(info.zones)
    });
    MemberStatus {
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        uuid: entry.uuid.to_string(),
        drive: drive.map(|named| named.label.clone()),
        state: MemberHealth::of(entry.state, drive.is_some()),
        reason: (damaged > 0).then(|| format!("{damaged} damaged superblock records")),
        resets_max: zones.as_ref().map(|zones| zones.iter().map(|z| z.resets).max().unwrap_or(0)),
        zones: zones.map(|zones| ZoneCounts::of(&zones)),
        io: None,
    }
}

/// The verdict if too few drives were named, and the others may not be lost.
fn few_named(
    named: usize,
    survey: &Survey,
    members: &[MemberStatus],
) -> Option<(Health, Option<String>, Option<String>)> {
    let refusal = survey.refusal.as_ref().filter(|refusal| {
        matches!(
            refusal,
            OpenError::Array(AssemblyError::TooFewMembers { .. })
                | OpenError::Array(AssemblyError::NoQuorum { .. })
        )
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
    Some((Health::Unknown, Some(why), Some(action)))
}

fn judge(
    record: &SuperblockRecord,
    survey: &Survey,
    members: &[MemberStatus],
) -> (Health, Option<String>, Option<String>) {
    let bad: Vec<_> =
        members.iter().filter(|member| member.state != MemberHealth::Online).collect();
    let described: Vec<_> =
        bad.iter().map(|member| format!("slot {} {}", member.slot, member.state)).collect();
    if let Some(refusal) = &survey.refusal {
        let why = if described.is_empty() { None } else { Some(described.join(", ")) };
        return (
            Health::Failed,
            why.or(Some("it cannot start".to_owned())),
            Some(refusal.to_string()),
        );
    }
    if bad.is_empty() {
        return (Health::Healthy, None, None);
    }
    let slots_of = |states: &[MemberHealth]| -> Vec<u8> {
        let of_state = bad.iter().filter(|member| states.contains(&member.state));
        of_state.map(|member| member.slot).collect()
    };
    let (out, missing) = (
        slots_of(&[MemberHealth::Failed, MemberHealth::Missing]),
        slots_of(&[MemberHealth::Missing]),
    );
    let action = advice(&out, &missing, losses_left(record.config.scheme, members));
    (Health::Degraded, Some(described.join(", ")), Some(action))
}

/// Advice for slots out of service; `missing` are those not yet recorded as failed.
fn advice(out: &[u8], missing: &[u8], losses_left: usize) -> String {
    let Some(first) = missing.first().or(out.first()) else {
        return "serve the array: its rebuild resumes by itself".to_owned();
    };
    let them = if out.len() == 1 { "it" } else { "them" };
    // Only a start may record several as failed.
    let serve = if missing.len() > 1 { "serve the array without them and " } else { "" };
    let what = match losses_left {
        0 => {
            format!("bring {} back or {serve}replace {them} before another drive fails", slots(out))
        }
        _ => format!("{serve}replace {them}"),
    };
    format!("{what}: zoneweave array replace DRIVE... --slot {first} --with NEWDRIVE")
}

/// Describes every drive that is not a member of the array.
pub(crate) fn describe_drives(
    drives: &Drives,
    verdicts: &[DriveVerdict],
    array: ArrayUuid,
) -> Vec<OtherDrive> {
    let mut others: Vec<_> = verdicts.iter().filter_map(|verdict| other(verdict, array)).collect();
    others.extend(drives.unopened.iter().map(|unopened| OtherDrive {
        drive: unopened.label.clone(),
        role: "unopened".to_owned(),
        detail: unopened.error.to_string(),
    }));
    others
}

fn other(verdict: &DriveVerdict, ours: ArrayUuid) -> Option<OtherDrive> {
    let detail = match &verdict.role {
        DriveRole::Member { .. } => return None,
        DriveRole::Stale { slot } => format!(
            "was {slot} of this array and missed writes; to re-add it: zoneweave array replace \
             DRIVE... --slot {} --with {} --yes-destroy",
            slot.0,
            word(&verdict.label)
        ),
        DriveRole::Foreign { array } if *array == ours => format!(
            "has diverged from this array, which was started with --force without it; to re-add it: \
             zoneweave array replace DRIVE... --slot I --with {} --yes-destroy",
            word(&verdict.label)
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
    Some(OtherDrive { drive: verdict.label.clone(), role, detail })
}

/// The role of a drive, as a word.
const fn role_word(role: &DriveRole) -> &'static str {
    match role {
        DriveRole::Member { .. } => "member",
        DriveRole::Stale { .. } => "stale",
        DriveRole::Foreign { .. } => "foreign",
        DriveRole::OtherVersion { .. } => "other-version",
        DriveRole::Unknown => "unknown",
        DriveRole::Blank => "blank",
        DriveRole::Unreadable(_) => "unreadable",
    }
}
