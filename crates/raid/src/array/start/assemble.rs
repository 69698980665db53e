//! Assembling the array: the members among the offered drives.
//!
//! `quorum` chooses the version of the membership that counts. Drives that this version does not
//! list as members in service are ignored.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Status, ZoneState, ZonedDevice};

use crate::array::error::AssemblyError;
use crate::array::format::bounds::START_LIMIT;
use crate::array::format::envelope::ArrayUuid;
use crate::array::format::numbers::Epoch;
use crate::array::format::record::{MemberState, SuperblockRecord, VolumeBody};
use crate::array::member::Member;
use crate::array::offered::OfferedDrive;
use crate::array::start::drive_records::{DriveRecords, read_records};
use crate::array::start::quorum::{Newest, is_same_history};
use crate::array::state::{Array, UNRECORDED, Version};
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::scheme::Column;

/// The role of an offered drive in the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveRole {
    /// A member that takes part.
    Member {
        /// Its slot, counted from zero.
        slot: Column,
        /// Whether it is still being rebuilt.
        rebuilding: bool,
    },
    /// The same member as another drive that was offered: one of them is a copy.
    Copy {
        /// The slot of the member.
        slot: Column,
    },
    /// The last member of a slot without one: it missed writes.
    Stale {
        /// The slot it had.
        slot: Column,
    },
    /// A former member of a slot that was given another drive since.
    Replaced {
        /// The slot it had.
        slot: Column,
    },
    /// A member of another array.
    Foreign {
        /// UUID of the other array.
        array: ArrayUuid,
    },
    /// A member of an array in another version of the format.
    OtherVersion {
        /// Version of the format that its records have.
        version: u16,
    },
    /// No superblock record, but written zones.
    Unknown,
    /// No superblock record, and no written zone.
    Blank,
    /// It could not be read.
    Unreadable(Status),
}

/// An offered drive and the role found for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveVerdict {
    /// Its path or name, for messages.
    pub label: String,
    /// Its role.
    pub role: DriveRole,
    /// Superblock blocks that did not decode.
    pub damaged_records: u64,
}

/// An offered drive with its records.
pub(crate) struct Drive<B> {
    pub(crate) offered: OfferedDrive,
    pub(crate) records: DriveRecords<B>,
}

/// Reads every drive's records and classifies each drive by itself.
pub(crate) async fn read_drives<B: VolumeBody>(
    offered: Vec<OfferedDrive>,
) -> (Vec<Option<Drive<B>>>, Vec<DriveVerdict>) {
    let mut drives = Vec::new();
    let mut verdicts = Vec::new();
    for offered in offered {
        let read = read_records(&*offered.device).await;
        let damaged = read.as_ref().map_or(0, |records| records.scan.damaged.len() as u64);
        let role = match &read {
            Err(status) => DriveRole::Unreadable(*status),
            Ok(records) => match records.newest() {
                Some(record) => DriveRole::Foreign { array: record.config.array },
                None if records.scan.zones.iter().all(|z| z.state == ZoneState::Empty) => {
                    DriveRole::Blank
                }
                None => match records.other_version {
                    Some(version) => DriveRole::OtherVersion { version },
                    None => DriveRole::Unknown,
                },
            },
        };
        verdicts.push(DriveVerdict {
            label: offered.label.clone(),
            role,
            damaged_records: damaged,
        });
        drives.push(read.ok().map(|records| Drive { offered, records }));
    }
    assert!(drives.len() == verdicts.len(), "a verdict for each drive");
    (drives, verdicts)
}

/// Where no array is found but drives carry one of another format version, that version is the
/// error to report.
pub(crate) fn name_other_version(error: AssemblyError, verdicts: &[DriveVerdict]) -> AssemblyError {
    let version = |verdict: &DriveVerdict| match verdict.role {
        DriveRole::OtherVersion { version } => Some(version),
        _ => None,
    };
    match verdicts.iter().find_map(version) {
        Some(version) if matches!(error, AssemblyError::NoArray) => {
            mark(Mark::OtherVersionRefused);
            AssemblyError::OtherVersion { version }
        }
        _ => error,
    }
}

