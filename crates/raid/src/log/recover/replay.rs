//! Building the index: for each block of the volume, the newest version that counts.
//!
//! Sequences are needed only while the index is being built, so the volume is worked through in
//! partitions that bound the memory for them. Of two copies with the same sequence, which are the
//! same data, one in a sealed segment is preferred, then the one that lets more segments be freed:
//! the newer of two sealed ones, the older of two leftovers. In the end twins free what they can.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::engine::state::State;
use crate::log::format::{EntryKind, IndexEntry, TombstoneBlock, TrimExtent};
use crate::log::index::checkpoint::read::Unusable;
use crate::log::index::deferred::{Deferred, Entry};
use crate::log::index::map::{self, BlockPlace, Page, Pba, SegmentSlot};
use crate::log::index::pages::{enter_pages, look_up_for_weak};
use crate::log::index::sequences::{NARROW, Sequences};
use crate::log::index::valid_counts::{Counted, count_valid};
use crate::log::read::blocks::{pin_all, read_places};
use crate::log::reclaim::relocate::span_entries;
use crate::log::reclaim::space::Need;
use crate::log::recover::duplicates::Twins;
use crate::log::recover::judge::WeakBlock;
use crate::log::segment::table::Phase;
use crate::scheme::Column;

/// Blocks of the volume whose sequences are held at a time: 160 MiB of them, of large volumes more.
const PARTITION_BLOCKS: u64 = 32 << 20;

/// Partitions that a volume is worked through in, as every list is read for each of them: one,
/// where sequences take five bytes, a quarter more than most indexes where much is replayed; of
/// those that take eight as much as the index.
const fn partitions(sequences_below: u64) -> u64 {
    if sequences_below < NARROW { 1 } else { 2 }
}

/// What part of a volume may be told by lists where pages are read on demand.
const REPLAYED_PART: u64 = 8;

/// Entries that are kept aside at the most: some 100 MiB of them, and of large volumes an eighth of
/// the blocks, which takes less memory than the index.
const DEFERRED_MOST: u64 = 1 << 22;
const DEFERRED_PART: u64 = 8;

/// A block of a weak stripe that is newer than anything that counts.
pub(in crate::log) struct Candidate {
    pub(in crate::log) place: BlockPlace,
    /// For data: the block of the volume.
    pub(in crate::log) lba: Lba,
    /// For tombstones: the extents that it hides.
    pub(in crate::log) hides: Vec<TrimExtent>,
}

/// Orders copies with the same sequence: one in a segment that may be dead comes last.
pub(in crate::log) type Rank = (bool, bool, i128);

/// Builds the index and the valid counts; returns what weak stripes have to add: of each block of
/// the volume one version at most, so that they can be written in any order.
///
/// # Errors
/// If the checkpoint that was read turns out not to count.
pub(in crate::log) async fn build_index(
    core: &Rc<Core>,
    weak: Vec<WeakBlock>,
) -> Result<Vec<Candidate>, Unusable> {
    let blocks = core.state.borrow().config.volume_blocks;
    let slots = replayed_segments(&core.state.borrow());
    let mut weak = Weak::read(core, weak).await;
    if let Some(pages) = pages_asked_for(core, &slots, &weak) {
        mark(Mark::IndexOnDemand);
        let page_entries = core.state.borrow().index.page_entries();
        let all = blocks.div_ceil(page_entries);
        let sequences = Sequences::sparse(page_entries, all);
        let mut partition = Partition::new(0, blocks, sequences, true);
        let expected = replayed_blocks(&core.state.borrow(), &slots);
        partition.deferred = Some(Deferred::new(page_entries, all, expected));
        replay_segments(core, &slots, &mut partition).await;
        if !partition.is_told_too_much() {
            let deferred = partition.enter_for(&mut core.state.borrow_mut(), &pages);
            enter_pages(core, &mut partition, &pages, true).await?;
            weak.weigh(core, &mut partition).await?;
            let mut state = core.state.borrow_mut();
            state.leave_absent(partition.sequences, deferred, &pages);
            note_numbers(&mut state);
            return Ok(weak.candidates());
        }
    }
    // Of whole pages.
    let page = core.state.borrow().index.page_entries();
    let below = core.state.borrow().next_sequence;
    let step = PARTITION_BLOCKS.max(blocks.div_ceil(partitions(below))).div_ceil(page) * page;
    let mut twins = Twins::default();
    let mut counted = Vec::new();
    let mut start = 0;
    while start < blocks {
        let end = blocks.min(start + step);
        let sequences = Sequences::dense(start, end, below, page);
        let mut partition = Partition::new(start, end, sequences, twins.is_full());
        replay_segments(core, &slots, &mut partition).await;
        let pages: Vec<_> = (start / page..end.div_ceil(page)).map(Page).collect();
        let plain = enter_pages(core, &mut partition, &pages, !weak.blocks.is_empty()).await?;
        weak.weigh(core, &mut partition).await?;
        partition.take_twins(&mut twins);
        counted.push(Counted { start, plain, blocks: partition.sequences.into_told() });
        start = end;
    }
    let mut state = core.state.borrow_mut();
    twins.free_segments(&mut state);
    count_valid(&mut state, counted);
    note_numbers(&mut state);
    Ok(weak.candidates())
}

