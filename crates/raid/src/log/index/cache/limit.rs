//! How many pages of an index are in memory where not all of them are.
//!
//! Beside those that were asked for there is a batch, for which users do not wait while it is
//! written, and those that somebody works with: users, who wait for each other; what moves blocks,
//! and takes that back, in batches of some pages; checkpoints. All of these are bounded, so that
//! memory is.

use std::num::NonZeroU32;

use crate::log::format::checkpoint::AddressSpace;
use crate::log::index::map::Index;
use crate::log::reclaim::relocate::MOVED_AT_A_TIME;

/// Pages written at a time, at the most. As many more may be in memory before users wait.
const BATCH_MOST: u64 = 64;

/// Pages that users work with at a time, at the least and at the most.
const OF_USERS: (u64, u64) = (64, 1024);

/// Pages that a batch of moved blocks is of, at the most: a part of those that there are to be, but
/// a stripe.
const OF_A_MOVE: u64 = 512;
const PART_OF_A_MOVE: u64 = 64;

/// Pages of trimmed blocks that are moved together, at the least.
const OF_A_TRIM: u64 = 16;

/// Batches of each segment that is being moved: two under way, one that is being read, and one that
/// is looked at.
const BATCHES_OF_A_MOVE: u64 = 4;

/// What part of the memory for pages is taken besides, to remember which blocks of segments are
/// live: enough for all segments of an array with a volume of two thirds of it, at half the memory
/// that its index needs.
const PART_OF_LIVE: u64 = 8;

/// Pages that a checkpoint works with.
const OF_A_CHECKPOINT: u64 = 64;

/// Memory for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimit {
    /// Bytes for its pages.
    pub bytes: u64,
    /// Entries of a page, if it has not as many as a block holds.
    pub page_entries: Option<NonZeroU32>,
}

impl IndexLimit {
    /// Bytes beside that, for which blocks of segments are live.
    #[must_use]
    pub(in crate::log) const fn of_live(&self) -> u64 {
        self.bytes / PART_OF_LIVE
    }
}

/// How many pages are in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Limit {
    /// What was asked for.
    pub(in crate::log) asked: IndexLimit,
    /// Pages that are in memory.
    pub(super) pages: u64,
    /// Pages written at a time.
    pub(super) batch: u64,
    /// Pages that users work with at a time.
    pub(in crate::log) of_users: u64,
    /// Pages of a batch of moved blocks.
    pub(in crate::log) of_a_move: u64,
    /// Pages of trimmed blocks that are moved together.
    pub(super) of_a_trim: u64,
    /// Pages of all that is moved out of a segment at a time.
    pub(in crate::log) of_a_segment: u64,
}

impl Limit {
    /// The limit of an index, where blocks are moved to stripes of so many.
    #[must_use]
    pub(in crate::log) fn new(asked: IndexLimit, space: &AddressSpace, stripe: u64) -> Self {
        let pages = asked.bytes / Index::bytes_of_page(space);
        let of_a_move = (pages / PART_OF_A_MOVE).min(OF_A_MOVE).max(stripe);
        let of_a_trim = (of_a_move / stripe).max(OF_A_TRIM);
        Self {
            asked,
            pages,
            batch: (pages / 4).clamp(1, BATCH_MOST),
            of_users: pages.clamp(OF_USERS.0, OF_USERS.1),
            of_a_move,
            of_a_trim,
            // Stripes of blocks that tell of what was trimmed are full, too.
            of_a_segment: BATCHES_OF_A_MOVE * of_a_move.max(of_a_trim * stripe),
        }
    }

    /// Pages that there are to be.
    #[must_use]
    pub(in crate::log) fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages that are looked at together where blocks are moved.
    #[must_use]
    pub(in crate::log) fn of_a_part(&self) -> u64 {
        self.batch.div_ceil(4)
    }

    /// Pages of a part of a request, as of what is trimmed: each part takes a block and waits for
    /// the one before. Four users do not wait for each other.
    #[must_use]
    pub(in crate::log) fn of_a_request(&self) -> u64 {
        self.of_users / 4
    }

    /// Pages in memory at the most.
    #[must_use]
    pub(in crate::log) fn most(&self) -> u64 {
        // What is trimmed is looked at in parts.
        let segments = MOVED_AT_A_TIME as u64;
        let moved = segments * (self.of_a_segment + BATCHES_OF_A_MOVE * self.of_a_part());
        let taken_back = self.of_a_move.max(self.of_a_part() + 1);
        self.pages + self.batch + self.of_users + moved + taken_back + OF_A_CHECKPOINT
    }
}
