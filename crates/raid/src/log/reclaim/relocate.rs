//! Relocation of the live blocks of a segment.

mod awaited;
pub(in crate::log) mod pending;
pub(in crate::log) mod wide;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use futures_util::FutureExt;
use zoneweave_zoned::{BlockCount, Lba};

use crate::array::repair::rebuild::throttle_while;
use crate::instrument::marks::{Mark, mark};
use crate::log::admit::pending::TicketReceiver;
use crate::log::engine::address::{BlockPlace, Pba, SegmentSlot};
use crate::log::engine::class::Lifetime;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::engine::limits::{BATCH_BLOCKS, MOVED_AT_A_TIME};
use crate::log::engine::state::State;
use crate::log::format::{ContentKind, EntryKind, IndexEntry};
use crate::log::index::cache::moves::{end_of_part, pages_away_in, parts_by_page, take_back_left};
use crate::log::index::cache::{For, Held, Offload, hold, hold_range};
use crate::log::index::steps::step_of;
use crate::log::read::retry::read_for_good;
use crate::log::segment::scan::{ListedBlock, span_entries};
use crate::log::segment::table::{Phase, Segment};
use crate::log::segment::verify::FoundBlock;

use crate::log::reclaim::relocate::awaited::leave_awaited;
pub(in crate::log) use crate::log::reclaim::relocate::pending::{
    Moving, lost_block, moved_run, newest_of,
};
use crate::log::reclaim::relocate::pending::{pending_of, pending_or_lost, queue_blocks};
use crate::log::reclaim::space::Need;
use crate::log::segment::pin::Pin;
use crate::scheme::Column;

/// Stripes relocated at a time, and the least number of blocks, if reads complete on submit. The
/// blocks read are still in the processor's caches when they are written, and a batch fills the
/// partial stripe of the one before it. Otherwise more reads have to be in flight.
const CACHED_BATCH_STRIPES: usize = 2;
const CACHED_BATCH_BLOCKS: usize = 48;

/// Tombstones examined before yielding: each may cover 2^18 blocks of the volume.
const TOMBSTONES_AT_ONCE: usize = 16;

/// Most blocks under relocation, if stripes are no larger than a batch: two batches of each
/// segment, and one that is being read.
pub(in crate::log) const MOVED_BLOCKS: u64 = 3 * (BATCH_BLOCKS * MOVED_AT_A_TIME) as u64;

/// Relocates every live block of a segment that the caller has claimed. Returns `false` if writes
/// stopped. Blocks stay that only a member out of service can give, unless it has to be emptied.
pub(super) async fn evacuate(core: &Rc<Core>, slot: SegmentSlot, must_empty: bool) -> bool {
    let _pin = Pin::new(core, slot);
    let leaves = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        assert!(segment.is_busy(), "segment {} is relocated without a claim", segment.id);
        !must_empty && may_leave_blocks(segment) && !state.is_reserve_taken()
    };
    // Undone relocations need not be repeated.
    if take_back_left(core).await.is_none() {
        return false;
    }
    let mut mover = Mover::new(core, slot, leaves);
    let moved = move_listed(core, slot, &mut mover).await && mover.submit_rest().await;
    mover.queues(false);
    if !(moved && mover.wait_all().await) {
        return false;
    }
    // Pages of the index may have been evicted meanwhile.
    if core.state.borrow().segments[slot].pages_away() > 0 {
        let pages = pages_away_in(core, slot).await;
        if !move_all(core, slot, pages, leaves).await {
            return false;
        }
    }
    // Mapping blocks are accounted for; no summary lists the other remaining blocks. It may have
    // turned out meanwhile that the lists are not whole.
    let (leaves, unlisted) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        let leaves = leaves && !segment.has_no_summary();
        (leaves, segment.valid() > segment.pages_away() && !(leaves && segment.awaits_member))
    };
    !unlisted || move_unlisted(core, slot, leaves).await
}

/// Whether blocks may stay in a segment that is relocated. A member that returns keeps its columns
/// of complete segments only. A segment that is chosen although it waits is the last resort.
fn may_leave_blocks(segment: &Segment) -> bool {
    segment.phase() == Phase::Sealed && !segment.has_no_summary() && !segment.awaits_member
}

