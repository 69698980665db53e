//! The scrubs on record: with their times, as a volume has no clock of its own, and as status and
//! history show them.

use std::time::{Duration, SystemTime};

use futures_util::future::join;
use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{self, AdminError, ScrubResult, ScrubRun};
use zoneweave_raid::raizn;
use zoneweave_zoned::BLOCK_BYTES;

use crate::format::{bytes, span};

/// A scrub on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScrubEntry {
    /// Begin and end, in seconds since 1970.
    pub begun_s: u64,
    pub ended_s: Option<u64>,
    /// Whether it runs: one that does not, and has no end, was interrupted.
    pub is_running: bool,
    pub result: ScrubResult,
    pub blocks: u64,
    pub repaired: u64,
    pub lost: u64,
    pub parity_mismatches: u64,
}

impl ScrubEntry {
    /// The scrubs on record, the newest first; that may be running.
    pub(super) fn list(scrubs: &[ScrubRun], runs: bool) -> Vec<Self> {
        let newest = scrubs.iter().rev().enumerate();
        let entry = |(at, run): (usize, &ScrubRun)| Self {
            begun_s: run.begun_s,
            ended_s: (run.ended_s > 0).then_some(run.ended_s),
            is_running: runs && at == 0 && run.result == ScrubResult::Running,
            result: run.result,
            blocks: run.blocks,
            repaired: run.repaired,
            lost: run.lost,
            parity_mismatches: run.mismatches,
        };
        newest.map(entry).collect()
    }
}

/// A scrub on record.
pub(crate) fn scrub_line(scrub: &ScrubEntry) -> String {
    let time = |seconds| {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        humantime::format_rfc3339_seconds(time.unwrap_or(SystemTime::UNIX_EPOCH))
    };
    let result = match scrub.result {
        ScrubResult::Running if scrub.is_running => "runs",
        ScrubResult::Running => "INTERRUPTED",
        ScrubResult::Complete => "complete",
        ScrubResult::Incomplete => "INCOMPLETE",
        ScrubResult::Failed => "FAILED",
    };
    let size = |blocks: u64| bytes(blocks.saturating_mul(BLOCK_BYTES as u64));
    let found = scrub.ended_s.filter(|_| scrub.result != ScrubResult::Failed).map(|_| {
        let (verified, repaired) = (size(scrub.blocks), size(scrub.repaired));
        format!("{verified} verified, {repaired} repaired, {} lost", size(scrub.lost))
    });
    let mismatches = (scrub.parity_mismatches > 0)
        .then(|| format!("{} stripes do not match their parity", scrub.parity_mismatches));
    let parts = [
        Some(result.to_owned()),
        Some(format!("began {}", time(scrub.begun_s))),
        scrub.ended_s.map(|ended| format!("took {}", span_s(ended.saturating_sub(scrub.begun_s)))),
        found,
        mismatches,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn span_s(seconds: u64) -> String {
    span(seconds.saturating_mul(1_000_000_000))
}

/// A volume that records its scrubs.
pub(crate) trait Scrubs {
    /// The findings of a scrub.
    type Report;

    async fn scrub(&self) -> Result<Self::Report, AdminError>;

    async fn record_scrub(&self, run: ScrubRun) -> Result<(), AdminError>;

    /// The record of a scrub that began as `begun`, from its findings.
    fn ended(report: &Self::Report, begun: ScrubRun) -> ScrubRun;
}

impl Scrubs for log::Volume {
    type Report = log::ScrubReport;

    async fn scrub(&self) -> Result<log::ScrubReport, AdminError> {
        self.scrub().await
    }

    async fn record_scrub(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.record_scrub(run).await
    }

    fn ended(report: &log::ScrubReport, begun: ScrubRun) -> ScrubRun {
        ScrubRun {
            blocks: report.blocks,
            repaired: report.damaged.saturating_sub(report.unrepairable + report.left),
            lost: report.unrepairable + report.lost_before,
            mismatches: report.parity_mismatches,
            result: result_of(report.is_complete()),
            ..begun
        }
    }
}

impl Scrubs for raizn::Volume {
    type Report = raizn::ScrubReport;

    async fn scrub(&self) -> Result<raizn::ScrubReport, AdminError> {
        self.scrub().await
    }

    async fn record_scrub(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.record_scrub(run).await
    }

    fn ended(report: &raizn::ScrubReport, begun: ScrubRun) -> ScrubRun {
        ScrubRun {
            blocks: report.blocks,
            repaired: report.relocated,
            lost: report.unrepairable,
            mismatches: report.mismatches,
            result: result_of(report.is_complete()),
            ..begun
        }
    }
}

fn result_of(is_complete: bool) -> ScrubResult {
    if is_complete { ScrubResult::Complete } else { ScrubResult::Incomplete }
}

/// Scrubs a volume, and records that and what became of it. A scrub that cannot be recorded counts
/// all the same: writes of the volume have stopped then, or it closes.
pub(crate) async fn scrub_on_record<V: Scrubs>(volume: &V) -> Result<V::Report, AdminError> {
    let begun = ScrubRun::begin(seconds());
    // The scrub begins at once: a second one is refused from now on.
    let (_unrecorded, scrubbed) = join(volume.record_scrub(begun), volume.scrub()).await;
    let ended = match &scrubbed {
        Ok(report) => V::ended(report, begun),
        Err(_) => ScrubRun { result: ScrubResult::Failed, ..begun },
    };
    let _unrecorded = volume.record_scrub(ScrubRun { ended_s: seconds(), ..ended }).await;
    scrubbed
}

/// Seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
