//! The status report of the volume.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::LostStatus;
use crate::array::format::scrubs::ScrubRun;
use crate::array::repair::rebuild::Progress;
use crate::array::repair::scrub::JobState;
use crate::array::repair::spares::SparesStatus;
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::log::engine::core::Core;
use crate::log::engine::counters::Counters;
use crate::log::engine::memory::{Memory, memory};
use crate::log::engine::state::State;
use crate::log::format::{Epoch, MemberState, SegmentId};
use crate::log::index::cache::IndexPages;
use crate::log::reclaim::amplification::{Amplification, amplification};
use crate::log::segment::lane::{LaneMode, LaneRequests};
use crate::log::segment::stripe_table::StripeTable;
use crate::log::segment::table::{Phase, Segment};
use crate::log::write::policy::lanes::LaneOptions;

/// The volume's health, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every member is online.
    Healthy,
    /// Members are missing, or being rebuilt; nothing is lost.
    Degraded,
    /// Writes have stopped; if too many members are missing, some reads fail as well.
    Failed,
}

/// Whether a member serves, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberHealth {
    /// It holds every chunk of its column.
    Online,
    /// It takes new chunks; older ones are being rebuilt.
    Rebuilding,
    /// It was evicted: its contents are invalid.
    Failed,
    /// It was not evicted, but its drive is absent.
    Missing,
}

impl MemberHealth {
    /// The health of a member by its recorded state and the presence of its drive.
    #[must_use]
    pub fn of(recorded: MemberState, is_present: bool) -> Self {
        match recorded {
            MemberState::Failed => Self::Failed,
            MemberState::Online | MemberState::Rebuilding if !is_present => Self::Missing,
            MemberState::Online => Self::Online,
            MemberState::Rebuilding => Self::Rebuilding,
        }
    }

    /// Whether it takes writes.
    #[must_use]
    pub fn is_in_service(self) -> bool {
        matches!(self, Self::Online | Self::Rebuilding)
    }
}

impl fmt::Display for MemberHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Status of a member.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Slot of the member, from zero.
    pub slot: u8,
    /// UUID of the member, in hexadecimal.
    pub uuid: String,
    /// Whether it serves.
    pub state: MemberHealth,
    /// Reason of its failure, as text.
    pub reason: Option<String>,
    /// Zones free for new segments.
    pub free_zones: u64,
    /// Written zones with unknown contents.
    pub orphan_zones: u32,
    /// Zones that failed and are no longer used.
    pub lost_zones: u32,
    /// Segments that lack blocks on it while it is online: these are missing or damaged, and
    /// are written again.
    pub segments_lacking: u32,
    /// Segments of which blocks were missing on it at the start although it was online: it is older
    /// than the array, or has lost zones.
    pub segments_absent_at_start: u32,
    /// Its errors since they were last cleared.
    pub errors: MemberErrors,
    /// Nanoseconds since its last answer.
    pub seen_ns_ago: u64,
    /// Usual latency of its smallest reads that were not answered at once, in ns.
    pub read_latency_ns: Option<u64>,
}

/// Status of a segment: a zone of each member.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentStatus {
    /// Number of the segment.
    pub segment: SegmentId,
    /// The phase of its life.
    pub phase: Phase,
    /// The zone of each slot; `None` if the segment is not on it, or the drive was missing.
    pub zones: Vec<Option<u32>>,
    /// Valid blocks in it.
    pub valid_blocks: u64,
    /// Capacity in data blocks.
    pub data_blocks: u64,
    /// Number of rows: each is a chunk of every slot.
    pub rows: u32,
    /// Rows written, or being written.
    pub rows_started: u32,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Memory of its stripe table, in bytes.
    pub stripe_table_bytes: u64,
    /// Whether its chunks are appended (Zone Append) or written in place (Zone Write).
    pub appended: bool,
}

/// Segments for one size of users' requests, or for relocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStatus {
    /// The writes that they take.
    pub requests: LaneRequests,
    /// Number open at a time; for relocation, the least number.
    pub segments: u32,
    /// Blocks of their chunks.
    pub chunk_blocks: u32,
    /// Rows of their groups.
    pub group_rows: u32,
    /// The command that writes their chunks.
    pub command: LaneMode,
}

/// How a volume is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritingStatus {
    /// The kinds of its segments.
    pub lanes: Vec<LaneStatus>,
    /// Why better policies for the drives do not fit, in the order in which they were tried.
    pub fell_back: Vec<String>,
}

