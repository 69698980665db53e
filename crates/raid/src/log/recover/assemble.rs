//! Assembling the volume: the members that `array::assemble` finds, and the decisions in their
//! records.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::array::format::faults::Faults;
use crate::array::format::scrubs::Scrubs;
use crate::array::offered::OfferedDrive;
use crate::array::start::assemble::{
    Drive, DriveVerdict, assembled, check_numbers, name_other_version, newest_records,
    place_members, read_drives, readmit,
};
use crate::array::start::destroyed::refuse_destroyed;
use crate::array::start::history::{History, of_members};
use crate::array::start::quorum::{choose, too_few};
use crate::array::superblock_logs::SuperblockLog;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::PbaSpace;
use crate::log::engine::counters::Counters;
use crate::log::engine::limits::check_shape;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{AddressSpace, CheckpointPointer};
use crate::log::format::{
    Epoch, Generation, Lineage, MemberEntry, MemberState, RecordBody, SealRecord, SegmentId,
    Sequence, SuperblockRecord,
};
use crate::log::index::cache::{IndexLimit, Offload};
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::mapping::Mapping;
use crate::log::read::awaited_blocks::AwaitedBlocks;
use crate::log::reclaim::state::Reclaim;
use crate::log::recover::{OpenError, OpenOptions};
use crate::log::segment::dead::Deaths;
use crate::log::segment::narrow_list::NarrowList;
use crate::log::segment::registry::Registry;
use crate::log::segment::table::SegmentTable;
use crate::log::write::policy::lanes::PolicyError;
use crate::log::write::state::Writes;

/// The membership chosen, as a state without segments.
pub(super) struct Assembly {
    pub(in crate::log) state: State,
    pub(in crate::log) superblock: SuperblockLog,
    pub(in crate::log) verdicts: Vec<DriveVerdict>,
    /// The lineage to mint, if the start was forced.
    pub(in crate::log) forced: Option<Lineage>,
    /// The newest checkpoint, unless none are wanted.
    pub(in crate::log) checkpoint: Option<CheckpointPointer>,
}

/// Pages of the index that are prefetched at a time, where not all of them have to be in memory.
const PAGES_AT_A_TIME: u32 = 16;

pub(super) async fn assemble(
    offered: Vec<OfferedDrive>,
    options: &OpenOptions,
    failed: Option<PolicyError>,
) -> Result<Assembly, OpenError> {
    let (drives, mut verdicts) = read_drives(offered).await;
    let newest = newest_records(&drives);
    refuse_destroyed(&newest)?;
    let chosen = choose(&newest, options.force);
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
    /// The faults on record, if there ever were any.
    pub faults: Option<Faults>,
    /// The newest scrubs.
    pub scrubs: Scrubs,
}

/// Identifies the array of the drives, and checks whether it would start.
pub async fn survey(offered: Vec<OfferedDrive>) -> Survey {
    let (drives, mut verdicts) = read_drives(offered).await;
    let newest = newest_records(&drives);
    let refusal = refuse_destroyed(&newest).and_then(|()| choose(&newest, false)).err();
    let refusal = refusal.map(|error| name_other_version(error, &verdicts));
    let refusal: Option<OpenError> = refusal.map(OpenError::from);
    // Where the array would not start, the membership that force would choose is the most
    // informative.
    let Ok((chosen, _)) = choose(&newest, true) else {
        let (faults, scrubs) = (None, Scrubs::default());
        return Survey { drives: verdicts, membership: None, refusal, faults, scrubs };
    };
    let chosen = chosen.clone();
    let placed = place_members(&chosen, &drives, &newest, &mut verdicts);
    let found = placed.as_ref().map(|slots| History::of(&chosen, &drives, slots));
    let History { faults, scrubs } = found.unwrap_or_default();
    let refusal = refusal.or_else(|| match placed {
        Err(error) => Some(error.into()),
        Ok(slots) => {
            let options = OpenOptions::default();
            let start = Start { forced: None, options: &options, failed: None };
            finish(chosen.clone(), &drives, slots, verdicts.clone(), start).err()
        }
    });
    Survey { drives: verdicts, membership: Some(chosen), refusal, faults, scrubs }
}

/// Circumstances of a start.
struct Start<'a> {
    /// The lineage to mint, if it is forced.
    forced: Option<Lineage>,
    options: &'a OpenOptions,
    /// Why the policy that suits the drives was not used.
    failed: Option<PolicyError>,
}

