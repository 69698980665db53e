//! Streams: queues of blocks, and the lanes to which they are written.
//!
//! Users' writes and relocated blocks go to separate segments, one stream for each. A stream has a
//! *lane* for each segment that it keeps open. Lanes differ in chunk size and in the way of writing
//! (the hybrid data management of ZapRAID, section 3.3), and in the expected lifetime of their
//! blocks. Small requests wait in one queue, large ones in another, and each queue is emptied by
//! the lanes of its class.

use std::collections::VecDeque;

use crate::log::admit::pending::{PendingBlock, PendingTrim};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::{ChunkClass, Class, Lifetime};
use crate::log::format::{EXTENTS_PER_TOMBSTONE, Sequence};
use crate::log::segment::lane::{Lane, LaneId, LaneMode};
use crate::log::write::zone::coalescing::Returning;

/// Consecutive stripes of one write each that justify a narrow segment.
const LONE_STRIPES: u32 = 8;

/// After so many smaller requests, a large one is nearly forgotten.
const REQUESTS_REMEMBERED: u64 = 16;

/// Trims share one tombstone block if they cover at most so many blocks together: a tombstone block
/// takes effect as a whole, and no other task runs meanwhile.
const TRIMMED_BLOCKS: u64 = 1 << 18;

/// Queues of blocks, and the lanes they go to.
#[derive(Default)]
pub(in crate::log) struct Stream {
    /// Number of pending requests that have to be durable when they are acknowledged.
    pub fua: u64,
    /// Whether more blocks are about to be queued: only full stripes are issued meanwhile.
    pub filling: bool,
    /// Clients of users' blocks that may be about to send more.
    pub returning: Returning,
    /// Size of users' requests in blocks: a maximum with decay.
    request_blocks: u64,
    /// Consecutive stripes of a single write each.
    lone: u32,
    /// Blocks of the last such write that are yet to be written.
    lone_left: usize,
    lanes: Vec<Lane>,
    /// Size in blocks from which a request is large.
    large_from: u64,
    /// Whether drives are faster than the engine.
    fast_drives: bool,
    /// The lane after the one that took the last stripe.
    next: usize,
    /// By class: stripes of others that its lanes have taken while it waited.
    ahead: [u32; 4],
    /// Whether blocks are separated by lifetime.
    lifetimes: bool,
    /// Pending blocks of each class, indexed by class.
    queues: [VecDeque<PendingBlock>; 4],
}

impl Stream {
    /// A stream with nothing queued and nothing open.
    ///
    /// # Panics
    /// Without a lane.
    #[must_use]
    pub(super) fn new(lanes: Vec<Lane>, large_from: u64, lifetimes: bool) -> Self {
        assert!(!lanes.is_empty(), "a stream without a lane");
        Self { lanes, large_from, lifetimes, ..Self::default() }
    }

    /// Sets whether drives are faster than the engine.
    #[must_use]
    pub(super) fn for_fast_drives(self, fast_drives: bool) -> Self {
        Self { fast_drives, ..self }
    }

    /// Its lanes, without the narrow one.
    pub(in crate::log) fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> + Clone {
        let lanes = (0..).map(LaneId).zip(&self.lanes);
        lanes.filter(|(_, lane)| lane.class.chunk != ChunkClass::Narrow)
    }

    /// The lane of narrow stripes, if there is one.
    #[must_use]
    pub(super) fn narrow_lane(&self) -> Option<(LaneId, &Lane)> {
        let lane = self.lanes.iter().position(|lane| lane.class.chunk == ChunkClass::Narrow)?;
        Some((LaneId(lane), &self.lanes[lane]))
    }

