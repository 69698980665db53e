//! Health of members: failures are counted, and a member is evicted when its drive is gone, or when
//! writes, resets or a flush keep failing.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZonedDevice, ZonedDeviceExt};

use crate::array::member::FailuresBefore;
use crate::array::stop::StopReason;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::scheme::Column;

/// The members of the array under a volume.
pub(crate) trait Members: ArrayVolume {
    /// Records that a read failed; a drive that is gone is evicted.
    fn record_read_failure(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        status: Status,
    ) {
        if !self.is_of_member(column, device) {
            return;
        }
        self.array_mut().members[column.index()].errors.read += 1;
        self.errors_counted();
        if status.is_fatal() {
            mark(Mark::EvictedByRead);
            self.fail_member(column, status);
        }
    }

    /// Records the outcome of a write, reset or flush; repeated failure evicts the member.
    fn record_write(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        before: FailuresBefore,
        result: Result<(), Status>,
    ) {
        if !self.is_of_member(column, device) {
            return;
        }
        let failed = {
            let mut array = self.array_mut();
            let member = &mut array.members[column.index()];
            match result {
                Ok(()) => {
                    member.seen = self.handle().recent();
                    None
                }
                Err(status) => {
                    member.errors.write += 1;
                    // A zone fails once, however many writes to it are in flight.
                    let often = !status.is_of_zone_state()
                        && member.write_failures.note(before) >= WRITE_FAILURES_TO_FAIL;
                    mark_if(Mark::EvictedByWrite, || status.is_fatal());
                    mark_if(Mark::EvictedByFailuresInRow, || often && !status.is_fatal());
                    (status.is_fatal() || often).then_some(status)
                }
            }
        };
        if result.is_err() {
            self.errors_counted();
        }
        if let Some(status) = failed {
            self.fail_member(column, status);
        }
    }

    /// To be kept with a submitted command until its outcome is recorded.
    fn failures_before(&self, column: Column) -> FailuresBefore {
        self.array().members[column.index()].write_failures.before()
    }

    /// Records the outcome of a chunk write: a success ends a row of failures.
    fn record_chunk_write(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        before: FailuresBefore,
        result: Result<(), Status>,
    ) {
        if result.is_ok() && self.is_of_member(column, device) {
            self.array_mut().members[column.index()].write_failures.end_row();
        }
        self.record_write(column, device, before, result);
    }

    /// Evicts a member and starts making that durable.
    fn fail_member(self: &Rc<Self>, column: Column, status: Status) {
        let newly = self.evict(column, &status.to_string());
        assert!(
            !newly || self.array().members[column.index()].device.is_none(),
            "{column} is evicted and still has its drive"
        );
        self.after_eviction(newly);
    }

    /// Makes an eviction durable in a task of its own, if there was one (`newly`), and wakes tasks.
    fn after_eviction(self: &Rc<Self>, newly: bool) {
        // A drive that is lost before the first change is recorded with it.
        if newly && !self.array().defers_records {
            let volume = self.clone();
            self.handle().spawn("record failed member", async move {
                volume.superblock().record_membership(&volume).await;
            });
        }
        self.changed().open();
    }

    /// Records the outcome of a flush: a drive that fails one has lost writes, and is evicted.
    fn record_flush(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        result: Result<(), Status>,
    ) {
        if let Err(status) = result
            && !mutant(Mutant::FailedFlushIgnored)
            && self.is_of_member(column, device)
        {
            mark(Mark::EvictedByFlush);
            self.array_mut().members[column.index()].errors.write += 1;
            self.errors_counted();
            self.fail_member(column, status);
        }
    }

    /// The drive in a slot, unless it is missing or has failed.
    #[must_use]
    fn device(&self, column: Column) -> Option<Rc<dyn ZonedDevice>> {
        self.array().members[column.index()].device.clone()
    }

    /// Whether a drive still is a member's, by the handle of this membership. A late answer of a
    /// drive that was replaced, or of an earlier membership of the same drive, says nothing about
    /// the present one.
    fn is_of_member(&self, column: Column, device: &Rc<dyn ZonedDevice>) -> bool {
        let array = self.array();
        let current = array.members[column.index()].device.as_ref();
        let same = current.is_some_and(|current| Rc::ptr_eq(current, device));
        mark_if(Mark::LateAnswer, || !same && current.is_some());
        same
    }

    /// Makes everything completed so far durable on every member. Members that fail to flush are
    /// evicted, durably, first.
    ///
    /// # Errors
    /// If too few members are left.
    async fn flush_members(self: &Rc<Self>) -> Result<(), StopReason> {
        self.flush_caches().await;
        // A failed flush has evicted its member; the flush counts once that is durable.
        self.membership_settled().await;
        let array = self.array();
        assert!(
            !array.membership_dirty
                || array.stopped.is_some()
                || mutant(Mutant::EvictionNotAwaited),
            "a flush counts before epoch {} is on media",
            array.version.epoch
        );
        array.stopped.map_or(Ok(()), Err)
    }

    /// Flushes every member's cache; members that fail are evicted, which is not durable yet.
    async fn flush_caches(self: &Rc<Self>) {
        let (members, volatile) = {
            let array = self.array();
            (array.writable_members(), array.volatile)
        };
        if volatile {
            mark(Mark::DrivesFlushed);
            let flushes = members.iter().map(|(column, device)| {
                let flush = device.flush();
                async move { self.record_flush(*column, device, flush.await) }
            });
            futures_util::future::join_all(flushes).await;
        }
    }

    /// Waits until every change of membership is on media.
    async fn membership_settled(&self) {
        while self.array().membership_dirty && self.array().stopped.is_none() {
            if mutant(Mutant::EvictionNotAwaited) {
                return;
            }
            mark(Mark::WaitedForMembership);
            self.changed().wait().await;
        }
    }
}

impl<V: ArrayVolume> Members for V {}

/// Failed writes in a row after which a member is taken out of service.
const WRITE_FAILURES_TO_FAIL: u32 = 3;