fn finish(
    chosen: SuperblockRecord,
    drives: &[Option<Drive<RecordBody>>],
    slots: Vec<Option<usize>>,
    verdicts: Vec<DriveVerdict>,
    Start { forced, options, failed }: Start<'_>,
) -> Result<Assembly, OpenError> {
    let config = chosen.config.clone();
    let columns = config.scheme.columns();
    assert!(slots.len() == columns, "{} slots of {columns} columns", slots.len());
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
        return Err(too_few(&chosen, slots.iter().flatten().count()).into());
    }
    let ours: Vec<&Drive<RecordBody>> =
        slots.iter().flatten().filter_map(|at| drives[*at].as_ref()).collect();
    let records =
        || ours.iter().flat_map(|drive| drive.records.scan.records.iter().map(|(_, r)| r));
    let record_sequence = records().map(|r| r.record_sequence).max().unwrap_or(0);
    let sequence_ceiling = records().map(|r| r.sequence_ceiling).max().unwrap_or(Sequence::FIRST);
    let segment_ceiling = records().map(|r| r.segment_ceiling).max().unwrap_or(SegmentId::FIRST);
    let newest_epoch = records().map(|r| r.epoch).max().unwrap_or(Epoch::NONE);
    check_numbers(&[
        ("epoch", newest_epoch.0),
        ("record sequence", record_sequence),
        ("sequence ceiling", sequence_ceiling.0),
        ("segment ceiling", segment_ceiling.0),
    ])?;
    let Decisions { seals, dead, narrow } =
        decisions(of_members(&chosen, drives, &slots), &chosen.members);
    let checkpoint = newest_checkpoint(of_members(&chosen, drives, &slots), sequence_ceiling);
    let logs = slots.iter().map(|at| drives[(*at)?].as_ref()?.records.log()).collect();
    let shapes = || ours.iter().map(|drive| drive.offered.device.geometry());
    let chosen_policy = options.writes.choose(&config, shapes(), failed)?;
    let policy = &chosen_policy.policy;
    let streams = policy.streams(&config, policy.relocation_lanes(&config, shapes()));
    let space = AddressSpace::of(&config).with_page_entries(options.index_page_entries);
    assert!(streams.1.lanes().next().is_some(), "relocation has no segment");
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
    let hidden = |drive: &&Drive<RecordBody>| {
        !drive.records.scan.damaged.is_empty() || drive.records.scan.may_hide_newer()
    };
    let doubted = ours.iter().any(hidden);
    mark_if(Mark::CheckpointMayBeVoid, || doubted && checkpoint.is_some());
    let checkpoint = checkpoint.filter(|_| !doubted);
    // A void checkpoint pointer names generation 0.
    let counts = |pointer: &CheckpointPointer| pointer.root.generation > Generation::NONE;
    let checkpoint = checkpoint.filter(counts).filter(|_| checkpoints.is_on());
    let mut array = assembled(&chosen, drives, &slots, newest_epoch, forced.is_some());
    History::of(&chosen, drives, &slots).enter(&mut array);
    let state = State {
        registry: Registry::recovered(seals, dead, narrow, segment_ceiling),
        mapping: Mapping::new(&space, offload),
        reclaim: Reclaim::new(policy.window_segments(&config), config.log().volume_blocks),
        smallest: policy.smallest_shape(&config),
        writes: Writes::new(chosen_policy, streams, sequence_ceiling, segment_ceiling),
        geometry,
        space: PbaSpace::new(config.scheme, config.zone_capacity),
        segments: SegmentTable::new(config.segment_slots()),
        checkpoints,
        recovering: None,
        counters: Counters::default(),
        awaited: AwaitedBlocks::default(),
        losses_unmet: 0,
        restorations_put_off: 0,
        array,
    };
    let superblock = SuperblockLog::new(logs, record_sequence);
    Ok(Assembly { state, superblock, verdicts, forced, checkpoint })
}

fn newest_checkpoint<'a>(
    records: impl Iterator<Item = &'a SuperblockRecord>,
    sequence_ceiling: Sequence,
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
    narrow: NarrowList,
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
    let mut narrow = NarrowList::of_records(records.iter().copied());
    let dead = Deaths::of_records(records, members);
    narrow.leave_out(&dead);
    Decisions { seals, dead, narrow }
}