    /// Returns one lane.
    #[must_use]
    pub(in crate::log) fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane.0]
    }

    /// Returns one lane for changes.
    #[must_use]
    pub(in crate::log) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane.0]
    }

    /// The segments it fills.
    pub(in crate::log) fn open_segments(&self) -> impl Iterator<Item = SegmentSlot> {
        self.lanes.iter().filter_map(|lane| lane.open)
    }

    /// Whether it has an open segment that takes every class.
    #[must_use]
    pub(in crate::log) fn is_open(&self) -> bool {
        self.lanes().any(|(_, lane)| lane.open.is_some())
    }

    /// Whether it fills a segment for requests of a size.
    #[must_use]
    pub(in crate::log) fn has_chunks(&self, chunk: ChunkClass) -> bool {
        self.lanes.iter().any(|lane| lane.class.chunk == chunk && lane.open.is_some())
    }

    /// Whether a lane is assigned to a class.
    #[must_use]
    pub(super) fn has_lane(&self, class: Class) -> bool {
        self.lanes.iter().any(|lane| lane.class == class && lane.is_taken())
    }

    /// The class for the next segment of a lane, if any: among the classes of its chunk size, one
    /// without a lane, or else the one with the most pending blocks. Unless lanes are shared,
    /// enough lanes are kept free for classes that have none.
    #[must_use]
    pub(super) fn class_for(&self, lane: LaneId, shared: bool) -> Option<Class> {
        let chunk = self.lane(lane).class.chunk;
        let of_chunk = |class: &Class| class.chunk == chunk && self.is_in_use(*class);
        let waits = |class: &Class| !self.queue(*class).is_empty();
        let classes = || Class::ALL.into_iter().filter(of_chunk);
        let without = || classes().filter(|class| !self.has_lane(*class));
        let free = |lane: &&Lane| lane.class.chunk == chunk && !lane.is_taken();
        let free = self.lanes.iter().filter(free).count();
        let spare = if shared { free > 0 } else { free > without().count() };
        let most = || classes().filter(waits).max_by_key(|class| self.queue(*class).len());
        // On fast drives a second lane of a class has no benefit.
        let more = spare && !self.fast_drives;
        without().find(waits).or_else(|| if more { most() } else { None })
    }

    /// Whether a lane coalesces, and has larger chunks than a class.
    #[must_use]
    pub(super) fn is_larger(&self, lane: LaneId, class: Class) -> bool {
        let lane = self.lane(lane);
        lane.class.chunk > class.chunk && lane.mode == LaneMode::Gather
    }

    /// Whether there are such lanes.
    #[must_use]
    pub(super) fn has_larger(&self, class: Class) -> bool {
        self.lanes().any(|(lane, _)| self.is_larger(lane, class))
    }

    /// Whether the pending blocks of a class fill a stripe of such a lane.
    #[must_use]
    pub(super) fn fills_larger(&self, lane: LaneId, class: Class) -> bool {
        let full = self.lane(lane).geometry.stripe_blocks();
        self.is_larger(lane, class) && self.queue(class).len() >= full
    }

    /// Whether drives are faster than the engine.
    #[must_use]
    pub(super) fn is_for_fast_drives(&self) -> bool {
        self.fast_drives
    }

    /// Whether a class waits while such a lane has stripes in flight.
    #[must_use]
    pub(super) fn waits_for(&self, lane: LaneId, class: Class) -> bool {
        self.fast_drives && self.is_larger(lane, class)
    }

    /// A lane of larger chunks without a segment, and its class, if the pending blocks of a
    /// lifetime without such a segment fill a stripe of it.
    #[must_use]
    pub(super) fn larger_without_segment(&self) -> Option<(LaneId, Class)> {
        let free =
            |(_, lane): &(LaneId, &Lane)| lane.class.chunk == ChunkClass::Large && !lane.is_taken();
        let (lane, _) = self.lanes().find(free)?;
        let mut waiting = Class::ALL.into_iter().filter(|class| self.fills_larger(lane, *class));
        let small = waiting.find(|small| !self.has_lane(self.larger(*small)))?;
        Some((lane, self.larger(small)))
    }

    /// The class of a larger lane that takes blocks of a small class.
    #[must_use]
    pub(super) fn larger(&self, small: Class) -> Class {
        self.class_in_use(ChunkClass::Large, small.lifetime)
    }

    /// Whether blocks are queued for a class: there may be fewer lanes than lifetimes.
    fn is_in_use(&self, class: Class) -> bool {
        // Blocks queued before the separation by lifetime ended are still pending.
        class.lifetime == Lifetime::Short
            || self.tells_lifetimes(class.chunk)
            || !self.queue(class).is_empty()
    }

    /// Turns the separation by lifetime on or off.
    pub(in crate::log) fn tell_lifetimes(&mut self, tell: bool) {
        self.lifetimes = tell;
        if !tell {
            let mixed = |lane: &mut Lane| lane.class.lifetime = Lifetime::default();
            self.lanes.iter_mut().for_each(mixed);
        }
    }

    /// Whether requests of so many blocks are separated by lifetime.
    #[must_use]
    pub(in crate::log) fn tells_lifetimes_of(&self, blocks: u64) -> bool {
        self.tells_lifetimes(self.chunk_of(blocks))
    }

    fn tells_lifetimes(&self, chunk: ChunkClass) -> bool {
        let lanes = self.lanes.iter().filter(|lane| lane.class.chunk == chunk);
        self.lifetimes && lanes.count() > 1
    }

    /// Lanes without a segment that deserve one, beyond the one that always has room. On fast
    /// drives, only the first of each chunk size deserves one.
    #[must_use]
    pub(in crate::log) fn lanes_without_segment(&self) -> u32 {
        let without = match self.fast_drives {
            true => {
                let has = |chunk: &ChunkClass| self.lanes.iter().any(|l| l.class.chunk == *chunk);
                let sizes = [ChunkClass::Small, ChunkClass::Large].into_iter().filter(has);
                sizes.filter(|chunk| !self.has_chunks(*chunk)).count()
            }
            false => self.lanes().filter(|(_, lane)| lane.open.is_none()).count(),
        };
        assert!(without > 0 || self.is_open(), "a stream without segments lacks none");
        u32::try_from(without).unwrap_or(u32::MAX) - u32::from(!self.is_open())
    }

    /// Classes with pending blocks, the one that has waited longest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Class> + use<> {
        let head = |class| self.queue(class).front().map(PendingBlock::oldest_sequence);
        let mut heads = Class::ALL.map(|class| (head(class), class));
        heads.sort_by_key(|(head, _)| head.unwrap_or(Sequence::MAX));
        heads.into_iter().filter_map(|(head, class)| head.map(|_| class))
    }

    /// Whether a lane is being prepared.
    #[must_use]
    pub(in crate::log) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.busy)
    }

    /// Detaches a segment from its lane; returns whether it had one.
    pub(in crate::log) fn leave(&mut self, slot: SegmentSlot) -> bool {
        let lane = self.lanes.iter_mut().find(|lane| lane.open == Some(slot));
        lane.is_some_and(|lane| lane.open.take().is_some())
    }

    /// The lanes in round-robin order.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        let count = self.lanes.len();
        let turn = (self.next..self.next + count).map(move |at| LaneId(at % count));
        turn.map(|lane| (lane, self.lane(lane)))
    }

    /// Records that a lane took a stripe of one class, ahead of the pending blocks of others.
    pub(super) fn took_turn(&mut self, lane: LaneId, class: Class, behind: &[Class]) {
        assert!(lane.0 < self.lanes.len(), "lane {} of {}", lane.0, self.lanes.len());
        assert!(!behind.contains(&class), "{class:?} waits behind itself");
        self.next = (lane.0 + 1) % self.lanes.len();
        self.ahead[class.index()] = 0;
        for class in behind {
            let ahead = &mut self.ahead[class.index()];
            *ahead = ahead.saturating_add(1);
        }
    }

    /// How many stripes of others were taken by the lanes of a class while it waited.
    #[must_use]
    pub(super) fn went_ahead(&self, class: Class) -> u32 {
        self.ahead[class.index()]
    }

    /// Records that users requested a write of so many blocks.
    pub(in crate::log) fn record_request(&mut self, blocks: u64) {
        assert!(blocks > 0, "a write of no blocks was admitted");
        self.returning.record_request(blocks);
        let smaller = self.request_blocks - self.request_blocks.div_ceil(REQUESTS_REMEMBERED);
        self.request_blocks = smaller.max(blocks);
    }

    /// Blocks of the largest requests that there were lately.
    #[must_use]
    pub(super) fn request_blocks(&self) -> u64 {
        self.request_blocks
    }

    /// Records whether a stripe is a lone write, and how many blocks of that write are left.
    pub(super) fn record_lone(&mut self, lone: bool, left: usize) {
        self.lone = if lone { self.lone.saturating_add(1) } else { 0 };
        self.lone_left = if lone { left } else { 0 };
    }

    /// Remaining blocks of a lone write.
    #[must_use]
    pub(super) fn lone_left(&self) -> usize {
        self.lone_left
    }

    /// Whether writes come one at a time.
    #[must_use]
    pub(super) fn comes_alone(&self) -> bool {
        self.lone >= LONE_STRIPES
    }

    /// The class of a request by size and lifetime, among those with a lane.
    #[must_use]
    pub(in crate::log) fn class_of(&self, blocks: u64, lifetime: Lifetime) -> Class {
        self.class_in_use(self.chunk_of(blocks), lifetime)
    }

    /// The chunk size for requests of so many blocks, among those with a lane.
    fn chunk_of(&self, blocks: u64) -> ChunkClass {
        let has = |chunk| self.lanes.iter().any(|lane| lane.class.chunk == chunk);
        let large =
            has(ChunkClass::Large) && (blocks >= self.large_from || !has(ChunkClass::Small));
        if large { ChunkClass::Large } else { ChunkClass::Small }
    }

    /// The class for a lifetime if lifetimes are separated for this size, else the common one.
    fn class_in_use(&self, chunk: ChunkClass, lifetime: Lifetime) -> Class {
        let told = self.tells_lifetimes(chunk);
        Class { chunk, lifetime: if told { lifetime } else { Lifetime::default() } }
    }

    /// The class of blocks that fit any class (checkpoints): the class of a request of that many
    /// blocks, unless it has no open segment and another class has. A segment of their own would
    /// mostly be padding, and take space.
    #[must_use]
    pub(in crate::log) fn class_beside(&self, blocks: u64, lifetime: Lifetime) -> Class {
        let class = self.class_of(blocks, lifetime);
        if self.has_chunks(class.chunk) || !self.is_open() || class.chunk == ChunkClass::Large {
            return class;
        }
        self.class_of(self.large_from, lifetime)
    }

    /// Pending blocks of a class, oldest first.
    #[must_use]
    pub(in crate::log) fn queue(&self, class: Class) -> &VecDeque<PendingBlock> {
        &self.queues[class.index()]
    }

    /// Pending blocks of a class, for changes.
    #[must_use]
    pub(in crate::log) fn queue_mut(&mut self, class: Class) -> &mut VecDeque<PendingBlock> {
        &mut self.queues[class.index()]
    }

    /// Number of pending blocks of all classes.
    #[must_use]
    pub(in crate::log) fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Memory of its queues without the blocks themselves, in bytes.
    pub(in crate::log) fn queue_bytes(&self) -> u64 {
        let room: usize = self.queues.iter().map(VecDeque::capacity).sum();
        (room * size_of::<PendingBlock>()) as u64
    }

    /// Takes all pending blocks.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = PendingBlock> + use<> {
        std::mem::take(&mut self.queues).into_iter().flatten()
    }

    /// Queues a trimmed extent: in the last pending tombstone block if that has room.
    pub(in crate::log) fn push_trim(&mut self, lifetime: Lifetime, trim: PendingTrim) {
        let class = self.class_of(1, lifetime);
        let queue = self.queue_mut(class);
        if let Some(PendingBlock::Tombstone(trims)) = queue.back_mut()
            && trims.len() < EXTENTS_PER_TOMBSTONE
            && trims.iter().map(|trim| trim.extent.blocks).sum::<u64>() + trim.extent.blocks
                <= TRIMMED_BLOCKS
        {
            trims.push(trim);
            return;
        }
        queue.push_back(PendingBlock::Tombstone(vec![trim]));
    }
}

#[cfg(test)]
mod tests;