/// The segments whose lists are read.
fn replayed_segments(state: &State) -> Vec<SegmentSlot> {
    let replayed = state.segments.iter().filter(|(_, segment)| !segment.settled);
    replayed.map(|(slot, _)| slot).collect()
}

/// Blocks that segments hold at the most.
fn replayed_blocks(state: &State, slots: &[SegmentSlot]) -> u64 {
    slots.iter().map(|slot| state.segments[*slot].geometry.data_blocks()).sum()
}

/// Blocks that only weak stripes may tell of, at the most: else all lists are read.
const PROMISED_MOST: usize = 1 << 21;

/// Pages that recovery needs before users are served, at the most: else all are read.
const PAGES_BEFORE: usize = 256;

/// The pages that recovery needs itself, where the others can wait until somebody asks for them;
/// `None` where everything is to be read first: there are no pages, room is so scarce that it has
/// to be known what is needed, or a page that cannot be read could not be rebuilt.
fn pages_asked_for(core: &Core, slots: &[SegmentSlot], weak: &Weak) -> Option<Vec<Page>> {
    let state = core.state.borrow();
    let little = state.config.volume_blocks / REPLAYED_PART;
    let little = replayed_blocks(&state, slots) <= PARTITION_BLOCKS.max(little);
    let plenty = state.need_now() == Need::Nothing;
    // A page that rots must not be an error: as long as nothing is lost it can be rebuilt.
    let redundant = state.lost_members().is_empty() && state.scheme().parity() > 0;
    if !(state.checkpoints.pages_on_demand().is_some() && little && plenty && redundant) {
        return None;
    }
    let entries = state.index.page_entries();
    let mut pages = BTreeSet::new();
    for extent in weak.extents() {
        let (first, end) =
            (extent.lba.0 / entries, (extent.lba.0 + extent.blocks).div_ceil(entries));
        if pages.len() + Lba(end - first).index() > PAGES_BEFORE {
            return None;
        }
        pages.extend((first..end).map(Page));
    }
    Some(pages.into_iter().collect())
}

/// What is in weak stripes.
struct Weak {
    /// In the order of their sequences.
    blocks: Vec<WeakBlock>,
    /// What those hide that are tombstones.
    tombstones: Vec<Option<Vec<TrimExtent>>>,
    /// What of that is newer than what counts.
    hides: Vec<Vec<TrimExtent>>,
    /// Whether a block of data is.
    wanted: Vec<bool>,
}

impl Weak {
    async fn read(core: &Rc<Core>, weak: Vec<WeakBlock>) -> Self {
        let (blocks, tombstones) = with_tombstones(core, weak).await;
        let (hides, wanted) = (vec![Vec::new(); blocks.len()], vec![false; blocks.len()]);
        Self { blocks, tombstones, hides, wanted }
    }

    /// What they tell of.
    fn extents(&self) -> impl Iterator<Item = TrimExtent> {
        self.blocks.iter().zip(&self.tombstones).flat_map(|(block, extents)| {
            let data =
                TrimExtent { lba: block.entry.lba, blocks: 1, sequence: block.entry.sequence };
            extents.clone().unwrap_or_else(|| vec![data])
        })
    }

    /// Decides what of a part of the index they have to add.
    async fn weigh(&mut self, core: &Rc<Core>, partition: &mut Partition) -> Result<(), Unusable> {
        look_up_for_weak(core, partition, self.extents()).await?;
        for (block, extents) in self.blocks.iter().zip(&self.tombstones) {
            // What supersedes it, if it is weak as well, may turn out not to be readable.
            if partition.is_newer(block, extents.as_deref()) {
                core.state.borrow_mut().segments[block.place.slot].kept = true;
            }
        }
        for (at, block) in self.blocks.iter().enumerate().rev() {
            match &self.tombstones[at] {
                Some(extents) => self.hides[at].extend(partition.add_weak_trims(extents)),
                None => self.wanted[at] |= partition.add_weak(&block.entry),
            }
        }
        if partition.lacks_what_was_promised() { Err(Unusable) } else { Ok(()) }
    }

