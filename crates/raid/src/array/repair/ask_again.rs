//! Waits for drives that give no answer about blocks that a rebuild needs.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::ZonedDevice;

use crate::array::health::Members;
use crate::array::repair::rebuild::{RebuildUnits, sleep_until};
use crate::instrument::marks::{Mark, mark};
use crate::scheme::Column;

/// Time for which a drive without an answer is asked again: as long as it may be without a path
/// before it is lost.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// The first pause and the longest; the pauses grow with the time that has passed.
const WAIT_FIRST: Nanos = Nanos::from_millis(50);
const WAIT_MOST: Nanos = Nanos::from_secs(2);

/// Waits before a drive is asked again, for the rebuild of a member's `device`. Returns `false`
/// once it has had its time, or if the rebuild is to end.
pub(crate) async fn wait_for_answer<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
) -> bool {
    let now = volume.handle().now();
    let waited = volume.rebuild_state().silence.lasts(now);
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
