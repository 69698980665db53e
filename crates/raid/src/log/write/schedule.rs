//! Decides the next step of a stream's writer, in synchronous code.
//!
//! A stripe is issued when the pending blocks fill it. A partial stripe is closed when its lanes
//! are idle, or after as many stripes went ahead of it as are in flight. There is no timer. Where
//! writes coalesce, tasks that have just been answered run before a partial stripe is closed, as
//! they may write more. A group is left only when all its stripes are complete.

use zoneweave_runtime::Nanos;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::PendingBlock;
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::{ChunkClass, Class};
use crate::log::engine::geometry::{Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::{Sequence, StreamKind};
use crate::log::segment::lane::{Lane, LaneId};
use crate::log::segment::table::{Cursor, SegmentTable};
use crate::log::write::plan::{LaneTask, STRIPES_IN_FLIGHT, Step, StripePlan};
use crate::log::write::state::Writes;

/// A stripe that can be issued.
#[derive(Clone, Copy)]
struct Ready {
    lane: LaneId,
    /// The queue that supplies its blocks.
    class: Class,
    /// It is partial and the next write of its zones would wait for it, or a larger lane may soon
    /// have a full stripe. A lone write loses nothing by being early.
    early: bool,
    /// It is a single write, with nothing else in flight.
    lone: bool,
}

impl Writes {
    fn begin_task(&mut self, kind: StreamKind, lane: LaneId, task: LaneTask) -> Step {
        let state = self.stream(kind).lane(lane);
        assert!(!state.busy, "lane {} of {kind:?} is prepared twice", lane.0);
        let open = match task {
            LaneTask::OpenSegment => None,
            LaneTask::EndGroup(slot) | LaneTask::EndSpan(slot, _) => Some(slot),
        };
        assert!(state.open == open, "lane {} of {kind:?} fills {:?}", lane.0, state.open);
        self.stream_mut(kind).lane_mut(lane).busy = true;
        Step::Run(lane, task)
    }

    /// Idle lanes with an open segment, in round-robin order.
    fn idle_lanes(&self, kind: StreamKind) -> impl Iterator<Item = (LaneId, SegmentSlot)> {
        let lanes = self.stream(kind).in_turn().filter(|(_, lane)| !lane.busy);
        lanes.filter_map(|(id, lane)| Some((id, lane.open?)))
    }
}

impl SegmentTable {
    fn end_of_group(&self, slot: SegmentSlot) -> Option<LaneTask> {
        let segment = &self[slot];
        let cursor = segment.life.cursor().expect("an open segment has a cursor");
        if cursor.has_rows() {
            return None;
        }
        let ends_span = ends_span(&segment.geometry, cursor);
        let early = || !ends_span && mutant(Mutant::GroupNotAwaited);
        let done = segment.in_flight() == 0 || early();
        done.then(|| match ends_span {
            true => LaneTask::EndSpan(slot, segment.geometry.span_of(Row(cursor.group.start))),
            false => LaneTask::EndGroup(slot),
        })
    }

    /// Orders segments by the expected completion of a stripe: idle segments written in place first
    /// (ZapRAID section 3.3), then segments with appends, then the others by stripes in flight.
    fn reluctance(&self, slot: SegmentSlot) -> (bool, u32) {
        let segment = &self[slot];
        let in_flight = segment.in_flight();
        if segment.table.is_some() { (true, 0) } else { (in_flight > 0, in_flight) }
    }
}

impl State {
    /// Decides the next step of a stream's writer.
    pub(super) fn next_step(&mut self, kind: StreamKind, now: Nanos) -> Step {
        if let Some(reason) = self.array.stopped {
            let queued = self.writes.stream(kind).queued() > 0;
            return if queued { Step::FailQueue(reason) } else { Step::Wait };
        }
        if kind == StreamKind::Relocation
            && let Some(slot) = self.unaffordable_lane()
        {
            mark(Mark::LaneGivenUp);
            self.abandon(slot);
        }
        if let Some((lane, task)) = self.finished_group(kind) {
            return self.writes.begin_task(kind, lane, task);
        }
        if self.must_yield(kind) {
            return Step::Wait;
        }
        if self.is_held_back(kind, now) {
            return Step::Wait;
        }
        if let Some(lane) = self.narrow_wanted(kind) {
            mark(Mark::NarrowOpened);
            return self.writes.begin_task(kind, lane, LaneTask::OpenSegment);
        }
        if let Some((lane, class)) = self.larger_wanted(kind) {
            mark(Mark::LargerOpened);
            self.writes.stream_mut(kind).lane_mut(lane).class = class;
            return self.writes.begin_task(kind, lane, LaneTask::OpenSegment);
        }
        match self.next_stripe(kind) {
            Some(ready) if ready.early && self.writes.stream(kind).returning.are_awaited() => {
                self.writes.stream_mut(kind).returning.record_yield();
                Step::Yield
            }
            Some(ready) => Step::Stripe(self.take_stripe(kind, ready, now)),
            None => self.segment_wanted(kind),
        }
    }

    /// Whether a stream is held back by write pacing. A stripe is in flight then, and its
    /// completion wakes the stream. The end of a group would not do, as that may take long.
    fn is_held_back(&mut self, kind: StreamKind, now: Nanos) -> bool {
        self.writes.drain.holds(now)
            && self.writes.idle_lanes(kind).any(|(_, slot)| self.segments[slot].in_flight() > 0)
    }

    /// A lane whose group is complete.
    fn finished_group(&self, kind: StreamKind) -> Option<(LaneId, LaneTask)> {
        self.writes
            .idle_lanes(kind)
            .find_map(|(lane, slot)| Some((lane, self.segments.end_of_group(slot)?)))
    }

    /// The next stripe: the one with the oldest block. While users may be about to fill early
    /// stripes, others go first.
    fn next_stripe(&self, kind: StreamKind) -> Option<Ready> {
        let stream = self.writes.stream(kind);
        let mut ready = stream.waiting().filter_map(|class| self.ready(kind, class));
        if stream.returning.are_awaited() {
            ready.min_by_key(|ready| ready.early)
        } else {
            ready.next()
        }
    }

    /// The lane that takes the next stripe of a class, if one does now.
    ///
    /// A partial stripe is closed at once unless others are in flight on its lanes: blocks that
    /// arrive meanwhile may fill it, and closing it earlier would not complete it earlier. With
    /// other classes on the same lanes, something may always be in flight. So it is also closed
    /// when as many stripes went ahead of it as are in flight. The stripes in flight at its arrival
    /// are complete by then, unless they are slower than later ones.
    ///
    /// No stripe depends on a pause of the others. A stripe that begins on the lanes of a class
    /// either takes the oldest blocks of that class, or goes ahead of it, which at most
    /// [`STRIPES_IN_FLIGHT`] per lane do. If none begins, those in flight complete. Of the classes
    /// that may close a stripe, the one that has waited longest is first. A lane that takes no
    /// stripe now ends its group, and does not enter that group again.
    fn ready(&self, kind: StreamKind, class: Class) -> Option<Ready> {
        let stream = self.writes.stream(kind);
        let lanes =
            || self.writes.idle_lanes(kind).filter(|(lane, _)| self.serves(kind, *lane, class));
        let in_flight = |slot: SegmentSlot| self.segments[slot].in_flight();
        let under_way = lanes().map(|(_, slot)| in_flight(slot)).sum::<u32>();
        let larger =
            self.writes.idle_lanes(kind).filter(|(lane, _)| stream.waits_for(*lane, class));
        let larger = larger.filter(|(lane, _)| !self.serves(kind, *lane, class));
        let before = larger.map(|(_, slot)| in_flight(slot)).sum::<u32>();
        let able = lanes().filter(|(_, slot)| self.takes_stripes(*slot));
        let is_larger = |lane: LaneId| stream.is_larger(lane, class);
        // On fast drives, stripes in flight are no reason to use another lane.
        let (lane, slot) = able.min_by_key(|(lane, slot)| {
            let smaller = !is_larger(*lane);
            (smaller && stream.is_for_fast_drives(), self.segments.reluctance(*slot), smaller)
        })?;
        let segment = &self.segments[slot];
        let waited = stream.went_ahead(class) >= under_way + before;
        let fills = stream.queue(class).len() >= segment.geometry.stripe_blocks();
        let fills_now = fills && (before == 0 || is_larger(lane));
        let ready = fills_now || waited && !stream.filling;
        mark_if(Mark::LargerFilled, || fills && is_larger(lane));
        mark_if(Mark::WaitedForLarger, || fills && !ready && before > 0);
        mark_if(Mark::ClosedBesideOthers, || ready && !fills && under_way > 0);
        let early = self.writes.queues.coalesces(slot)
            && (!fills || !is_larger(lane) && stream.has_larger(class));
        let lone = !fills && self.is_alone(kind, class, &segment.geometry);
        let lane = self.narrow_lane(kind).filter(|_| lone).unwrap_or(lane);
        ready.then_some(Ready { lane, class, early, lone })
    }

    /// Whether a lane takes stripes of a class.
    ///
    /// * Until lifetimes are known, all lanes of a size take all users' writes: an idle lane is
    ///   worth more than a guess.
    /// * A lane of larger chunks that coalesces takes smaller classes while their blocks fill a
    ///   stripe of it: fewer stripes, and no padding.
    /// * A class without a segment, and without room for one, uses the lanes of other classes,
    ///   preferably with its chunk size.
    fn serves(&self, kind: StreamKind, lane: LaneId, class: Class) -> bool {
        let stream = self.writes.stream(kind);
        let of_lane = stream.lane(lane).class;
        if of_lane == class {
            return true;
        }
        let shared = self.reclaim.shares_lanes(kind);
        if of_lane.chunk == class.chunk && shared {
            return true;
        }
        if stream.fills_larger(lane, class) && (shared || of_lane == stream.larger(class)) {
            return true;
        }
        let stranded = !stream.has_lane(class) && !self.may_have_lane(kind, class);
        mark_if(Mark::LaneOfOtherClass, || stranded && stream.is_open());
        // Other classes use the narrow lane only if there is no other.
        let wide = of_lane.chunk != ChunkClass::Narrow || !stream.is_open();
        stranded && wide && (of_lane.chunk == class.chunk || !stream.has_chunks(class.chunk))
    }

    /// Whether stripes of a lane go ahead of the pending blocks of a class.
    fn goes_ahead(&self, kind: StreamKind, lane: LaneId, class: Class) -> bool {
        self.serves(kind, lane, class) || self.writes.stream(kind).waits_for(lane, class)
    }

    /// Whether there is a free lane for a class, and room for its segment.
    fn may_have_lane(&self, kind: StreamKind, class: Class) -> bool {
        let free = |lane: &Lane| lane.class.chunk == class.chunk && !lane.is_taken();
        self.writes.stream(kind).lanes().any(|(_, lane)| free(lane))
            && self.may_open(kind, class.chunk)
    }

    /// Whether a segment can take a stripe now.
    pub(super) fn takes_stripes(&self, slot: SegmentSlot) -> bool {
        let segment = &self.segments[slot];
        let cursor = segment.life.cursor().expect("an open segment has a cursor");
        let fits = cursor.has_rows() && segment.in_flight() < STRIPES_IN_FLIGHT;
        fits && !self.reaches_in_flight_limit(slot)
    }

    /// A lane of larger chunks without a segment, with the class that it would serve, if pending
    /// blocks fill a stripe of it. If there is no room for its segment, no request waits for it.
    fn larger_wanted(&self, kind: StreamKind) -> Option<(LaneId, Class)> {
        let stream = self.writes.stream(kind);
        let wanted = stream.larger_without_segment()?;
        let room = self.may_open_another(kind) || mutant(Mutant::LargerWithoutRoom);
        (room && !self.array.membership_dirty).then_some(wanted)
    }

    /// Opens a segment for a lane whose class has pending blocks.
    fn segment_wanted(&mut self, kind: StreamKind) -> Step {
        let (stream, shared) = (self.writes.stream(kind), self.reclaim.shares_lanes(kind));
        let wants = |(lane, state): (LaneId, &Lane)| {
            let class = if state.is_taken() { None } else { stream.class_for(lane, shared) };
            class.map(|class| (lane, class))
        };
        // Request sizes without a segment come first.
        let wanting = stream.lanes().filter_map(wants);
        let wanted = wanting.min_by_key(|(_, class)| stream.has_chunks(class.chunk));
        let Some((lane, class)) = wanted else { return Step::Wait };
        let alone = !(stream.is_open() || stream.is_busy());
        if self.array.membership_dirty && !mutant(Mutant::EvictionNotAwaited) {
            mark(Mark::SegmentWaitsForMembership);
            return Step::Wait;
        }
        if self.may_open(kind, class.chunk) {
            mark_if(Mark::LaneOpenedBeside, || !alone);
            mark_if(Mark::MovedApart, || !alone && kind == StreamKind::Relocation);
            self.writes.stream_mut(kind).lane_mut(lane).class = class;
            return self.writes.begin_task(kind, lane, LaneTask::OpenSegment);
        }
        if !alone {
            return Step::Wait;
        }
        mark(Mark::UsersWaitForSegment);
        self.out_of_space(kind).map_or(Step::Wait, Step::FailQueue)
    }

    fn take_stripe(&mut self, kind: StreamKind, ready: Ready, now: Nanos) -> StripePlan {
        let Ready { lane, class, early, lone } = ready;
        let slot = self.writes.stream(kind).lane(lane).open.expect("a lane with a segment");
        let full = self.segments[slot].geometry.stripe_blocks();
        let always = self.array.fua_always;
        let ahead = self.writes.stream(kind).waiting().next() != Some(class);
        let waiting = self.writes.stream(kind).waiting();
        let behind: Vec<_> = waiting
            .filter(|other| *other != class && self.goes_ahead(kind, lane, *other))
            .collect();
        let stream = self.writes.stream_mut(kind);
        stream.took_turn(lane, class, &behind);
        stream.returning.record_taken(ahead, !early);
        mark_if(Mark::StripeNarrow, || stream.lane(lane).class.chunk == ChunkClass::Narrow);
        // While any durable write waits, all stripes are durable: cheap, and never insufficient.
        let fua = always || stream.fua > 0;
        let queue = stream.queue_mut(class);
        let taken = queue.len().min(full);
        mark_if(Mark::StripePadded, || taken < full);
        assert!(taken > 0, "a stripe of {kind:?} without blocks");
        let blocks: Vec<_> = queue.drain(..taken).collect();
        let left = queue.len();
        stream.record_lone(lone, left);
        let oldest = blocks.iter().map(PendingBlock::oldest_sequence).min();
        let oldest = oldest.unwrap_or(Sequence::MAX);
        let segment = &mut self.segments[slot];
        assert!(segment.stream == kind, "segment {} takes a stripe of {kind:?}", segment.id);
        let stripe = segment.begin_stripe(oldest);
        let stripes = segment.in_flight();
        assert!(
            stripes <= STRIPES_IN_FLIGHT,
            "segment {} has {stripes} stripes in flight",
            segment.id
        );
        self.record_stripe(kind, slot, full as u64);
        self.writes.drain.begin(full as u64, now);
        StripePlan { slot, stripe, class, blocks, fua }
    }

    /// Moves on to the next group; without one, the segment is sealed.
    pub(in crate::log) fn advance_group(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        let (geometry, id, writes) = (segment.geometry, segment.id, segment.in_flight());
        let Some(cursor) = segment.life.cursor_mut() else { return };
        mark(Mark::GroupEnded);
        // The task that ends the group holds the segment, and nothing else does.
        assert!(
            writes <= 1 || mutant(Mutant::GroupNotAwaited),
            "segment {id} leaves a group with {writes} writes in flight"
        );
        assert!(!cursor.has_rows(), "segment {id} leaves row {} unused", cursor.next_row);
        if cursor.group.end < geometry.rows() {
            cursor.group = geometry.group_of(Row(cursor.group.end));
            return;
        }
        segment.life.seal();
        let (summaries, spans) = (segment.entries.summaries(), geometry.spans());
        assert!(summaries == spans, "segment {id} is sealed with {summaries} of {spans} summaries");
        let (stream, zones) = (segment.stream, segment.zones.clone());
        self.writes.queues.close(slot);
        assert!(self.writes.stream_mut(stream).leave(slot), "the sealed segment was an open one");
        if stream == StreamKind::Relocation {
            self.forget_moves_to(slot);
        }
        for (member, zone) in self.array.members.iter_mut().zip(zones) {
            if zone.is_some() {
                member.aborted_in_row = 0;
                assert!(member.active_zones > 0, "no zone is active on the member of {zone:?}");
                member.active_zones -= 1;
            }
        }
    }
}

fn ends_span(geometry: &SegmentGeometry, cursor: &Cursor) -> bool {
    let span = geometry.span_of(Row(cursor.group.start));
    geometry.rows_of_span(span).end == cursor.group.end
}
