//! The index while part of it is on media still: its pages are read when somebody asks for them.
//!
//! A start serves users as soon as it has replayed what the newest checkpoint does not know. The pages of
//! that checkpoint which it did not need are *absent*: whoever reads, writes or trims a block of one waits
//! until it is there, and a task reads the others meanwhile. A page never becomes absent again.
//!
//! * While pages are absent what is valid in a segment is not known: every segment that the start found is
//!   kept, so that none is freed or moved out. Segments opened since hold what users wrote, whose pages are
//!   there.
//! * No checkpoint is written while pages are absent: it would have to tell what they tell.
//! * What was replayed is entered when a page is asked for that it is near to, before the page, with its sequence.
//!   A page says less than these: the same rule decides as where a start reads all of them (`recover/pages.rs`).
//! * A page that turns out not to be what it seemed, when users were served already, stops everything that
//!   needs it; that no checkpoint counts is made durable, so that the next start reads every list.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::{BlockError, Lba};

use crate::log::checkpoint;
use crate::log::core::Core;
use crate::log::format::checkpoint::MappingBlock;
use crate::log::index::{Page, Pba};
use crate::log::recover::checkpoint::{Unusable, read_pages};
use crate::log::recover::deferred::{Deferred, Entry, Group};
use crate::log::recover::pages::{Known, LOOKED_UP, Meets, Told, bound_of, look_up, tell};
use crate::log::recover::replay::rank;
use crate::log::recover::sequences::{Sequences, sequence_in};
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// Pages of those that somebody asks for that are read at a time.
const ASKED_AT_A_TIME: usize = 64;

/// Why nothing is served any more that needs a page which is not what it seemed.
const UNREADABLE: &str =
    "a page of the index cannot be read: start the array again, it will do without";

/// What is known of pages that are not in memory.
pub(super) struct Absent {
    /// Where they are.
    pages: BTreeMap<Page, Pba>,
    /// What was replayed and is not in the index yet, also for pages that no checkpoint has.
    deferred: Deferred,
    /// Blocks that tell of trims among those that it leads to.
    trims: BTreeSet<Pba>,
    /// The sequences of what was replayed for blocks of them and entered, in order.
    replayed: BTreeMap<Page, Vec<(Lba, u64)>>,
    /// What is newer than any of them.
    newest: u64,
    /// How many are read at a time that nobody asks for.
    at_a_time: usize,
    /// Those that are being read.
    under_way: BTreeSet<Page>,
    /// One of them was not what it seemed.
    failed: bool,
}

impl Absent {
    /// Some that nobody reads yet, of a range.
    fn to_be_read(&self, range: Range<Page>, most: usize) -> Vec<Page> {
        let absent = self.pages.range(range).map(|(page, _)| *page);
        absent.filter(|page| !self.under_way.contains(page)).take(most).collect()
    }
}

