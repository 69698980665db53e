//! Loads absent pages of the index on demand.
//!
//! A start serves users once it has replayed everything newer than the checkpoint. The pages of the
//! checkpoint that it did not need are *absent*. A request for a block of an absent page waits
//! until the page is loaded, while a task loads the others. A page does not become absent again.
//!
//! * While pages are absent, the valid counts of segments are unknown. Every segment that the start
//!   found is therefore retained, neither freed nor relocated. Later segments hold users' writes,
//!   whose pages are present.
//! * No checkpoint is written while pages are absent, as it would need their entries.
//! * Replayed entries are entered when a page near them is loaded, before the page, with their
//!   sequences. A page has lower priority than these, by the same rule as in a start that reads all
//!   pages ([`pages`](super::pages)).
//! * If a page turns out to be invalid after users were served, all requests that need it fail, and
//!   a void record is made, so that the next start reads every summary.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join;
use zoneweave_zoned::{BlockError, Lba};

use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::Sequence;
use crate::log::format::checkpoint::MappingBlock;
use crate::log::index::absent::Absent;
use crate::log::index::bulk_load::Plain;
use crate::log::index::checkpoint;
use crate::log::index::checkpoint::read::{Unusable, page_in, read_page_blocks};
use crate::log::index::deferred::{Deferred, Entry, Group};
use crate::log::index::mapping::Mapping;
use crate::log::index::pages::{Known, LOOKED_UP, Meets, Told, bound_of, look_up, tell};
use crate::log::index::partition::rank;
use crate::log::index::sequences::{Sequences, sequence_in};
use crate::log::segment::table::Segment;
use crate::log::segment::verify::FoundBlock;

/// Requested pages that are read at a time.
const ASKED_AT_A_TIME: usize = 64;

impl Mapping {
    /// Number of absent pages.
    #[must_use]
    pub(in crate::log) fn absent_pages(&self) -> u64 {
        self.absent.as_ref().map_or(0, |absent| absent.pages.len() as u64)
    }

    /// Number of absent pages with entries in memory.
    #[must_use]
    pub(super) fn pages_replayed(&self) -> u64 {
        self.absent.as_ref().map_or(0, |absent| absent.replayed.len() as u64)
    }

    /// Whether a page is absent.
    #[must_use]
    pub(in crate::log) fn is_absent(&self, page: Page) -> bool {
        self.absent.as_ref().is_some_and(|absent| absent.pages.contains_key(&page))
    }

    /// Whether pages are still being loaded.
    #[must_use]
    pub(in crate::log) fn is_paging(&self) -> bool {
        self.absent.as_ref().is_some_and(|absent| !absent.under_way.is_empty())
    }

    /// Whether deferred entries of a page remain.
    #[must_use]
    pub(super) fn is_to_be_entered(&self, page: Page) -> bool {
        let Some(absent) = &self.absent else { return false };
        let deferred = absent.deferred.near(page..Page(page.0 + 1));
        absent.pages.contains_key(&page) || deferred.is_some() && !mutant(Mutant::DeferredLeftAside)
    }

    /// Records that a page is invalid; returns whether that is new.
    fn mark_absent_failed(&mut self) -> bool {
        self.absent.as_mut().is_some_and(|absent| !std::mem::replace(&mut absent.failed, true))
    }

    /// The pages of a range of blocks.
    fn pages_of(&self, lba: Lba, blocks: u64) -> Range<Page> {
        let entries = self.index.page_entries();
        Page(lba.0 / entries)..Page((lba.0 + blocks).div_ceil(entries))
    }

    /// The sequence of the replayed version of a block in an absent page.
    fn replayed(&self, page: Page, lba: Lba) -> Option<Sequence> {
        replayed_in(self.absent.as_ref()?.replayed.get(&page)?, lba)
    }
}

