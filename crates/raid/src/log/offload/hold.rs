//! Holding pages: they are in memory until nobody holds them.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_runtime::Permit;
use zoneweave_zoned::{BlockError, Lba};

use crate::log::checkpoint;
use crate::log::core::Core;
use crate::log::index::Page;
use crate::log::paging;
use crate::log::recover::checkpoint::read_pages;
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};

/// Pages read at a time.
const READ_AT_A_TIME: usize = 64;

/// Why nothing is served any more that needs a page which is not what it seemed.
const UNREADABLE: &str =
    "a page of the index cannot be read: start the array again, it will do without";

/// For whom pages are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum For {
    /// Users wait until others have gone.
    Users,
    /// What makes room for everything does not.
    Moving,
}

/// Pages that are in memory until this is dropped.
pub(in crate::log) struct Held {
    core: Rc<Core>,
    pages: Vec<Page>,
    _turn: Option<Permit>,
}

impl Held {
    fn new(core: &Rc<Core>, pages: Vec<Page>, turn: Option<Permit>) -> Self {
        if let Some(offload) = &mut core.state.borrow_mut().offload {
            for page in &pages {
                *offload.held.entry(*page).or_default() += 1;
                offload.asked_for.insert(Lba(page.0).index());
            }
        }
        Self { core: core.clone(), pages, _turn: turn }
    }

    /// How many they are.
    pub(in crate::log) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What a panic left behind may contradict itself, and a second panic would abort.
        if self.pages.is_empty() || std::thread::panicking() {
            return;
        }
        let mut state = self.core.state.borrow_mut();
        if let Some(offload) = &mut state.offload {
            for page in &self.pages {
                let count = offload.held.get_mut(page).expect("it is held");
                *count -= 1;
                if *count == 0 {
                    offload.held.remove(page);
                }
            }
        }
        let too_many = state.has_too_many_pages();
        drop(state);
        if too_many {
            self.core.changed.open();
        }
    }
}

/// What whoever holds pages has to do before they are there.
enum Step {
    Ready,
    Wait,
    Read(Vec<Page>),
}

impl State {
    fn step_to(&self, pages: &[Page], whom: For, lba: Lba) -> Result<Step, BlockError> {
        let Some(offload) = &self.offload else { return Ok(Step::Ready) };
        let away: Vec<_> = pages.iter().copied().filter(|page| self.is_away(*page)).collect();
        if away.is_empty() {
            return Ok(Step::Ready);
        }
        if offload.failed {
            return Err(BlockError::Unrecoverable { lba });
        }
        let missing = away.into_iter().filter(|page| !offload.coming.contains(page));
        let missing: Vec<_> = missing.take(READ_AT_A_TIME).collect();
        let waits = whom == For::Users && self.awaits_pages_to_go();
        mark_if(Mark::FramesAwaited, || waits);
        Ok(if missing.is_empty() || waits { Step::Wait } else { Step::Read(missing) })
    }
}

/// The pages that ranges of blocks are in, in order.
fn pages_in(core: &Core, ranges: impl Iterator<Item = Range<u64>>) -> Vec<Page> {
    let state = core.state.borrow();
    let entries = state.index.page_entries();
    let pages = ranges.flat_map(|range| range.start / entries..range.end.div_ceil(entries));
    let mut pages: Vec<_> = pages.map(Page).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// Brings the pages of ranges of blocks into memory, and keeps them there.
///
/// # Errors
/// If one cannot be read, or the volume closes.
pub(in crate::log) async fn hold(
    core: &Rc<Core>,
    whom: For,
    ranges: &[Range<u64>],
) -> Result<Held, BlockError> {
    for range in ranges {
        paging::present(core, Lba(range.start), range.end - range.start).await?;
    }
    if core.state.borrow().offload.is_none() {
        return Ok(Held { core: core.clone(), pages: Vec::new(), _turn: None });
    }
    let pages = pages_in(core, ranges.iter().cloned());
    // What makes room for users does not wait for them.
    let turn = match whom {
        For::Users => Some(core.holding.acquire_many(pages.len() as u64).await),
        For::Moving => None,
    };
    let held = Held::new(core, pages, turn);
    let lba = Lba(ranges.first().map_or(0, |range| range.start));
    loop {
        let step = core.state.borrow().step_to(&held.pages, whom, lba)?;
        match step {
            Step::Ready => return Ok(held),
            _ if core.closing.get() => return Err(BlockError::ShuttingDown),
            Step::Wait => core.changed.wait().await,
            Step::Read(pages) => read_in(core, pages).await,
        }
    }
}

/// Brings the pages of a range of blocks into memory, and keeps them there.
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

/// Reads pages that are away.
async fn read_in(core: &Rc<Core>, pages: Vec<Page>) {
    if let Some(offload) = &mut core.state.borrow_mut().offload {
        offload.coming.extend(&pages);
    }
    // A task of its own: others may wait for the pages when the caller has gone away.
    let inner = core.clone();
    let reading = async move {
        let (listed, newest) = {
            let state = inner.state.borrow();
            let away = pages.iter().filter(|page| state.is_away(**page));
            let listed = away.filter_map(|page| Some((*page, state.page_at(*page)?)));
            (listed.collect::<Vec<_>>(), state.next_sequence)
        };
        let read = read_pages(&inner, &listed, newest).await;
        let taken_in = {
            let mut state = inner.state.borrow_mut();
            state.counters.index_pages_read += listed.len() as u64;
            let mut take_in = |(page, block): (Page, _)| state.take_in_page(page, &block);
            read.and_then(|read| read.into_iter().try_for_each(&mut take_in))
        };
        if taken_in.is_err() {
            give_up(&inner).await;
        }
        if let Some(offload) = &mut inner.state.borrow_mut().offload {
            offload.coming.retain(|page| !pages.contains(page));
        }
        inner.changed.open();
    };
    core.handle.spawn("pages of the index", reading).await;
}

/// Lets the next start do without checkpoints, and stops.
async fn give_up(core: &Rc<Core>) {
    mark(Mark::PageAwayUnreadable);
    let known = match &mut core.state.borrow_mut().offload {
        Some(offload) => std::mem::replace(&mut offload.failed, true),
        None => true,
    };
    if known || core.closing.get() {
        return;
    }
    core.changed.open();
    // Where that cannot be recorded too few drives are left, and the state says so.
    let _recorded = checkpoint::end(core).await;
    core.state.borrow_mut().stopped.get_or_insert(UNREADABLE);
}