    fn candidates(self) -> Vec<Candidate> {
        let candidates = self.blocks.into_iter().zip(self.hides).zip(self.wanted);
        let candidates =
            candidates.filter(|((_, hides), wanted)| *wanted || !hides.is_empty()).map(
                |((block, hides), _)| Candidate { place: block.place, lba: block.entry.lba, hides },
            );
        candidates.collect()
    }
}

/// Sorts weak blocks by age and reads those that are tombstones.
async fn with_tombstones(
    core: &Rc<Core>,
    mut weak: Vec<WeakBlock>,
) -> (Vec<WeakBlock>, Vec<Option<Vec<TrimExtent>>>) {
    weak.sort_by_key(|block| (block.entry.sequence, block.place));
    let mut tombstones = Vec::with_capacity(weak.len());
    for block in &weak {
        tombstones.push(if block.entry.kind == EntryKind::Tombstone {
            Some(read_tombstone(core, block.place).await)
        } else {
            None
        });
    }
    (weak, tombstones)
}

async fn read_tombstone(core: &Rc<Core>, place: BlockPlace) -> Vec<TrimExtent> {
    let _pins = pin_all(core, &[place]);
    let found = read_places(core, &[place]).await.pop().flatten();
    let mut state = core.state.borrow_mut();
    let (array, blocks) = (state.config.array, state.config.volume_blocks);
    let decoded = found.and_then(|found| TombstoneBlock::decode(&found.data, array, blocks).ok());
    if decoded.is_none() {
        mark(Mark::TombstoneUnreadable);
        state.note_unaccounted(place.slot);
    }
    decoded.map(|tombstone| tombstone.extents).unwrap_or_default()
}

/// Spans whose lists are read at a time, some MiB of them.
const SPANS_AT_A_TIME: usize = 16;

/// Enters every block of segments that lies in the partition; notes the segments' sequences.
async fn replay_segments(core: &Rc<Core>, slots: &[SegmentSlot], partition: &mut Partition) {
    let geometry = |slot: SegmentSlot| core.state.borrow().segments[slot].geometry;
    let spans =
        slots.iter().flat_map(|slot| (0..geometry(*slot).spans()).map(|span| (*slot, span)));
    let reads = spans
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(slot, span)| async move { (slot, span, span_entries(core, slot, span).await) });
    let mut reads = stream::iter(reads).buffered(SPANS_AT_A_TIME);
    while let Some((slot, span, entries)) = reads.next().await {
        let geometry = geometry(slot);
        let tombstones = {
            let mut state = core.state.borrow_mut();
            let first = geometry.first_of_span(span);
            enter_entries(&mut state, slot, first, &entries, partition)
        };
        if partition.is_told_too_much() {
            return;
        }
        for place in tombstones {
            let extents = read_tombstone(core, place).await;
            let mut state = core.state.borrow_mut();
            let pba = state.space.pba(place);
            state.tombstones.entry(pba).or_insert(0);
            for extent in extents {
                for lba in partition.within(&extent) {
                    partition.add(&mut state, Lba(lba), extent.sequence, pba);
                }
                if partition.is_told_too_much() {
                    return;
                }
            }
        }
    }
}

pub(in crate::log) fn rank(state: &State, pba: Pba) -> Rank {
    let segment = &state.segments[state.space.place(pba).slot];
    let sealed = segment.phase == Phase::Sealed;
    let age = i128::from(segment.id);
    (!segment.doubtful, sealed, if sealed { age } else { -age })
}

/// Enters data blocks; returns the places of tombstone blocks.
fn enter_entries(
    state: &mut State,
    slot: SegmentSlot,
    first: ChunkBlock,
    entries: &[Vec<IndexEntry>],
    partition: &mut Partition,
) -> Vec<BlockPlace> {
    let mut tombstones = Vec::new();
    let (mut oldest, mut newest) = (u64::MAX, 0);
    for (column, entries) in entries.iter().enumerate() {
        let column = Column::of(column);
        let start = state.space.pba(BlockPlace { slot, column, block: first });
        for (at, entry) in (0..).zip(entries) {
            match entry.kind {
                EntryKind::Data | EntryKind::Lost => {
                    let pba = start.plus(at);
                    if entry.kind == EntryKind::Lost {
                        partition.lost.insert(pba);
                    }
                    partition.add(state, entry.lba, entry.sequence, pba);
                }
                EntryKind::Tombstone => {
                    tombstones.push(BlockPlace { slot, column, block: ChunkBlock(first.0 + at) });
                }
                _ => continue,
            }
            (oldest, newest) = (oldest.min(entry.sequence), newest.max(entry.sequence + 1));
        }
    }
    let segment = &mut state.segments[slot];
    segment.min_sequence = segment.min_sequence.min(oldest);
    state.next_sequence = state.next_sequence.max(newest);
    tombstones
}

