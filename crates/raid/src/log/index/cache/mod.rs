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

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::memory::in_tree;
use crate::log::engine::state::{Move, Moved, State};
use crate::log::format::StreamKind;
use crate::log::format::checkpoint::{Address, AddressSpace, Mapped, MappingBlock};
use crate::log::index::cache::pins::Frames;
use crate::log::index::checkpoint::read::Unusable;
use crate::log::index::map::{Page, Pba, SegmentSlot};
use crate::log::segment::table::{Phase, Segment};

pub(in crate::log) use crate::log::index::cache::pins::For;
pub(in crate::log) use evict::{run, run_beside};
pub(in crate::log) use hold::{Held, hold, hold_range};
pub use limit::IndexLimit;
pub(in crate::log) use limit::Limit;

/// Pages looked at without letting others run.
const LOOKED_AT: u64 = 1 << 14;

/// Pages that may be written to leave memory for each block that users write.
const WRITTEN_FOR_A_BLOCK: u64 = 8;

/// Pages of an index, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexPages {
    /// All of them.
    pub total: u64,
    /// In memory.
    pub held: u64,
    /// The most that were since the start.
    pub held_most: u64,
    /// On media only; of the others nothing is mapped.
    pub away: u64,
    /// Memory that was asked for.
    pub limit_bytes: u64,
}

/// Memory for a page that is being read.
const COMING: u64 = in_tree(size_of::<Page>());

/// What is known of pages that may go.
pub(in crate::log) struct Offload {
    /// How many there are to be.
    limit: Limit,
    /// Pages that users asked for since the hand passed them.
    asked_for: FixedBitSet,
    hand: u64,
    /// Pages that a task is reading from media now.
    coming: BTreeSet<Page>,
    /// Pages that are away.
    away: u64,
    /// Pages that may be written until users write more.
    credit: u64,
    /// Some are being written, or about to be.
    writing: bool,
    /// The last ones could not be written: users do not wait for what may never come.
    stuck: bool,
    /// One of them was not what it seemed: nothing is changed any more.
    failed: bool,
    /// Those that were not: of what they tell nothing is known.
    lost: BTreeSet<Page>,
    /// What was moved into segments that were given up, and is to be taken back as soon as its
    /// pages are here.
    moves_left: Vec<Move>,
}

impl Offload {
    /// What keeps the index of a space within some memory, if that needs more; what is moved goes
    /// to stripes of so many blocks.
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

    /// How many pages there are to be.
    #[must_use]
    pub(in crate::log) fn limit(&self) -> &Limit {
        &self.limit
    }

    fn pages(&self) -> u64 {
        self.asked_for.len() as u64
    }

    /// Memory that it takes for an index of which so many pages are in memory.
    #[must_use]
    pub(in crate::log) fn bytes_of(space: &AddressSpace, held: u64) -> u64 {
        held * (Frames::PIN + COMING) + space.mapping_blocks().div_ceil(8)
    }

    /// Memory that it takes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        self.coming.len() as u64 * COMING + self.pages().div_ceil(8)
    }

    /// Memory of what is to be taken back.
    #[must_use]
    pub(in crate::log) fn moves_left_bytes(&self) -> u64 {
        (self.moves_left.capacity() * size_of::<Move>()) as u64
    }

    /// Users wrote something that changes so many pages.
    pub(in crate::log) fn note_written(&mut self, pages: u64) {
        self.credit = (self.credit + WRITTEN_FOR_A_BLOCK * pages).min(self.pages());
    }
}

impl State {
    /// Pages that are away; each has a block that counts as valid.
    #[must_use]
    pub(in crate::log) fn pages_away(&self) -> u64 {
        self.offload.as_ref().map_or(0, |offload| offload.away)
    }

    /// The pages of an index that are not all in memory.
    #[must_use]
    pub(in crate::log) fn index_pages(&self) -> Option<IndexPages> {
        let offload = self.offload.as_ref()?;
        Some(IndexPages {
            total: offload.pages(),
            held: self.index.frames().here(),
            held_most: self.index.frames().most(),
            away: offload.away,
            limit_bytes: offload.limit.asked.bytes,
        })
    }

