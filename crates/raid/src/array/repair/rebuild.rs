//! Rebuilds a replaced member while users are served: the driver. A volume rebuilds the units.
//!
//! Nothing is recorded while a rebuild runs: a restart continues with the units that lack a
//! complete column. The member is in service for good when no unit lacks it. A unit is left out for
//! a while if a drive that it is made from fails ([`source`](super::source)).

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::num::NonZeroU64;
use std::rc::Rc;

use serde::Serialize;
use zoneweave_runtime::{JoinHandle, Nanos};
use zoneweave_zoned::{BlockCount, Status, ZonedDevice};

use crate::array::error::RebuildError;
use crate::array::format::record::MemberState;
use crate::array::health::Members;
use crate::array::repair::source::{FailedSource, LeftOut, Silence};
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::scheme::Column;

/// Units rebuilt at a time: one zone alone does not saturate its drive.
const REBUILT_AT_A_TIME: usize = 2;

/// Longest sleep of a throttled rebuild before it checks whether it should end.
const THROTTLED_AT_A_TIME: Nanos = Nanos::from_millis(100);

/// Progress of a long job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Units done: segments of a log-structured volume.
    pub done: u64,
    /// Units in all, fixed when the job started.
    pub total: u64,
}

/// The rebuild, while one runs, and its limit.
#[derive(Debug, Default)]
pub(crate) struct RebuildState {
    /// Bytes that a rebuild may write per second.
    pub(crate) limit: Cell<Option<NonZeroU64>>,
    /// When the next batch is due.
    due: Cell<Nanos>,
    /// Progress, while a rebuild runs.
    pub(crate) progress: Cell<Option<Progress>>,
    /// How long drives that it reads have given no answer.
    pub(crate) silence: Silence,
}

/// A volume whose members can be rebuilt, unit by unit: by segments or logical zones.
pub(crate) trait RebuildUnits: ArrayVolume {
    /// A unit with a column on each member.
    type Unit: Copy + Ord + 'static;

    /// A unit that is being rebuilt, and a zone of the new drive for its column.
    type Claim;

    /// The rebuild and its limit.
    fn rebuild_state(&self) -> &RebuildState;

    /// Whether the volume is being closed, and background tasks shall end.
    fn is_closing(&self) -> bool;

    /// Units that lack the column, and are not about to vanish for good.
    fn lacking(&self, column: Column) -> Vec<Self::Unit>;

    /// Claims the next unit to rebuild and a zone for its column; `None` if none is ready. `beside`
    /// another one, it needs more resources of the drive.
    fn claim(&self, column: Column, lacking: &[Self::Unit], beside: bool) -> Option<Self::Claim>;

    /// Writes the column of a claimed unit, durably, and enters it; or gives the zone back. Returns
    /// the unit if a drive that it is made from has failed.
    fn rebuild_claimed(
        self: &Rc<Self>,
        column: Column,
        claim: Self::Claim,
    ) -> impl Future<Output = Option<LeftOut<Self::Unit>>> + use<Self>;

    /// Why no unit will ever be ready, although none is being rebuilt; `None` if waiting helps.
    fn waits_for_ever(&self) -> Option<StopReason>;

    /// A member is in service for good: others may be evicted now.
    fn member_entered_service(self: &Rc<Self>);
}

/// Continues a rebuild that a restart interrupted.
///
/// # Errors
/// A [`RebuildError`] with the reason.
pub(crate) async fn resume<V: RebuildUnits>(volume: &Rc<V>) -> Result<(), RebuildError> {
    let columns: Vec<_> = {
        let array = volume.array();
        let rebuilding = |column: &Column| {
            let member = &array.members[column.index()];
            member.entry.state == MemberState::Rebuilding && member.device.is_some()
        };
        array.scheme().iter().filter(rebuilding).collect()
    };
    let mut outcome = Ok(());
    for column in columns {
        mark(Mark::RebuildResumed);
        // A failed rebuild is no reason to leave the other members without redundancy.
        outcome = outcome.and(rebuild(volume, column).await);
    }
    outcome
}

/// Rebuilds every segment that lacks the column, then puts the member in service for good.
pub(crate) async fn rebuild<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
) -> Result<(), RebuildError> {
    let total = volume.lacking(column).len() as u64;
    let mut progress = Progress { done: 0, total };
    volume.rebuild_state().progress.set(Some(progress));
    volume.rebuild_state().silence.end();
    let result = rebuild_segments(volume, column, &mut progress).await;
    volume.rebuild_state().progress.set(None);
    result?;
    enter_service(volume, column).await
}

/// A member with its column in every segment is in service for good.
pub(crate) async fn enter_service<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
) -> Result<(), RebuildError> {
    {
        let mut array = volume.array_mut();
        let member = &mut array.members[column.index()];
        if member.entry.state != MemberState::Rebuilding {
            mark(Mark::RebuildGivenUp);
            return Err(RebuildError::DriveFailed(Status::DeviceGone));
        }
        mark(Mark::RebuildEnded);
        assert!(member.device.is_some(), "{column} enters service without a drive");
        member.entry.state = MemberState::Online;
        member.entry.since_epoch = UNRECORDED;
        array.membership_dirty = true;
    }
    volume.superblock().record_membership(volume).await;
    // The other members may now fail one more.
    volume.member_entered_service();
    volume.changed().open();
    volume.array().stopped.map_or(Ok(()), |reason| Err(RebuildError::Stopped(reason)))
}