/// Relocates blocks of a segment.
async fn move_all(
    core: &Rc<Core>,
    slot: SegmentSlot,
    blocks: Vec<ListedBlock>,
    leaves: bool,
) -> bool {
    let mut mover = Mover::new(core, slot, leaves);
    let moved = mover.add(blocks).await && mover.submit_rest().await;
    mover.queues(false);
    moved && mover.wait_all().await
}

async fn move_listed(core: &Rc<Core>, slot: SegmentSlot, mover: &mut Mover) -> bool {
    let geometry = core.state.borrow().segments[slot].geometry;
    for span in 0..geometry.spans() {
        if core.state.borrow().segments[slot].valid() == 0 {
            break;
        }
        let entries = span_entries(core, slot, span).await;
        let first = geometry.first_of_span(span);
        let mut listed: Vec<_> = {
            let state = core.state.borrow();
            let live = |((place, entry), pba): &(ListedBlock, Pba)| match mover.pages {
                None => is_live(&state, *pba, entry),
                // The pages that decide this may be absent.
                Some(_) => may_be_live(&state, *place, *pba, entry),
            };
            let blocks = listed_blocks(&state, slot, first, &entries);
            blocks.filter(live).map(|(block, _)| block).collect()
        };
        let Some(Pages { entries, of_a_batch, .. }) = mover.pages else {
            if !mover.add(listed).await {
                return false;
            }
            continue;
        };
        for part in parts_by_page(&mut listed, entries, of_a_batch) {
            let Some(live) = live_blocks(core, part).await else { return false };
            if !mover.add(live).await {
                return false;
            }
        }
    }
    true
}

/// The blocks of a span, with their addresses. The index entries of a column are prefetched for the
/// following lookup.
fn listed_blocks(
    state: &State,
    slot: SegmentSlot,
    first: ChunkBlock,
    entries: &[Vec<IndexEntry>],
) -> impl Iterator<Item = (ListedBlock, Pba)> {
    entries.iter().enumerate().flat_map(move |(column, entries)| {
        state.mapping.index.touch(entries.iter().map(|entry| entry.lba));
        let place = BlockPlace { slot, column: Column::of(column), block: first };
        let pba = state.space.pba(place);
        (0..).zip(entries).map(move |(at, entry)| {
            let block = ChunkBlock(first.0 + at);
            ((BlockPlace { block, ..place }, *entry), pba.plus(at))
        })
    })
}

/// The live blocks among listed ones, if pages of the index may be absent; `None` if that cannot be
/// found out.
async fn live_blocks(core: &Rc<Core>, listed: &[ListedBlock]) -> Option<Vec<ListedBlock>> {
    let ranges = {
        let state = core.state.borrow();
        let of_volume = |entry: &IndexEntry| {
            matches!(entry.kind, EntryKind::Data | EntryKind::Lost)
                && entry.lba.0 < state.array.config.log().volume_blocks
        };
        let told = listed.iter().filter(|(_, entry)| of_volume(entry));
        told.map(|(_, entry)| entry.lba.0..entry.lba.0 + 1).collect::<Vec<_>>()
    };
    let _held = hold(core, For::Moving, &ranges).await.ok()?;
    let state = core.state.borrow();
    let live = listed.iter();
    let live = live.filter(|(place, entry)| is_live(&state, state.space.pba(*place), entry));
    Some(live.copied().collect())
}

/// Relocates blocks in batches, two at a time, so that reading one overlaps writing the other.
/// While more blocks are about to be queued, partial stripes wait to be filled: padding them would
/// cost the space that relocation is to gain.
struct Mover {
    core: Rc<Core>,
    /// The segment.
    slot: SegmentSlot,
    /// Whether blocks stay that only a member that is out of service can give.
    leaves: bool,
    waiting: VecDeque<ListedBlock>,
    batch: usize,
    /// Blocks of a stripe: a smaller batch would be padded.
    stripe: usize,
    /// Pinned pages, if pages may be absent.
    pages: Option<Pages>,
    lifetime: Lifetime,
    /// The batches in flight, oldest first.
    under_way: VecDeque<Batch>,
    about_to_queue: bool,
}

/// Limits of pinned pages.
#[derive(Clone, Copy)]
struct Pages {
    /// For one batch.
    of_a_batch: u64,
    /// For the batches in flight.
    under_way: u64,
    /// Entries of one page.
    entries: u64,
}

/// Blocks that were queued together.
struct Batch {
    moved: TicketReceiver,
    /// Number of blocks; trims share blocks, and do not count.
    blocks: usize,
    /// Pins of the pages that they change.
    held: Vec<Held>,
}

