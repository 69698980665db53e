//! How far a long job is.

use serde::{Deserialize, Serialize};

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Segments, or what else it counts, done.
    pub done: u64,
    /// All of them.
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