impl State {
    /// Marks all pages absent except `present`, and counts valid blocks as far as they are known.
    pub(in crate::log) fn leave_absent(
        &mut self,
        sequences: Sequences,
        deferred: Deferred,
        present: &[Page],
    ) {
        let mut replayed: BTreeMap<_, _> = sequences.into_pages().collect();
        assert!(self.mapping.absent.is_none(), "pages become absent twice");
        for (lba, _) in replayed.values().flatten() {
            if let Some(pba) = self.mapping.index.get(*lba) {
                self.count_in(pba);
            }
        }
        // Tombstones without entries that point at them are counted when there is one.
        let trims = self.mapping.tombstones.keys().copied().collect();
        self.settle_tombstones();
        let mut pages: BTreeMap<_, _> = self.checkpoints.pages().collect();
        for page in present {
            pages.remove(page);
        }
        replayed.retain(|page, _| pages.contains_key(page));
        if pages.is_empty() && deferred.is_empty() {
            return;
        }
        if !mutant(Mutant::AbsentPagesForgotten) {
            self.segments.iter_mut().for_each(|(_, segment)| segment.retained_for_restart = true);
        }
        let slot_of = |pba: &Pba| self.space.place(*pba).slot;
        let hiding = self.mapping.tombstones.keys().map(slot_of).collect();
        let at_a_time = self.checkpoints.pages_on_demand().map_or(1, NonZeroU32::get) as usize;
        self.mapping.absent = Some(Absent {
            pages,
            deferred,
            trims,
            hiding,
            replayed,
            newest: self.checkpoints.recorded().coverage.sequence,
            at_a_time,
            under_way: BTreeSet::new(),
            failed: false,
        });
    }

    /// Enters a group of deferred entries near some pages; returns whether there was one.
    fn enter_deferred_near(&mut self, pages: Range<Page>) -> bool {
        let group = self.mapping.absent.as_ref().and_then(|absent| absent.deferred.near(pages));
        let group = group.filter(|_| !mutant(Mutant::DeferredLeftAside));
        if let Some(group) = group {
            self.enter_deferred(group);
        }
        group.is_some()
    }

    /// Enters a group of deferred entries near no absent page; returns the position to continue
    /// from.
    fn enter_deferred_without_page(&mut self, from: Group) -> Option<Group> {
        let group = self.mapping.absent.as_ref()?.deferred.next(from)?;
        mark(Mark::DeferredWithoutPage);
        self.enter_deferred(group);
        Some(group)
    }

    fn enter_deferred(&mut self, group: Group) {
        let Some(absent) = &mut self.mapping.absent else { return };
        let entries = absent.deferred.take(group);
        mark(Mark::DeferredEntered);
        let mut replayed: Vec<(Page, Vec<(Lba, Sequence)>)> = Vec::new();
        for same in entries.chunk_by(|one, other| one.lba == other.lba) {
            let (lba, sequence) = (same[0].lba, same[0].sequence);
            let preferred = |entry: &&Entry| rank(self, entry.pba);
            let pba = match same {
                [only] => only.pba,
                _ => same.iter().rev().max_by_key(preferred).expect("a chunk is not empty").pba,
            };
            let other = same[0].pba != pba;
            mark_if(Mark::EqualCopyPreferred, || sequence > Sequence::NONE && other);
            let trimmed =
                self.mapping.absent.as_ref().is_some_and(|absent| absent.trims.contains(&pba));
            if trimmed && !self.mapping.tombstones.contains_key(&pba) {
                self.add_tombstone(pba);
            }
            let before = self.mapping.index.set(lba, Some(pba));
            assert!(before.is_none(), "block {lba} is in the index before its replayed entry");
            self.count_in(pba);
            let page = self.mapping.index.page_of(lba);
            match replayed.last_mut() {
                Some((last, of_page)) if *last == page => of_page.push((lba, sequence)),
                _ => replayed.push((page, vec![(lba, sequence)])),
            }
        }
        let Some(absent) = &mut self.mapping.absent else { return };
        let Absent { pages, replayed: known, .. } = absent;
        known.extend(replayed.into_iter().filter(|(page, _)| pages.contains_key(page)));
    }

    /// Enters loaded pages; returns entries whose age relative to replayed ones is unknown.
    ///
    /// # Errors
    /// If a page is invalid, or a promised version is missing.
    fn enter_absent(
        &mut self,
        pages: &[(Page, FoundBlock)],
    ) -> Result<Vec<(Page, Told)>, Unusable> {
        let mut unclear = Vec::new();
        let Some(absent) = &self.mapping.absent else { return Err(Unusable) };
        // The settled state of segments may be gone then.
        if absent.failed {
            return Err(Unusable);
        }
        let newest = absent.newest;
        // Preparing all segments costs more than it saves for few entries.
        let columns = self.segments.slots() * self.array.scheme().columns() as u64;
        let worth_it = pages.len() as u64 * self.mapping.index.page_entries() >= columns;
        let plain = |(slot, segment): &(SegmentSlot, &Segment)| {
            segment.is_in_checkpoint() && !absent.hiding.contains(slot)
        };
        let segments = worth_it.then(|| self.segments.iter()).into_iter().flatten();
        let mut plain = Plain::of(self.space, segments.filter(plain));
        let entered = pages.iter().try_for_each(|(page, found)| {
            let block = page_in(self, *page, found, newest)?;
            self.enter_absent_page(*page, &block, &mut plain, &mut unclear)
        });
        plain.end(&mut self.segments);
        entered.map(|()| unclear)
    }