/// Status of the volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeStatus {
    /// Name of the array.
    pub name: String,
    /// UUID of the array, in hexadecimal.
    pub array: String,
    /// Its scheme, such as `raid5 3+1`.
    pub scheme: String,
    /// Health in one word.
    pub health: Health,
    /// Number of further drives that may be lost, whichever they are.
    pub losses_left: usize,
    /// Whether segments that lack blocks on members can be written again now.
    pub relocates: bool,
    /// Why writes have stopped, as text.
    pub stopped: Option<&'static str>,
    /// Version of the membership.
    pub epoch: Epoch,
    /// Size of the volume in bytes.
    pub size_bytes: u64,
    /// Bytes with users' data.
    pub mapped_bytes: u64,
    /// Whether acknowledged writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
    /// Write policy and lanes.
    pub writing: WritingStatus,
    /// Number of segments.
    pub segments_total: u32,
    /// Number of free segments.
    pub segments_free: u32,
    /// Segments waiting for relocation.
    pub segments_leftover: u32,
    /// Pages of the index that are yet to be loaded since the start.
    pub absent_pages: u64,
    /// Memory of all stripe tables, in bytes.
    pub stripe_table_bytes: u64,
    /// Memory in use, by purpose.
    pub memory: Memory,
    /// Most memory that it may use, with the present number of trimmed ranges.
    pub memory_at_most: Memory,
    /// Pages of an index with a memory limit.
    pub index_pages: Option<IndexPages>,
    /// Data blocks written for each block written by users, since the start.
    pub write_amplification: f64,
    /// The same by class, with the theoretical value.
    pub amplification: Amplification,
    /// Rebuild progress, while one runs.
    pub rebuild: Option<Progress>,
    /// Spares and their use.
    pub spares: SparesStatus,
    /// Scrub progress, while one runs.
    pub scrub: Option<Progress>,
    /// State of the scrub, if there is one.
    pub scrub_state: Option<JobState>,
    /// Events since the start.
    pub counters: Counters,
    /// Status of each member.
    pub members: Vec<MemberStatus>,
    /// Lost ranges of the volume since they were last cleared.
    pub lost: Vec<LostStatus>,
    /// Whether ranges were joined, with blocks between them that are not lost.
    pub lost_joined: bool,
    /// Ranges of the volume that were found unreadable before a member returns, and not lost.
    pub awaited: Vec<LostStatus>,
    /// The newest scrubs on record, in the order of their begin.
    pub scrubs: Vec<ScrubRun>,
}

/// Builds the status from the running engine.
#[must_use]
pub(in crate::log) fn volume_status(core: &Core) -> VolumeStatus {
    let now = core.handle.now();
    let (state, unpublished) = (core.state.borrow(), core.is_unpublished());
    let lacking = state.lacking();
    let absent = &state.registry.absent_at_start;
    let members = state.array.members.iter().enumerate().map(|(slot, member)| MemberStatus {
        slot: u8::try_from(slot).unwrap_or(u8::MAX),
        uuid: member.entry.uuid.to_string(),
        state: match unpublished && member.entry.since_epoch == UNRECORDED {
            true => MemberHealth::Missing,
            false => MemberHealth::of(member.entry.state, member.device.is_some()),
        },
        reason: member.failure.clone(),
        free_zones: member.pool.len() as u64,
        orphan_zones: member.orphan_zones,
        lost_zones: member.lost_zones,
        segments_lacking: lacking.segments[slot],
        segments_absent_at_start: absent.get(slot).copied().unwrap_or(0),
        errors: member.errors,
        seen_ns_ago: now.since(member.seen).0,
        read_latency_ns: member.pace.usual_ns(&state.array.hedge.hedging),
    });
    let members: Vec<_> = members.collect();
    let health = match state.array.stopped {
        Some(_) => Health::Failed,
        None if members.iter().all(|member| member.state == MemberHealth::Online) => {
            Health::Healthy
        }
        None => Health::Degraded,
    };
    let leftover = state.segments.iter().filter(|(_, s)| s.is_to_go());
    let leftover = leftover.count();
    let valid: u64 = state.segments.iter().map(|(_, segment)| segment.valid()).sum();
    let (trims, pages) = (state.mapping.tombstones.len() as u64, state.mapping.pages_away());
    assert!(valid >= trims + pages, "{valid} valid blocks with {trims} tombstones, {pages} pages");
    let mapped = valid - trims - pages;
    let counters = state.counters;
    let amplified = amplification(&state, mapped);
    VolumeStatus {
        name: state.array.config.name.clone(),
        array: state.array.config.array.to_string(),
        scheme: state.array.scheme().to_string(),
        health,
        losses_left: lacking.losses_left,
        relocates: lacking.is_relocated && !unpublished,
        stopped: state.array.stopped.map(StopReason::text),
        epoch: state.array.version.epoch,
        size_bytes: state.array.config.log().volume_blocks * 4096,
        mapped_bytes: mapped * 4096,
        volatile_cache: state.array.volatile && !state.array.fua_always,
        writing: writing_status(&state),
        segments_total: state.array.config.segment_slots(),
        segments_free: state.free_segments(),
        segments_leftover: u32::try_from(leftover).unwrap_or(u32::MAX),
        absent_pages: state.mapping.absent_pages(),
        stripe_table_bytes: state.segments.iter().map(|(_, s)| table_bytes(s)).sum(),
        memory: memory(core),
        memory_at_most: Memory::most(
            &state.array.config,
            &state.writes.policy,
            state.mapping.offload.as_ref().map(|offload| offload.limit().asked),
            state.mapping.tombstones.len() as u64,
            leftover as u64,
        ),
        index_pages: state.mapping.index_pages(),
        write_amplification: amplified.data,
        amplification: amplified,
        rebuild: core.rebuild.progress.get(),
        spares: core.spares.borrow().status(),
        scrub: core.scrub.job().map(|(_, progress)| progress),
        scrub_state: core.scrub.job().map(|(state, _)| state),
        counters,
        members,
        lost: state.array.lost.lost.iter().copied().map(LostStatus::from).collect(),
        lost_joined: state.array.lost.joined,
        awaited: state.awaited_ranges(),
        scrubs: state.array.scrubs.0.clone(),
    }
}