impl Mover {
    fn new(core: &Rc<Core>, slot: SegmentSlot, leaves: bool) -> Self {
        let (lifetime, stripe, pages, batch) = {
            let state = core.state.borrow();
            let limit = state.mapping.offload.as_ref().map(Offload::limit);
            let pages = limit.map(|limit| Pages {
                of_a_batch: limit.of_a_move,
                under_way: limit.of_a_segment / 2,
                entries: state.mapping.index.page_entries(),
            });
            let stripe = state.writes.relocation_shape().stripe_blocks();
            let batch = match state.reads_at_once() && pages.is_none() {
                true => CACHED_BATCH_BLOCKS.next_multiple_of(CACHED_BATCH_STRIPES * stripe),
                false => BATCH_BLOCKS.max(stripe),
            };
            (state.segments.lifetime_of_moved(slot), stripe, pages, batch)
        };
        assert!(0 < stripe && stripe <= batch, "batches of {batch} blocks for stripes of {stripe}");
        let mut mover = Self {
            core: core.clone(),
            slot,
            leaves,
            waiting: VecDeque::new(),
            batch,
            stripe,
            pages,
            lifetime,
            under_way: VecDeque::new(),
            about_to_queue: false,
        };
        mover.queues(true);
        mover
    }

    /// Records whether more blocks are about to be queued. A task that waits for queued blocks must
    /// record that none are: otherwise it could wait for a stripe that waits for it.
    fn queues(&mut self, more: bool) {
        if std::mem::replace(&mut self.about_to_queue, more) == more {
            return;
        }
        let mut state = self.core.state.borrow_mut();
        let tasks = state.reclaim.about_to_queue;
        assert!(more || tasks > 0, "no task was about to queue relocated blocks");
        match more {
            true => state.reclaim.about_to_queue += 1,
            false => state.reclaim.about_to_queue -= 1,
        }
        let filling = state.reclaim.about_to_queue > 0;
        let ends = std::mem::replace(&mut state.writes.relocation.filling, filling) && !filling;
        drop(state);
        if ends {
            self.core.changed.open();
        }
    }

    fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Number of pending blocks that form a batch.
    fn next_batch(&mut self) -> Option<usize> {
        let full = (self.waiting.len() >= self.batch).then_some(self.batch);
        let Some(pages) = self.pages else { return full };
        let waiting = self.waiting.make_contiguous();
        let of_pages = end_of_part(waiting, pages.entries, pages.of_a_batch);
        if of_pages == self.waiting.len() {
            full
        } else {
            Some(of_pages.clamp(self.stripe, self.batch))
        }
    }

    async fn add(&mut self, blocks: Vec<ListedBlock>) -> bool {
        self.waiting.extend(blocks);
        while let Some(batch) = self.next_batch().filter(|batch| *batch <= self.waiting.len()) {
            let batch = self.waiting.drain(..batch).collect();
            if !self.submit(batch).await {
                return false;
            }
        }
        true
    }

    async fn submit_rest(&mut self) -> bool {
        let batch = std::mem::take(&mut self.waiting);
        self.submit(batch.into()).await
    }

    /// Reads a batch, and queues its live blocks to be written elsewhere: data, lost blocks,
    /// tombstones and pages.
    async fn submit(&mut self, mut batch: Vec<ListedBlock>) -> bool {
        // Reads in the order on media.
        batch.sort_unstable_by_key(|(place, _)| *place);
        let mut places: Vec<_> = batch.iter().map(|(place, _)| *place).collect();
        let out = self.core.state.borrow().out_of_service();
        let mut found = read_for_good(&self.core, &places).await;
        assert!(found.len() == places.len(), "{} answers for {} blocks", found.len(), places.len());
        let leaves = self.leaves && !self.core.state.borrow().segments[self.slot].has_no_summary();
        if leaves && found.iter().any(Option::is_none) {
            (batch, found) = leave_awaited(&self.core, out, batch, found).await;
            places.truncate(batch.len());
        }
        self.core.state.borrow().mapping.index.touch(batch.iter().map(|(_, entry)| entry.lba));
        let read = batch.into_iter().zip(found);
        if self.pages.is_none() {
            let mut blocks = Vec::with_capacity(places.len());
            let mut tombstones = 0;
            for (listed, found) in read {
                tombstones += usize::from(listed.1.kind == EntryKind::Tombstone);
                pending_or_lost(&self.core, &listed, found, &mut blocks);
                if tombstones >= TOMBSTONES_AT_ONCE {
                    tombstones = 0;
                    self.core.handle.yield_now().await;
                }
            }
            return self.queue(blocks, Vec::new()).await;
        }
        self.submit_held(read.collect()).await
    }

