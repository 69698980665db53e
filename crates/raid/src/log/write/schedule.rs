//! What the writer of a stream does next: plain synchronous decisions.
//!
//! Queued blocks become a stripe when they fill one, or when nothing else is under way where it
//! would go, or as much went ahead of them as is; never by a timer. Where writes gather, those that
//! have just been answered run before a stripe is closed that does not fill: they may have more. A
//! group is left only when every stripe of it is done.

use zoneweave_runtime::Nanos;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::PendingBlock;
use crate::log::engine::geometry::{Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::index::map::SegmentSlot;
use crate::log::segment::table::{Cursor, Phase, Segment};
use crate::log::write::stream::{ChunkClass, Class, Lane, LaneId};

/// Stripes of one segment that may be under way together.
pub(in crate::log) const STRIPES_IN_FLIGHT: u32 = 64;

/// What a stream's writer does next.
pub(in crate::log) enum Step {
    /// Nothing, until something changes.
    Wait,
    /// Lets others run: a stripe is about to be closed that does not fill.
    LetRun,
    Stripe(StripePlan),
    /// Does what a lane needs before it takes more stripes; the lane is busy until that is done.
    Tend(LaneId, Chore),
    /// Fails everything queued: the volume takes no writes.
    FailQueue(&'static str),
}

/// What a lane needs before it takes more stripes.
pub(in crate::log) enum Chore {
    OpenSegment,
    /// Its finished group made durable, to go on to the next.
    EndGroup(SegmentSlot),
    /// The index run of its finished span.
    EndSpan(SegmentSlot, u32),
}

/// A stripe that can be closed.
#[derive(Clone, Copy)]
struct Ready {
    lane: LaneId,
    /// The queue it is taken from.
    class: Class,
    /// It does not fill, and the next write of its zones would wait for it, or a larger one may
    /// come to be filled. One that is written by itself loses nothing by being early.
    early: bool,
    /// It is of one write, with nothing beside it.
    lone: bool,
}

/// A stripe to be written.
pub(in crate::log) struct StripePlan {
    /// The segment.
    pub slot: SegmentSlot,
    /// The stripe, counted through the segment.
    pub stripe: u32,
    /// The queue that the blocks are from.
    pub class: Class,
    /// The blocks, in order; what is missing to a stripe is padding.
    pub blocks: Vec<PendingBlock>,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
}

impl State {
    /// Decides what the writer of a stream does next.
    pub(in crate::log) fn next_step(&mut self, kind: StreamKind, now: Nanos) -> Step {
        if let Some(reason) = self.stopped {
            let queued = self.stream(kind).queued() > 0;
            return if queued { Step::FailQueue(reason) } else { Step::Wait };
        }
        if kind == StreamKind::Relocation
            && let Some(slot) = self.unaffordable_lane()
        {
            mark(Mark::LaneGivenUp);
            self.abandon(slot);
        }
        if let Some((lane, chore)) = self.finished_group(kind) {
            return self.tend(kind, lane, chore);
        }
        if self.must_yield(kind) {
            return Step::Wait;
        }
        if self.is_held_back(kind, now) {
            return Step::Wait;
        }
        if let Some(lane) = self.narrow_wanted(kind) {
            mark(Mark::NarrowOpened);
            return self.tend(kind, lane, Chore::OpenSegment);
        }
        if let Some((lane, class)) = self.larger_wanted(kind) {
            mark(Mark::LargerOpened);
            self.stream_mut(kind).lane_mut(lane).class = class;
            return self.tend(kind, lane, Chore::OpenSegment);
        }
        match self.next_stripe(kind) {
            Some(ready) if ready.early && self.stream(kind).is_patient() => {
                self.stream_mut(kind).note_turn();
                Step::LetRun
            }
            Some(ready) => Step::Stripe(self.take_stripe(kind, ready, now)),
            None => self.segment_wanted(kind),
        }
    }

    /// Whether a stream waits since drives drain no more. A stripe is under way then, and its end
    /// wakes it: not the end of a group, which may be long in coming.
    fn is_held_back(&mut self, kind: StreamKind, now: Nanos) -> bool {
        self.drain.holds(now)
            && self.idle_lanes(kind).any(|(_, slot)| self.segments[slot].in_flight > 0)
    }

    fn tend(&mut self, kind: StreamKind, lane: LaneId, chore: Chore) -> Step {
        self.stream_mut(kind).lane_mut(lane).busy = true;
        Step::Tend(lane, chore)
    }

    /// A lane of which a group has come to its end.
    fn finished_group(&self, kind: StreamKind) -> Option<(LaneId, Chore)> {
        self.idle_lanes(kind).find_map(|(lane, slot)| Some((lane, self.end_of_group(slot)?)))
    }

    /// The lanes that fill a segment and are not busy, from the one whose turn it is on.
    fn idle_lanes(&self, kind: StreamKind) -> impl Iterator<Item = (LaneId, SegmentSlot)> {
        let lanes = self.stream(kind).in_turn().filter(|(_, lane)| !lane.busy);
        lanes.filter_map(|(id, lane)| Some((id, lane.open?)))
    }

    fn end_of_group(&self, slot: SegmentSlot) -> Option<Chore> {
        let segment = &self.segments[slot];
        let cursor = segment.cursor.as_ref().expect("an open segment has a cursor");
        if cursor.has_rows() {
            return None;
        }
        let ends_span = ends_span(&segment.geometry, cursor);
        let early = || !ends_span && mutant(Mutant::GroupNotAwaited);
        let done = segment.in_flight == 0 || early();
        done.then(|| match ends_span {
            true => Chore::EndSpan(slot, segment.geometry.span_of(Row(cursor.group.start))),
            false => Chore::EndGroup(slot),
        })
    }

    /// The next stripe: of those that are ready the one of which the oldest block has waited
    /// longest, but none that comes early while users may be about to fill it, if there is another.
    fn next_stripe(&self, kind: StreamKind) -> Option<Ready> {
        let stream = self.stream(kind);
        let mut ready = stream.waiting().filter_map(|class| self.ready(kind, class));
        if stream.is_patient() { ready.min_by_key(|ready| ready.early) } else { ready.next() }
    }

    /// The lane that takes the next stripe of a class, if one does now.
    ///
    /// A stripe that does not fill is closed at once, but not while others are under way where it
    /// would go: what arrives meanwhile may fill it, and closing it would not be any faster. Where
    /// other classes go the same way, something always may be under way; so it is also closed when
    /// as many stripes went ahead of it as are under way. Then those that were when it came are
    /// done, unless they are slower than the ones after them.
    ///
    /// So nothing waits for a pause in the others. Whatever begins on the lanes of a class is of
    /// the class itself, and takes what has waited longest in it, or goes ahead of it, which
    /// [`STRIPES_IN_FLIGHT`] of each lane at most do; and if nothing begins, what is under way
    /// comes to its end. Of the classes that may close a stripe the one that has waited longest is
    /// first, and a lane that takes none now ends its group, which it enters no more.
    fn ready(&self, kind: StreamKind, class: Class) -> Option<Ready> {
        let stream = self.stream(kind);
        let lanes = || self.idle_lanes(kind).filter(|(lane, _)| self.serves(kind, *lane, class));
        let in_flight = |slot: SegmentSlot| self.segments[slot].in_flight;
        let under_way = lanes().map(|(_, slot)| in_flight(slot)).sum::<u32>();
        let larger = self.idle_lanes(kind).filter(|(lane, _)| stream.waits_for(*lane, class));
        let larger = larger.filter(|(lane, _)| !self.serves(kind, *lane, class));
        let before = larger.map(|(_, slot)| in_flight(slot)).sum::<u32>();
        let able = lanes().filter(|(_, slot)| self.takes_stripes(*slot));
        let is_larger = |lane: LaneId| stream.is_larger(lane, class);
        // Where drives are fast what is under way is no reason to make more stripes.
        let (lane, slot) = able.min_by_key(|(lane, slot)| {
            let smaller = !is_larger(*lane);
            (smaller && stream.is_for_fast_drives(), self.reluctance(*slot), smaller)
        })?;
        let segment = &self.segments[slot];
        let waited = stream.went_ahead(class) >= under_way + before;
        let fills = stream.queue(class).len() >= segment.geometry.stripe_blocks();
        let fills_now = fills && (before == 0 || is_larger(lane));
        let ready = fills_now || waited && !stream.filling;
        mark_if(Mark::LargerFilled, || fills && is_larger(lane));
        mark_if(Mark::WaitedForLarger, || fills && !ready && before > 0);
        mark_if(Mark::ClosedBesideOthers, || ready && !fills && under_way > 0);
        let early = segment.gathers && (!fills || !is_larger(lane) && stream.has_larger(class));
        let lone = !fills && self.is_alone(kind, class, &segment.geometry);
        let lane = self.narrow_lane(kind).filter(|_| lone).unwrap_or(lane);
        ready.then_some(Ready { lane, class, early, lone })
    }

    /// Whether a lane takes stripes of a class. While nobody knows which lives are short all lanes
    /// of a size take all that is written for the first time or again, as an idle one is then worth
    /// more than a guess. So does a lane of larger chunks that gathers, as long as what waits fills
    /// a stripe of it: that is fewer stripes, and none is padded. With no segment of its own, and
    /// no room for one, the class goes to the others', those with chunks of its size if there are
    /// some.
    fn serves(&self, kind: StreamKind, lane: LaneId, class: Class) -> bool {
        let stream = self.stream(kind);
        let of_lane = stream.lane(lane).class;
        if of_lane == class {
            return true;
        }
        let shared = self.shares_lanes(kind);
        if of_lane.chunk == class.chunk && shared {
            return true;
        }
        if stream.fills_larger(lane, class) && (shared || of_lane == stream.larger(class)) {
            return true;
        }
        let stranded = !stream.has_lane(class) && !self.may_have_lane(kind, class);
        mark_if(Mark::LaneOfOtherClass, || stranded && stream.is_open());
        // Others write there only if there is nothing else.
        let wide = of_lane.chunk != ChunkClass::Narrow || !stream.is_open();
        stranded && wide && (of_lane.chunk == class.chunk || !stream.has_chunks(class.chunk))
    }

    /// Whether stripes of a lane go ahead of what waits in a class.
    fn goes_ahead(&self, kind: StreamKind, lane: LaneId, class: Class) -> bool {
        self.serves(kind, lane, class) || self.stream(kind).waits_for(lane, class)
    }

    /// Whether lanes for requests of a size take blocks of every lifetime.
    fn shares_lanes(&self, kind: StreamKind) -> bool {
        kind == StreamKind::User && !self.lifespans.have_bound()
    }

    /// Whether a lane is free for a class, and there is room for its segment.
    fn may_have_lane(&self, kind: StreamKind, class: Class) -> bool {
        let free = |lane: &Lane| lane.class.chunk == class.chunk && !lane.is_taken();
        self.stream(kind).lanes().any(|(_, lane)| free(lane)) && self.may_open(kind, class.chunk)
    }

    /// Orders segments by where a stripe is written soonest: one that writes in place and has
    /// nothing under way (ZapRAID section 3.3), one that appends, the others by what is before it.
    fn reluctance(&self, slot: SegmentSlot) -> (bool, u32) {
        let Segment { table, in_flight, .. } = &self.segments[slot];
        if table.is_some() { (true, 0) } else { (*in_flight > 0, *in_flight) }
    }

    /// Whether a segment can take a stripe now.
    pub(in crate::log) fn takes_stripes(&self, slot: SegmentSlot) -> bool {
        let segment = &self.segments[slot];
        let cursor = segment.cursor.as_ref().expect("an open segment has a cursor");
        let fits = cursor.has_rows() && segment.in_flight < STRIPES_IN_FLIGHT;
        fits && !self.is_enough_beside(segment)
    }

    /// A lane of larger chunks without a segment, if a class waits that fills a stripe of it, and
    /// for what it would take one. Where there is no room for one nobody waits for it.
    fn larger_wanted(&self, kind: StreamKind) -> Option<(LaneId, Class)> {
        let stream = self.stream(kind);
        let wanted = stream.larger_without_segment()?;
        let room = self.may_open_beside(kind) || mutant(Mutant::LargerWithoutRoom);
        (room && !self.membership_dirty).then_some(wanted)
    }

    /// Opens a segment for a lane for whose class something waits.
    fn segment_wanted(&mut self, kind: StreamKind) -> Step {
        let (stream, shared) = (self.stream(kind), self.shares_lanes(kind));
        let wants = |(lane, state): (LaneId, &Lane)| {
            let class = if state.is_taken() { None } else { stream.class_for(lane, shared) };
            class.map(|class| (lane, class))
        };
        // Requests of a size that there is no segment for come first.
        let wanting = stream.lanes().filter_map(wants);
        let wanted = wanting.min_by_key(|(_, class)| stream.has_chunks(class.chunk));
        let Some((lane, class)) = wanted else { return Step::Wait };
        let alone = !(stream.is_open() || stream.is_busy());
        if self.membership_dirty && !mutant(Mutant::EvictionNotAwaited) {
            mark(Mark::SegmentWaitsForMembership);
            return Step::Wait;
        }
        if self.may_open(kind, class.chunk) {
            mark_if(Mark::LaneOpenedBeside, || !alone);
            mark_if(Mark::MovedApart, || !alone && kind == StreamKind::Relocation);
            self.stream_mut(kind).lane_mut(lane).class = class;
            return self.tend(kind, lane, Chore::OpenSegment);
        }
        if !alone {
            return Step::Wait;
        }
        mark(Mark::UsersWaitForSegment);
        self.no_room(kind).map_or(Step::Wait, Step::FailQueue)
    }

    fn take_stripe(&mut self, kind: StreamKind, ready: Ready, now: Nanos) -> StripePlan {
        let Ready { lane, class, early, lone } = ready;
        let slot = self.stream(kind).lane(lane).open.expect("a lane with a segment");
        let full = self.segments[slot].geometry.stripe_blocks();
        let always = self.fua_always;
        let ahead = self.stream(kind).waiting().next() != Some(class);
        let waiting = self.stream(kind).waiting();
        let behind: Vec<_> = waiting
            .filter(|other| *other != class && self.goes_ahead(kind, lane, *other))
            .collect();
        let stream = self.stream_mut(kind);
        stream.took_turn(lane, class, &behind);
        stream.note_taken(ahead, !early);
        mark_if(Mark::StripeNarrow, || stream.lane(lane).class.chunk == ChunkClass::Narrow);
        // While any durable write waits, stripes are durable: cheap, and never too little.
        let fua = always || stream.fua > 0;
        let queue = stream.queue_mut(class);
        let taken = queue.len().min(full);
        mark_if(Mark::StripePadded, || taken < full);
        let blocks: Vec<_> = queue.drain(..taken).collect();
        let left = queue.len();
        stream.note_lone(lone, left);
        let oldest = blocks.iter().map(PendingBlock::oldest_sequence).min().unwrap_or(u64::MAX);
        let segment = &mut self.segments[slot];
        segment.in_flight += 1;
        // Whether or not the stripe comes to count: a crash may find it on media.
        segment.min_sequence = segment.min_sequence.min(oldest);
        let cursor = segment.cursor.as_mut().expect("an open segment has a cursor");
        let stripe = cursor.next_row;
        cursor.next_row += 1;
        self.note_pace(kind, slot, full as u64);
        self.drain.begin(full as u64, now);
        StripePlan { slot, stripe, class, blocks, fua }
    }

    /// Goes on to the group after the current one; the segment is sealed if there is none.
    pub(in crate::log) fn advance_group(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        let geometry = segment.geometry;
        let Some(cursor) = &mut segment.cursor else { return };
        mark(Mark::GroupEnded);
        if cursor.group.end < geometry.rows() {
            cursor.group = geometry.group_of(Row(cursor.group.end));
            return;
        }
        segment.cursor = None;
        segment.queues = Vec::new();
        segment.phase = Phase::Sealed;
        segment.holds_active_zones = false;
        let (stream, zones) = (segment.stream, segment.zones.clone());
        assert!(self.stream_mut(stream).leave(slot), "the sealed segment was an open one");
        if stream == StreamKind::Relocation {
            self.forget_moves_to(slot);
        }
        for (member, zone) in self.members.iter_mut().zip(zones) {
            if zone.is_some() {
                member.spoiled_in_row = 0;
                member.active_zones -= 1;
            }
        }
    }
}

fn ends_span(geometry: &SegmentGeometry, cursor: &Cursor) -> bool {
    let span = geometry.span_of(Row(cursor.group.start));
    geometry.rows_of_span(span).end == cursor.group.end
}