pub(crate) fn newest_records<B: VolumeBody>(
    drives: &[Option<Drive<B>>],
) -> Vec<Option<Newest<'_, B>>> {
    drives.iter().map(|drive| newest_record(&drive.as_ref()?.records)).collect()
}

fn newest_record<B: VolumeBody>(records: &DriveRecords<B>) -> Option<Newest<'_, B>> {
    let record = records.newest()?;
    Some(Newest { record, may_hide_newer: records.scan.may_hide_newer() })
}

/// Which offered drive is in which slot.
pub(crate) fn place_members<B: VolumeBody>(
    chosen: &SuperblockRecord<B>,
    drives: &[Option<Drive<B>>],
    newest: &[Option<Newest<'_, B>>],
    verdicts: &mut [DriveVerdict],
) -> Result<Vec<Option<usize>>, AssemblyError> {
    let present: Vec<_> = newest.iter().flatten().copied().collect();
    let (count, judged) = (drives.len(), verdicts.len());
    assert!(newest.len() == count && judged == count, "{judged} verdicts for {count} drives");
    let mut slots: Vec<Option<usize>> = vec![None; chosen.members.len()];
    let mut duplicate = None;
    for (at, drive) in drives.iter().enumerate() {
        let Some(drive) = drive else { continue };
        let Some(own) = drive.records.newest() else {
            mark(Mark::DriveWithoutRecordsLeftOut);
            continue;
        };
        if !is_same_history(own, chosen, &present) {
            continue;
        }
        let slot = chosen.members.iter().position(|member| member.uuid == own.member);
        let standing = slot.map(|slot| chosen.members[slot].state);
        verdicts[at].role = match (slot, standing) {
            (Some(slot), Some(MemberState::Online | MemberState::Rebuilding)) => {
                let copy = DriveRole::Copy { slot: Column::of(slot) };
                if let Some(first) = slots[slot] {
                    mark(Mark::DuplicateRefused);
                    // After the last drive: the others get their roles too.
                    duplicate.get_or_insert_with(|| AssemblyError::Duplicate {
                        first: verdicts[first].label.clone(),
                        second: verdicts[at].label.clone(),
                    });
                    if !is_newer(own, drives[first].as_ref()) {
                        verdicts[at].role = copy;
                        continue;
                    }
                    verdicts[first].role = copy;
                }
                mark_if(Mark::LineageNotReached, || own.lineage != chosen.lineage);
                check_size(chosen, drive, &verdicts[at].label)?;
                slots[slot] = Some(at);
                let rebuilding = standing == Some(MemberState::Rebuilding);
                DriveRole::Member { slot: Column::of(slot), rebuilding }
            }
            _ if own.lineage != chosen.lineage => {
                mark(Mark::OtherLineageLeftOut);
                continue;
            }
            (None, _) => {
                mark(Mark::StaleMemberLeftOut);
                DriveRole::Replaced { slot: own.slot }
            }
            _ => {
                mark(Mark::StaleMemberLeftOut);
                DriveRole::Stale { slot: own.slot }
            }
        };
    }
    if let Some(duplicate) = duplicate {
        return Err(duplicate);
    }
    if slots.contains(&None) && mutant(Mutant::BlankDriveAdopted) {
        adopt_blanks(drives, &mut slots);
    }
    let mut placed = BTreeSet::new();
    let once = slots.iter().flatten().all(|at| placed.insert(*at));
    assert!(once, "a drive is in two slots: {slots:?}");
    Ok(slots)
}

/// Whether a record is newer than those of another drive, which says that it is the same member.
/// The array went on with the drive of the record then, and the other one is a copy from before.
fn is_newer<B: VolumeBody>(record: &SuperblockRecord<B>, other: Option<&Drive<B>>) -> bool {
    let others = other.and_then(|drive| drive.records.newest());
    others.is_some_and(|other| other.record_sequence < record.record_sequence)
}

/// Puts blank drives into empty slots; for [`Mutant::BlankDriveAdopted`].
fn adopt_blanks<B: VolumeBody>(drives: &[Option<Drive<B>>], slots: &mut [Option<usize>]) {
    let blank =
        |at: &usize| drives[*at].as_ref().is_some_and(|d| d.records.scan.records.is_empty());
    let mut blanks = (0..drives.len()).filter(blank);
    slots.iter_mut().filter(|slot| slot.is_none()).for_each(|slot| *slot = blanks.next());
}

/// Puts members that missed writes back in service; for [`Mutant::StaleMemberReadmitted`].
pub(crate) fn readmit<B: VolumeBody>(
    chosen: &mut SuperblockRecord<B>,
    newest: &[Option<Newest<'_, B>>],
) {
    for member in chosen.members.iter_mut().filter(|m| m.state == MemberState::Failed) {
        if newest.iter().flatten().any(|newest| newest.record.member == member.uuid) {
            member.state = MemberState::Online;
        }
    }
}

fn check_size<B: VolumeBody>(
    chosen: &SuperblockRecord<B>,
    drive: &Drive<B>,
    label: &str,
) -> Result<(), AssemblyError> {
    let geometry = drive.offered.device.geometry();
    let config = &chosen.config;
    if geometry.zones < config.zones || geometry.zone_capacity < config.zone_capacity {
        mark(Mark::ShrunkMemberRefused);
        return Err(AssemblyError::Shrunk {
            label: label.to_owned(),
            detail: format!(
                "{} zones of {} where {} of {} are needed",
                geometry.zones, geometry.zone_capacity, config.zones, config.zone_capacity
            ),
        });
    }
    if geometry.write_unit != config.write_unit {
        let (unit, found) = (config.write_unit, geometry.write_unit);
        return Err(AssemblyError::OtherUnit { unit, found });
    }
    Ok(())
}

/// Refuses numbers so high that counting on would reach [`NUMBER_LIMIT`]: the next start could not
/// read the records of this one.
///
/// [`NUMBER_LIMIT`]: crate::array::format::bounds::NUMBER_LIMIT
///
/// # Errors
/// The first such number.
pub(crate) fn check_numbers(numbers: &[(&'static str, u64)]) -> Result<(), AssemblyError> {
    match numbers.iter().find(|(_, number)| *number >= START_LIMIT) {
        Some((what, number)) => Err(AssemblyError::ImpossibleNumber { what, number: *number }),
        None => Ok(()),
    }
}

/// The array that the chosen record describes. A version that not every member carries, or that
/// lists members not here, is replaced by one of our own, above any epoch seen.
pub(crate) fn assembled<B: VolumeBody>(
    chosen: &SuperblockRecord<B>,
    drives: &[Option<Drive<B>>],
    slots: &[Option<usize>],
    newest_epoch: Epoch,
    forced: bool,
) -> Array {
    mark_if(Mark::EpochAboveAllSeen, || chosen.epoch != newest_epoch);
    assert!(chosen.epoch <= newest_epoch, "epoch {} above {newest_epoch}", chosen.epoch);
    let members = members(chosen, drives, slots);
    let is_recorded = chosen.epoch == newest_epoch
        && members.iter().all(|member| member.entry.since_epoch != UNRECORDED);
    let version = Version { epoch: newest_epoch, tag: chosen.epoch_tag, lineage: chosen.lineage };
    Array::assembled(chosen.config.clone(), members, version, is_recorded, forced)
}

fn members<B: VolumeBody>(
    chosen: &SuperblockRecord<B>,
    drives: &[Option<Drive<B>>],
    slots: &[Option<usize>],
) -> Vec<Member> {
    let (listed, placed) = (chosen.members.len(), slots.len());
    assert!(listed == placed, "{listed} members are listed, and {placed} placed");
    let entries = chosen.members.iter().zip(slots);
    let members = entries.map(|(entry, at)| {
        let device: Option<Rc<dyn ZonedDevice>> =
            at.and_then(|at| drives[at].as_ref()).map(|drive| drive.offered.device.clone());
        let mut member = Member::new(*entry, device);
        member.seen = Nanos::ZERO;
        if at.is_none() && entry.state != MemberState::Failed {
            mark(Mark::MissingMemberFailed);
            member.entry.state = MemberState::Failed;
            member.entry.since_epoch = UNRECORDED;
            member.failure = Some("was missing when the array was started".to_owned());
        }
        member
    });
    members.collect()
}
