//! Pins pages: they are loaded, and stay in memory until unpinned.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_runtime::Permit;
use zoneweave_zoned::{BlockError, Lba};

use super::For;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{Page, Pba};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::Sequence;
use crate::log::format::checkpoint::MappingBlock;
use crate::log::index::checkpoint::read::{Unusable, page_in, read_page_blocks};
use crate::log::index::mapping::Mapping;
use crate::log::index::{checkpoint, load};
use crate::log::segment::verify::FoundBlock;

/// Pages read at a time.
const READ_AT_A_TIME: usize = 64;

/// Pages that are in memory until this is dropped.
pub(in crate::log) struct Held {
    core: Rc<Core>,
    whom: For,
    pages: Vec<Page>,
    _turn: Option<Permit>,
}

impl Held {
    /// Pins pages from now on, whether they are in memory or not. Pages pinned for relocation may
    /// be evicted before pages referenced by users.
    fn new(core: &Rc<Core>, whom: For, pages: Vec<Page>, turn: Option<Permit>) -> Self {
        let mut state = core.state.borrow_mut();
        assert!(pages.is_sorted_by(|one, next| one < next), "pages are pinned twice: {pages:?}");
        let Mapping { index, offload, .. } = &mut state.mapping;
        for page in &pages {
            index.pin(*page, whom);
            if let Some(offload) = offload.as_mut().filter(|_| whom == For::Users) {
                offload.asked_for.insert(Lba(page.0).index());
            }
        }
        Self { core: core.clone(), whom, pages, _turn: turn }
    }

    /// How many they are.
    pub(in crate::log) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The state may be inconsistent after a panic, and a second panic would abort.
        if self.pages.is_empty() || std::thread::panicking() {
            return;
        }
        let mut state = self.core.state.borrow_mut();
        for page in &self.pages {
            state.mapping.index.unpin(*page, self.whom);
        }
        let too_many = state.mapping.has_too_many_pages();
        drop(state);
        if too_many {
            self.core.changed.open();
        }
    }
}

/// The next step of a task that is pinning pages.
enum Step {
    Ready,
    Wait,
    /// Enter deferred entries for the pages of these blocks.
    Enter(Range<u64>),
    Read(Vec<Page>),
}

impl Mapping {
    /// The range of the first adjacent pages with deferred entries.
    fn blocks_to_enter(&self, pages: &[Page]) -> Option<Range<u64>> {
        let enters = |page: &&Page| self.is_to_be_entered(**page);
        let first = pages.iter().position(|page| enters(&page))?;
        let run = pages[first..].iter().take(READ_AT_A_TIME).take_while(enters);
        let run = run.zip(pages[first].0..).take_while(|(page, next)| page.0 == *next);
        let (last, _) = run.last()?;
        Some(self.index.blocks_of(pages[first]).start..self.index.blocks_of(*last).end)
    }

    /// Records that a page is lost; returns whether it is the first.
    fn mark_page_lost(&mut self) -> bool {
        self.offload.as_mut().is_some_and(|offload| !std::mem::replace(&mut offload.failed, true))
    }
}

impl State {
    fn step_to(&self, pages: &[Page], whom: For, lba: Lba) -> Result<Step, BlockError> {
        let Some(offload) = &self.mapping.offload else { return Ok(Step::Ready) };
        let waits = || {
            let waits = whom == For::Users && self.awaits_pages_to_go();
            mark_if(Mark::FramesAwaited, || waits);
            waits
        };
        if let Some(blocks) = self.mapping.blocks_to_enter(pages) {
            let waits = waits();
            mark_if(Mark::FramesAwaitedByAbsent, || waits);
            return Ok(if waits { Step::Wait } else { Step::Enter(blocks) });
        }
        let away: Vec<_> = pages.iter().copied().filter(|page| self.is_away(*page)).collect();
        if away.is_empty() {
            // A page without any entry is created by the first write to it.
            let new = pages.iter().any(|page| !self.mapping.index.holds(*page));
            return Ok(if new && waits() { Step::Wait } else { Step::Ready });
        }
        if away.iter().any(|page| offload.lost.contains(page)) {
            return Err(BlockError::Unrecoverable { lba });
        }
        let missing = away.into_iter().filter(|page| !offload.coming.contains(page));
        let missing: Vec<_> = missing.take(READ_AT_A_TIME).collect();
        Ok(if missing.is_empty() || waits() { Step::Wait } else { Step::Read(missing) })
    }
}