async fn rebuild_segments<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
    progress: &mut Progress,
) -> Result<(), RebuildError> {
    let mut under_way = VecDeque::with_capacity(REBUILT_AT_A_TIME);
    let outcome = rebuild_all(volume, column, progress, &mut under_way).await;
    // No account includes their zones.
    for segment in under_way {
        segment.await;
    }
    outcome
}

async fn rebuild_all<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
    progress: &mut Progress,
    under_way: &mut VecDeque<JoinHandle<Option<LeftOut<V::Unit>>>>,
) -> Result<(), RebuildError> {
    let (mut left_out, mut failed) = (BTreeSet::new(), None);
    loop {
        check_going_on(&**volume, column)?;
        let mut left = volume.lacking(column);
        // Segments reclaimed meanwhile count as done; new ones have the column.
        progress.done = progress.done.max(progress.total.saturating_sub(left.len() as u64));
        assert!(progress.done <= progress.total, "more units rebuilt than there were");
        volume.rebuild_state().progress.set(Some(*progress));
        if left.is_empty() {
            return Ok(());
        }
        left.retain(|unit| !left_out.contains(unit));
        if let Some(source) = failed.filter(|_| left.is_empty() && under_way.is_empty()) {
            mark(Mark::RebuildSourceFailed);
            return Err(FailedSource::into(source));
        }
        while under_way.len() < REBUILT_AT_A_TIME
            && let Some(claim) = volume.claim(column, &left, !under_way.is_empty())
        {
            mark_if(Mark::RebuiltBeside, || !under_way.is_empty());
            let work = volume.rebuild_claimed(column, claim);
            under_way.push_back(volume.handle().spawn("rebuild of a segment", work));
        }
        assert!(under_way.len() <= REBUILT_AT_A_TIME, "{} units at a time", under_way.len());
        if let Some(first) = under_way.pop_front() {
            if let Some(LeftOut { unit, source }) = first.await {
                left_out.insert(unit);
                failed = Some(source);
            }
            continue;
        }
        // The remaining segments are being reclaimed, or wait for a zone that reclaiming frees.
        mark(Mark::RebuildWaits);
        if let Some(reason) = volume.waits_for_ever() {
            return Err(RebuildError::Stopped(reason));
        }
        volume.changed().wait().await;
    }
}

fn check_going_on<V: RebuildUnits>(volume: &V, column: Column) -> Result<(), RebuildError> {
    if volume.is_closing() {
        return Err(RebuildError::Stopped(StopReason::ShuttingDown));
    }
    let array = volume.array();
    if let Some(reason) = array.stopped {
        return Err(RebuildError::Stopped(reason));
    }
    match &array.members[column.index()].device {
        Some(_) => Ok(()),
        None => {
            mark(Mark::RebuildGivenUp);
            Err(RebuildError::DriveFailed(Status::DeviceGone))
        }
    }
}

/// Throttles a rebuild after it has written so much to a member's drive.
pub(crate) async fn throttle<V: RebuildUnits>(
    volume: &Rc<V>,
    column: Column,
    device: &Rc<dyn ZonedDevice>,
    written: BlockCount,
) {
    // Evicting the drive does not wait for a slow rebuild.
    throttle_while(volume, written, || volume.is_of_member(column, device)).await;
}

/// Throttles work of a rebuild after it has written so much to a drive, as long as it goes on.
pub(crate) async fn throttle_while<V: RebuildUnits>(
    volume: &Rc<V>,
    written: BlockCount,
    goes_on: impl Fn() -> bool,
) {
    let Some(limit) = volume.rebuild_state().limit.get() else { return };
    mark(Mark::RebuildThrottled);
    let bytes = written.data_bytes() as u128;
    let takes = bytes * 1_000_000_000 / u128::from(limit.get());
    let takes = Nanos(u64::try_from(takes).unwrap_or(u64::MAX));
    // Unused bandwidth is not saved up.
    let due = volume.rebuild_state().due.get().max(volume.handle().now()) + takes;
    volume.rebuild_state().due.set(due);
    sleep_until(volume, due, goes_on).await;
}

/// Sleeps, as long as work of a rebuild goes on. Closing the volume does not wait for that.
pub(super) async fn sleep_until<V: RebuildUnits>(
    volume: &Rc<V>,
    due: Nanos,
    goes_on: impl Fn() -> bool,
) {
    while goes_on() && !volume.is_closing() && volume.handle().now() < due {
        let slice = volume.handle().now() + THROTTLED_AT_A_TIME;
        volume.handle().sleep_until(due.min(slice)).await;
    }
}