    /// Queues blocks read while pages may be absent.
    async fn submit_held(&mut self, read: Vec<(ListedBlock, Option<FoundBlock>)>) -> bool {
        let ranges = ranges_of(&self.core.state.borrow(), &read);
        let Ok(held) = hold(&self.core, For::Moving, &ranges).await else { return false };
        let (wide, read): (Vec<_>, Vec<_>) = {
            let state = self.core.state.borrow();
            read.into_iter().partition(|(listed, found)| state.is_wide(listed, found))
        };
        let mut blocks = Vec::with_capacity(read.len());
        for ((place, entry), found) in read {
            let pba = self.core.state.borrow().space.pba(place);
            pending_of(&self.core, pba, &entry, found, &mut blocks);
        }
        if !self.queue(blocks, vec![held]).await {
            return false;
        }
        for (listed, found) in wide {
            if !self.move_wide(listed, found).await {
                return false;
            }
        }
        true
    }

    /// Queues blocks, then waits for the batches before the last: their stripes are full by then,
    /// unless blocks that died meanwhile leave a stripe partial.
    async fn queue(&mut self, blocks: Vec<Moving>, held: Vec<Held>) -> bool {
        assert!(self.about_to_queue, "{} blocks are queued unannounced", blocks.len());
        let data = blocks.iter().filter(|block| matches!(block, Moving::Data(_))).count();
        let moved = queue_blocks(&self.core, self.lifetime, blocks);
        self.under_way.extend(moved.map(|moved| Batch { moved, blocks: data, held }));
        let mut going_on = true;
        while going_on && self.has_many_under_way() {
            going_on = match self.wait_filled().await {
                Some(moved) => moved,
                None => {
                    self.queues(false);
                    self.wait_first().await
                }
            };
        }
        let going_on = going_on && self.pace(data).await;
        self.queues(true);
        going_on
    }

    /// While a member is rebuilt, a segment that is relocated at any cost counts as part of that:
    /// most are the open ones, which lack the new column. Its blocks are spread over the data
    /// columns. Where space is needed, it is not slowed down: users would wait for it.
    async fn pace(&mut self, blocks: usize) -> bool {
        let (core, slot) = (self.core.clone(), self.slot);
        let is_paced = || {
            let state = core.state.borrow();
            let is_to_go = state.segments.get(slot).is_some_and(Segment::is_to_go);
            let is_needed = !state.has_plenty() || state.need_of_space() != Need::Nothing;
            is_to_go && core.rebuild.progress.get().is_some() && !is_needed
        };
        if core.rebuild.limit.get().is_none() || !is_paced() {
            return true;
        }
        self.queues(false);
        // No page stays pinned meanwhile.
        if self.pages.is_some() && !self.wait_all().await {
            return false;
        }
        let data = core.state.borrow().array.scheme().data();
        let of_a_drive = u32::try_from(blocks.div_ceil(data)).expect("a batch is small");
        mark(Mark::RelocationPaced);
        throttle_while(&core, BlockCount(of_a_drive), is_paced).await;
        true
    }

    /// Waits for the first batch while later ones fill its stripes. Batches that end because of
    /// their pages may be small: closing a stripe for each would take more space than relocation
    /// frees, for ever.
    async fn wait_filled(&mut self) -> Option<bool> {
        self.pages?;
        loop {
            let first = self.under_way.front_mut()?;
            if let Some(moved) = (&mut first.moved).now_or_never() {
                self.under_way.pop_front();
                return Some(matches!(moved, Some(Ok(()))));
            }
            if !self.core.state.borrow().fills_moved_stripes(self.lifetime, self.stripe) {
                return None;
            }
            self.core.changed.wait().await;
        }
    }

    /// Whether it is time to wait for the first batch. A batch that ends because of its pages may
    /// be smaller than a stripe: closing padded stripes for it would take more space than
    /// relocation frees.
    fn has_many_under_way(&self) -> bool {
        let Some(pages) = self.pages else { return self.under_way.len() > 1 };
        let after: usize = self.under_way.iter().skip(1).map(|batch| batch.blocks).sum();
        let held = self.under_way.iter().flat_map(|batch| &batch.held).map(Held::pages);
        self.under_way.len() > 1 && (after >= self.stripe || held.sum::<u64>() > pages.under_way)
    }