/// The pages of ranges of blocks, in order.
fn pages_in(core: &Core, ranges: impl Iterator<Item = Range<u64>>) -> Vec<Page> {
    let state = core.state.borrow();
    let entries = state.mapping.index.page_entries();
    let pages = ranges.flat_map(|range| range.start / entries..range.end.div_ceil(entries));
    let mut pages: Vec<_> = pages.map(Page).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// Loads and pins the pages of ranges of blocks.
///
/// # Errors
/// If one cannot be read, or the volume closes.
pub(in crate::log) async fn hold(
    core: &Rc<Core>,
    whom: For,
    ranges: &[Range<u64>],
) -> Result<Held, BlockError> {
    if core.state.borrow().mapping.offload.is_none() {
        for range in ranges {
            load::present(core, Lba(range.start), range.end - range.start).await?;
        }
        return Ok(Held { core: core.clone(), whom, pages: Vec::new(), _turn: None });
    }
    let pages = pages_in(core, ranges.iter().cloned());
    // Relocation frees space for users, so it does not wait for their pages.
    let turn = match whom {
        For::Users => Some(core.holding.acquire_many(pages.len() as u64).await),
        For::Moving => None,
    };
    let held = Held::new(core, whom, pages, turn);
    let lba = Lba(ranges.first().map_or(0, |range| range.start));
    loop {
        let step = core.state.borrow().step_to(&held.pages, whom, lba)?;
        match step {
            Step::Ready => return Ok(held),
            _ if core.closing.get() => return Err(BlockError::ShuttingDown),
            Step::Wait => core.changed.wait().await,
            Step::Enter(blocks) => {
                load::present(core, Lba(blocks.start), blocks.end - blocks.start).await?;
            }
            Step::Read(pages) => read_in(core, pages).await,
        }
    }
}

/// Loads and pins the pages of a range of blocks.
///
/// # Errors
/// If one cannot be read, or the volume closes.
pub(in crate::log) async fn hold_range(
    core: &Rc<Core>,
    whom: For,
    range: Range<u64>,
) -> Result<Held, BlockError> {
    hold(core, whom, std::slice::from_ref(&range)).await
}

/// Loads absent pages.
async fn read_in(core: &Rc<Core>, pages: Vec<Page>) {
    if let Some(offload) = &mut core.state.borrow_mut().mapping.offload {
        assert!(
            pages.iter().all(|page| !offload.coming.contains(page)),
            "a page of {pages:?} is being read already"
        );
        offload.coming.extend(&pages);
    }
    // A task of its own: others may wait for the pages after the caller is gone.
    let inner = core.clone();
    let reading = async move {
        let (listed, newest) = {
            let state = inner.state.borrow();
            let away = pages.iter().filter(|page| state.is_away(**page));
            let listed = away.filter_map(|page| Some((*page, state.page_at(*page)?)));
            (listed.collect::<Vec<_>>(), state.writes.next_sequence)
        };
        let read = read_each(&inner, &listed, newest).await;
        let lost = {
            let mut state = inner.state.borrow_mut();
            state.counters.index_pages_read += listed.len() as u64;
            state.take_in_pages(read)
        };
        if lost {
            mark(Mark::PageAwayUnreadable);
            let failed = |state: &mut State| state.mapping.mark_page_lost();
            checkpoint::give_up(&inner, failed).await;
        }
        if let Some(offload) = &mut inner.state.borrow_mut().mapping.offload {
            offload.coming.retain(|page| !pages.contains(page));
        }
        inner.changed.open();
    };
    core.handle.spawn("pages of the index", reading).await;
}

/// Reads pages: `None` for lost or invalid ones.
async fn read_each(
    core: &Rc<Core>,
    listed: &[(Page, Pba)],
    newest: Sequence,
) -> Vec<(Page, Option<MappingBlock>)> {
    let read = read_page_blocks(core, listed).await;
    let state = core.state.borrow();
    let decode = |page, found: FoundBlock| page_in(&state, page, &found, newest).ok();
    read.into_iter()
        .map(|(page, found)| (page, found.and_then(|found| decode(page, found))))
        .collect()
}

impl State {
    /// Enters absent pages into memory; returns whether one is lost. The entries of a lost page are
    /// unknown, while those of the others are complete.
    fn take_in_pages(&mut self, read: Vec<(Page, Option<MappingBlock>)>) -> bool {
        let mut lost = false;
        for (page, block) in read {
            let taken_in = block.ok_or(Unusable).and_then(|block| self.take_in_page(page, &block));
            if let (Err(Unusable), Some(offload)) = (taken_in, &mut self.mapping.offload) {
                offload.lost.insert(page);
                lost = true;
            }
        }
        lost
    }
}