    fn enter_absent_page(
        &mut self,
        page: Page,
        block: &MappingBlock,
        plain: &mut Plain,
        unclear: &mut Vec<(Page, Told)>,
    ) -> Result<(), Unusable> {
        let (bound, mut missing) = (bound_of(block), false);
        while self.enter_deferred_near(page..Page(page.0 + 1)) {}
        let known = self.mapping.absent.as_mut().and_then(|absent| absent.replayed.remove(&page));
        let known = known.unwrap_or_default();
        let others = plain.enter(&mut self.mapping.index, page, block, &known);
        tell(self, page, block, others, |state, told| {
            match told.meets(replayed_in(&known, told.lba), bound) {
                // Weak stripes, which may hold promised versions, were read before.
                Meets::Missing => missing = true,
                Meets::LeftOut | Meets::Newer => {}
                Meets::Unclear => unclear.push((page, told)),
                Meets::Nothing => state.map_absent(told.lba, told.pba, told.trimmed),
            }
        });
        if let Some(absent) = self.mapping.absent.as_mut().filter(|_| !known.is_empty()) {
            absent.replayed.insert(page, known);
        }
        if missing { Err(Unusable) } else { Ok(()) }
    }

    /// Maps a block as its page says, if the replayed version is older.
    fn decide_absent(&mut self, page: Page, told: &Told, known: &Known) {
        let Some(replayed) = self.mapping.replayed(page, told.lba) else { return };
        let older = match self.mapping.index.get(told.lba) {
            Some(other) => {
                let better = rank(self, told.pba) > rank(self, other);
                (replayed, false) < (known.sequence, better)
            }
            None => true,
        };
        mark_if(Mark::PageOvertookReplayed, || older);
        if older {
            self.map_absent(told.lba, told.pba, told.trimmed);
        }
    }

    /// Maps a block as its page says. The checkpoint has that entry, so it does not break.
    fn map_absent(&mut self, lba: Lba, pba: Pba, trimmed: bool) {
        if trimmed && !self.mapping.tombstones.contains_key(&pba) {
            self.add_tombstone(pba);
            let slot = self.space.place(pba).slot;
            self.mapping.absent.iter_mut().for_each(|absent| _ = absent.hiding.insert(slot));
        }
        let before = self.mapping.index.enter(lba, Some(pba));
        self.count_in(pba);
        if let Some(before) = before {
            self.count_out(before);
        }
    }

    /// Records that pages are present; if all are, drops the state of absent pages.
    fn mark_present(&mut self, pages: &[Page]) {
        let Some(absent) = self.mapping.absent.as_mut().filter(|absent| !absent.failed) else {
            return;
        };
        for page in pages {
            let was_absent = absent.pages.remove(page).is_some();
            assert!(was_absent, "page {} is loaded twice", page.0);
            absent.replayed.remove(page);
            self.mapping.index.take_in(*page);
        }
        if !absent.pages.is_empty() || !absent.deferred.is_empty() {
            return;
        }
        mark(Mark::IndexResident);
        self.mapping.absent = None;
        // Recovery releases its segments itself.
        if self.recovering.is_none() {
            self.segments.iter_mut().for_each(|(_, segment)| segment.retained_for_restart = false);
        }
    }
}

/// The sequence of the replayed version of a block, among those of its page.
fn replayed_in(known: &[(Lba, Sequence)], lba: Lba) -> Option<Sequence> {
    let sequence = sequence_in(known, lba)?;
    (!mutant(Mutant::PageOverReplayed)).then_some(sequence)
}