    /// Whether there is memory to remember which blocks of one more segment are live.
    #[must_use]
    pub(in crate::log) fn may_remember_live(&self, geometry: &SegmentGeometry) -> bool {
        let Some(offload) = &self.offload else { return false };
        let so_far: u64 = self.segments.iter().map(|(_, segment)| segment.live_bytes()).sum();
        so_far + Segment::live_bytes_of(geometry) <= offload.limit.asked.of_live()
    }

    /// Whether a page is on media only.
    #[must_use]
    pub(in crate::log) fn is_away(&self, page: Page) -> bool {
        !self.index.holds(page) && self.page_at(page).is_some()
    }

    /// Pages in memory beyond those that are to be, and how many of them may go. Those that only
    /// what moves blocks works with come beside: none of users' has to go for them.
    fn pages_beyond(&self, offload: &Offload) -> (u64, u64) {
        // What was replayed for a page that is still to be read, too, cannot go.
        self.index.frames().beyond(offload.limit.pages, self.pages_replayed())
    }

    /// Whether there are pages that are to go.
    #[must_use]
    pub(in crate::log) fn has_too_many_pages(&self) -> bool {
        let beyond = |offload| self.pages_beyond(offload);
        self.offload.as_ref().map(beyond).is_some_and(|(beyond, may_go)| beyond.min(may_go) > 0)
    }

    /// Whether a page was not what it seemed, and everything is about to stop.
    #[must_use]
    pub(in crate::log) fn has_lost_page(&self) -> bool {
        self.offload.as_ref().is_some_and(|offload| offload.failed)
    }

    /// Whether pages are being read.
    #[must_use]
    pub(in crate::log) fn takes_pages_in(&self) -> bool {
        self.offload.as_ref().is_some_and(|offload| !offload.coming.is_empty())
    }

    /// Whether users have to wait until pages have gone: there are some that can, and are about to.
    #[must_use]
    pub(in crate::log) fn awaits_pages_to_go(&self) -> bool {
        let Some(offload) = &self.offload else { return false };
        let (beyond, may_go) = self.pages_beyond(offload);
        let go = self.stopped.is_none() && !offload.stuck && !offload.failed && offload.credit > 0;
        // Nor where they wait for room, as pages do then.
        let room = self.has_room(StreamKind::User) || self.room_in(StreamKind::User) > 0;
        let go = go && self.recovering.is_none() && room;
        let Limit { pages, batch, .. } = offload.limit;
        // What moves blocks comes beside.
        go && beyond > 0 && may_go > 0 && may_go + offload.coming.len() as u64 >= pages + batch
    }

    /// Takes in what a page tells that is away.
    ///
    /// # Errors
    /// If it leads to what is not there.
    fn take_in_page(&mut self, page: Page, block: &MappingBlock) -> Result<(), Unusable> {
        if !self.is_away(page) {
            return Ok(());
        }
        if !block.entries.iter().all(|entry| self.is_there(entry)) {
            return Err(Unusable);
        }
        let at = self.page_at(page).expect("it is away");
        self.index.take_in(page);
        for (lba, entry) in (block.first.0..).map(Lba).zip(&block.entries) {
            let pba = match entry {
                Mapped::Nowhere => continue,
                Mapped::Block(address) | Mapped::Trimmed(address) => Pba::from(*address),
            };
            self.index.enter(lba, Some(pba));
        }
        self.count_page(at, false);
        mark(Mark::PageTakenIn);
        Ok(())
    }

    /// Whether what a page tells of a block can be so.
    fn is_there(&self, entry: &Mapped) -> bool {
        let leads_somewhere = |address: Address| {
            let place = self.space.place(address.into());
            let segment = self.segments.get(place.slot);
            segment.is_some_and(|segment| {
                segment.phase != Phase::Dead && segment.geometry.contains(place.column, place.block)
            })
        };
        let (address, trimmed) = match *entry {
            Mapped::Nowhere => return true,
            Mapped::Block(address) => (address, false),
            Mapped::Trimmed(address) => (address, true),
        };
        leads_somewhere(address) && self.tombstones.contains_key(&address.into()) == trimmed
    }

