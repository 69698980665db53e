//! The status of an array, in one form whether it comes from a server or from superblocks.

#[cfg(test)]
pub(crate) mod examples;
mod inactive;
mod judge;
mod latency;
mod lost;
mod render;
mod scrubs;
pub(crate) mod served;
pub(crate) mod shard;
pub(crate) mod states;
mod zoned;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{IndexPages, LaneMode, LaneRequests, MemberHealth, Memory};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_raid::shards::volume_blocks;
use zoneweave_zoned::{BLOCK_BYTES, ZoneInfo, ZoneState};

use crate::exit::Exit;
use crate::format::word;
use crate::job::{Job, JobStatus};

pub(crate) use inactive::{Unknown, describe_drives, inactive_status};
pub(crate) use latency::LatencyStatus;
pub(crate) use lost::{LostRange, LostRanges};
pub(crate) use render::{
    drive_names, job_line, job_text, job_unit, member_tone, open_jobs, render, render_volume, tone,
};
pub(crate) use scrubs::{ScrubEntry, scrub_line, scrub_on_record};
pub(crate) use served::served_status;
pub(crate) use shard::ShardStatus;
pub(crate) use states::SpareState;
pub(crate) use zoned::{
    LogicalZones, ZonedVolumeStatus, as_member, inactive_zoned_status, served_zoned_status,
};

/// Health of an array; worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    /// Every member is online.
    Healthy,
    /// A server is assembling it.
    Starting,
    /// Members are being rebuilt, and no other is missing.
    Rebuilding,
    /// Members are missing; nothing is lost.
    Degraded,
    /// Blocks could not be read, nor restored from other drives.
    Damaged,
    /// Too few drives were named, or their server does not tell.
    Unknown,
    /// Too many members are missing, or another host may have the rest.
    Failed,
}

impl Health {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Starting => "STARTING",
            Self::Rebuilding => "REBUILDING",
            Self::Degraded => "DEGRADED",
            Self::Damaged => "DAMAGED",
            Self::Failed => "FAILED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The exit of `status --check`.
    const fn check(self) -> Exit {
        match self {
            Self::Healthy => Exit::Done,
            Self::Starting => Exit::ArrayStarting,
            Self::Rebuilding => Exit::ArrayRebuilding,
            Self::Degraded => Exit::ArrayDegraded,
            Self::Damaged => Exit::ArrayDamaged,
            Self::Unknown => Exit::ArrayUnknown,
            Self::Failed => Exit::ArrayFailed,
        }
    }
}

/// An array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ArrayStatus {
    pub name: String,
    pub array: String,
    pub scheme: String,
    /// Its shard; absent for a volume of one array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardStatus>,
    pub health: Health,
    pub why: Option<String>,
    pub action: Option<String>,
    /// Number of further drives that may fail, whichever they are; `None` if too few were named.
    #[serde(default)]
    pub losses_left: Option<usize>,
    pub epoch: u64,
    pub size_bytes: u64,
    pub chunk_bytes: u64,
    pub group_rows: u32,
    pub mode: String,
    /// The logical zones of a zoned volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<LogicalZones>,
    /// Only while it is served.
    pub server: Option<ServerStatus>,
    /// Whether a server has the drives that does not answer.
    #[serde(default)]
    pub is_silent: bool,
    /// Whether another process has the drives, and no server of it answers this user.
    #[serde(default)]
    pub is_elsewhere: bool,
    /// Lost ranges of the volume since they were last cleared.
    #[serde(default)]
    pub lost: LostRanges,
    /// Ranges of the volume that were found unreadable until a drive is back that has them.
    #[serde(default)]
    pub awaited: LostRanges,
    /// The newest scrubs, the newest first.
    #[serde(default)]
    pub scrubs: Vec<ScrubEntry>,
    pub members: Vec<MemberStatus>,
    /// Drives given that are not members.
    pub others: Vec<OtherDrive>,
}

