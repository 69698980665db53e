//! Which pages of the index stay in memory: decisions over the state.

use std::collections::BTreeMap;
use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{Address, Page, Pba, SegmentSlot};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::format::checkpoint::{Mapped, MappingBlock};
use crate::log::index::cache::limit::Limit;
use crate::log::index::cache::{IndexPages, Offload};
use crate::log::index::checkpoint::read::Unusable;
use crate::log::index::mapping::Mapping;
use crate::log::index::remap::{Move, Moved};
use crate::log::segment::table::{Phase, Segment};

impl Mapping {
    /// Number of absent pages; each has a mapping block that counts as valid.
    #[must_use]
    pub(in crate::log) fn pages_away(&self) -> u64 {
        self.offload.as_ref().map_or(0, |offload| offload.away)
    }

    /// The pages of the index; `None` if all are in memory.
    #[must_use]
    pub(in crate::log) fn index_pages(&self) -> Option<IndexPages> {
        let offload = self.offload.as_ref()?;
        Some(IndexPages {
            total: offload.pages(),
            held: self.index.page_pins().here(),
            held_most: self.index.page_pins().most(),
            away: offload.away,
            limit_bytes: offload.limit.asked.bytes,
        })
    }

    /// Pages in memory beyond the configured number, and how many of them may be evicted. Pages
    /// pinned only by relocation are extra: they evict none of users' pages.
    pub(super) fn pages_beyond(&self, offload: &Offload) -> (u64, u64) {
        // A page with replayed entries that is still to be read cannot be evicted.
        self.index.page_pins().beyond(offload.limit.pages, self.pages_replayed())
    }

    /// Whether a page has to be evicted.
    #[must_use]
    pub(super) fn has_too_many_pages(&self) -> bool {
        let beyond = |offload| self.pages_beyond(offload);
        self.offload.as_ref().map(beyond).is_some_and(|(beyond, may_go)| beyond.min(may_go) > 0)
    }

    /// Whether a page was invalid, so that the volume is about to stop.
    #[must_use]
    pub(in crate::log) fn has_lost_page(&self) -> bool {
        self.offload.as_ref().is_some_and(|offload| offload.failed)
    }

    /// Whether pages are being read.
    #[must_use]
    pub(in crate::log) fn takes_pages_in(&self) -> bool {
        self.offload.as_ref().is_some_and(|offload| !offload.coming.is_empty())
    }
}

impl State {
    /// Whether there is memory to track the valid blocks of one more segment.
    #[must_use]
    pub(in crate::log) fn may_track_mapped(&self, geometry: &SegmentGeometry) -> bool {
        let Some(offload) = &self.mapping.offload else { return false };
        let so_far: u64 = self.segments.iter().map(|(_, segment)| segment.tracking_bytes()).sum();
        so_far + Segment::tracking_bytes_of(geometry) <= offload.limit.asked.of_live()
    }

    /// Whether a page is on media only.
    #[must_use]
    pub(in crate::log) fn is_away(&self, page: Page) -> bool {
        !self.mapping.index.holds(page) && self.page_at(page).is_some()
    }

    /// Whether users have to wait for evictions: some pages can be evicted, and are about to be.
    #[must_use]
    pub(in crate::log) fn awaits_pages_to_go(&self) -> bool {
        let Some(offload) = &self.mapping.offload else { return false };
        let (beyond, may_go) = self.mapping.pages_beyond(offload);
        let go =
            self.array.stopped.is_none() && !offload.stuck && !offload.failed && offload.credit > 0;
        // Users do not wait while they lack space, as evictions then lack it too.
        let room = self.has_free_segment(StreamKind::User) || self.space_in(StreamKind::User) > 0;
        let go = go && self.recovering.is_none() && room;
        let Limit { pages, batch, .. } = offload.limit;
        // Pages pinned by relocation are extra.
        go && beyond > 0 && may_go > 0 && may_go + offload.coming.len() as u64 >= pages + batch
    }

    /// Enters an absent page into memory.
    ///
    /// # Errors
    /// If an entry points at a block that does not exist.
    pub(super) fn take_in_page(
        &mut self,
        page: Page,
        block: &MappingBlock,
    ) -> Result<(), Unusable> {
        if !self.is_away(page) {
            return Ok(());
        }
        if !block.entries.iter().all(|entry| self.is_there(entry)) {
            return Err(Unusable);
        }
        let at = self.page_at(page).expect("it is away");
        assert!(
            block.entries.len() <= self.mapping.index.count_of(page),
            "page {} has {} entries on media",
            page.0,
            block.entries.len()
        );
        self.mapping.index.take_in(page);
        for (lba, entry) in (block.first.0..).map(Lba).zip(&block.entries) {
            let pba = match entry {
                Mapped::Nowhere => continue,
                Mapped::Block(address) | Mapped::Trimmed(address) => Pba::from(*address),
            };
            self.mapping.index.enter(lba, Some(pba));
        }
        self.count_page(at, false);
        mark(Mark::PageTakenIn);
        Ok(())
    }

