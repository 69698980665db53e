//! The L2P cache: an index that takes less memory than the whole map, with least recently used
//! pages on media only.
//!
//! A page is *absent* when it is not in memory ([`map`](super::map)) and a mapping block on media
//! holds its entries. A task that reads, writes, trims or relocates a block *pins* its page until
//! done (`hold`, `pins`): a pinned page is in memory and stays there. Eviction (`evict`) picks
//! unpinned pages by CLOCK. A clean page leaves at once. A dirty page leaves when it has been
//! written, like a page of a checkpoint.
//!
//! * The mapping block of an absent page is authoritative, and each of its entries is counted as
//!   valid in its segment. The mapping block itself counts in its own segment: it is relocated like
//!   data, and its segment is not freed before. An array therefore needs room for the mapping
//!   blocks of all pages beside the volume, and is refused without it (`members/eviction`).
//! * `State::page_at` is the address of a clean page: the one written since the newest checkpoint,
//!   or else the checkpoint's. A start knows checkpoints only, and replays everything written
//!   since.
//! * Memory holds the configured number of pages, a batch, and pinned pages, which are bounded
//!   (`limit`). Garbage collection never waits for an eviction, as an eviction may wait for the
//!   space that it frees.
//! * Relocation dirties pages, and writing these takes space that relocation has to free. Evictions
//!   therefore write at most a fixed number of pages per block of user writes. On an array so full
//!   that this is too few, more pages stay in memory, and write amplification stays bounded.
//! * An unreadable mapping block is an error for the request that needs it, as its entries exist
//!   only in summaries, and ends writes. A durable record voids the checkpoint, so that the next
//!   start reads every summary. Other pages stay readable. Eviction does not depend on redundancy:
//!   a mapping block is as safe as data, and never the only copy.

mod evict;
mod hold;
mod limit;
pub(in crate::log) mod moves;
pub(in crate::log) mod pins;
pub(in crate::log) mod residency;

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
use zoneweave_zoned::Lba;

use crate::log::engine::address::Page;
use crate::log::engine::footprint::in_tree;
use crate::log::format::checkpoint::AddressSpace;
use crate::log::index::cache::pins::PagePins;
use crate::log::index::remap::Move;

pub(in crate::log) use crate::log::index::cache::pins::For;
pub(in crate::log) use evict::{run, run_beside};
pub(in crate::log) use hold::{Held, hold, hold_range};
pub use limit::IndexLimit;
pub(in crate::log) use limit::Limit;

/// Pages examined before yielding.
const LOOKED_AT: u64 = 1 << 14;

/// Evicted pages that may be written for each block written by users.
const WRITTEN_FOR_A_BLOCK: u64 = 8;

/// Pages of an index, by location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexPages {
    /// Number of pages of the volume.
    pub total: u64,
    /// Pages in memory now.
    pub held: u64,
    /// Most pages in memory since the start.
    pub held_most: u64,
    /// Pages on media only; the remaining ones have no mapped block.
    pub away: u64,
    /// The configured limit in bytes.
    pub limit_bytes: u64,
}

/// Memory for a page that is being read, in bytes.
const COMING: u64 = in_tree(size_of::<Page>());

/// State of the cache.
pub(in crate::log) struct Offload {
    /// Numbers of pages in memory, by use.
    pub(in crate::log) limit: Limit,
    /// Reference bits: pages that users accessed since the hand passed them.
    asked_for: FixedBitSet,
    hand: u64,
    /// Pages that a task is reading from media now.
    coming: BTreeSet<Page>,
    /// Number of absent pages.
    away: u64,
    /// Pages that may be written until users write more.
    credit: u64,
    /// Whether pages are being written, or are about to be.
    writing: bool,
    /// The last write of pages failed: users do not wait for evictions that may never succeed.
    stuck: bool,
    /// A page was invalid: the index no longer changes.
    failed: bool,
    /// Invalid pages, whose entries are unknown.
    lost: BTreeSet<Page>,
    /// Relocations into abandoned segments that are undone once their pages are in memory.
    moves_left: Vec<Move>,
}

impl Offload {
    /// A cache that keeps the index within some memory, if it needs more; relocation uses stripes
    /// of so many blocks.
    #[must_use]
    pub(in crate::log) fn within(
        limit: IndexLimit,
        space: &AddressSpace,
        stripe: u64,
    ) -> Option<Self> {
        let (limit, pages) = (Limit::new(limit, space, stripe), space.mapping_blocks());
        let offload = || Self {
            limit,
            asked_for: FixedBitSet::with_capacity(Lba(pages).index()),
            hand: 0,
            coming: BTreeSet::new(),
            away: 0,
            credit: pages,
            writing: false,
            stuck: false,
            failed: false,
            lost: BTreeSet::new(),
            moves_left: Vec::new(),
        };
        (limit.pages < pages).then(offload)
    }

    /// The limits of the cache.
    #[must_use]
    pub(in crate::log) fn limit(&self) -> &Limit {
        &self.limit
    }

    fn pages(&self) -> u64 {
        self.asked_for.len() as u64
    }

    /// Memory of the cache for an index with so many pages in memory, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_of(space: &AddressSpace, held: u64) -> u64 {
        held * (PagePins::PIN + COMING) + space.mapping_blocks().div_ceil(8)
    }

    /// Memory of the cache, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        self.coming.len() as u64 * COMING + self.pages().div_ceil(8)
    }

    /// Memory of relocations that are to be undone, in bytes.
    #[must_use]
    pub(in crate::log) fn moves_left_bytes(&self) -> u64 {
        (self.moves_left.capacity() * size_of::<Move>()) as u64
    }

    /// Records a user's write that dirties so many pages.
    pub(in crate::log) fn record_write(&mut self, pages: u64) {
        assert!(self.credit <= self.pages(), "{} of {} pages may go", self.credit, self.pages());
        self.credit = (self.credit + WRITTEN_FOR_A_BLOCK * pages).min(self.pages());
    }
}