/// The part of the index being built.
pub(in crate::log) struct Partition {
    start: u64,
    end: u64,
    /// Of entries that a page tells: what they are not newer than.
    sequences: Sequences,
    /// What is replayed, if it is not entered at once.
    deferred: Option<Deferred>,
    /// Entries of pages of which the sequence itself is known.
    exact: BTreeSet<Lba>,
    /// Copies that were not chosen among those of one version, with its sequence.
    equal: Vec<(Lba, u64, Pba)>,
    /// Copies that say that a block was lost: no twins of others.
    lost: BTreeSet<Pba>,
    /// Whether no more twins are remembered.
    twins_full: bool,
    /// Blocks of which a page tells that the newest version is in a segment that was replayed, and
    /// did not tell it: only a stripe that is weak by now may still.
    promised: Vec<Lba>,
}

impl Partition {
    fn new(start: u64, end: u64, sequences: Sequences, twins_full: bool) -> Self {
        let (equal, lost) = (Vec::new(), BTreeSet::new());
        let (exact, promised) = (BTreeSet::new(), Vec::new());
        let deferred = None;
        Self { start, end, sequences, deferred, exact, equal, lost, twins_full, promised }
    }

    /// Whether lists tell of more blocks than can wait for their pages: a trim tells of many.
    fn is_told_too_much(&mut self) -> bool {
        let most = DEFERRED_MOST.max(self.end / DEFERRED_PART);
        self.deferred.as_mut().is_some_and(|deferred| deferred.exceeds(most))
    }

    /// Enters what was replayed for some pages, from now on at once; returns the rest.
    fn enter_for(&mut self, state: &mut State, pages: &[Page]) -> Deferred {
        let mut deferred = self.deferred.take().expect("kept aside so far");
        for page in pages {
            for Entry { lba, sequence, pba } in deferred.take(deferred.group_of(*page)) {
                self.add(state, lba, sequence, pba);
            }
        }
        deferred
    }

    /// The sequence of what was replayed for a block.
    pub(in crate::log) fn known(&self, state: &State, lba: Lba) -> Option<u64> {
        state.index.get(lba)?;
        Some(self.sequences.get(lba))
    }

    /// Notes how new an entry is at the most.
    pub(in crate::log) fn bound(&mut self, lba: Lba, sequence: u64) {
        self.sequences.set(lba, sequence);
    }

    /// The same of those entries of a page that lead somewhere.
    pub(in crate::log) fn bound_all(&mut self, first: Lba, entries: &[map::Entry], sequence: u64) {
        self.sequences.set_all(first, entries, sequence);
    }

    /// Notes that a block was written before the page that tells so, wherever the newest version of
    /// it is: a settled segment may hold an older one that the page does not tell of, and a weak
    /// trim hides.
    pub(in crate::log) fn note_written(&mut self, lba: Lba) {
        if self.sequences.get(lba) == 0 {
            self.sequences.set(lba, 1);
        }
    }

    /// Notes that something has to tell of a block.
    pub(in crate::log) fn note_promised(&mut self, lba: Lba) {
        self.promised.push(lba);
    }

    /// Whether it is more than crashes leave.
    pub(in crate::log) fn has_many_promised(&self) -> bool {
        self.promised.len() > PROMISED_MOST
    }

    /// Whether nothing tells of some block that something has to tell of: then older versions of it
    /// may be what counts, which only lists tell.
    fn lacks_what_was_promised(&self) -> bool {
        self.promised.iter().any(|lba| self.sequences.get(*lba) <= 1)
    }

    /// Notes that a copy says that a block was lost.
    pub(in crate::log) fn note_lost(&mut self, pba: Pba) {
        self.lost.insert(pba);
    }

    /// Notes that the sequence of an entry of a page is known.
    pub(in crate::log) fn note_exact(&mut self, lba: Lba) {
        self.exact.insert(lba);
    }