    /// Whether an entry of a page can be valid.
    fn is_there(&self, entry: &Mapped) -> bool {
        let leads_somewhere = |address: Address| {
            let place = self.space.place(address.into());
            let segment = self.segments.get(place.slot);
            segment.is_some_and(|segment| {
                segment.phase() != Phase::Dead
                    && segment.geometry.contains(place.column, place.block)
            })
        };
        let (address, trimmed) = match *entry {
            Mapped::Nowhere => return true,
            Mapped::Block(address) => (address, false),
            Mapped::Trimmed(address) => (address, true),
        };
        leads_somewhere(address) && self.mapping.tombstones.contains_key(&address.into()) == trimmed
    }

    /// Drops a clean page.
    pub(super) fn leave_page_out(&mut self, page: Page) {
        self.mapping.index.leave_out(page);
        if let Some(at) = self.page_at(page) {
            let slot = self.space.place(at).slot;
            assert!(
                !self.segments.is_leaving(slot),
                "page {} is in a segment that is freed next",
                page.0
            );
            self.count_page(at, true);
        }
        mark(Mark::PageLeftOut);
    }

    /// Counts the mapping block of a page that becomes absent, or is loaded.
    fn count_page(&mut self, at: Pba, away: bool) {
        if mutant(Mutant::PagesAwayNotCounted) {
            return;
        }
        let slot = self.space.place(at).slot;
        let offload = self.mapping.offload.as_mut().expect("pages go away");
        if away {
            offload.away += 1;
            self.segments[slot].add_page();
        } else {
            assert!(offload.away > 0, "no page is absent beside the one at {at:?}");
            offload.away -= 1;
            self.segments[slot].take_page();
        }
    }

    /// Addresses of the absent pages in a range.
    pub(super) fn places_away(&self, pages: Range<u64>) -> impl Iterator<Item = (Page, Pba)> {
        let all = self.mapping.offload.as_ref().map_or(0, Offload::pages);
        let away = (pages.start..pages.end.min(all)).map(Page);
        let away =
            away.filter(|page| !self.mapping.index.holds(*page) && !self.mapping.is_absent(*page));
        away.filter_map(|page| Some((page, self.page_at(page)?)))
    }

    /// Number of valid mapping blocks of absent pages in each segment; for tests, as it examines
    /// all of them.
    #[must_use]
    pub(in crate::log) fn pages_away_by_segment(&self) -> BTreeMap<SegmentSlot, u64> {
        let mut counted = BTreeMap::new();
        if self.mapping.pages_away() > 0 {
            for (_, at) in self.places_away(0..u64::MAX) {
                *counted.entry(self.space.place(at).slot).or_default() += 1;
            }
        }
        counted
    }

    /// Whether a mapping block belongs to an absent page, so that it has to be relocated.
    #[must_use]
    pub(in crate::log) fn is_page_away(&self, first: Lba, at: Pba) -> bool {
        self.mapping.offload.is_some()
            && first.0 < self.array.config.log().volume_blocks
            && self.is_away(self.mapping.index.page_of(first))
            && self.page_at(self.mapping.index.page_of(first)) == Some(at)
    }

    /// Redirects an absent page to the relocated mapping block.
    pub(in crate::log) fn move_page(&mut self, first: Lba, from: Pba, to: Pba) {
        let still = self.is_page_away(first, from);
        mark_if(Mark::PageMoved, || still);
        if still {
            self.reclaim.moves.push(Move { lba: first, blocks: 1, from, to, what: Moved::Page });
            self.put_page(first, from, to);
        }
    }

    /// Records the new address of an absent page's mapping block.
    pub(in crate::log) fn put_page(&mut self, first: Lba, from: Pba, to: Pba) {
        let page = self.mapping.index.page_of(first);
        assert!(from != to, "page {} moves to {to:?}, where it is", page.0);
        self.count_page(from, false);
        self.checkpoints.put_apart(page, Some(to));
        self.count_page(to, true);
    }

    /// Forgets the mapping blocks in a segment that is freed: none belongs to an absent page, so
    /// their pages are in memory.
    pub(in crate::log) fn forget_pages_in(&mut self, slot: SegmentSlot) {
        if self.mapping.offload.is_none() {
            return;
        }
        let space = self.space;
        for page in self.checkpoints.forget(|pba| space.place(pba).slot == slot) {
            assert!(self.mapping.index.holds(page), "page {} is away in a freed segment", page.0);
            self.mapping.index.mark_changed(page);
        }
    }
}
