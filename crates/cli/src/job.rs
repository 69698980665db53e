//! Progress of a long job.

use serde::{Deserialize, Serialize};

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
