//! Limits for the pages in memory, if not all pages fit.
//!
//! Memory holds the configured pages, a batch being written, for which users do not wait, and
//! pinned pages. Pages are pinned by users' requests, which wait for each other; by relocation and
//! its undo, in batches of a few pages; and by checkpoints. All of these are bounded, and therefore
//! memory is.

use std::num::NonZeroU32;

use crate::log::engine::limits::MOVED_AT_A_TIME;
use crate::log::format::checkpoint::AddressSpace;
use crate::log::index::map::Index;

/// Most pages written at a time. As many more may be in memory before users wait.
const BATCH_MOST: u64 = 64;

/// Fewest and most pages that users pin at a time.
const OF_USERS: (u64, u64) = (64, 1024);

/// Most pages changed by a batch of relocated blocks: a part of the configured pages, but at least
/// a stripe.
const OF_A_MOVE: u64 = 512;
const PART_OF_A_MOVE: u64 = 64;

/// Fewest pages of trimmed blocks that are relocated together.
const OF_A_TRIM: u64 = 16;

/// Batches of each segment under relocation: two in flight, one being read, and one being examined.
const BATCHES_OF_A_MOVE: u64 = 4;

/// Additional memory for tracking the valid blocks of segments, as a divisor of the memory for
/// pages. It suffices for all segments of an array whose volume is two thirds of its capacity, with
/// half the memory that the whole index needs.
const PART_OF_LIVE: u64 = 8;

/// Pages that a checkpoint pins.
const OF_A_CHECKPOINT: u64 = 64;

/// Memory limit of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimit {
    /// Memory for its pages, in bytes.
    pub bytes: u64,
    /// Entries of a page, if fewer than a block holds.
    pub page_entries: Option<NonZeroU32>,
}

impl IndexLimit {
    /// Additional memory for tracking the valid blocks of segments, in bytes.
    #[must_use]
    pub(in crate::log) const fn of_live(&self) -> u64 {
        self.bytes / PART_OF_LIVE
    }
}

/// Numbers of pages in memory, by use.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Limit {
    /// The configured limit.
    pub(in crate::log) asked: IndexLimit,
    /// Pages in memory without those of the other fields.
    pub(super) pages: u64,
    /// Pages written at a time.
    pub(super) batch: u64,
    /// Pages that users pin at a time.
    pub(in crate::log) of_users: u64,
    /// Pages of a batch of relocated blocks.
    pub(in crate::log) of_a_move: u64,
    /// Pages of trimmed blocks that are relocated together.
    pub(in crate::log) of_a_trim: u64,
    /// Pages of all blocks relocated from a segment at a time.
    pub(in crate::log) of_a_segment: u64,
}

impl Limit {
    /// The limits of an index, with stripes of so many blocks for relocation.
    #[must_use]
    pub(in crate::log) fn new(asked: IndexLimit, space: &AddressSpace, stripe: u64) -> Self {
        assert!(stripe > 0, "relocation in stripes of no blocks");
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
            // A full stripe may consist of tombstone blocks.
            of_a_segment: BATCHES_OF_A_MOVE * of_a_move.max(of_a_trim * stripe),
        }
    }

    /// Configured number of pages.
    #[must_use]
    pub(in crate::log) fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages that relocation examines together.
    #[must_use]
    pub(in crate::log) fn of_a_part(&self) -> u64 {
        self.batch.div_ceil(4)
    }

    /// Pages of a part of a request, such as a trim: each part takes a block and waits for the one
    /// before. Four users do not wait for each other.
    #[must_use]
    pub(in crate::log) fn of_a_request(&self) -> u64 {
        self.of_users / 4
    }

    /// Most pages in memory.
    #[must_use]
    pub(in crate::log) fn most(&self) -> u64 {
        // Trims are relocated in parts.
        let segments = MOVED_AT_A_TIME as u64;
        let moved = segments * (self.of_a_segment + BATCHES_OF_A_MOVE * self.of_a_part());
        let taken_back = self.of_a_move.max(self.of_a_part() + 1);
        assert!(self.of_a_move <= self.of_a_segment, "a batch has more pages than its segment");
        self.pages + self.batch + self.of_users + moved + taken_back + OF_A_CHECKPOINT
    }
}
