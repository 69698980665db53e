//! Eviction as the volume decides and applies it: `array::health` evicts a member for its failures.
//!
//! A member prevents progress if it has lost so many zones that the volume cannot be written with
//! the rest, or if segments are never filled because of it. Such a member is evicted if the others
//! can do without it; if it is needed, `reclaim/space` ends waits that would last for ever.
//!
//! Invariant: an evicted member leaves every open segment.

use std::rc::Rc;

use zoneweave_runtime::Nanos;

use crate::array::health::Members;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::scheme::{Column, ColumnSet};

/// Reason for evicting a member with too few zones.
const TOO_FEW_ZONES: &str = "too many zones of a drive have failed";

/// Segments in a row that are aborted because of a member before it is evicted: more than
/// occasional errors explain. Each was given up with all its contents.
const ABORTED_TO_FAIL: u32 = 8;

/// Segments in a row that are aborted because of a needed member: beyond that, writes would
/// continue for ever and wear out all zones.
const ABORTED_TO_STOP: u32 = 64;

/// Longest time between two of them, as occasional errors also abort a segment now and then.
const ABORTED_WITHIN: Nanos = Nanos::from_secs(600);

/// Reason for evicting a member because of which every segment is aborted.
const ABORTS_SEGMENTS: &str = "writes to a drive keep failing or are misplaced";

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
    fn abort_segment(&mut self, slot: SegmentSlot, column: Column, now: Nanos) -> bool {
        if self.segments[slot].is_open() {
            self.abandon(slot);
            let (segment, next) = (self.segments[slot].id, self.registry.next_segment);
            let member = &mut self.array.members[column.index()];
            assert!(segment < next, "segment {segment} is given up, and {next} is the next one");
            // Segments open at the same time may all fail for one reason, such as a controller
            // reset.
            if segment >= member.aborted_before {
                let recent = now.0 < member.last_aborted.0.saturating_add(ABORTED_WITHIN.0);
                member.aborted_in_row = if recent { member.aborted_in_row + 1 } else { 1 };
                member.last_aborted = now;
                member.aborted_before = next;
            }
        }
        let aborted = self.array.members[column.index()].aborted_in_row;
        if aborted >= ABORTED_TO_STOP {
            mark(Mark::StoppedBySpoiling);
            self.array.stopped.get_or_insert(StopReason::WritesKeepFailing);
        }
        if aborted < ABORTED_TO_FAIL || !self.array.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForSpoiling);
        self.fail_member(column, ABORTS_SEGMENTS)
    }

    /// Evicts a member. Returns whether it was in service before.
    pub(in crate::log) fn fail_member(&mut self, column: Column, reason: &str) -> bool {
        if !self.array.evict(column, reason) {
            return false;
        }
        let mut open = self.writes.open_segments();
        if open.len() > 1 && mutant(Mutant::OtherLanesKept) {
            open.truncate(1);
        }
        mark_if(Mark::FailedWithOpenSegment, || !open.is_empty());
        for slot in open {
            self.abandon(slot);
        }
        assert!(
            self.writes.open_segments().is_empty() || mutant(Mutant::OtherLanesKept),
            "{column} is evicted and remains in an open segment"
        );
        for (_, segment) in self.segments.iter_mut() {
            segment.zones[column.index()] = None;
            segment.damage.forget(column);
            segment.short = segment.short.without(ColumnSet::default().with(column));
        }
        if let Some(found) = self.registry.absent_at_start.get_mut(column.index()) {
            *found = 0;
        }
        self.writes.break_off(column);
        self.array.stop_if_too_few();
        true
    }
}

impl Core {
    /// Records that a zone of a member cannot be used any more.
    pub(in crate::log) fn record_lost_zone(self: &Rc<Self>, column: Column) {
        self.state.borrow_mut().array.members[column.index()].lost_zones += 1;
        self.fail_if_worn_out(column);
    }

    /// Evicts a member with too few zones left, if the others can do without it.
    pub(in crate::log) fn fail_if_worn_out(self: &Rc<Self>, column: Column) {
        let newly = self.state.borrow_mut().fail_if_worn_out(column);
        self.after_eviction(newly);
    }

    /// Gives up a segment because of a member, which is evicted if it prevents every segment from
    /// being filled.
    pub(in crate::log) fn abort_segment(self: &Rc<Self>, slot: SegmentSlot, column: Column) {
        let newly = self.state.borrow_mut().abort_segment(slot, column, self.handle.now());
        self.after_eviction(newly);
    }
}