    /// Takes a page out of memory that has not changed since it was fixed.
    fn leave_page_out(&mut self, page: Page) {
        self.index.leave_out(page);
        if let Some(at) = self.page_at(page) {
            let slot = self.space.place(at).slot;
            assert!(!self.is_leaving(slot), "page {} is left to what is freed next", page.0);
            self.count_page(at, true);
        }
        mark(Mark::PageLeftOut);
    }

    /// Counts the block of a page that comes to be away, or is away no more.
    fn count_page(&mut self, at: Pba, away: bool) {
        if mutant(Mutant::PagesAwayNotCounted) {
            return;
        }
        let slot = self.space.place(at).slot;
        let offload = self.offload.as_mut().expect("pages go away");
        let segment = &mut self.segments[slot];
        assert!(segment.phase != Phase::Dead, "a page in dead segment {}", segment.id);
        if away {
            offload.away += 1;
            (segment.valid, segment.pages_away) = (segment.valid + 1, segment.pages_away + 1);
        } else {
            offload.away -= 1;
            (segment.valid, segment.pages_away) = (segment.valid - 1, segment.pages_away - 1);
        }
    }

    /// Where pages are that are away, of some.
    fn places_away(&self, pages: Range<u64>) -> impl Iterator<Item = (Page, Pba)> {
        let all = self.offload.as_ref().map_or(0, Offload::pages);
        let away = (pages.start..pages.end.min(all)).map(Page);
        let away = away.filter(|page| !self.index.holds(*page) && !self.is_absent(*page));
        away.filter_map(|page| Some((page, self.page_at(page)?)))
    }

    /// How many blocks of pages count in each segment; for tests, as it looks at all of them.
    #[must_use]
    pub(in crate::log) fn pages_away_by_segment(&self) -> BTreeMap<SegmentSlot, u64> {
        let mut counted = BTreeMap::new();
        if self.pages_away() > 0 {
            for (_, at) in self.places_away(0..u64::MAX) {
                *counted.entry(self.space.place(at).slot).or_default() += 1;
            }
        }
        counted
    }

    /// Whether a mapping block is that of a page that is away: then it is moved.
    #[must_use]
    pub(in crate::log) fn is_page_away(&self, first: Lba, at: Pba) -> bool {
        self.offload.is_some()
            && first.0 < self.config.volume_blocks
            && self.is_away(self.index.page_of(first))
            && self.page_at(self.index.page_of(first)) == Some(at)
    }

    /// Lets a page that is away be where its block was moved.
    pub(in crate::log) fn move_page(&mut self, first: Lba, from: Pba, to: Pba) {
        let still = self.is_page_away(first, from);
        mark_if(Mark::PageMoved, || still);
        if still {
            self.moves.push(Move { lba: first, blocks: 1, from, to, what: Moved::Page });
            self.put_page(first, from, to);
        }
    }

    /// Notes that the block of a page that is away is elsewhere.
    pub(in crate::log) fn put_page(&mut self, first: Lba, from: Pba, to: Pba) {
        let page = self.index.page_of(first);
        self.count_page(from, false);
        self.checkpoints.put_apart(page, Some(to));
        self.count_page(to, true);
    }

    /// What tells of pages is gone with a segment: none of them is away, so they are in memory.
    pub(in crate::log) fn forget_pages_in(&mut self, slot: SegmentSlot) {
        if self.offload.is_none() {
            return;
        }
        let space = self.space;
        for page in self.checkpoints.forget(|pba| space.place(pba).slot == slot) {
            assert!(self.index.holds(page), "page {} is away in a freed segment", page.0);
            self.index.mark_changed(page);
        }
    }
}
