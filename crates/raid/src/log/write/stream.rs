//! Streams: queues of blocks, and the lanes that they are written to.
//!
//! What users write and what is moved go to segments of their own. A stream has a *lane* for each
//! segment that it keeps open. Lanes differ in the size of their chunks and in how they are written
//! (the hybrid data management of ZapRAID, section 3.3), and what is in their segments differs in
//! how long it is likely to live: small requests wait in one queue, large ones in another, and each
//! queue is emptied by the lanes of its class.

use std::collections::VecDeque;

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::{PendingBlock, PendingTrim};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::format::EXTENTS_PER_TOMBSTONE;
use crate::log::index::map::SegmentSlot;
use crate::log::write::policy::lanes::LaneMode;

/// How often others run before a stripe is closed that does not fill: as often as it takes from an
/// answer to the next request of whoever got it, in this process.
const TURNS: u32 = 8;

/// So many stripes of one write each, one after the other, are worth a segment of narrow ones.
const LONE_STRIPES: u32 = 8;

/// After so many requests that are smaller a large one is nearly forgotten.
const REQUESTS_REMEMBERED: u64 = 16;

/// Trims go into one block of the log if they are of so many blocks together at most: all of it
/// takes effect at once, and nobody else runs meanwhile.
const TRIMMED_BLOCKS: u64 = 1 << 18;

/// How large the requests are that a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum ChunkClass {
    /// None by themselves: small ones that come one at a time are written in narrow stripes.
    Narrow,
    /// Those below a threshold, trims, and everything where there is no other lane.
    Small,
    /// Requests of the threshold or more, if there is a lane for them.
    Large,
}

/// How long blocks are likely to live: those that die together should be in one segment, which is
/// then free for little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum Lifetime {
    /// They are written again soon, or nothing is known of them.
    #[default]
    Short,
    /// Blocks that are expected to stay valid for long.
    Long,
}

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct Class {
    /// Which requests.
    pub chunk: ChunkClass,
    /// Of blocks that live how long.
    pub lifetime: Lifetime,
}

impl Class {
    const ALL: [Self; 4] = [
        Self { chunk: ChunkClass::Small, lifetime: Lifetime::Short },
        Self { chunk: ChunkClass::Small, lifetime: Lifetime::Long },
        Self { chunk: ChunkClass::Large, lifetime: Lifetime::Short },
        Self { chunk: ChunkClass::Large, lifetime: Lifetime::Long },
    ];

    const fn index(self) -> usize {
        let chunk = match self.chunk {
            ChunkClass::Narrow => panic!("nothing waits for narrow stripes"),
            ChunkClass::Small => 0,
            ChunkClass::Large => 1,
        };
        chunk * 2 + self.lifetime as usize
    }
}

/// A lane's number in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct LaneId(pub usize);

/// A segment that a stream keeps open, and what the next one in its place will be like.
#[derive(Debug)]
pub(in crate::log) struct Lane {
    /// What it is for; the lifetime may be another one for its next segment.
    pub class: Class,
    /// The shape of its segments; lanes of one class have chunks of one size.
    pub geometry: SegmentGeometry,
    /// How its segments are written.
    pub mode: LaneMode,
    /// The segment being filled.
    pub open: Option<SegmentSlot>,
    /// A segment of it is being opened, or a group or span of it is being ended.
    pub busy: bool,
}

impl Lane {
    /// A lane without a segment.
    #[must_use]
    pub(in crate::log) fn new(
        chunk: ChunkClass,
        geometry: SegmentGeometry,
        mode: LaneMode,
    ) -> Self {
        let class = Class { chunk, lifetime: Lifetime::default() };
        Self { class, geometry, mode, open: None, busy: false }
    }

    /// Whether it has a segment, or is about to.
    #[must_use]
    pub(in crate::log) fn is_taken(&self) -> bool {
        self.open.is_some() || self.busy
    }
}

/// Queues of blocks, and the lanes they go to.
#[derive(Default)]
pub(in crate::log) struct Stream {
    /// How many waiting requests have to be durable when they are acknowledged.
    pub fua: u64,
    /// Whether more blocks are about to be queued: stripes are not closed before they are full.
    pub filling: bool,
    /// Blocks of users that were answered, and that no other followed yet: who got the answers may
    /// be about to send more.
    expected: u64,
    /// How large requests of users are: the largest, and that forgets.
    request_blocks: u64,
    /// Stripes of one write, with nothing beside it, since there was one that was not.
    lone: u32,
    /// Blocks of the last of these writes that are to be written still.
    lone_left: usize,
    /// How often others ran since a stripe was closed that did not fill.
    turns: u32,
    lanes: Vec<Lane>,
    /// Blocks from which on a request is a large one.
    large_from: u64,
    /// Drives are faster than the engine.
    fast_drives: bool,
    /// The lane after the one that took the last stripe.
    next: usize,
    /// By class: stripes of others that its lanes took since one of its own, while it waited.
    ahead: [u32; 4],
    /// Whether blocks are kept apart by how long they live.
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
    pub(in crate::log) fn new(lanes: Vec<Lane>, large_from: u64, lifetimes: bool) -> Self {
        assert!(!lanes.is_empty(), "a stream without a lane");
        Self { lanes, large_from, lifetimes, ..Self::default() }
    }