/// A volume: one array, or several shards.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum VolumeStatus {
    One(Box<ArrayStatus>),
    Sharded(ShardedStatus),
}

/// A sharded volume.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShardedStatus {
    pub name: String,
    /// Health of the worst shard.
    pub health: Health,
    pub size_bytes: u64,
    pub shards: Vec<ArrayStatus>,
    /// Shards without a known status.
    pub unknown: Vec<usize>,
}

impl VolumeStatus {
    /// A sharded volume of `of` shards; `known` has at least one.
    pub(crate) fn of_shards(of: usize, known: Vec<ArrayStatus>) -> Self {
        let is_known = |number: &usize| {
            known
                .iter()
                .filter_map(|status| status.shard)
                .any(|shard| usize::from(shard.number) == *number)
        };
        let unknown: Vec<_> = (0..of).filter(|number| !is_known(number)).collect();
        let worst = known.iter().map(|status| status.health).max().unwrap_or(Health::Unknown);
        let least = known.iter().map(|status| status.size_bytes).min().unwrap_or(0);
        let blocks = volume_blocks(least / BLOCK_BYTES as u64, of);
        Self::Sharded(ShardedStatus {
            name: known.first().map(|status| status.name.clone()).unwrap_or_default(),
            health: if unknown.is_empty() { worst } else { worst.max(Health::Unknown) },
            size_bytes: blocks * BLOCK_BYTES as u64,
            shards: known,
            unknown,
        })
    }

    /// The arrays.
    pub(crate) fn arrays(&self) -> &[ArrayStatus] {
        match self {
            Self::One(status) => std::slice::from_ref(status),
            Self::Sharded(sharded) => &sharded.shards,
        }
    }

    /// The exit of `status`, by the worst array. Without `--check` only a server that does not
    /// answer is an error.
    pub(crate) fn exit(&self, check: bool) -> Exit {
        let is_silent = self.arrays().iter().any(|status| status.is_silent);
        let health = match self {
            Self::One(status) => status.health,
            Self::Sharded(sharded) => sharded.health,
        };
        match (check, is_silent) {
            // A lost shard is certain, whatever another one does not tell.
            (true, true) if health == Health::Failed => Exit::ArrayFailed,
            (_, true) => Exit::Unreachable,
            (true, false) => health.check(),
            (false, false) => Exit::Done,
        }
    }
}

/// The status that only a running server knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerStatus {
    pub uptime_ns: u64,
    pub exports: Vec<String>,
    pub clients: u64,
    pub requests: u64,
    /// Users' requests to the volume, whichever front end took them.
    #[serde(default)]
    pub latencies: Vec<LatencyStatus>,
    pub volatile_cache: bool,
    /// Of a block volume.
    #[serde(flatten)]
    pub blocks: Option<BlockVolumeStatus>,
    /// Of a zoned volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zoned: Option<ZonedVolumeStatus>,
    pub rebuild: Option<Job>,
    /// At the rate of the last half minute.
    pub rebuild_left_ns: Option<u64>,
    /// Replacements that wait for another rebuild or a scrub to end.
    #[serde(default)]
    pub waiting: Vec<WaitingStatus>,
    /// Jobs that wait or run, then those that have ended, newest first.
    #[serde(default)]
    pub jobs: Vec<JobStatus>,
    pub spares: Vec<SpareStatus>,
    pub scrub: Option<Job>,
    /// When the next scheduled scrub begins, in seconds since 1970; it may be due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_scrub_s: Option<u64>,
}

/// The status of a served block volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BlockVolumeStatus {
    pub mapped_bytes: u64,
    /// Write commands and open segments.
    #[serde(default)]
    pub writing: WritingStatus,
    pub segments_total: u32,
    pub segments_free: u32,
    pub segments_leftover: u32,
    /// Memory of the volume now.
    #[serde(default)]
    pub memory: Memory,
    /// Maximum memory of the volume.
    #[serde(default)]
    pub memory_at_most: Memory,
    /// Index pages still to be read since the start. Blocks that they map are not counted yet.
    #[serde(default)]
    pub absent_pages: u64,
    /// Only with limited index memory.
    #[serde(default)]
    pub index_pages: Option<IndexPages>,
    pub write_amplification: f64,
    pub amplification: Amplification,
    pub counters: Counters,
}

