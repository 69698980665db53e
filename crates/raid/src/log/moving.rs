//! Moving what is live out of a segment.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, Lba, zero_blocks};

use crate::layout::Column;
use crate::log::collect::MOVED_AT_A_TIME;
use crate::log::core::Core;
use crate::log::format::{
    BlockIdentity, ContentKind, EntryKind, IndexEntry, Seed, TombstoneBlock, TrimExtent,
    data_checksum,
};
use crate::log::geometry::ChunkBlock;
use crate::log::index::{BlockPlace, Pba, SegmentSlot};
use crate::log::queue::{Origin, PendingBlock, PendingData, PendingTrim, Ticket, TicketReceiver};
use crate::log::read::{FoundBlock, Pin, read_places};
use crate::log::scan::load_span;
use crate::log::state::State;
use crate::log::stream::Lifetime;
use crate::marks::{Mark, mark};
use crate::mutants::{Mutant, mutant};

/// Blocks moved at a time.
const BATCH_BLOCKS: usize = 512;

/// Blocks that are being moved at the most, where stripes are no larger than a batch: two batches of each
/// segment, and one that is being read.
pub(super) const MOVED_BLOCKS: u64 = 3 * (BATCH_BLOCKS * MOVED_AT_A_TIME) as u64;

/// Moves every live block out of a segment that the caller holds; `false` if writes stopped.
pub(super) async fn evacuate(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    let _pin = Pin::new(core, slot);
    let mut mover = Mover::new(core, slot);
    let moved = move_listed(core, slot, &mut mover).await && mover.submit_rest().await;
    mover.queues(false);
    if !(moved && mover.wait_all().await) {
        return false;
    }
    core.state.borrow().segments[slot].valid == 0 || move_unlisted(core, slot).await
}

async fn move_listed(core: &Rc<Core>, slot: SegmentSlot, mover: &mut Mover) -> bool {
    let geometry = core.state.borrow().segments[slot].geometry;
    for span in 0..geometry.spans() {
        if core.state.borrow().segments[slot].valid == 0 {
            break;
        }
        let entries = span_entries(core, slot, span).await;
        let live = {
            let state = core.state.borrow();
            let first = geometry.first_of_span(span);
            live_blocks(&state, slot, first, &entries)
        };
        if !mover.add(live).await {
            return false;
        }
    }
    true
}

/// The live blocks of a span, with what the lists say of them.
fn live_blocks(
    state: &State,
    slot: SegmentSlot,
    first: ChunkBlock,
    entries: &[Vec<IndexEntry>],
) -> Vec<(BlockPlace, IndexEntry)> {
    let columns = entries.iter().enumerate();
    let listed = columns.flat_map(|(column, entries)| {
        let column = Column::of(column);
        let places =
            (first.0..).map(move |block| BlockPlace { slot, column, block: ChunkBlock(block) });
        places.zip(entries.iter().copied())
    });
    listed.filter(|(place, entry)| is_live(state, *place, entry)).collect()
}

/// Moves blocks in batches, two at a time, so that reading one overlaps writing the other. While a mover is
/// about to queue more, stripes wait to be filled: padding them would cost what moving them is to gain.
struct Mover {
    core: Rc<Core>,
    waiting: Vec<(BlockPlace, IndexEntry)>,
    batch: usize,
    lifetime: Lifetime,
    under_way: VecDeque<TicketReceiver>,
    about_to_queue: bool,
}

impl Mover {
    fn new(core: &Rc<Core>, slot: SegmentSlot) -> Self {
        let (lifetime, stripe) = {
            let state = core.state.borrow();
            (state.lifetime_of_moved(slot), state.relocation_shape().stripe_blocks())
        };
        let mut mover = Self {
            core: core.clone(),
            waiting: Vec::new(),
            batch: BATCH_BLOCKS.max(stripe),
            lifetime,
            under_way: VecDeque::new(),
            about_to_queue: false,
        };
        mover.queues(true);
        mover
    }

    /// Notes whether more is about to be queued. Whoever waits for what is queued already says that
    /// nothing is: else it could wait for a stripe that waits for it.
    fn queues(&mut self, more: bool) {
        if std::mem::replace(&mut self.about_to_queue, more) == more {
            return;
        }
        let mut state = self.core.state.borrow_mut();
        match more {
            true => state.about_to_queue += 1,
            false => state.about_to_queue -= 1,
        }
        let filling = state.about_to_queue > 0;
        let ends = std::mem::replace(&mut state.relocation.filling, filling) && !filling;
        drop(state);
        if ends {
            self.core.changed.open();
        }
    }

    async fn add(&mut self, blocks: Vec<(BlockPlace, IndexEntry)>) -> bool {
        self.waiting.extend(blocks);
        while self.waiting.len() >= self.batch {
            let rest = self.waiting.split_off(self.batch);
            let batch = std::mem::replace(&mut self.waiting, rest);
            if !self.submit(batch).await {
                return false;
            }
        }
        true
    }

