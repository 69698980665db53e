//! What the writer of a stream does next: plain synchronous decisions.
//!
//! Queued blocks become a stripe when they fill one, or when nothing else of the stream is under way;
//! never by a timer. A group is left only when every stripe of it is done.

use crate::log::format::StreamKind;
use crate::log::geometry::{Row, SegmentGeometry};
use crate::log::index::SegmentSlot;
use crate::log::queue::PendingBlock;
use crate::log::segment::{Cursor, Phase};
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// Stripes of one segment that may be under way together under Zone Append.
const STRIPES_IN_FLIGHT: u32 = 64;

/// What a stream's writer does next.
pub(super) enum Step {
    /// Nothing, until something changes.
    Wait,
    /// Opens a segment.
    OpenSegment,
    /// Writes a stripe.
    Stripe(StripePlan),
    /// Makes the finished group durable and goes on to the next.
    EndGroup(SegmentSlot),
    /// Writes the index run of the finished span.
    EndSpan(SegmentSlot, u32),
    /// Fails everything queued: the volume takes no writes.
    FailQueue(&'static str),
}

/// A stripe to be written.
pub(super) struct StripePlan {
    /// The segment.
    pub slot: SegmentSlot,
    /// The stripe, counted through the segment.
    pub stripe: u32,
    /// The blocks, in order; what is missing to a stripe is padding.
    pub blocks: Vec<PendingBlock>,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
}

impl State {
    /// Decides what the writer of a stream does next.
    pub(super) fn next_step(&mut self, kind: StreamKind) -> Step {
        if let Some(reason) = self.stopped {
            let queued = !self.stream(kind).queue.is_empty();
            return if queued { Step::FailQueue(reason) } else { Step::Wait };
        }
        let Some(slot) = self.stream(kind).open else {
            let queued = !self.stream(kind).queue.is_empty();
            if !queued {
                return Step::Wait;
            }
            if self.membership_dirty && !mutant(Mutant::EvictionNotAwaited) {
                mark(Mark::SegmentWaitsForMembership);
                return Step::Wait;
            }
            if self.has_room(kind) {
                return Step::OpenSegment;
            }
            mark(Mark::UsersWaitForSegment);
            return self.no_room(kind).map_or(Step::Wait, Step::FailQueue);
        };
        let segment = &self.segments[slot];
        let cursor = segment.cursor.as_ref().expect("an open segment has a cursor");
        if cursor.next_row == cursor.group.end {
            let early = || !ends_span(&segment.geometry, cursor) && mutant(Mutant::GroupNotAwaited);
            let wait = segment.in_flight > 0 && !early();
            return if wait { Step::Wait } else { self.end_of_group(slot) };
        }
        let limit = if segment.table.is_some() { STRIPES_IN_FLIGHT } else { 1 };
        let (in_flight, row) = (segment.in_flight, cursor.next_row);
        let full = self.stripe_blocks();
        let stream = self.stream(kind);
        let (waiting, filling) = (stream.queue.len(), stream.filling);
        // A stripe that does not fill is closed at once, but not while others are under way:
        // what arrives meanwhile may fill it, and closing it would not be any faster.
        let ready = waiting >= full || (waiting > 0 && in_flight == 0 && !filling);
        if in_flight >= limit || !ready {
            return Step::Wait;
        }
        Step::Stripe(self.take_stripe(kind, slot, row))
    }

    fn end_of_group(&self, slot: SegmentSlot) -> Step {
        let segment = &self.segments[slot];
        let cursor = segment.cursor.as_ref().expect("an open segment has a cursor");
        if ends_span(&segment.geometry, cursor) {
            Step::EndSpan(slot, segment.geometry.span_of(Row(cursor.group.start)))
        } else {
            Step::EndGroup(slot)
        }
    }

    fn take_stripe(&mut self, kind: StreamKind, slot: SegmentSlot, row: u32) -> StripePlan {
        let full = self.stripe_blocks();
        let always = self.fua_always;
        let stream = self.stream(kind);
        let taken = stream.queue.len().min(full);
        mark_if(Mark::StripePadded, || taken < full);
        let blocks: Vec<_> = stream.queue.drain(..taken).collect();
        // While any durable write waits, stripes are durable: cheap, and never too little.
        let fua = always || stream.fua > 0;
        let oldest = blocks.iter().map(PendingBlock::oldest_sequence).min().unwrap_or(u64::MAX);
        let segment = &mut self.segments[slot];
        segment.in_flight += 1;
        // Whether or not the stripe comes to count: a crash may find it on media.
        segment.min_sequence = segment.min_sequence.min(oldest);
        if let Some(cursor) = &mut segment.cursor {
            cursor.next_row += 1;
        }
        StripePlan { slot, stripe: row, blocks, fua }
    }

    /// Goes on to the group after the current one; the segment is sealed if there is none.
    pub(super) fn advance_group(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        let geometry = segment.geometry;
        let Some(cursor) = &mut segment.cursor else { return };
        mark(Mark::GroupEnded);
        if cursor.group.end < geometry.rows() {
            cursor.group = geometry.group_of(Row(cursor.group.end));
            return;
        }
        segment.cursor = None;
        segment.phase = Phase::Sealed;
        segment.holds_active_zones = false;
        let (stream, zones) = (segment.stream, segment.zones.clone());
        assert!(self.stream(stream).open == Some(slot), "the sealed segment was the open one");
        self.stream(stream).open = None;
        for (member, zone) in self.members.iter_mut().zip(zones) {
            member.spoiled_in_row = 0;
            if zone.is_some() {
                member.active_zones -= 1;
            }
        }
    }
}

fn ends_span(geometry: &SegmentGeometry, cursor: &Cursor) -> bool {
    let span = geometry.span_of(Row(cursor.group.start));
    geometry.rows_of_span(span).end == cursor.group.end
}