/// A current or former hot spare.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpareStatus {
    pub drive: String,
    /// Absolute path: the server may have another working directory than the client.
    #[serde(default)]
    pub path: Option<PathBuf>,
    pub state: SpareState,
    /// The slot that it replaced.
    pub slot: Option<u8>,
    /// Why it was given up.
    pub reason: Option<String>,
}

impl SpareStatus {
    /// Its drive for messages.
    fn shown(&self) -> String {
        self.path.as_deref().map_or_else(|| self.drive.clone(), absolute_text)
    }
}

/// A drive that waits for its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WaitingStatus {
    pub slot: u8,
    pub drive: String,
    /// Whether it was in this slot before, and keeps what it has.
    #[serde(default)]
    pub returns: bool,
}

impl WaitingStatus {
    /// What it waits for, in words.
    fn text(&self) -> String {
        let waits = if self.returns { "returns to" } else { "waits to replace" };
        format!("{} {waits} slot {}", self.drive, self.slot)
    }
}

/// Write commands and open segments of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WritingStatus {
    pub lanes: Vec<LaneStatus>,
    /// Reasons for not using the best layout for the drives.
    pub fell_back: Vec<String>,
}

/// Open segments of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneStatus {
    /// Their writes: `small` or `large` requests, lone requests (`narrow`), or relocations
    /// (`moved`).
    pub requests: LaneRequests,
    pub segments: u32,
    pub chunk_bytes: u64,
    pub group_rows: u32,
    pub command: LaneMode,
}

/// Counters since the start of the server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub user_blocks_written: u64,
    pub user_blocks_read: u64,
    pub relocated_blocks: u64,
    pub padding_blocks: u64,
    pub parity_blocks: u64,
    pub segments_reclaimed: u64,
    pub segments_abandoned: u64,
    /// Index pages read on demand, and written to free memory.
    #[serde(default)]
    pub index_pages_read: u64,
    #[serde(default)]
    pub index_pages_written: u64,
    pub degraded_reads: u64,
    /// Reads reconstructed because their drive was busy.
    pub reads_around: u64,
    /// Reads also reconstructed because their drive was late.
    pub reads_hedged: u64,
}

/// Write amplification since the start of the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Amplification {
    /// Of user writes, relocation and padding.
    pub data: f64,
    pub with_parity: f64,
    /// Space per block of data, without open and reserved segments.
    pub room: f64,
    /// Theoretical `data` for uniformly random writes.
    pub uniform: Option<f64>,
    pub classes: Vec<ClassStatus>,
    /// Whether user writes outweigh the relocations of the start.
    #[serde(default)]
    pub settled: bool,
}

/// A class of segments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClassStatus {
    /// Contents: `users_short`, `users_long`, `moved_short` or `moved_long`.
    pub name: String,
    pub written_blocks: u64,
    pub padding_blocks: u64,
    /// Blocks relocated out of them.
    pub moved_blocks: u64,
    /// Data blocks of freed segments.
    pub freed_blocks: u64,
    /// Amplification if all segments were like these.
    pub amplification: Option<f64>,
}

/// A slot of the array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberStatus {
    pub slot: u8,
    pub uuid: String,
    /// The drive as it was named, if known.
    pub drive: Option<String>,
    /// Absolute path: the server may have another working directory than the client.
    #[serde(default)]
    pub path: Option<PathBuf>,
    pub state: MemberHealth,
    pub reason: Option<String>,
    /// Whether the header of its emulated drive's file was overwritten: it will not open again.
    #[serde(default)]
    pub header_lost: bool,
    pub zones: Option<ZoneCounts>,
    /// Resets of the most reset zone.
    pub resets_max: Option<u64>,
    pub io: Option<MemberIo>,
    /// Commands to the drive since the server opened it.
    #[serde(default)]
    pub latencies: Vec<LatencyStatus>,
    /// Segments that lack blocks on it although it is online, until they are written again.
    #[serde(default)]
    pub segments_lacking: u32,
    /// Segments of which blocks were missing on it when the server started.
    #[serde(default)]
    pub segments_absent_at_start: u32,
}

