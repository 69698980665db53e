//! Eviction: a member is taken out of service when its drive is gone, when writes, resets or a
//! flush keep failing, or when it prevents progress.
//!
//! `Core` counts the failures of I/O and evicts; `State` applies the eviction. A member prevents
//! progress if it has lost so many zones that the volume cannot be written with the rest, or if
//! segments are never filled because of it. Such a member is evicted if the others can do without
//! it; if it is needed, `reclaim/space` ends waits that would last for ever.
//!
//! Invariant: an evicted member leaves every open segment, and the membership is dirty until the
//! eviction is on media.

use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::member::FailuresBefore;
use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::MemberState;
use crate::log::segment::table::Phase;
use crate::scheme::Column;

/// Reason for evicting a member with too few zones.
const TOO_FEW_ZONES: &str = "too many zones of a drive have failed";

/// Segments in a row that a member may spoil before it is evicted: more than occasional errors
/// explain. Each was given up with all its contents.
const SPOILED_TO_FAIL: u32 = 8;

/// Segments in a row that a needed member may spoil: beyond that, writes would continue for ever
/// and wear out all zones.
const SPOILED_TO_STOP: u32 = 64;

/// Longest time between two of them, as occasional errors also spoil a segment now and then.
const SPOILED_WITHIN: Nanos = Nanos::from_secs(600);

/// Reason for evicting a member that spoils every segment.
const SPOILS_SEGMENTS: &str = "writes to a drive keep failing or are misplaced";

impl State {
    /// Evicts a member if it is worn out and the others can do without it. Returns whether it was
    /// evicted.
    pub(in crate::log) fn fail_if_worn_out(&mut self, column: Column) -> bool {
        let member = &self.array.members[column.index()];
        if !self.is_worn_out(member) || !self.array.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForZones);
        self.fail_member(column, TOO_FEW_ZONES)
    }

    /// Gives up a segment because of a member. If that member has prevented segments from being
    /// filled for long, evicts it if the others can do without it, or else stops writes. Returns
    /// whether it was evicted.
    fn spoil(&mut self, slot: SegmentSlot, column: Column, now: Nanos) -> bool {
        if self.segments[slot].phase == Phase::Open {
            self.abandon(slot);
            let (segment, next) = (self.segments[slot].id, self.registry.next_segment);
            let member = &mut self.array.members[column.index()];
            // Segments open at the same time may all fail for one reason, such as a controller
            // reset.
            if segment >= member.spoiled_before {
                let recent = now.0 < member.spoiled.0.saturating_add(SPOILED_WITHIN.0);
                member.spoiled_in_row = if recent { member.spoiled_in_row + 1 } else { 1 };
                member.spoiled = now;
                member.spoiled_before = next;
            }
        }
        let spoiled = self.array.members[column.index()].spoiled_in_row;
        if spoiled >= SPOILED_TO_STOP {
            mark(Mark::StoppedBySpoiling);
            self.array.stopped.get_or_insert(StopReason::WritesKeepFailing);
        }
        if spoiled < SPOILED_TO_FAIL || !self.array.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForSpoiling);
        self.fail_member(column, SPOILS_SEGMENTS)
    }

    /// Evicts a member. Returns whether it was in service before.
    pub(in crate::log) fn fail_member(&mut self, column: Column, reason: &str) -> bool {
        let member = &mut self.array.members[column.index()];
        if member.entry.state == MemberState::Failed {
            return false;
        }
        member.entry.state = MemberState::Failed;
        member.entry.since_epoch = UNRECORDED;
        member.device = None;
        member.failure = Some(reason.to_owned());
        member.pool = crate::array::zone_pool::ZonePool::default();
        member.active_zones = 0;
        self.array.membership_dirty = true;
        let mut open = self.writes.open_segments();
        if open.len() > 1 && mutant(Mutant::OtherLanesKept) {
            open.truncate(1);
        }
        mark_if(Mark::FailedWithOpenSegment, || !open.is_empty());
        for slot in open {
            self.abandon(slot);
        }
        for (_, segment) in self.segments.iter_mut() {
            segment.zones[column.index()] = None;
            if let Some(queue) = segment.queues.get_mut(column.index()) {
                self.writes.aborted.extend(queue.break_off());
            }
        }
        self.array.stop_if_too_few();
        true
    }
}

impl Core {
    pub(super) fn note_read_failure(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        status: Status,
    ) {
        if !self.is_of_member(column, device) {
            return;
        }
        self.state.borrow_mut().array.members[column.index()].errors.read += 1;
        if status.is_fatal() {
            mark(Mark::EvictedByRead);
            self.fail_member(column, status);
        }
    }

    /// Records the outcome of a write, reset or flush; repeated failure evicts the member.
    pub(in crate::log) fn note_write(
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
            let mut state = self.state.borrow_mut();
            let member = &mut state.array.members[column.index()];
            match result {
                Ok(()) => {
                    member.seen = self.handle.recent();
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
        if let Some(status) = failed {
            self.fail_member(column, status);
        }
    }

    /// To be kept with a submitted command until its outcome is recorded.
    pub(in crate::log) fn failures_before(&self, column: Column) -> FailuresBefore {
        self.state.borrow().array.members[column.index()].write_failures.before()
    }

    /// Records the outcome of a chunk write: a success ends a row of failures.
    pub(in crate::log) fn note_chunk(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        before: FailuresBefore,
        result: Result<(), Status>,
    ) {
        if result.is_ok() && self.is_of_member(column, device) {
            self.state.borrow_mut().array.members[column.index()].write_failures.end_row();
        }
        self.note_write(column, device, before, result);
    }

    /// Records that a zone of a member cannot be used any more.
    pub(in crate::log) fn note_lost_zone(self: &Rc<Self>, column: Column) {
        self.state.borrow_mut().array.members[column.index()].lost_zones += 1;
        self.fail_if_worn_out(column);
    }

    /// Evicts a member with too few zones left, if the others can do without it.
    pub(in crate::log) fn fail_if_worn_out(self: &Rc<Self>, column: Column) {
        let newly = self.state.borrow_mut().fail_if_worn_out(column);
        self.after_failure(newly);
    }

    /// Evicts a member and starts making that durable.
    pub(in crate::log) fn fail_member(self: &Rc<Self>, column: Column, status: Status) {
        let newly = self.state.borrow_mut().fail_member(column, &status.to_string());
        self.after_failure(newly);
    }

    /// Gives up a segment because of a member, which is evicted if it prevents every segment from
    /// being filled.
    pub(in crate::log) fn spoil(self: &Rc<Self>, slot: SegmentSlot, column: Column) {
        let newly = self.state.borrow_mut().spoil(slot, column, self.handle.now());
        self.after_failure(newly);
    }

    fn after_failure(self: &Rc<Self>, newly: bool) {
        if newly {
            let core = self.clone();
            self.handle.spawn("record failed member", async move {
                core.superblock.record_membership(&core).await;
            });
        }
        self.changed.open();
    }

    pub(in crate::log) fn note_flush(
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
            self.state.borrow_mut().array.members[column.index()].errors.write += 1;
            self.fail_member(column, status);
        }
    }
}

/// Failed writes in a row after which a member is taken out of service.
const WRITE_FAILURES_TO_FAIL: u32 = 3;
