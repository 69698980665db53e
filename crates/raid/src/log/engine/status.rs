//! What the volume tells about itself.

use crate::log::engine::counters::{Counters, Progress};
use serde::Serialize;

use crate::log::engine::core::Core;
use crate::log::engine::memory::{Memory, memory};
use crate::log::engine::state::State;
use crate::log::format::MemberState;
use crate::log::index::cache::IndexPages;
use crate::log::members::member::MemberErrors;
use crate::log::members::spares::SparesStatus;
use crate::log::reclaim::amplification::{Amplification, amplification};
use crate::log::segment::stripe_table::StripeTable;
use crate::log::segment::table::{Phase, Segment};
use crate::log::write::lane::LaneMode;
use crate::log::write::policy::lanes::LaneOptions;

/// The volume's health in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every member is online.
    Healthy,
    /// Members are missing, or being rebuilt; nothing is lost.
    Degraded,
    /// Writes have stopped; where too many members are missing some reads fail, too.
    Failed,
}

/// One member.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Its slot.
    pub slot: u8,
    /// Its identity.
    pub uuid: String,
    /// `online`, `rebuilding`, `failed` or `missing`.
    pub state: &'static str,
    /// Why it failed.
    pub reason: Option<String>,
    /// Zones free for new segments.
    pub free_zones: u64,
    /// Zones whose contents nobody accounts for.
    pub orphan_zones: u32,
    /// Zones that failed and are not used any more.
    pub lost_zones: u32,
    /// What went wrong with it.
    pub errors: MemberErrors,
    /// Nanoseconds since it last answered.
    pub seen_ns_ago: u64,
}

/// One segment: a zone of each member.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentStatus {
    /// Its number.
    pub segment: u64,
    /// `open`, `sealed`, `leftover` (waiting to be moved out) or `dead` (waiting to be reset).
    pub phase: &'static str,
    /// The zone of each slot; `None` where the slot has no part in it, or the drive was missing.
    pub zones: Vec<Option<u32>>,
    /// Blocks in it that are needed.
    pub valid_blocks: u64,
    /// Data blocks it has room for.
    pub data_blocks: u64,
    /// Rows in all: each is a chunk of every slot.
    pub rows: u32,
    /// Rows written, or being written.
    pub rows_started: u32,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Memory of its stripe table.
    pub stripe_table_bytes: u64,
    /// Whether its chunks are appended (Zone Append) or written in place (Zone Write).
    pub appended: bool,
}

/// Segments that users' requests of a size, or what is moved, go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStatus {
    /// `small`, `large`, `narrow` or `moved`.
    pub requests: &'static str,
    /// How many are filled at a time, of those that are moved to at least.
    pub segments: u32,
    /// Blocks of their chunks.
    pub chunk_blocks: u32,
    /// Rows of their groups.
    pub group_rows: u32,
    /// `append`, `write` or `gathered`: Zone Write of everything that waits.
    pub command: &'static str,
}

/// How a volume writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritingStatus {
    /// Where.
    pub lanes: Vec<LaneStatus>,
    /// Why it is not what suits the drives best; in the order in which it was given up.
    pub fell_back: Vec<String>,
}

/// The volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub array: String,
    /// Its scheme, such as `raid5 3+1`.
    pub scheme: String,
    /// Its health.
    pub health: Health,
    /// Why it is not healthy.
    pub why: Option<String>,
    /// What to do about it.
    pub action: Option<String>,
    /// The membership's version.
    pub epoch: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes that hold data of users.
    pub mapped_bytes: u64,
    /// Whether acknowledged writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
    /// How it writes.
    pub writing: WritingStatus,
    /// Segments in all.
    pub segments_total: u32,
    /// Segments free.
    pub segments_free: u32,
    /// Segments waiting to be moved out.
    pub segments_leftover: u32,
    /// Pages of the index that are on media only: they are being read since the start.
    pub absent_pages: u64,
    /// Memory of the stripe tables.
    pub stripe_table_bytes: u64,
    /// Memory that it takes, and for what.
    pub memory: Memory,
    /// What it can come to take, with the trimmed ranges that there are.
    pub memory_at_most: Memory,
    /// Of an index that is to take less memory than it needs.
    pub index_pages: Option<IndexPages>,
    /// Data blocks written for each block written by users, since the start.
    pub write_amplification: f64,
    /// The same in parts, and beside theory.
    pub amplification: Amplification,
    /// Rebuild progress, while one runs.
    pub rebuild: Option<Progress>,
    /// Drives that take the place of those that fail.
    pub spares: SparesStatus,
    /// Scrub progress, while one runs.
    pub scrub: Option<Progress>,
    /// What happened since the start.
    pub counters: Counters,
    /// The members.
    pub members: Vec<MemberStatus>,
}