impl MemberStatus {
    /// Whether it holds every block of its column.
    fn is_whole(&self) -> bool {
        self.state == MemberHealth::Online && self.segments_lacking == 0 && !self.header_lost
    }

    /// Its drive for messages, if known.
    fn shown(&self) -> Option<String> {
        self.path.as_deref().map(absolute_text).or_else(|| self.drive.clone())
    }
}

/// The trouble with a drive whose header was overwritten while it was served.
pub(crate) const HEADER_LOST: &str =
    "the header of its file was overwritten, so that it will not open again";

/// Counters of a member, from a running server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemberIo {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub read_errors: u64,
    pub write_errors: u64,
    pub checksum_errors: u64,
    pub repaired_blocks: u64,
    pub unrepairable_blocks: u64,
    pub seen_ns_ago: u64,
    /// Usual latency of its smallest reads that were not answered at once; `None` before there were
    /// a few.
    #[serde(default)]
    pub read_latency_ns: Option<u64>,
}

/// Zones by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneCounts {
    pub full: u32,
    /// Open or closed.
    pub active: u32,
    pub empty: u32,
    pub read_only: u32,
    pub offline: u32,
}

/// A drive that is not a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherDrive {
    /// The drive as it was named.
    pub drive: String,
    /// Absolute path.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// `stale`, `foreign`, `unknown`, `blank`, `unreadable` or `unopened`.
    pub role: String,
    pub detail: String,
}

impl ZoneCounts {
    pub(crate) fn of(zones: &[ZoneInfo]) -> Self {
        let mut counts = Self::default();
        for info in zones {
            *match info.state {
                ZoneState::Empty => &mut counts.empty,
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
                    &mut counts.active
                }
                ZoneState::Full => &mut counts.full,
                ZoneState::ReadOnly => &mut counts.read_only,
                ZoneState::Offline => &mut counts.offline,
            } += 1;
        }
        counts
    }
}

/// A path for messages.
fn absolute_text(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    absolute.as_deref().unwrap_or(path).display().to_string()
}

/// Placeholder for the drives of an array in advice.
const DRIVES: &str = "DRIVE...";

/// Number of further drives of an array that may fail. One that will not open again is as lost.
fn losses_left(scheme: Scheme, members: &[MemberStatus]) -> usize {
    let is_lost =
        |member: &&MemberStatus| member.state != MemberHealth::Online || member.header_lost;
    let lost = members.iter().filter(is_lost);
    scheme.losses_left(lost.map(|member| Column(member.slot)).collect())
}

impl ArrayStatus {
    /// Its name, with its shard.
    pub(crate) fn full_name(&self) -> String {
        ShardStatus::name(&self.name, self.shard)
    }

    /// Replaces the placeholder in advice with drives of this array (one, if it is served), so that
    /// the operator of several arrays does not pick a drive of another. Paths are absolute, to be
    /// pasted anywhere.
    fn with_drives_named(mut self) -> Self {
        let in_service = self.members.iter().filter(|member| member.state == MemberHealth::Online);
        let paths = in_service.filter_map(MemberStatus::shown);
        let most = if self.server.is_some() { 1 } else { usize::MAX };
        let drives = paths.take(most).map(word).collect::<Vec<_>>().join(" ");
        if !drives.is_empty() {
            let texts = self.others.iter_mut().map(|other| &mut other.detail);
            for text in texts.chain(&mut self.action) {
                *text = text.replace(DRIVES, &drives);
            }
        }
        self
    }
}