fn writing_status(state: &State) -> WritingStatus {
    let lane = |(requests, segments, lane): (_, _, LaneOptions)| LaneStatus {
        requests,
        segments,
        chunk_blocks: lane.chunk_blocks,
        group_rows: lane.group_rows,
        command: lane.mode,
    };
    let mut fell_back: Vec<_> = state.writes.refused.iter().map(ToString::to_string).collect();
    fell_back.dedup();
    WritingStatus {
        lanes: state.writes.policy.told(&state.array.config).into_iter().map(lane).collect(),
        fell_back,
    }
}

/// Every segment, in no particular order.
#[must_use]
pub(in crate::log) fn segment_statuses(core: &Core) -> Vec<SegmentStatus> {
    let state = core.state.borrow();
    let status = |segment: &Segment| SegmentStatus {
        segment: segment.id,
        phase: segment.phase(),
        zones: segment.zones.iter().map(|zone| zone.map(|zone| zone.zone.0)).collect(),
        valid_blocks: segment.valid(),
        data_blocks: segment.geometry.data_blocks(),
        rows: segment.geometry.rows(),
        rows_started: segment.geometry.rows() - segment.rows_left(),
        chunk_blocks: segment.geometry.chunk_blocks(),
        stripe_table_bytes: table_bytes(segment),
        appended: segment.table.is_some(),
    };
    state.segments.iter().map(|(_, segment)| status(segment)).collect()
}

fn table_bytes(segment: &Segment) -> u64 {
    segment.table.as_ref().map_or(0, StripeTable::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::repair::spares::SpareState;

    /// JSON and messages have the same words.
    fn words<const N: usize>(states: [impl fmt::Display; N]) -> [String; N] {
        states.map(|state| state.to_string())
    }

    #[test]
    fn states_have_the_documented_words() {
        use MemberHealth::{Failed, Missing, Online, Rebuilding};
        let members = words([Online, Rebuilding, Failed, Missing]);
        assert_eq!(members, ["online", "rebuilding", "failed", "missing"]);
        let phases = words([Phase::Open, Phase::Sealed, Phase::Leftover, Phase::Dead]);
        assert_eq!(phases, ["open", "sealed", "leftover", "dead"]);
        let commands = words([LaneMode::Append, LaneMode::Write, LaneMode::Gather]);
        assert_eq!(commands, ["append", "write", "gathered"]);
        use LaneRequests::{Large, Moved, Narrow, Small};
        let requests = words([Small, Large, Narrow, Moved]);
        assert_eq!(requests, ["small", "large", "narrow", "moved"]);
        let spares = words([SpareState::Rebuilding, SpareState::Rebuilt, SpareState::GivenUp]);
        assert_eq!(spares, ["rebuilding", "rebuilt", "given_up"]);
    }
}