/// Builds the status from the running engine.
#[must_use]
pub(in crate::log) fn volume_status(core: &Core) -> VolumeStatus {
    let now = core.handle.now();
    let state = core.state.borrow();
    let members = state.members.iter().enumerate().map(|(slot, member)| MemberStatus {
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        uuid: member.entry.uuid.to_string(),
        state: match (member.entry.state, &member.device) {
            (MemberState::Online, Some(_)) => "online",
            (MemberState::Rebuilding, Some(_)) => "rebuilding",
            (MemberState::Failed, _) => "failed",
            (_, None) => "missing",
        },
        reason: member.failure.clone(),
        free_zones: member.pool.len() as u64,
        orphan_zones: member.orphan_zones,
        lost_zones: member.lost_zones,
        errors: member.errors,
        seen_ns_ago: now.since(member.seen).0,
    });
    let members: Vec<_> = members.collect();
    let (health, why, action) = judge(core, &members);
    let leftover = state.segments.iter().filter(|(_, s)| s.phase == Phase::Leftover || s.damaged);
    let leftover = leftover.count();
    let mapped: u64 = state.segments.iter().map(|(_, segment)| segment.valid).sum::<u64>()
        - state.tombstones.len() as u64
        - state.pages_away();
    let counters = state.counters;
    let amplified = amplification(&state, mapped);
    VolumeStatus {
        name: state.config.name.clone(),
        array: state.config.array.to_string(),
        scheme: state.scheme().to_string(),
        health,
        why,
        action,
        epoch: state.epoch.number,
        size_bytes: state.config.volume_blocks * 4096,
        mapped_bytes: mapped * 4096,
        volatile_cache: state.volatile && !state.fua_always,
        writing: writing_status(&state),
        segments_total: crate::log::engine::limits::segment_slots(&state.config),
        segments_free: state.free_segments(),
        segments_leftover: u32::try_from(leftover).unwrap_or(u32::MAX),
        absent_pages: state.absent_pages(),
        stripe_table_bytes: state.segments.iter().map(|(_, s)| table_bytes(s)).sum(),
        memory: memory(core),
        memory_at_most: Memory::most(
            &state.config,
            &state.policy,
            state.offload.as_ref().map(|offload| offload.limit().asked),
            state.tombstones.len() as u64,
            leftover as u64,
        ),
        index_pages: state.index_pages(),
        write_amplification: amplified.data,
        amplification: amplified,
        rebuild: core.rebuild_progress.get(),
        spares: core.spares.borrow().status(),
        scrub: core.scrub_progress.get(),
        counters,
        members,
    }
}

fn writing_status(state: &State) -> WritingStatus {
    let lane = |(requests, segments, lane): (_, _, LaneOptions)| LaneStatus {
        requests,
        segments,
        chunk_blocks: lane.chunk_blocks,
        group_rows: lane.group_rows,
        command: match lane.mode {
            LaneMode::Append => "append",
            LaneMode::Write => "write",
            LaneMode::Gather => "gathered",
        },
    };
    let mut fell_back: Vec<_> = state.refused.iter().map(ToString::to_string).collect();
    fell_back.dedup();
    WritingStatus {
        lanes: state.policy.told(&state.config).into_iter().map(lane).collect(),
        fell_back,
    }
}

/// Every segment, in no particular order.
#[must_use]
pub(in crate::log) fn segment_statuses(core: &Core) -> Vec<SegmentStatus> {
    let state = core.state.borrow();
    let status = |segment: &Segment| SegmentStatus {
        segment: segment.id,
        phase: match segment.phase {
            Phase::Open => "open",
            Phase::Sealed => "sealed",
            Phase::Leftover => "leftover",
            Phase::Dead => "dead",
        },
        zones: segment.zones.iter().map(|zone| zone.map(|zone| zone.zone.0)).collect(),
        valid_blocks: segment.valid,
        data_blocks: segment.geometry.data_blocks(),
        rows: segment.geometry.rows(),
        rows_started: segment.cursor.as_ref().map_or(segment.geometry.rows(), |at| at.next_row),
        chunk_blocks: segment.geometry.chunk_blocks(),
        stripe_table_bytes: table_bytes(segment),
        appended: segment.table.is_some(),
    };
    state.segments.iter().map(|(_, segment)| status(segment)).collect()
}

fn table_bytes(segment: &Segment) -> u64 {
    segment.table.as_ref().map_or(0, StripeTable::bytes)
}

fn judge(core: &Core, members: &[MemberStatus]) -> (Health, Option<String>, Option<String>) {
    let state = core.state.borrow();
    let bad: Vec<_> = members.iter().filter(|member| member.state != "online").collect();
    let describe = |member: &&MemberStatus| match &member.reason {
        Some(reason) => format!("slot {} {}: {reason}", member.slot, member.state),
        None => format!("slot {} {}", member.slot, member.state),
    };
    let why = bad.iter().map(describe).collect::<Vec<_>>().join("; ");
    if let Some(reason) = state.stopped {
        let (why, action) = if bad.is_empty() {
            (reason.to_owned(), "replace the drive that errs, and restart")
        } else {
            let action = "bring back the missing drives and restart; do not create a new array";
            (format!("{reason} ({why})"), action)
        };
        return (Health::Failed, Some(why), Some(action.to_owned()));
    }
    let Some(first) = bad.first() else { return (Health::Healthy, None, None) };
    let action = if core.rebuild_progress.get().is_some() {
        "none: a rebuild is running; do not remove another drive".to_owned()
    } else {
        let which = match bad.len() {
            1 => "the drive".to_owned(),
            some => format!("the {some} drives, one after the other"),
        };
        format!(
            "replace {which}: zoneweave array replace DRIVE... --slot {} --with NEWDRIVE",
            first.slot
        )
    };
    (Health::Degraded, Some(why), Some(action))
}
