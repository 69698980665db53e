//! Drives that a rebuild reads, and that do not return what it needs.
//!
//! What a drive says of a block is evidence: if it says that it has lost one that no other drive
//! can stand in for, the block is lost, and the rebuild goes on. A drive that gives no answer may
//! have the block. It is asked again for a while. Then the unit is left as it is, the rebuild goes
//! on with the others, and its end names the drive.
//!
//! Invariant: the new drive is not evicted for a failure of another one.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::error::RebuildError;
use crate::array::health::Members;
use crate::array::io::is_answer;
use crate::array::repair::rebuild::{RebuildUnits, sleep_until};
use crate::instrument::marks::{Mark, mark};
use crate::scheme::Column;

/// Time for which a drive without an answer is asked again: as long as it may be without a path
/// before it is lost.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// The first pause and the longest; the pauses grow with the time that has passed.
const WAIT_FIRST: Nanos = Nanos::from_millis(50);
const WAIT_MOST: Nanos = Nanos::from_secs(2);

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
        !is_answer(self.status)
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

/// The time for which a drive has given no answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    since: Option<Nanos>,
}

impl Silence {
    /// It has answered.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// Waits before a drive is asked again, for the rebuild of a member's `device`. Returns `false`
    /// once it has had its time, or if the rebuild is to end.
    pub(crate) async fn wait<V: RebuildUnits>(
        &mut self,
        volume: &Rc<V>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
    ) -> bool {
        let now = volume.handle().now();
        let waited = now.since(*self.since.get_or_insert(now));
        let goes_on = || volume.is_of_member(column, device) && volume.array().stopped.is_none();
        if waited >= PATIENCE || volume.is_closing() || !goes_on() {
            return false;
        }
        mark(Mark::RebuildSourceAwaited);
        let pause = waited.clamp(WAIT_FIRST, WAIT_MOST);
        assert!(pause < PATIENCE, "a pause of {pause}");
        sleep_until(volume, now + pause, goes_on).await;
        true
    }
}