    async fn submit_rest(&mut self) -> bool {
        let batch = std::mem::take(&mut self.waiting);
        self.submit(batch).await
    }

    /// Queues a batch, then waits for the one before the last: its stripes are full by then, unless
    /// what died meanwhile left less than its last one lacks.
    async fn submit(&mut self, batch: Vec<(BlockPlace, IndexEntry)>) -> bool {
        let moved = queue_blocks(&self.core, self.lifetime, &batch).await;
        self.under_way.extend(moved);
        let mut going_on = true;
        while going_on && self.under_way.len() > 1 {
            self.queues(false);
            going_on = self.wait_first().await;
        }
        self.queues(true);
        going_on
    }

    async fn wait_first(&mut self) -> bool {
        match self.under_way.pop_front() {
            Some(moved) => matches!(moved.await, Some(Ok(()))),
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

impl Drop for Mover {
    fn drop(&mut self) {
        // What a panic left behind may contradict itself, and a second panic would abort.
        if !std::thread::panicking() {
            self.queues(false);
        }
    }
}

/// The entries of a span, from media or, where no index run was written, from memory.
pub(super) async fn span_entries(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
) -> Vec<Vec<IndexEntry>> {
    let in_memory = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        match span.cmp(&segment.indexed_spans) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(segment.entries.clone()),
            std::cmp::Ordering::Greater => Some(vec![Vec::new(); segment.entries.len()]),
        }
    };
    match in_memory {
        Some(entries) => entries,
        None => load_span(core, slot, span).await,
    }
}

fn is_live(state: &State, place: BlockPlace, entry: &IndexEntry) -> bool {
    let pba = state.space.pba(place);
    match entry.kind {
        EntryKind::Data | EntryKind::Lost => {
            entry.lba.0 < state.config.volume_blocks && state.index.get(entry.lba) == Some(pba)
        }
        EntryKind::Tombstone => state.tombstones.contains_key(&pba),
        _ => false,
    }
}

/// Moves blocks that the segment's lists did not name but the index does: the lists were damaged.
async fn move_unlisted(core: &Rc<Core>, slot: SegmentSlot) -> bool {
    mark(Mark::UnlistedSearched);
    let mut places: Vec<_> = {
        let state = core.state.borrow();
        let mapped = (0..state.config.volume_blocks).filter_map(|lba| state.index.get(Lba(lba)));
        mapped.map(|pba| state.space.place(pba)).filter(|place| place.slot == slot).collect()
    };
    places.sort_unstable();
    places.dedup();
    let mut mover = Mover::new(core, slot);
    let unlisted = places.into_iter().map(|place| (place, IndexEntry::EMPTY));
    let moved = mover.add(unlisted.collect()).await && mover.submit_rest().await;
    mover.queues(false);
    moved && mover.wait_all().await
}

/// Reads live blocks (data, lost blocks and tombstones) and queues them to be written elsewhere.
async fn queue_blocks(
    core: &Rc<Core>,
    lifetime: Lifetime,
    listed: &[(BlockPlace, IndexEntry)],
) -> Option<TicketReceiver> {
    let places: Vec<_> = listed.iter().map(|(place, _)| *place).collect();
    let found = read_places(core, &places).await;
    let mut blocks = Vec::new();
    for ((place, entry), found) in listed.iter().zip(found) {
        let pba = core.state.borrow().space.pba(*place);
        let pending = pending_of(core, pba, entry, found);
        // What no list names is looked for where the index points: it is not what is there, then.
        let unknown = pending.is_empty() && entry.kind == EntryKind::Empty;
        blocks.extend(pending);
        if unknown {
            blocks.extend(lost_blocks(&mut core.state.borrow_mut(), pba));
        }
    }
    // Once the volume closes nobody writes them any more: whoever waited would wait for ever.
    if blocks.is_empty() || core.closing.get() {
        return None;
    }
    if blocks.len() > 1 && mutant(Mutant::MovedBlocksShareSequence) {
        share_sequence(core.state.borrow().seed, &mut blocks);
    }
    let (ticket, moved) = Ticket::new(blocks.len() as u64);
    let mut state = core.state.borrow_mut();
    for block in blocks {
        match block {
            Moving::Data(mut data) => {
                data.ticket = ticket.clone();
                state.relocation.push(lifetime, PendingBlock::Data(data));
            }
            Moving::Trim(extent, from) => {
                let (origin, ticket) = (Origin::Relocation { from }, ticket.clone());
                state.relocation.push_trim(lifetime, PendingTrim { extent, origin, ticket });
            }
        }
    }
    drop(state);
    core.changed.open();
    Some(moved)
}

/// For [`Mutant::MovedBlocksShareSequence`].
fn share_sequence(seed: Seed, blocks: &mut [Moving]) {
    let mut first = None;
    for block in blocks {
        if let Moving::Data(data) = block {
            data.sequence = *first.get_or_insert(data.sequence);
            data.data_checksum = data_checksum(seed, data.lba, data.sequence, &data.data);
        }
    }
}

enum Moving {
    Data(PendingData),
    Trim(TrimExtent, Pba),
}

/// What has to be written elsewhere for a live block at `pba`.
fn pending_of(
    core: &Core,
    pba: Pba,
    listed: &IndexEntry,
    found: Option<FoundBlock>,
) -> Vec<Moving> {
    let mut state = core.state.borrow_mut();
    if state.tombstones.contains_key(&pba) {
        return moved_tombstone(&mut state, pba, found);
    }
    let was_tombstone = |found: &FoundBlock| found.identity.kind == ContentKind::Tombstone;
    if listed.kind == EntryKind::Tombstone || found.as_ref().is_some_and(was_tombstone) {
        mark(Mark::TombstoneDiedBeforeMove);
        return Vec::new();
    }
    match found {
        Some(FoundBlock { data, identity })
            if matches!(identity.kind, ContentKind::Data | ContentKind::Lost) =>
        {
            if identity.lba.0 >= state.config.volume_blocks
                || state.index.get(identity.lba) != Some(pba)
            {
                mark(Mark::DiedBeforeMove);
                return Vec::new();
            }
            let identity = if mutant(Mutant::MovedBlockGetsNewSequence) {
                let sequence = state.take_sequence();
                BlockIdentity::new(state.seed, identity.kind, identity.lba, sequence, &data)
            } else {
                identity
            };
            vec![Moving::Data(pending(identity, data, pba))]
        }
        // Beyond repair: what moves is the knowledge that it is lost.
        _ if matches!(listed.kind, EntryKind::Data | EntryKind::Lost) => {
            mark(Mark::LostBlockMoved);
            vec![lost_block(&state, pba, listed.lba, listed.sequence)]
        }
        _ => lost_blocks(&mut state, pba),
    }
}

fn pending(identity: BlockIdentity, data: Bytes, from: Pba) -> PendingData {
    let (ticket, _nobody) = Ticket::new(1);
    PendingData {
        lba: identity.lba,
        sequence: identity.sequence,
        kind: identity.kind,
        data,
        data_checksum: identity.data_checksum,
        origin: Origin::Relocation { from },
        ticket,
    }
}

/// The mark that a block is lost. It has the sequence of what was lost, so that it hides older
/// versions and newer ones hide it.
fn lost_block(state: &State, from: Pba, lba: Lba, sequence: u64) -> Moving {
    let data = zero_blocks(BlockCount(1));
    let identity = BlockIdentity::new(state.seed, ContentKind::Lost, lba, sequence, &data);
    Moving::Data(pending(identity, data, from))
}

/// Marks the blocks of the volume that point at an unreadable block of which nothing is known.
/// They get a new sequence: then an error is certain, an older version impossible.
fn lost_blocks(state: &mut State, pba: Pba) -> Vec<Moving> {
    let lbas = (0..state.config.volume_blocks).map(Lba);
    let pointing: Vec<_> = lbas.filter(|lba| state.index.get(*lba) == Some(pba)).collect();
    if pointing.is_empty() {
        return Vec::new();
    }
    mark(Mark::UnknownBlockLost);
    let sequence = state.take_sequence();
    pointing.into_iter().map(|lba| lost_block(state, pba, lba, sequence)).collect()
}

/// The extents of a tombstone block that are still needed, cut to what points at it. Extents
/// older than every other segment are not: there is nothing left that they could hide.
fn moved_tombstone(state: &mut State, pba: Pba, found: Option<FoundBlock>) -> Vec<Moving> {
    let array = state.config.array;
    let blocks = state.config.volume_blocks;
    let decoded = found.and_then(|found| TombstoneBlock::decode(&found.data, array, blocks).ok());
    let slot = state.space.place(pba).slot;
    let oldest = state.oldest_sequence(slot);
    let Some(tombstone) = decoded else {
        mark(Mark::TombstoneLost);
        return lost_blocks(state, pba);
    };
    let mut moving = Vec::new();
    for extent in tombstone.extents {
        for run in runs_pointing_at(state, extent, pba) {
            if run.sequence < oldest || mutant(Mutant::LiveTombstoneDropped) {
                mark(Mark::TombstoneDropped);
                for lba in run.lba.0..run.lba.0 + run.blocks {
                    state.remap(Lba(lba), None);
                }
            } else {
                mark(Mark::TombstoneMoved);
                moving.push(Moving::Trim(run, pba));
            }
        }
    }
    moving
}

fn runs_pointing_at(state: &State, extent: TrimExtent, pba: Pba) -> Vec<TrimExtent> {
    let mut runs: Vec<TrimExtent> = Vec::new();
    for lba in extent.lba.0..extent.lba.0 + extent.blocks {
        if state.index.get(Lba(lba)) != Some(pba) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.lba.0 + run.blocks == lba => run.blocks += 1,
            _ => runs.push(TrimExtent { lba: Lba(lba), blocks: 1, ..extent }),
        }
    }
    runs
}