    /// The entry of a block if it is not known whether it is older than a sequence.
    pub(in crate::log) fn unclear(&self, state: &State, lba: Lba, sequence: u64) -> Option<Pba> {
        let pba = state.index.get(lba)?;
        let settled = state.segments[state.space.place(pba).slot].settled;
        let newer = sequence > self.sequences.get(lba);
        (settled && !newer && !self.exact.contains(&lba)).then_some(pba)
    }

    pub(in crate::log) fn add(&mut self, state: &mut State, lba: Lba, sequence: u64, pba: Pba) {
        if !(self.start..self.end).contains(&lba.0) {
            return;
        }
        if let Some(deferred) = &mut self.deferred {
            return deferred.push(Entry { lba, sequence, pba });
        }
        let known = self.sequences.get(lba);
        if sequence < known {
            return;
        }
        // The index is looked at only where it may tell of a twin.
        match (sequence == known).then(|| state.index.get(lba)).flatten() {
            Some(other) => {
                let preferred = rank(state, pba) > rank(state, other);
                mark_if(Mark::EqualCopyPreferred, || preferred && sequence > 0);
                self.note_twin(lba, sequence, if preferred { other } else { pba });
                if !preferred {
                    return;
                }
            }
            // That it is known is noted even of a sequence of zero, which nobody gave out.
            None => self.sequences.set(lba, sequence),
        }
        state.index.set(lba, Some(pba));
    }

    fn note_twin(&mut self, lba: Lba, sequence: u64, pba: Pba) {
        if !self.twins_full && !self.lost.contains(&pba) {
            self.equal.push((lba, sequence, pba));
            self.twins_full = self.equal.len() >= Twins::MOST;
        }
    }

    /// Whether a weak block, or part of what a weak tombstone hides, is newer than what counts.
    fn is_newer(&self, block: &WeakBlock, extents: Option<&[TrimExtent]>) -> bool {
        let newer = |lba: u64, sequence: u64| sequence > self.sequences.get(Lba(lba));
        let lba = block.entry.lba.0;
        match extents {
            Some(extents) => extents
                .iter()
                .any(|extent| self.within(extent).any(|lba| newer(lba, extent.sequence))),
            None => (self.start..self.end).contains(&lba) && newer(lba, block.entry.sequence),
        }
    }

    /// The twins of the copies that were chosen.
    fn take_twins(&mut self, twins: &mut Twins) {
        for (lba, sequence, pba) in std::mem::take(&mut self.equal) {
            if self.sequences.get(lba) == sequence {
                twins.add(lba, pba);
            }
        }
    }

    pub(in crate::log) fn within(&self, extent: &TrimExtent) -> std::ops::Range<u64> {
        let end = extent.lba.0 + extent.blocks;
        extent.lba.0.max(self.start)..end.min(self.end).max(self.start)
    }

    /// Whether a weak data block is newer than what counts.
    fn add_weak(&mut self, entry: &IndexEntry) -> bool {
        if !(self.start..self.end).contains(&entry.lba.0) {
            return false;
        }
        let newer = entry.sequence > self.sequences.get(entry.lba);
        mark_if(Mark::WeakBlockSuperseded, || !newer && entry.sequence > 0);
        if newer {
            self.sequences.set(entry.lba, entry.sequence);
        }
        newer
    }

    /// The parts of weak extents that are newer than what counts.
    fn add_weak_trims(&mut self, extents: &[TrimExtent]) -> Vec<TrimExtent> {
        let mut hides: Vec<TrimExtent> = Vec::new();
        // Up to where the last one may go on: what was never written it hides as well.
        let mut reach = 0;
        for extent in extents {
            for lba in self.within(extent) {
                let known = self.sequences.get(Lba(lba));
                if extent.sequence <= known {
                    continue;
                }
                self.sequences.set(Lba(lba), extent.sequence);
                // Where nothing was ever written there is nothing to hide.
                if known == 0 {
                    reach += u64::from(reach == lba);
                    continue;
                }
                match hides.last_mut() {
                    Some(last) if reach == lba && last.sequence == extent.sequence => {
                        last.blocks = lba + 1 - last.lba.0;
                    }
                    _ => hides.push(TrimExtent { lba: Lba(lba), blocks: 1, ..*extent }),
                }
                reach = lba + 1;
            }
        }
        hides
    }
}

fn note_numbers(state: &mut State) {
    if mutant(Mutant::SequenceRestarts) {
        state.next_sequence = 1;
    }
    let step = crate::log::segment::open::sequence_step(state);
    state.ceilings_to_record.0 = state.next_sequence + step;
}