/// Waits until the index has the entries of a range of blocks.
///
/// # Errors
/// If a page cannot be loaded.
pub(super) async fn present(core: &Rc<Core>, lba: Lba, blocks: u64) -> Result<(), BlockError> {
    loop {
        let pages = core.state.borrow().mapping.pages_of(lba, blocks);
        while core.state.borrow_mut().enter_deferred_near(pages.clone()) {
            // There may be more pages in memory now than configured, and a range may be near many
            // entries.
            core.changed.open();
            core.handle.yield_now().await;
        }
        let to_be_read = {
            let state = core.state.borrow();
            let Some(absent) = &state.mapping.absent else { return Ok(()) };
            if absent.pages.range(pages.clone()).next().is_none() {
                return Ok(());
            }
            if absent.failed {
                return Err(BlockError::Unrecoverable { lba });
            }
            if core.closing.get() {
                return Err(BlockError::ShuttingDown);
            }
            mark(Mark::PageAskedFor);
            absent.to_be_read(pages, ASKED_AT_A_TIME)
        };
        read_in(core, to_be_read).await;
    }
}

/// Loads all absent pages and enters the remaining replayed entries, until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>) {
    // While one loop enters pages, the drives read those of the other.
    join(read_on(&core), read_on(&core)).await;
}

async fn read_on(core: &Rc<Core>) {
    let mut entered = Group::default();
    while !core.closing.get() {
        let waits = core.state.borrow().awaits_pages_to_go();
        if waits {
            core.changed.wait().await;
            continue;
        }
        let to_be_read = match &core.state.borrow().mapping.absent {
            Some(absent) if !absent.failed => {
                let some = absent.to_be_read(Page(0)..Page(u64::MAX), absent.at_a_time);
                (!absent.pages.is_empty()).then_some(some)
            }
            _ => return,
        };
        if let Some(pages) = to_be_read {
            read_in(core, pages).await;
            continue;
        }
        let more = core.state.borrow_mut().enter_deferred_without_page(entered);
        match more {
            Some(group) => entered = group,
            None => core.state.borrow_mut().mark_present(&[]),
        }
        core.changed.open();
        core.handle.yield_now().await;
    }
}

/// Loads all absent pages.
///
/// # Errors
/// If a page is invalid.
pub(in crate::log) async fn read_all(core: &Rc<Core>) -> Result<(), StopReason> {
    run(core.clone()).await;
    let state = core.state.borrow();
    match state.mapping.absent {
        None => Ok(()),
        Some(_) => Err(state.array.stopped.unwrap_or(StopReason::UnreadableIndexPage)),
    }
}

/// Reads pages, or waits for pages being read if there are no others.
async fn read_in(core: &Rc<Core>, pages: Vec<Page>) {
    if pages.is_empty() {
        core.changed.wait().await;
        return;
    }
    if let Some(absent) = &mut core.state.borrow_mut().mapping.absent {
        assert!(
            pages.iter().all(|page| !absent.under_way.contains(page)),
            "a page of {pages:?} is being read already"
        );
        absent.under_way.extend(&pages);
    }
    // A task of its own: others may wait for the pages after the caller is gone.
    let inner = core.clone();
    let reading = async move {
        let read = enter_all(&inner, &pages).await;
        if read.is_ok() {
            inner.state.borrow_mut().mark_present(&pages);
        } else {
            mark(Mark::PageUnreadable);
            let is_news = |state: &mut State| state.mapping.mark_absent_failed();
            checkpoint::give_up(&inner, is_news).await;
        }
        if let Some(absent) = &mut inner.state.borrow_mut().mapping.absent {
            absent.under_way.retain(|page| !pages.contains(page));
        }
        inner.changed.open();
    };
    core.handle.spawn("pages of the index", reading).await;
}

async fn enter_all(core: &Rc<Core>, pages: &[Page]) -> Result<(), Unusable> {
    let listed: Vec<_> = {
        let state = core.state.borrow();
        let Some(absent) = &state.mapping.absent else { return Ok(()) };
        pages.iter().filter_map(|page| Some((*page, *absent.pages.get(page)?))).collect()
    };
    let read = read_page_blocks(core, &listed).await.into_iter();
    let read: Option<Vec<_>> = read.map(|(page, found)| Some((page, found?))).collect();
    let read = read.ok_or(Unusable)?;
    let unclear = core.state.borrow_mut().enter_absent(&read)?;
    for some in unclear.chunks(LOOKED_UP) {
        let entries: Vec<_> = some.iter().map(|(_, told)| (told.lba, told.pba)).collect();
        let known = look_up(core, &entries).await?;
        let mut state = core.state.borrow_mut();
        some.iter()
            .zip(&known)
            .for_each(|((page, told), known)| state.decide_absent(*page, told, known));
    }
    Ok(())
}
