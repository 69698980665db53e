//! Assembling the array: the members among the offered drives, and the contents of their records.
//!
//! `quorum` chooses the version of the membership that counts. Drives that this version does not
//! list as members in service are ignored.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Status, ZoneState, ZonedDevice};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::PbaSpace;
use crate::log::engine::counters::Counters;
use crate::log::engine::limits::{LimitError, check_shape, segment_slots};
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{AddressSpace, CheckpointPointer};
use crate::log::format::{
    ArrayUuid, MemberEntry, MemberState, RecordBody, SealRecord, SegmentId, SuperblockRecord,
};
use crate::log::index::cache::{IndexLimit, Offload};
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::mapping::Mapping;
use crate::log::members::array::{Array, Epoch, UNRECORDED};
use crate::log::members::member::Member;
use crate::log::members::offered::OfferedDrive;
use crate::log::members::superblock::cursor::SuperblockLog;
use crate::log::reclaim::state::Reclaim;
use crate::log::recover::quorum::{Newest, choose, follows, too_few};
use crate::log::recover::records::{DriveRecords, read_records};
use crate::log::recover::{OpenError, OpenOptions};
use crate::log::segment::dead::Deaths;
use crate::log::segment::narrow_list::Roster;
use crate::log::segment::registry::Registry;
use crate::log::segment::table::SegmentTable;
use crate::log::write::policy::lanes::PolicyError;
use crate::log::write::state::Writes;
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
    /// A former member that missed writes.
    Stale {
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

/// The membership chosen, as a state without segments.
pub(super) struct Assembly {
    pub(in crate::log) state: State,
    pub(in crate::log) superblock: SuperblockLog,
    pub(in crate::log) verdicts: Vec<DriveVerdict>,
    /// The lineage to mint, if the start was forced.
    pub(in crate::log) forced: Option<u64>,
    /// The newest checkpoint, unless none are wanted.
    pub(in crate::log) checkpoint: Option<CheckpointPointer>,
}

/// Pages of the index that are prefetched at a time, where not all of them have to be in memory.
const PAGES_AT_A_TIME: u32 = 16;

struct Drive {
    offered: OfferedDrive,
    records: DriveRecords,
}

pub(super) async fn assemble(
    offered: Vec<OfferedDrive>,
    options: &OpenOptions,
    failed: Option<PolicyError>,
) -> Result<Assembly, OpenError> {
    let (drives, mut verdicts) = look(offered).await;
    let newest = newest_records(&drives);
    let chosen = choose(&newest, options);
    let (chosen, forced) = chosen.map_err(|error| name_other_version(error, &verdicts))?;
    let mut chosen = chosen.clone();
    let evicted = chosen.members.iter().any(|member| member.state == MemberState::Failed);
    if evicted && mutant(Mutant::StaleMemberReadmitted) {
        readmit(&mut chosen, &newest);
    }
    let members = place_members(&chosen, &drives, &newest, &mut verdicts)?;
    let forced = forced.then_some(options.lineage);
    let start = Start { forced, options, failed };
    finish(chosen, &drives, members, verdicts, start)
}

/// Roles of drives, found without writing to them or starting anything.
#[derive(Debug)]
pub struct Survey {
    /// The role of each drive, in the order offered.
    pub drives: Vec<DriveVerdict>,
    /// The record whose membership counts; `None` if no drive carries one.
    pub membership: Option<SuperblockRecord>,
    /// Why the array would not start from these drives; `None` if it would.
    pub refusal: Option<OpenError>,
}

/// Identifies the array of the drives, and checks whether it would start.
pub async fn survey(offered: Vec<OfferedDrive>) -> Survey {
    let (drives, mut verdicts) = look(offered).await;
    let newest = newest_records(&drives);
    let refusal = choose(&newest, &OpenOptions::default()).err();
    let refusal = refusal.map(|error| name_other_version(error, &verdicts));
    // Where the array would not start, the membership that force would choose is the most
    // informative.
    let forced = OpenOptions { force: true, ..OpenOptions::default() };
    let Ok((chosen, _)) = choose(&newest, &forced) else {
        return Survey { drives: verdicts, membership: None, refusal };
    };
    let chosen = chosen.clone();
    let placed = place_members(&chosen, &drives, &newest, &mut verdicts);
    let refusal = refusal.or_else(|| match placed {
        Err(error) => Some(error),
        Ok(slots) => {
            let options = OpenOptions::default();
            let start = Start { forced: None, options: &options, failed: None };
            finish(chosen.clone(), &drives, slots, verdicts.clone(), start).err()
        }
    });
    Survey { drives: verdicts, membership: Some(chosen), refusal }
}

/// Reads every drive's records and classifies each drive by itself.
async fn look(offered: Vec<OfferedDrive>) -> (Vec<Option<Drive>>, Vec<DriveVerdict>) {
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
    (drives, verdicts)
}

/// Where no array is found but drives carry one of another format version, that version is the
/// error to report.
fn name_other_version(error: OpenError, verdicts: &[DriveVerdict]) -> OpenError {
    let version = |verdict: &DriveVerdict| match verdict.role {
        DriveRole::OtherVersion { version } => Some(version),
        _ => None,
    };
    match verdicts.iter().find_map(version) {
        Some(version) if matches!(error, OpenError::NoArray) => {
            mark(Mark::OtherVersionRefused);
            OpenError::OtherVersion { version }
        }
        _ => error,
    }
}

fn newest_records(drives: &[Option<Drive>]) -> Vec<Option<Newest<'_>>> {
    drives.iter().map(|drive| newest_record(&drive.as_ref()?.records)).collect()
}