impl State {
    /// Leaves all pages absent but some, and counts what is valid as far as that is known.
    pub(super) fn leave_absent(
        &mut self,
        sequences: Sequences,
        deferred: Deferred,
        present: &[Page],
    ) {
        let mut replayed: BTreeMap<_, _> = sequences.into_pages().collect();
        for (lba, _) in replayed.values().flatten() {
            if let Some(pba) = self.index.get(*lba) {
                self.count_in(pba);
            }
        }
        // Those that nothing leads to yet, or not any more then, are counted when something does.
        let trims = self.tombstones.keys().copied().collect();
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
            self.segments.iter_mut().for_each(|(_, segment)| segment.kept = true);
        }
        let at_a_time = self.checkpoints.pages_on_demand().map_or(1, NonZeroU32::get) as usize;
        self.absent = Some(Absent {
            pages,
            deferred,
            trims,
            replayed,
            newest: self.checkpoints.recorded().coverage.sequence,
            at_a_time,
            under_way: BTreeSet::new(),
            failed: false,
        });
    }

    /// Enters some of what was replayed near some pages and is not in the index yet; whether there was any.
    fn enter_deferred_near(&mut self, pages: Range<Page>) -> bool {
        let group = self.absent.as_ref().and_then(|absent| absent.deferred.near(pages));
        let group = group.filter(|_| !mutant(Mutant::DeferredLeftAside));
        if let Some(group) = group {
            self.enter_deferred(group);
        }
        group.is_some()
    }

    /// Enters some of what was replayed near no page that is absent; from which group on there may be more.
    fn enter_deferred_without_page(&mut self, from: Group) -> Option<Group> {
        let group = self.absent.as_ref()?.deferred.next(from)?;
        mark(Mark::DeferredWithoutPage);
        self.enter_deferred(group);
        Some(group)
    }

    fn enter_deferred(&mut self, group: Group) {
        let Some(absent) = &mut self.absent else { return };
        let entries = absent.deferred.take(group);
        mark(Mark::DeferredEntered);
        let mut replayed: BTreeMap<Page, Vec<(Lba, u64)>> = BTreeMap::new();
        for same in entries.chunk_by(|one, other| one.lba == other.lba) {
            let (lba, sequence) = (same[0].lba, same[0].sequence);
            let preferred = |entry: &&Entry| rank(self, entry.pba);
            let pba = same.iter().rev().max_by_key(preferred).expect("a chunk is not empty").pba;
            mark_if(Mark::EqualCopyPreferred, || sequence > 0 && same[0].pba != pba);
            let trimmed = self.absent.as_ref().is_some_and(|absent| absent.trims.contains(&pba));
            if trimmed && !self.tombstones.contains_key(&pba) {
                self.add_tombstone(pba);
            }
            let before = self.index.set(lba, Some(pba));
            assert!(
                before.is_none(),
                "block {lba} is in the index before what was replayed for it"
            );
            self.count_in(pba);
            replayed.entry(self.index.page_of(lba)).or_default().push((lba, sequence));
        }
        let Some(absent) = &mut self.absent else { return };
        replayed.retain(|page, _| absent.pages.contains_key(page));
        absent.replayed.append(&mut replayed);
    }

    /// Pages that are absent.
    #[must_use]
    pub(super) fn absent_pages(&self) -> u64 {
        self.absent.as_ref().map_or(0, |absent| absent.pages.len() as u64)
    }

    /// Absent pages of which something is in memory.
    #[must_use]
    pub(super) fn pages_replayed(&self) -> u64 {
        self.absent.as_ref().map_or(0, |absent| absent.replayed.len() as u64)
    }

    /// Whether a page is absent.
    #[must_use]
    pub(super) fn is_absent(&self, page: Page) -> bool {
        self.absent.as_ref().is_some_and(|absent| absent.pages.contains_key(&page))
    }

    /// Whether pages are being read.
    #[must_use]
    pub(super) fn is_paging(&self) -> bool {
        self.absent.as_ref().is_some_and(|absent| !absent.under_way.is_empty())
    }

    /// The pages that a range of blocks is in.
    fn pages_of(&self, lba: Lba, blocks: u64) -> Range<Page> {
        let entries = self.index.page_entries();
        Page(lba.0 / entries)..Page((lba.0 + blocks).div_ceil(entries))
    }

    /// Enters what a page tells; returns what may be older or newer than what was replayed.
    ///
    /// # Errors
    /// If something that the page tells of is missing.
    fn enter_absent(&mut self, page: Page, block: &MappingBlock) -> Result<Vec<Told>, Unusable> {
        // What says which segments are settled may be gone, then.
        if self.absent.as_ref().is_none_or(|absent| absent.failed) {
            return Err(Unusable);
        }
        let bound = bound_of(block);
        let (mut unclear, mut missing) = (Vec::new(), false);
        while self.enter_deferred_near(page..Page(page.0 + 1)) {}
        let known = self.absent.as_mut().and_then(|absent| absent.replayed.remove(&page));
        let known = known.unwrap_or_default();
        tell(self, page, block, |state, told| {
            let replayed = if known.is_empty() { None } else { replayed_in(&known, told.lba) };
            match told.meets(replayed, bound) {
                // What weak stripes tell of was read before.
                Meets::Missing => missing = true,
                Meets::LeftOut | Meets::Newer => {}
                Meets::Unclear => unclear.push(told),
                Meets::Nothing => state.map_absent(told.lba, told.pba, told.trimmed),
            }
        });
        if let Some(absent) = self.absent.as_mut().filter(|_| !known.is_empty()) {
            absent.replayed.insert(page, known);
        }
        if missing { Err(Unusable) } else { Ok(unclear) }
    }

    /// The sequence of what was replayed for a block of an absent page.
    fn replayed(&self, page: Page, lba: Lba) -> Option<u64> {
        replayed_in(self.absent.as_ref()?.replayed.get(&page)?, lba)
    }

    /// Lets a page decide where a block is of which something was replayed, if that is older.
    fn decide_absent(&mut self, page: Page, told: &Told, known: &Known) {
        let Some(replayed) = self.replayed(page, told.lba) else { return };
        let older = match self.index.get(told.lba) {
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

    /// Maps a block as its page says. The checkpoint knows that: it does not break by it.
    fn map_absent(&mut self, lba: Lba, pba: Pba, trimmed: bool) {
        if trimmed && !self.tombstones.contains_key(&pba) {
            self.add_tombstone(pba);
        }
        let before = self.index.enter(lba, Some(pba));
        self.count_in(pba);
        if let Some(before) = before {
            self.count_out(before);
        }
    }

    /// Notes that pages are there; if all are, nothing is kept for them any more.
    fn note_present(&mut self, pages: &[Page]) {
        let Some(absent) = self.absent.as_mut().filter(|absent| !absent.failed) else { return };
        for page in pages {
            absent.pages.remove(page);
            absent.replayed.remove(page);
            self.index.take_in(*page);
        }
        if !absent.pages.is_empty() || !absent.deferred.is_empty() {
            return;
        }
        mark(Mark::IndexResident);
        self.absent = None;
        // What recovery keeps it lets go by itself.
        if self.recovering.is_none() {
            self.segments.iter_mut().for_each(|(_, segment)| segment.kept = false);
        }
    }
}

/// The sequence of what was replayed for a block, among those of its page.
fn replayed_in(known: &[(Lba, u64)], lba: Lba) -> Option<u64> {
    let sequence = sequence_in(known, lba)?;
    (!mutant(Mutant::PageOverReplayed)).then_some(sequence)
}

/// Waits until the index knows where blocks are.
///
/// # Errors
/// If it cannot come to know that.
pub(super) async fn present(core: &Rc<Core>, lba: Lba, blocks: u64) -> Result<(), BlockError> {
    loop {
        let pages = core.state.borrow().pages_of(lba, blocks);
        while core.state.borrow_mut().enter_deferred_near(pages.clone()) {
            // There may be more in memory now than there is to be, and a range may be near to a lot.
            core.changed.open();
            core.handle.yield_now().await;
        }
        let to_be_read = {
            let state = core.state.borrow();
            let Some(absent) = &state.absent else { return Ok(()) };
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

/// Reads all pages that are absent, and enters what else was replayed, until the volume closes.
pub(super) async fn run(core: Rc<Core>) {
    let mut entered = Group::default();
    while !core.closing.get() {
        let waits = core.state.borrow().awaits_pages_to_go();
        if waits {
            core.changed.wait().await;
            continue;
        }
        let to_be_read = match &core.state.borrow().absent {
            Some(absent) if !absent.failed => {
                let some = absent.to_be_read(Page(0)..Page(u64::MAX), absent.at_a_time);
                (!absent.pages.is_empty()).then_some(some)
            }
            _ => return,
        };
        if let Some(pages) = to_be_read {
            read_in(&core, pages).await;
            continue;
        }
        let more = core.state.borrow_mut().enter_deferred_without_page(entered);
        match more {
            Some(group) => entered = group,
            None => core.state.borrow_mut().note_present(&[]),
        }
        core.changed.open();
        core.handle.yield_now().await;
    }
}

/// Reads all pages.
///
/// # Errors
/// If one is not what it seemed.
pub(super) async fn read_all(core: &Rc<Core>) -> Result<(), &'static str> {
    run(core.clone()).await;
    let state = core.state.borrow();
    match state.absent {
        None => Ok(()),
        Some(_) => Err(state.stopped.unwrap_or(UNREADABLE)),
    }
}

/// Reads pages, or waits for those that are being read if there are no others.
async fn read_in(core: &Rc<Core>, pages: Vec<Page>) {
    if pages.is_empty() {
        core.changed.wait().await;
        return;
    }
    if let Some(absent) = &mut core.state.borrow_mut().absent {
        absent.under_way.extend(&pages);
    }
    // A task of its own: others may wait for the pages when the caller has gone away.
    let inner = core.clone();
    let reading = async move {
        let read = enter_all(&inner, &pages).await;
        if read.is_ok() {
            inner.state.borrow_mut().note_present(&pages);
        } else {
            give_up(&inner).await;
        }
        if let Some(absent) = &mut inner.state.borrow_mut().absent {
            absent.under_way.retain(|page| !pages.contains(page));
        }
        inner.changed.open();
    };
    core.handle.spawn("pages of the index", reading).await;
}

/// Lets the next start do without the checkpoint, and stops.
async fn give_up(core: &Rc<Core>) {
    mark(Mark::PageUnreadable);
    let known = match &mut core.state.borrow_mut().absent {
        Some(absent) => std::mem::replace(&mut absent.failed, true),
        None => true,
    };
    if known || core.closing.get() {
        return;
    }
    core.changed.open();
    // Where that cannot be recorded too few drives are left, and the state says so.
    let _recorded = checkpoint::end(core).await;
    let mut state = core.state.borrow_mut();
    if state.recovering.is_some() {
        state.stop_recovery();
    } else {
        state.stopped.get_or_insert(UNREADABLE);
    }
}

async fn enter_all(core: &Rc<Core>, pages: &[Page]) -> Result<(), Unusable> {
    let (listed, newest) = {
        let state = core.state.borrow();
        let Some(absent) = &state.absent else { return Ok(()) };
        let listed = pages.iter().filter_map(|page| Some((*page, *absent.pages.get(page)?)));
        (listed.collect::<Vec<_>>(), absent.newest)
    };
    for (page, block) in read_pages(core, &listed, newest).await? {
        let unclear = core.state.borrow_mut().enter_absent(page, &block)?;
        for some in unclear.chunks(LOOKED_UP) {
            let entries: Vec<_> = some.iter().map(|told| (told.lba, told.pba)).collect();
            let known = look_up(core, &entries).await?;
            let mut state = core.state.borrow_mut();
            some.iter()
                .zip(&known)
                .for_each(|(told, known)| state.decide_absent(page, told, known));
        }
    }
    Ok(())
}
