//! Drives that a rebuild reads, and that do not return what it needs.
//!
//! What a drive says of a block is evidence: if it says that it has lost one that no other drive
//! can stand in for, the block is lost, and the rebuild goes on. A drive that gives no answer may
//! have the block. It is asked again for a while. Then the unit is left as it is, the rebuild goes
//! on with the others, and its end names the drive.
//!
//! Invariant: the new drive is not evicted for a failure of another one.

use std::cell::Cell;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::Status;

use crate::array::error::RebuildError;
use crate::array::io::is_answer;
use crate::scheme::Column;

/// A drive that did not return a block which no other drive can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedSource {
    /// Its slot.
    pub(crate) slot: Column,
    /// How it failed the read.
    pub(crate) status: Status,
}

impl FailedSource {
    /// Whether another read may return the block: the drive has said nothing of it.
    #[must_use]
    pub(crate) fn may_answer(self) -> bool {
        !is_answer(self.status) && !self.status.is_of_zone_state()
    }
}

impl From<FailedSource> for RebuildError {
    fn from(FailedSource { slot, status }: FailedSource) -> Self {
        Self::SourceFailed { slot, status }
    }
}

/// A unit without its column, because of a drive that it is made from.
pub(crate) struct LeftOut<U> {
    pub(crate) unit: U,
    pub(crate) source: FailedSource,
}

/// The time for which drives have given no answer to a rebuild. It is one for all of its units: a
/// drive that has had its time is asked once for each further one.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Cell<Option<Nanos>>,
}

impl Silence {
    /// How long drives have given no answer; it begins now if they did until now.
    pub(super) fn lasts(&self, now: Nanos) -> Nanos {
        let begun = self.since.get().unwrap_or(now);
        self.since.set(Some(begun));
        now.since(begun)
    }

    /// What was asked for again has been answered.
    pub(crate) fn end(&self) {
        self.since.set(None);
    }
}