fn newest_record(records: &DriveRecords) -> Option<Newest<'_>> {
    let record = records.newest()?;
    Some(Newest { record, may_hide_newer: records.scan.may_hide_newer() })
}

/// Which offered drive is in which slot.
fn place_members(
    chosen: &SuperblockRecord,
    drives: &[Option<Drive>],
    newest: &[Option<Newest<'_>>],
    verdicts: &mut [DriveVerdict],
) -> Result<Vec<Option<usize>>, OpenError> {
    let present: Vec<_> = newest.iter().flatten().copied().collect();
    let mut slots: Vec<Option<usize>> = vec![None; chosen.members.len()];
    for (at, drive) in drives.iter().enumerate() {
        let Some(drive) = drive else { continue };
        let Some(own) = drive.records.newest() else {
            mark(Mark::DriveWithoutRecordsLeftOut);
            continue;
        };
        if !follows(own, chosen, &present) {
            continue;
        }
        let slot = chosen.members.iter().position(|member| member.uuid == own.member);
        let standing = slot.map(|slot| chosen.members[slot].state);
        verdicts[at].role = match (slot, standing) {
            (Some(slot), Some(MemberState::Online | MemberState::Rebuilding)) => {
                if let Some(first) = slots[slot] {
                    mark(Mark::DuplicateRefused);
                    return Err(OpenError::Duplicate {
                        first: verdicts[first].label.clone(),
                        second: verdicts[at].label.clone(),
                    });
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
            _ => {
                mark(Mark::StaleMemberLeftOut);
                DriveRole::Stale { slot: own.slot }
            }
        };
    }
    if slots.contains(&None) && mutant(Mutant::BlankDriveAdopted) {
        adopt_blanks(drives, &mut slots);
    }
    Ok(slots)
}

/// Puts blank drives into empty slots; for [`Mutant::BlankDriveAdopted`].
fn adopt_blanks(drives: &[Option<Drive>], slots: &mut [Option<usize>]) {
    let blank =
        |at: &usize| drives[*at].as_ref().is_some_and(|d| d.records.scan.records.is_empty());
    let mut blanks = (0..drives.len()).filter(blank);
    slots.iter_mut().filter(|slot| slot.is_none()).for_each(|slot| *slot = blanks.next());
}

/// Puts members that missed writes back in service; for [`Mutant::StaleMemberReadmitted`].
fn readmit(chosen: &mut SuperblockRecord, newest: &[Option<Newest>]) {
    for member in chosen.members.iter_mut().filter(|m| m.state == MemberState::Failed) {
        if newest.iter().flatten().any(|newest| newest.record.member == member.uuid) {
            member.state = MemberState::Online;
        }
    }
}

fn check_size(chosen: &SuperblockRecord, drive: &Drive, label: &str) -> Result<(), OpenError> {
    let geometry = drive.offered.device.geometry();
    let config = &chosen.config;
    if geometry.zones < config.zones || geometry.zone_capacity < config.zone_capacity {
        mark(Mark::ShrunkMemberRefused);
        return Err(OpenError::Shrunk {
            label: label.to_owned(),
            detail: format!(
                "{} zones of {} where {} of {} are needed",
                geometry.zones, geometry.zone_capacity, config.zones, config.zone_capacity
            ),
        });
    }
    if geometry.write_unit != config.write_unit {
        return Err(
            LimitError::OtherUnit { unit: config.write_unit, found: geometry.write_unit }.into()
        );
    }
    Ok(())
}

/// Circumstances of a start.
struct Start<'a> {
    /// The lineage to mint, if it is forced.
    forced: Option<u64>,
    options: &'a OpenOptions,
    /// Why the policy that suits the drives was not used.
    failed: Option<PolicyError>,
}

fn finish(
    chosen: SuperblockRecord,
    drives: &[Option<Drive>],
    slots: Vec<Option<usize>>,
    verdicts: Vec<DriveVerdict>,
    Start { forced, options, failed }: Start<'_>,
) -> Result<Assembly, OpenError> {
    let config = chosen.config.clone();
    let (geometry, _) = check_shape(
        config.scheme,
        config.write_unit,
        config.zone_capacity,
        config.zones,
        config.log().chunk_blocks,
        config.log().group_rows,
    )?;
    let missing = config.scheme.iter().filter(|column| slots[column.index()].is_none()).collect();
    if !config.scheme.survives(missing) {
        return Err(too_few(&chosen, slots.iter().flatten().count()));
    }
    let ours: Vec<&Drive> = slots.iter().flatten().filter_map(|at| drives[*at].as_ref()).collect();
    let records =
        || ours.iter().flat_map(|drive| drive.records.scan.records.iter().map(|(_, r)| r));
    let record_sequence = records().map(|r| r.record_sequence).max().unwrap_or(0);
    let sequence_ceiling = records().map(|r| r.sequence_ceiling).max().unwrap_or(1);
    let segment_ceiling = records().map(|r| r.segment_ceiling).max().unwrap_or(SegmentId::FIRST);
    let newest_epoch = records().map(|r| r.epoch).max().unwrap_or(0);
    let Decisions { seals, dead, roster } = decisions(records(), &chosen.members);
    let checkpoint = newest_checkpoint(records(), sequence_ceiling);
    let logs = slots.iter().map(|at| drives[(*at)?].as_ref()?.records.log()).collect();
    let shapes = || ours.iter().map(|drive| drive.offered.device.geometry());
    let chosen_policy = options.writes.choose(&config, shapes(), failed)?;
    let policy = &chosen_policy.policy;
    let streams = policy.streams(&config, policy.relocation_lanes(&config, shapes()));
    let space = AddressSpace::of(&config).with_page_entries(options.index_page_entries);
    let stripe = streams.1.lanes().next().map_or(1, |(_, lane)| lane.geometry.stripe_blocks());
    let limit = options
        .index_memory
        .map(|bytes| IndexLimit { bytes, page_entries: options.index_page_entries });
    let offload = limit.and_then(|limit| Offload::within(limit, &space, stripe as u64));
    // Pages that may leave memory need not be loaded before users are served.
    let on_demand = offload.as_ref().and(NonZeroU32::new(PAGES_AT_A_TIME));
    let checkpoints = Checkpoints::new(
        space,
        options.checkpoint_share,
        options.index_on_demand.or(on_demand),
        sequence_ceiling,
    );
    // An unreadable record may be the one that voids the checkpoint.
    let hidden = |drive: &&Drive| {
        !drive.records.scan.damaged.is_empty() || drive.records.scan.may_hide_newer()
    };
    let doubted = ours.iter().any(hidden);
    mark_if(Mark::CheckpointMayBeVoid, || doubted && checkpoint.is_some());
    let checkpoint = checkpoint.filter(|_| !doubted);
    // A void checkpoint pointer names generation 0.
    let counts = |pointer: &CheckpointPointer| pointer.root.generation > 0;
    let checkpoint = checkpoint.filter(counts).filter(|_| checkpoints.is_on());
    let state = State {
        registry: Registry::recovered(seals, dead, roster, segment_ceiling),
        mapping: Mapping::new(&space, offload),
        reclaim: Reclaim::new(policy.window_segments(&config), config.log().volume_blocks),
        smallest: policy.smallest_shape(&config),
        writes: Writes::new(chosen_policy, streams, sequence_ceiling, segment_ceiling),
        geometry,
        space: PbaSpace::new(config.scheme, config.zone_capacity),
        segments: SegmentTable::new(segment_slots(&config)),
        checkpoints,
        recovering: None,
        counters: Counters::default(),
        array: assembled(&chosen, drives, &slots, newest_epoch, forced.is_some()),
    };
    let superblock = SuperblockLog::new(logs, record_sequence);
    Ok(Assembly { state, superblock, verdicts, forced, checkpoint })
}

/// The array that the chosen record describes. A version that not every member carries, or that
/// lists members not here, is replaced by one of our own, above any epoch seen.
fn assembled(
    chosen: &SuperblockRecord,
    drives: &[Option<Drive>],
    slots: &[Option<usize>],
    newest_epoch: u64,
    forced: bool,
) -> Array {
    mark_if(Mark::EpochAboveAllSeen, || chosen.epoch != newest_epoch);
    let members = members(chosen, drives, slots);
    let is_recorded = chosen.epoch == newest_epoch
        && members.iter().all(|member| member.entry.since_epoch != UNRECORDED);
    let epoch = Epoch { number: newest_epoch, tag: chosen.epoch_tag, lineage: chosen.lineage };
    Array::assembled(chosen.config.clone(), members, epoch, is_recorded, forced)
}

fn newest_checkpoint<'a>(
    records: impl Iterator<Item = &'a SuperblockRecord>,
    sequence_ceiling: u64,
) -> Option<CheckpointPointer> {
    let pointers = records.filter_map(|record| match &record.body {
        RecordBody::Checkpoint(pointer) => Some(*pointer),
        _ => None,
    });
    let genuine = |pointer: &CheckpointPointer| pointer.number < sequence_ceiling;
    pointers.filter(genuine).max_by_key(|pointer| pointer.number)
}

/// Decisions about segments that superblock records hold.
struct Decisions {
    seals: BTreeMap<SegmentId, SealRecord>,
    dead: Deaths,
    roster: Roster,
}

fn decisions<'a>(
    records: impl Iterator<Item = &'a SuperblockRecord>,
    members: &[MemberEntry],
) -> Decisions {
    let mut seals: BTreeMap<SegmentId, SealRecord> = BTreeMap::new();
    // A segment that recovery fills is first sealed as empty, so the newest seal counts.
    let mut records: Vec<_> = records.collect();
    records.sort_by_key(|record| record.record_sequence);
    for record in &records {
        if let RecordBody::Seals(some) = &record.body {
            seals.extend(some.iter().map(|seal| (seal.segment, seal.clone())));
        }
    }
    let mut roster = Roster::of_records(records.iter().copied());
    let dead = Deaths::of_records(records, members);
    roster.leave_out(&dead);
    Decisions { seals, dead, roster }
}

fn members(
    chosen: &SuperblockRecord,
    drives: &[Option<Drive>],
    slots: &[Option<usize>],
) -> Vec<Member> {
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
