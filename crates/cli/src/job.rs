//! Long jobs of an array: rebuilds and scrubs.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::ScrubReport;
use zoneweave_zoned::BLOCK_BYTES;

/// Progress of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Units done, e.g. segments.
    pub done: u64,
    /// All units.
    pub total: u64,
}

impl From<zoneweave_raid::log::Progress> for Job {
    fn from(progress: zoneweave_raid::log::Progress) -> Self {
        Self { done: progress.done, total: progress.total }
    }
}

impl Job {
    /// Whole percents.
    pub(crate) fn percent(self) -> u64 {
        self.done.saturating_mul(100).checked_div(self.total).unwrap_or(100)
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobKind {
    /// Reads and verifies everything.
    Scrub,
    /// Rebuilds a slot after a restart, or onto a spare.
    Rebuild,
    /// Puts a new drive into a slot and rebuilds it.
    Replace,
    /// Puts a former drive back, and copies what it missed.
    Return,
}

impl JobKind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::Rebuild => "rebuild",
            Self::Replace => "replace",
            Self::Return => "return",
        }
    }
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobPhase {
    /// It waits for another job.
    Queued,
    Running,
    Paused,
    /// It pauses soon.
    Pausing,
    /// It stops soon.
    Stopping,
    Done,
    /// It ended without everything done; the outcome says why.
    Incomplete,
    Failed,
}

impl JobPhase {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Pausing => "pausing",
            Self::Stopping => "stopping",
            Self::Done => "done",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }

    /// Whether it is over.
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Incomplete | Self::Failed)
    }
}

impl From<zoneweave_raid::log::JobState> for JobPhase {
    fn from(state: zoneweave_raid::log::JobState) -> Self {
        match state {
            zoneweave_raid::log::JobState::Queued => Self::Queued,
            zoneweave_raid::log::JobState::Running => Self::Running,
            zoneweave_raid::log::JobState::Paused => Self::Paused,
            zoneweave_raid::log::JobState::Pausing => Self::Pausing,
            zoneweave_raid::log::JobState::Stopping => Self::Stopping,
        }
    }
}

/// A job of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobStatus {
    pub kind: JobKind,
    pub slot: Option<u8>,
    pub drive: Option<String>,
    pub phase: JobPhase,
    pub progress: Option<Job>,
    /// The result, or the error.
    pub outcome: Option<String>,
    /// Only of a job that has ended.
    pub ended_ns_ago: Option<u64>,
}

impl JobStatus {
    /// A job without details.
    pub(crate) const fn of(kind: JobKind, phase: JobPhase) -> Self {
        Self {
            kind,
            slot: None,
            drive: None,
            phase,
            progress: None,
            outcome: None,
            ended_ns_ago: None,
        }
    }
}

/// The result of a scrub, as servers send it and `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scrubbed {
    pub segments: u64,
    pub blocks: u64,
    pub damaged: u64,
    pub parity_mismatches: u64,
    pub unrepairable: u64,
    pub lost_before: u64,
    /// Damaged blocks that only a drive that is out of service can restore.
    #[serde(default)]
    pub left: u64,
    /// Slots whose drives were not read, as they were out of service.
    #[serde(default)]
    pub unread_slots: Vec<u8>,
    /// Whether it was stopped before its end.
    #[serde(default)]
    pub stopped: bool,
}

/// What a scrub found, on any kind of volume.
pub(crate) trait Findings {
    /// Slots that were not read, or not all of them.
    fn unread_slots(&self) -> &[u8];

    /// Blocks that were not read, for a reason other than damage.
    fn failed_reads(&self) -> u64;

    /// Damaged blocks that only a drive that is out of service can restore.
    fn awaiting(&self) -> u64 {
        0
    }

    /// Whether it was stopped before its end.
    fn stopped(&self) -> bool;

    /// The findings in a line, for the log.
    fn line(&self) -> String;

    /// Why it is incomplete, if it is.
    fn incomplete(&self) -> Option<String> {
        let slots = self.unread_slots();
        let unread = (!slots.is_empty())
            .then(|| format!("{} not read, for want of a drive", crate::format::slots(slots)));
        let failed = (self.failed_reads() > 0)
            .then(|| format!("{} blocks not read, as their reads failed", self.failed_reads()));
        let awaiting = (self.awaiting() > 0).then(|| {
            format!("{} blocks stay damaged until a drive is back that has them", self.awaiting())
        });
        let stopped = self.stopped().then(|| "it was stopped before its end".to_owned());
        let all: Vec<_> = [unread, failed, awaiting, stopped].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The outcome of the job.
    fn outcome(&self) -> String {
        let found = self.line();
        match self.incomplete() {
            Some(why) => format!("{found}; INCOMPLETE: {why}"),
            None => found,
        }
    }
}

impl Findings for Scrubbed {
    fn unread_slots(&self) -> &[u8] {
        &self.unread_slots
    }

    fn failed_reads(&self) -> u64 {
        0
    }

    fn awaiting(&self) -> u64 {
        self.left
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn line(&self) -> String {
        let (read, lost) = (blocks(self.blocks), self.unrepairable + self.lost_before);
        let restored = self.damaged.saturating_sub(self.left);
        match (restored, lost, self.parity_mismatches) {
            (0, 0, 0) if self.left > 0 => {
                format!("ended: {read} verified, {} damaged, none repaired", blocks(self.left))
            }
            (0, 0, 0) if self.incomplete().is_some() => {
                format!("ended: {read} verified, no damage in what was read")
            }
            (0, 0, 0) => format!("ended: {read} verified, no damage"),
            (restored, 0, 0) => format!("ended: {read} verified, {} repaired", blocks(restored)),
            (_, lost, mismatches) => format!(
                "ended: {read} verified, {} damaged, {} lost, {mismatches} stripes do not match \
                 their parity",
                blocks(self.damaged),
                blocks(lost)
            ),
        }
    }
}

/// The size of so many blocks.
pub(crate) fn blocks(count: u64) -> String {
    crate::format::bytes(count * BLOCK_BYTES as u64)
}

impl From<ScrubReport> for Scrubbed {
    fn from(report: ScrubReport) -> Self {
        Self {
            segments: report.segments,
            blocks: report.blocks,
            damaged: report.damaged,
            parity_mismatches: report.parity_mismatches,
            unrepairable: report.unrepairable,
            lost_before: report.lost_before,
            left: report.left,
            unread_slots: report.unread.iter().map(|column| column.0).collect(),
            stopped: report.stopped,
        }
    }
}
