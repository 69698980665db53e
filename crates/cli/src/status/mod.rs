//! What an array is and how it is: one description, whether a server tells it or the superblocks.

mod inactive;
mod render;
pub(crate) mod served;

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{IndexPages, Memory};
use zoneweave_zoned::{ZoneInfo, ZoneState};

use crate::error::Exit;
use crate::progress::Job;

pub(crate) use inactive::{describe_drives, inactive_status};
pub(crate) use render::render;
pub(crate) use served::served_status;

/// How an array is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    /// Every member is online.
    Healthy,
    /// Members are missing or being rebuilt; nothing is lost.
    Degraded,
    /// Too many members are missing, or it is not certain that nobody else has the rest.
    Failed,
    /// Fewer drives were named than the array has, too few to tell.
    Unknown,
}

impl Health {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Degraded => "DEGRADED",
            Self::Failed => "FAILED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// An array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ArrayStatus {
    pub name: String,
    pub array: String,
    pub scheme: String,
    pub health: Health,
    pub why: Option<String>,
    pub action: Option<String>,
    pub epoch: u64,
    pub size_bytes: u64,
    pub chunk_bytes: u64,
    pub group_rows: u32,
    pub mode: String,
    /// What only a running server knows.
    pub server: Option<ServerStatus>,
    pub members: Vec<MemberStatus>,
    /// Drives that were given or offered and are no members.
    pub others: Vec<OtherDrive>,
}

/// What only a running server knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerStatus {
    pub uptime_ns: u64,
    pub exports: Vec<String>,
    pub clients: u64,
    pub requests: u64,
    pub mapped_bytes: u64,
    pub volatile_cache: bool,
    /// How it writes.
    #[serde(default)]
    pub writing: WritingStatus,
    pub segments_total: u32,
    pub segments_free: u32,
    pub segments_leftover: u32,
    /// Memory that the volume takes.
    #[serde(default)]
    pub memory: Memory,
    /// What it can come to take.
    #[serde(default)]
    pub memory_at_most: Memory,
    /// Of an index that is to take less memory than it needs.
    #[serde(default)]
    pub index_pages: Option<IndexPages>,
    pub write_amplification: f64,
    pub amplification: Amplification,
    pub rebuild: Option<Job>,
    /// At the pace of the last half minute.
    pub rebuild_left_ns: Option<u64>,
    pub spares: Vec<SpareStatus>,
    pub scrub: Option<Job>,
    pub counters: Counters,
}

/// A drive that is or was kept ready, to take the place of one that is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpareStatus {
    pub drive: String,
    /// `waiting`, `rebuilding`, `rebuilt` or `given_up`.
    pub state: String,
    /// The slot that it was put into.
    pub slot: Option<u8>,
    /// Why it was given up.
    pub reason: Option<String>,
}

/// How a server writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WritingStatus {
    pub lanes: Vec<LaneStatus>,
    /// Why it is not as suits the drives best.
    pub fell_back: Vec<String>,
}

/// Segments that are filled at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneStatus {
    /// For `small` or `large` requests of users, or what is `moved`.
    pub requests: String,
    pub segments: u32,
    pub chunk_bytes: u64,
    pub group_rows: u32,
    /// `append`, `write` or `gathered`.
    pub command: String,
}

/// What happened since the server was started.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub user_blocks_written: u64,
    pub user_blocks_read: u64,
    pub relocated_blocks: u64,
    pub padding_blocks: u64,
    pub parity_blocks: u64,
    pub segments_reclaimed: u64,
    pub segments_abandoned: u64,
    /// Pages of the index read because somebody asked for them, and written to leave memory.
    #[serde(default)]
    pub index_pages_read: u64,
    #[serde(default)]
    pub index_pages_written: u64,
    pub degraded_reads: u64,
    /// Reads that were rebuilt because their drive was held up.
    pub reads_around: u64,
    /// Reads that were rebuilt, too, because their drive was late.
    pub reads_hedged: u64,
}

/// Blocks written for each block written by users, since the server was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Amplification {
    /// By users, moving and padding.
    pub data: f64,
    pub with_parity: f64,
    /// Room for each block of data, without what is open or kept free.
    pub room: f64,
    /// What theory says of `data` where all blocks are written alike.
    pub uniform: Option<f64>,
    pub classes: Vec<ClassStatus>,
}

/// A class of segments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClassStatus {
    /// What they hold: `users_short`, `users_long`, `moved_short` or `moved_long`.
    pub name: String,
    pub written_blocks: u64,
    pub padding_blocks: u64,
    /// Moved out of them.
    pub moved_blocks: u64,
    /// Data blocks of those that were freed.
    pub freed_blocks: u64,
    /// What users' writes would cost if all segments were like these.
    pub amplification: Option<f64>,
}

/// A slot of the array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberStatus {
    pub slot: u8,
    pub uuid: String,
    /// The file, where it is known.
    pub drive: Option<String>,
    /// `online`, `rebuilding`, `failed` or `missing`.
    pub state: String,
    pub reason: Option<String>,
    pub zones: Option<ZoneCounts>,
    /// The most often reset zone.
    pub resets_max: Option<u64>,
    pub io: Option<MemberIo>,
}

/// What a running server counted for a member.
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

/// A drive that is no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherDrive {
    pub drive: String,
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

impl ArrayStatus {
    /// What `--check` tells scripts.
    pub(crate) fn check(&self) -> Exit {
        let rebuilding = self.server.as_ref().is_some_and(|server| server.rebuild.is_some());
        match self.health {
            Health::Healthy => Exit::Done,
            Health::Degraded if rebuilding => Exit::DegradedRebuilding,
            Health::Degraded => Exit::Degraded,
            Health::Failed | Health::Unknown => Exit::ArrayFailed,
        }
    }
}