    async fn wait_first(&mut self) -> bool {
        match self.under_way.pop_front() {
            Some(Batch { moved, held: _held, .. }) => matches!(moved.await, Some(Ok(()))),
            None => true,
        }
    }

    async fn wait_all(&mut self) -> bool {
        while !self.under_way.is_empty() {
            if !self.wait_first().await {
                return false;
            }
        }
        true
    }
}

impl State {
    /// Whether a stripe of relocated blocks is being written, or enough blocks of a class are
    /// queued for one.
    fn fills_moved_stripes(&self, lifetime: Lifetime, stripe: usize) -> bool {
        let class = self.writes.relocation.class_of(1, lifetime);
        let busy = |slot: SegmentSlot| self.segments[slot].in_flight() > 0;
        self.writes.relocation.queue(class).len() >= stripe
            || self.writes.relocation.open_segments().any(busy)
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // The state may still be borrowed after a panic.
        if !std::thread::panicking() {
            self.queues(false);
        }
    }
}

/// Whether a block may be live, as far as that can be decided without absent pages: reading a page
/// for each dead block would cost as much as relocating it.
fn may_be_live(state: &State, place: BlockPlace, pba: Pba, entry: &IndexEntry) -> bool {
    let segment = &state.segments[place.slot];
    let of_data = matches!(entry.kind, EntryKind::Data | EntryKind::Lost);
    !of_data || segment.may_be_mapped(place) || state.mapping.tombstones.contains_key(&pba)
}

fn is_live(state: &State, pba: Pba, entry: &IndexEntry) -> bool {
    match entry.kind {
        EntryKind::Data | EntryKind::Lost => {
            entry.lba.0 < state.array.config.log().volume_blocks
                && state.mapping.index.get(entry.lba) == Some(pba)
        }
        EntryKind::Tombstone => state.mapping.tombstones.contains_key(&pba),
        EntryKind::Mapping => state.is_page_away(entry.lba, pba),
        _ => false,
    }
}

/// Relocates blocks that the index maps to the segment although no summary lists them: the
/// summaries were damaged.
async fn move_unlisted(core: &Rc<Core>, slot: SegmentSlot, leaves: bool) -> bool {
    mark(Mark::UnlistedSearched);
    let Some(places) = search_index(core, slot).await else { return false };
    let unlisted = places.into_iter().map(|place| (place, IndexEntry::EMPTY));
    move_all(core, slot, unlisted.collect(), leaves).await
}

/// Searches the index for blocks in a segment; `None` if that is impossible.
async fn search_index(core: &Rc<Core>, slot: SegmentSlot) -> Option<BTreeSet<BlockPlace>> {
    let blocks = core.state.borrow().array.config.log().volume_blocks;
    let mut found = BTreeSet::new();
    let mut start = 0;
    while start < blocks {
        let part = start..blocks.min(start + step_of(core, For::Moving));
        start = part.end;
        let _held = hold_range(core, For::Moving, part.clone()).await.ok()?;
        let state = core.state.borrow();
        let places =
            part.filter_map(|lba| Some(state.space.place(state.mapping.index.get(Lba(lba))?)));
        found.extend(places.filter(|place| place.slot == slot));
    }
    Some(found)
}

/// The blocks of the volume whose pages change when these blocks are relocated, if each concerns
/// one block.
fn ranges_of(state: &State, read: &[(ListedBlock, Option<FoundBlock>)]) -> Vec<Range<u64>> {
    let blocks = state.array.config.log().volume_blocks;
    let lbas = read.iter().flat_map(|((_, entry), found)| {
        let listed = matches!(entry.kind, EntryKind::Data | EntryKind::Lost).then_some(entry.lba);
        let found = found.as_ref().map(|found| found.identity);
        let found = found.filter(|i| matches!(i.kind, ContentKind::Data | ContentKind::Lost));
        [listed, found.map(|identity| identity.lba)]
    });
    let lbas: BTreeSet<_> = lbas.flatten().filter(|lba| lba.0 < blocks).collect();
    lbas.into_iter().map(|lba| lba.0..lba.0 + 1).collect()
}
