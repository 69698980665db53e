//! Streams: queues of blocks, and the lanes that they are written to.
//!
//! What users write and what is moved go to segments of their own. A stream has a *lane* for each
//! segment that it keeps open. Lanes differ in the size of their chunks and in how they are written
//! (the hybrid data management of ZapRAID, section 3.3): small requests wait in one queue, large ones
//! in another, and each queue is emptied by the lanes of its class.

use std::collections::VecDeque;

use crate::log::format::EXTENTS_PER_TOMBSTONE;
use crate::log::geometry::SegmentGeometry;
use crate::log::index::SegmentSlot;
use crate::log::policy::LaneMode;
use crate::log::queue::{PendingBlock, PendingTrim};

/// Which requests a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChunkClass {
    /// Those below a threshold, trims, and everything where there is no other lane.
    Small,
    /// The others.
    Large,
}

impl ChunkClass {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Small, Self::Large];
}

/// A lane's number in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(pub usize);

/// A segment that a stream keeps open, and what the next one in its place will be like.
#[derive(Debug)]
pub(super) struct Lane {
    /// The requests it is for.
    pub class: ChunkClass,
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
    pub(super) fn new(class: ChunkClass, geometry: SegmentGeometry, mode: LaneMode) -> Self {
        Self { class, geometry, mode, open: None, busy: false }
    }
}

/// Queues of blocks, and the lanes they go to.
#[derive(Default)]
pub(super) struct Stream {
    /// How many waiting requests have to be durable when they are acknowledged.
    pub fua: u64,
    /// Whether more blocks are about to be queued: stripes are not closed before they are full.
    pub filling: bool,
    lanes: Vec<Lane>,
    /// Blocks from which on a request is a large one.
    large_from: u64,
    /// The lane after the one that took the last stripe.
    next: usize,
    small: VecDeque<PendingBlock>,
    large: VecDeque<PendingBlock>,
}

impl Stream {
    /// A stream with nothing queued and nothing open.
    ///
    /// # Panics
    /// Without a lane.
    #[must_use]
    pub(super) fn new(lanes: Vec<Lane>, large_from: u64) -> Self {
        assert!(!lanes.is_empty(), "a stream without a lane");
        Self { lanes, large_from, ..Self::default() }
    }

    /// Its lanes.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        (0..).map(LaneId).zip(&self.lanes)
    }

    /// One of its lanes.
    #[must_use]
    pub(super) fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane.0]
    }

    /// One of its lanes, to be changed.
    #[must_use]
    pub(super) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane.0]
    }

    /// The segments it fills.
    pub(super) fn open_segments(&self) -> impl Iterator<Item = SegmentSlot> {
        self.lanes.iter().filter_map(|lane| lane.open)
    }

    /// Whether it fills a segment.
    #[must_use]
    pub(super) fn is_open(&self) -> bool {
        self.open_segments().next().is_some()
    }

    /// Whether it fills a segment for a class.
    #[must_use]
    pub(super) fn has_segment(&self, class: ChunkClass) -> bool {
        self.lanes.iter().any(|lane| lane.class == class && lane.open.is_some())
    }

    /// Lanes without a segment, beside the one that there is always room for.
    #[must_use]
    pub(super) fn lanes_without_segment(&self) -> u32 {
        let without = self.lanes.iter().filter(|lane| lane.open.is_none()).count();
        u32::try_from(without).unwrap_or(u32::MAX) - u32::from(!self.is_open())
    }

    /// Classes in which something waits, the one that has waited longest first.
    #[must_use]
    pub(super) fn waiting(&self) -> Vec<ChunkClass> {
        let head =
            |class: &ChunkClass| self.queue(*class).front().map(PendingBlock::oldest_sequence);
        let mut waiting: Vec<_> =
            ChunkClass::ALL.into_iter().filter(|class| head(class).is_some()).collect();
        waiting.sort_by_key(head);
        waiting
    }

    /// Whether something is done to a lane.
    #[must_use]
    pub(super) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.busy)
    }

    /// Fills a segment no more; whether it did.
    pub(super) fn leave(&mut self, slot: SegmentSlot) -> bool {
        let lane = self.lanes.iter_mut().find(|lane| lane.open == Some(slot));
        lane.is_some_and(|lane| lane.open.take().is_some())
    }

    /// The lanes, from the one whose turn it is on.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        let count = self.lanes.len();
        let turn = (self.next..self.next + count).map(move |at| LaneId(at % count));
        turn.map(|lane| (lane, self.lane(lane)))
    }

    /// Notes which lane took a stripe.
    pub(super) fn took_turn(&mut self, lane: LaneId) {
        self.next = (lane.0 + 1) % self.lanes.len();
    }

    /// The class of a request of so many blocks, among those that there are lanes for.
    #[must_use]
    pub(super) fn class_of(&self, blocks: u64) -> ChunkClass {
        let has_large = self.lanes.iter().any(|lane| lane.class == ChunkClass::Large);
        let has_small = self.lanes.iter().any(|lane| lane.class == ChunkClass::Small);
        match has_large && (blocks >= self.large_from || !has_small) {
            true => ChunkClass::Large,
            false => ChunkClass::Small,
        }
    }

    /// What waits in a class, oldest first.
    #[must_use]
    pub(super) fn queue(&self, class: ChunkClass) -> &VecDeque<PendingBlock> {
        match class {
            ChunkClass::Small => &self.small,
            ChunkClass::Large => &self.large,
        }
    }

    /// What waits in a class, to be changed.
    #[must_use]
    pub(super) fn queue_mut(&mut self, class: ChunkClass) -> &mut VecDeque<PendingBlock> {
        match class {
            ChunkClass::Small => &mut self.small,
            ChunkClass::Large => &mut self.large,
        }
    }

    /// Blocks that wait.
    #[must_use]
    pub(super) fn queued(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// Takes everything that waits.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = PendingBlock> + use<> {
        std::mem::take(&mut self.small).into_iter().chain(std::mem::take(&mut self.large))
    }

    /// Queues a block of a request of so many.
    pub(super) fn push(&mut self, blocks: u64, block: PendingBlock) {
        let class = self.class_of(blocks);
        self.queue_mut(class).push_back(block);
    }

    /// Queues a trimmed extent, in the last waiting tombstone block if it has room.
    pub(super) fn push_trim(&mut self, trim: PendingTrim) {
        let class = self.class_of(1);
        let queue = self.queue_mut(class);
        if let Some(PendingBlock::Tombstone(trims)) = queue.back_mut()
            && trims.len() < EXTENTS_PER_TOMBSTONE
        {
            trims.push(trim);
            return;
        }
        queue.push_back(PendingBlock::Tombstone(vec![trim]));
    }
}