    /// The same for drives that are faster than the engine, or not.
    #[must_use]
    pub(in crate::log) fn for_fast_drives(self, fast_drives: bool) -> Self {
        Self { fast_drives, ..self }
    }

    /// Its lanes, but for that of narrow stripes.
    pub(in crate::log) fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> + Clone {
        let lanes = (0..).map(LaneId).zip(&self.lanes);
        lanes.filter(|(_, lane)| lane.class.chunk != ChunkClass::Narrow)
    }

    /// The lane of narrow stripes, if there is one.
    #[must_use]
    pub(in crate::log) fn narrow_lane(&self) -> Option<(LaneId, &Lane)> {
        let lane = self.lanes.iter().position(|lane| lane.class.chunk == ChunkClass::Narrow)?;
        Some((LaneId(lane), &self.lanes[lane]))
    }

    /// One of its lanes.
    #[must_use]
    pub(in crate::log) fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane.0]
    }

    /// One of its lanes, to be changed.
    #[must_use]
    pub(in crate::log) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane.0]
    }

    /// The segments it fills.
    pub(in crate::log) fn open_segments(&self) -> impl Iterator<Item = SegmentSlot> {
        self.lanes.iter().filter_map(|lane| lane.open)
    }

    /// The same, but for that of narrow stripes.
    pub(in crate::log) fn open_wide(&self) -> impl Iterator<Item = SegmentSlot> {
        self.lanes().filter_map(|(_, lane)| lane.open)
    }

    /// Whether it fills a segment that anything can go to.
    #[must_use]
    pub(in crate::log) fn is_open(&self) -> bool {
        self.open_wide().next().is_some()
    }

    /// Whether it fills a segment for requests of a size.
    #[must_use]
    pub(in crate::log) fn has_chunks(&self, chunk: ChunkClass) -> bool {
        self.lanes.iter().any(|lane| lane.class.chunk == chunk && lane.open.is_some())
    }

    /// Whether a lane is taken for a class.
    #[must_use]
    pub(in crate::log) fn has_lane(&self, class: Class) -> bool {
        self.lanes.iter().any(|lane| lane.class == class && lane.is_taken())
    }

    /// The class that a lane should take its next segment for, if there is one: of those that its
    /// chunks are for, one that has no lane, or else the one in which most waits. As many lanes as
    /// there may be classes without one are kept for these, unless lanes are shared.
    #[must_use]
    pub(in crate::log) fn class_for(&self, lane: LaneId, shared: bool) -> Option<Class> {
        let chunk = self.lane(lane).class.chunk;
        let of_chunk = |class: &Class| class.chunk == chunk && self.is_in_use(*class);
        let waits = |class: &Class| !self.queue(*class).is_empty();
        let classes = || Class::ALL.into_iter().filter(of_chunk);
        let without = || classes().filter(|class| !self.has_lane(*class));
        let free = |lane: &&Lane| lane.class.chunk == chunk && !lane.is_taken();
        let free = self.lanes.iter().filter(free).count();
        let spare = if shared { free > 0 } else { free > without().count() };
        let most = || classes().filter(waits).max_by_key(|class| self.queue(*class).len());
        // Where drives are fast a second lane of a class is worth nothing.
        let more = spare && !self.fast_drives;
        without().find(waits).or_else(|| if more { most() } else { None })
    }

    /// Whether a lane gathers, and has larger chunks than those of a class.
    #[must_use]
    pub(in crate::log) fn is_larger(&self, lane: LaneId, class: Class) -> bool {
        let lane = self.lane(lane);
        lane.class.chunk > class.chunk && lane.mode == LaneMode::Gather
    }

    /// Whether there are such lanes.
    #[must_use]
    pub(in crate::log) fn has_larger(&self, class: Class) -> bool {
        self.lanes().any(|(lane, _)| self.is_larger(lane, class))
    }

    /// Whether as much waits in a class as fills a stripe of such a lane.
    #[must_use]
    pub(in crate::log) fn fills_larger(&self, lane: LaneId, class: Class) -> bool {
        let full = self.lane(lane).geometry.stripe_blocks();
        self.is_larger(lane, class) && self.queue(class).len() >= full
    }

    /// Whether drives are faster than the engine.
    #[must_use]
    pub(in crate::log) fn is_for_fast_drives(&self) -> bool {
        self.fast_drives
    }

    /// Whether a class waits as long as something is under way in such a lane.
    #[must_use]
    pub(in crate::log) fn waits_for(&self, lane: LaneId, class: Class) -> bool {
        self.fast_drives && self.is_larger(lane, class)
    }

    /// A lane of larger chunks without a segment, and what it would be for, if as much waits of a
    /// lifetime that has none of these as fills a stripe of it.
    #[must_use]
    pub(in crate::log) fn larger_without_segment(&self) -> Option<(LaneId, Class)> {
        let free =
            |(_, lane): &(LaneId, &Lane)| lane.class.chunk == ChunkClass::Large && !lane.is_taken();
        let (lane, _) = self.lanes().find(free)?;
        let mut waiting = Class::ALL.into_iter().filter(|class| self.fills_larger(lane, *class));
        let small = waiting.find(|small| !self.has_lane(self.larger(*small)))?;
        Some((lane, self.larger(small)))
    }

    /// What a lane of larger chunks is for that takes blocks of a class of small ones.
    #[must_use]
    pub(in crate::log) fn larger(&self, small: Class) -> Class {
        self.class_in_use(ChunkClass::Large, small.lifetime)
    }

    /// Whether blocks are queued for a class: there may be fewer lanes than lifetimes.
    fn is_in_use(&self, class: Class) -> bool {
        // Blocks that were queued before lifetimes were told apart no more wait still.
        class.lifetime == Lifetime::Short
            || self.tells_lifetimes(class.chunk)
            || !self.queue(class).is_empty()
    }

    /// Keeps blocks apart by how long they live from now on, or does not.
    pub(in crate::log) fn tell_lifetimes(&mut self, tell: bool) {
        self.lifetimes = tell;
        if !tell {
            let mixed = |lane: &mut Lane| lane.class.lifetime = Lifetime::default();
            self.lanes.iter_mut().for_each(mixed);
        }
    }

    /// Whether requests of so many blocks are kept apart by how long they live.
    #[must_use]
    pub(in crate::log) fn tells_lifetimes_of(&self, blocks: u64) -> bool {
        self.tells_lifetimes(self.chunk_of(blocks))
    }

    fn tells_lifetimes(&self, chunk: ChunkClass) -> bool {
        let lanes = self.lanes.iter().filter(|lane| lane.class.chunk == chunk);
        self.lifetimes && lanes.count() > 1
    }

    /// Lanes without a segment that are worth one, beside the one that there is always room for:
    /// where drives are fast, of each size of chunks the first.
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
        u32::try_from(without).unwrap_or(u32::MAX) - u32::from(!self.is_open())
    }

    /// Classes in which something waits, the one that has waited longest first.
    pub(in crate::log) fn waiting(&self) -> impl Iterator<Item = Class> + use<> {
        let head = |class| self.queue(class).front().map(PendingBlock::oldest_sequence);
        let mut heads = Class::ALL.map(|class| (head(class), class));
        heads.sort_by_key(|(head, _)| head.unwrap_or(u64::MAX));
        heads.into_iter().filter_map(|(head, class)| head.map(|_| class))
    }

    /// Whether something is done to a lane.
    #[must_use]
    pub(in crate::log) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.busy)
    }

    /// Fills a segment no more; whether it did.
    pub(in crate::log) fn leave(&mut self, slot: SegmentSlot) -> bool {
        let lane = self.lanes.iter_mut().find(|lane| lane.open == Some(slot));
        lane.is_some_and(|lane| lane.open.take().is_some())
    }

    /// The lanes, from the one whose turn it is on.
    pub(in crate::log) fn in_turn(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        let count = self.lanes.len();
        let turn = (self.next..self.next + count).map(move |at| LaneId(at % count));
        turn.map(|lane| (lane, self.lane(lane)))
    }

    /// Notes which lane took a stripe of which class, ahead of what waits in others for the same
    /// lane.
    pub(in crate::log) fn took_turn(&mut self, lane: LaneId, class: Class, behind: &[Class]) {
        self.next = (lane.0 + 1) % self.lanes.len();
        self.ahead[class.index()] = 0;
        for class in behind {
            let ahead = &mut self.ahead[class.index()];
            *ahead = ahead.saturating_add(1);
        }
    }

    /// How many stripes of others were taken by the lanes of a class while it waited.
    #[must_use]
    pub(in crate::log) fn went_ahead(&self, class: Class) -> u32 {
        self.ahead[class.index()]
    }

    /// Notes that users got an answer for a block.
    pub(in crate::log) fn note_answered(&mut self) {
        self.expected += 1;
    }

    /// Notes that users asked for so many blocks to be written.
    pub(in crate::log) fn note_asked(&mut self, blocks: u64) {
        self.expected = self.expected.saturating_sub(blocks);
        let smaller = self.request_blocks - self.request_blocks.div_ceil(REQUESTS_REMEMBERED);
        self.request_blocks = smaller.max(blocks);
    }

    /// Blocks of the largest requests that there were lately.
    #[must_use]
    pub(in crate::log) fn request_blocks(&self) -> u64 {
        self.request_blocks
    }

    /// Whether others should run before a stripe is closed that does not fill.
    #[must_use]
    pub(in crate::log) fn is_patient(&self) -> bool {
        self.expected > 0 && (self.turns < TURNS || mutant(Mutant::OthersRunForEver))
    }

    /// Notes that others run.
    pub(in crate::log) fn note_turn(&mut self) {
        self.turns += 1;
    }

    /// Notes that a stripe is taken: ahead of none that was ready before, or one that does not
    /// fill, in which case whoever is expected still was not about to come.
    pub(in crate::log) fn note_taken(&mut self, ahead: bool, fills: bool) {
        if !fills {
            self.expected = 0;
        }
        if !ahead {
            self.turns = 0;
        }
    }

    /// Notes that a stripe is of one write with nothing beside it, of which so many blocks are
    /// left, or not.
    pub(in crate::log) fn note_lone(&mut self, lone: bool, left: usize) {
        self.lone = if lone { self.lone.saturating_add(1) } else { 0 };
        self.lone_left = if lone { left } else { 0 };
    }

    /// Blocks that are left of a write with nothing beside it.
    #[must_use]
    pub(in crate::log) fn lone_left(&self) -> usize {
        self.lone_left
    }

    /// Whether writes come one at a time.
    #[must_use]
    pub(in crate::log) fn comes_alone(&self) -> bool {
        self.lone >= LONE_STRIPES
    }

    /// The class of a request of so many blocks that live so long, among those that there are lanes
    /// for.
    #[must_use]
    pub(in crate::log) fn class_of(&self, blocks: u64, lifetime: Lifetime) -> Class {
        self.class_in_use(self.chunk_of(blocks), lifetime)
    }

    /// The size of chunks that requests of so many blocks go to, among those that there are lanes
    /// for.
    fn chunk_of(&self, blocks: u64) -> ChunkClass {
        let has = |chunk| self.lanes.iter().any(|lane| lane.class.chunk == chunk);
        let large =
            has(ChunkClass::Large) && (blocks >= self.large_from || !has(ChunkClass::Small));
        if large { ChunkClass::Large } else { ChunkClass::Small }
    }

    /// The class of blocks that live so long, if that is told apart among those of a size, or else
    /// that of all of them.
    fn class_in_use(&self, chunk: ChunkClass, lifetime: Lifetime) -> Class {
        let told = self.tells_lifetimes(chunk);
        Class { chunk, lifetime: if told { lifetime } else { Lifetime::default() } }
    }

    /// The class of blocks that can be written beside whatever users write: as of requests of so
    /// many, unless no segment is open for these and one is for others. One of their own would be
    /// padded for the most part, and take room.
    #[must_use]
    pub(in crate::log) fn class_beside(&self, blocks: u64, lifetime: Lifetime) -> Class {
        let class = self.class_of(blocks, lifetime);
        if self.has_chunks(class.chunk) || !self.is_open() || class.chunk == ChunkClass::Large {
            return class;
        }
        self.class_of(self.large_from, lifetime)
    }

    /// What waits in a class, oldest first.
    #[must_use]
    pub(in crate::log) fn queue(&self, class: Class) -> &VecDeque<PendingBlock> {
        &self.queues[class.index()]
    }

    /// What waits in a class, to be changed.
    #[must_use]
    pub(in crate::log) fn queue_mut(&mut self, class: Class) -> &mut VecDeque<PendingBlock> {
        &mut self.queues[class.index()]
    }

    /// Number of pending blocks of all classes.
    #[must_use]
    pub(in crate::log) fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Memory of its queues, beside the blocks themselves.
    pub(in crate::log) fn queue_bytes(&self) -> u64 {
        let room: usize = self.queues.iter().map(VecDeque::capacity).sum();
        (room * size_of::<PendingBlock>()) as u64
    }

    /// Takes everything that waits.
    pub(in crate::log) fn take_all(&mut self) -> impl Iterator<Item = PendingBlock> + use<> {
        std::mem::take(&mut self.queues).into_iter().flatten()
    }

    /// Queues a trimmed extent, in the last waiting tombstone block if it has room.
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
