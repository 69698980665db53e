//! Building the index: for each block of the volume, the newest version that counts.
//!
//! Sequences are needed only while the index is built, so the volume is processed in partitions
//! that bound their memory. Two copies with the same sequence hold the same data. A copy in a
//! sealed segment is preferred, then the one that lets more segments be freed: the newer of two
//! sealed ones, the older of two unfinished ones. Finally, duplicates free the segments that they
//! can.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, Page, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::engine::state::State;
use crate::log::format::{EntryKind, IndexEntry, Sequence, TombstoneBlock, TrimExtent};
use crate::log::index::checkpoint::confirm::Unconfirmed;
use crate::log::index::checkpoint::read::Unusable;
use crate::log::index::deferred::Deferred;
use crate::log::index::pages::{enter_pages, look_up_for_weak};
use crate::log::index::partition::{Candidate, Duplicates, Partition};
use crate::log::index::sequences::{NARROW, Sequences};
use crate::log::index::valid_counts::{Counted, count_valid};
use crate::log::read::blocks::read_places;
use crate::log::reclaim::space::Need;
use crate::log::segment::pin::pin_all;
use crate::log::segment::scan::span_entries;
use crate::log::segment::scanned::WeakBlock;
use crate::scheme::Column;

/// Blocks of the volume whose sequences are held at a time: 160 MiB of sequences, or more for large
/// volumes.
const PARTITION_BLOCKS: u64 = 32 << 20;

/// Number of partitions; every summary is read once for each. It is one if a sequence takes five
/// bytes: a quarter more memory than most indexes, when much is replayed. With eight bytes,
/// sequences may take as much memory as the index.
const fn partitions(sequences_below: Sequence) -> u64 {
    if sequences_below.0 < NARROW.0 { 1 } else { 2 }
}

/// Part of a volume that summaries may describe if pages are loaded on demand.
const REPLAYED_PART: u64 = 8;

/// Builds the index and the valid counts. Returns the blocks of weak stripes that are the newest of
/// their kind: at most one version for each block of the volume, so that they can be written in any
/// order.
///
/// # Errors
/// If the checkpoint that was read turns out to be invalid.
pub(super) async fn build_index(
    core: &Rc<Core>,
    weak: Vec<WeakBlock>,
) -> Result<Vec<Candidate>, Unusable> {
    let blocks = core.state.borrow().array.config.log().volume_blocks;
    let slots = replayed_segments(&core.state.borrow());
    let mut weak = Weak::read(core, weak).await;
    if let Some(pages) = pages_asked_for(core, &slots, &weak) {
        mark(Mark::IndexOnDemand);
        let page_entries = core.state.borrow().mapping.index.page_entries();
        let all = blocks.div_ceil(page_entries);
        let sequences = Sequences::sparse(page_entries, all);
        let mut partition = Partition::new(0, blocks, sequences, true);
        let expected = replayed_blocks(&core.state.borrow(), &slots);
        partition.deferred = Some(Deferred::new(page_entries, all, expected));
        let mut unconfirmed = Unconfirmed::of(&core.state.borrow(), &slots, &pages);
        replay_segments(core, &slots, &mut partition, Some(&mut unconfirmed)).await;
        if !partition.is_told_too_much() {
            unconfirmed.check()?;
            let deferred = partition.enter_for(&mut core.state.borrow_mut(), &pages);
            enter_pages(core, &mut partition, &pages, true).await?;
            weak.weigh(core, &mut partition).await?;
            let mut state = core.state.borrow_mut();
            state.leave_absent(partition.sequences, deferred, &pages);
            set_ceilings(&mut state);
            return Ok(weak.candidates());
        }
    }
    // Partitions consist of whole pages.
    let page = core.state.borrow().mapping.index.page_entries();
    let below = core.state.borrow().writes.next_sequence;
    let step = PARTITION_BLOCKS.max(blocks.div_ceil(partitions(below))).div_ceil(page) * page;
    assert!(step > 0 && step.is_multiple_of(page), "partitions of {step} blocks, pages of {page}");
    let mut twins = Duplicates::default();
    let mut counted = Vec::new();
    let mut start = 0;
    while start < blocks {
        let end = blocks.min(start + step);
        let sequences = Sequences::dense(start, end, below, page);
        let mut partition = Partition::new(start, end, sequences, twins.is_full());
        replay_segments(core, &slots, &mut partition, None).await;
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
    set_ceilings(&mut state);
    Ok(weak.candidates())
}

/// The segments whose summaries are read.
fn replayed_segments(state: &State) -> Vec<SegmentSlot> {
    let replayed = state.segments.iter().filter(|(_, segment)| !segment.is_in_checkpoint());
    replayed.map(|(slot, _)| slot).collect()
}

/// Upper bound of the blocks in segments.
fn replayed_blocks(state: &State, slots: &[SegmentSlot]) -> u64 {
    slots.iter().map(|slot| state.segments[*slot].geometry.data_blocks()).sum()
}

/// Limit of pages that recovery needs before users are served; beyond it all are read.
const PAGES_BEFORE: usize = 256;

/// The pages that recovery itself needs, if the others can be loaded on demand. `None` if
/// everything has to be read first: there are no pages, free space is so scarce that valid counts
/// must be exact, or an unreadable page could not be rebuilt.
fn pages_asked_for(core: &Core, slots: &[SegmentSlot], weak: &Weak) -> Option<Vec<Page>> {
    let state = core.state.borrow();
    let little = state.array.config.log().volume_blocks / REPLAYED_PART;
    let little = replayed_blocks(&state, slots) <= PARTITION_BLOCKS.max(little);
    let plenty = state.need_now() == Need::Nothing;
    // A page that decays must not become an error: without lost members it can be reconstructed.
    let redundant = state.array.lost_members().is_empty() && state.array.scheme().parity() > 0;
    if !(state.checkpoints.pages_on_demand().is_some() && little && plenty && redundant) {
        return None;
    }
    let entries = state.mapping.index.page_entries();
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

/// Contents of weak stripes.
struct Weak {
    /// In the order of their sequences.
    blocks: Vec<WeakBlock>,
    /// For each block, the extents that it hides if it is a tombstone block.
    tombstones: Vec<Option<Vec<TrimExtent>>>,
    /// For each block, the hidden extents that are newer than the valid version.
    hides: Vec<Vec<TrimExtent>>,
    /// Whether a data block is newer than the valid version.
    wanted: Vec<bool>,
}

impl Weak {
    async fn read(core: &Rc<Core>, weak: Vec<WeakBlock>) -> Self {
        let (blocks, tombstones) = with_tombstones(core, weak).await;
        assert!(
            blocks.len() == tombstones.len(),
            "{} of {} weak blocks are read",
            tombstones.len(),
            blocks.len()
        );
        let (hides, wanted) = (vec![Vec::new(); blocks.len()], vec![false; blocks.len()]);
        Self { blocks, tombstones, hides, wanted }
    }

    /// The extents of all blocks.
    fn extents(&self) -> impl Iterator<Item = TrimExtent> {
        self.blocks.iter().zip(&self.tombstones).flat_map(|(block, extents)| {
            let data =
                TrimExtent { lba: block.entry.lba, blocks: 1, sequence: block.entry.sequence };
            extents.clone().unwrap_or_else(|| vec![data])
        })
    }

    /// Decides which weak blocks and extents of one partition are newer than the valid version.
    async fn weigh(&mut self, core: &Rc<Core>, partition: &mut Partition) -> Result<(), Unusable> {
        look_up_for_weak(core, partition, self.extents()).await?;
        for (block, extents) in self.blocks.iter().zip(&self.tombstones) {
            // The superseding version, if weak as well, may turn out to be unreadable.
            if partition.is_newer(block, extents.as_deref()) {
                core.state.borrow_mut().segments[block.place.slot].retained_for_restart = true;
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
        let blocks = self.blocks.len();
        assert!(
            self.hides.len() == blocks && self.wanted.len() == blocks,
            "{} of {blocks} weak blocks are judged",
            self.wanted.len()
        );
        let candidates = self.blocks.into_iter().zip(self.hides).zip(self.wanted);
        let candidates =
            candidates.filter(|((_, hides), wanted)| *wanted || !hides.is_empty()).map(
                |((block, hides), _)| Candidate { place: block.place, lba: block.entry.lba, hides },
            );
        candidates.collect()
    }
}

/// Sorts weak blocks by age and reads the tombstone blocks among them.
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
    let (array, blocks) = (state.array.config.array, state.array.config.log().volume_blocks);
    let decoded = found.and_then(|found| TombstoneBlock::decode(&found.data, array, blocks).ok());
    if decoded.is_none() {
        mark(Mark::TombstoneUnreadable);
        state.record_unaccounted(place.slot, [(place.column, 1)]);
    }
    decoded.map(|tombstone| tombstone.extents).unwrap_or_default()
}

/// Spans whose summaries are read at a time, a few MiB.
const SPANS_AT_A_TIME: usize = 16;

/// Enters every block of these segments within the partition, and records the segments' sequences.
async fn replay_segments(
    core: &Rc<Core>,
    slots: &[SegmentSlot],
    partition: &mut Partition,
    mut unconfirmed: Option<&mut Unconfirmed>,
) {
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
            if let Some(unconfirmed) = &mut unconfirmed {
                unconfirmed.confirm(&state.space, (slot, first), &entries);
            }
            enter_entries(&mut state, slot, first, &entries, partition)
        };
        if partition.is_told_too_much() {
            return;
        }
        for place in tombstones {
            let extents = read_tombstone(core, place).await;
            let mut state = core.state.borrow_mut();
            let pba = state.space.pba(place);
            state.mapping.tombstones.entry(pba).or_insert(0);
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

/// Enters data blocks; returns the places of tombstone blocks.
fn enter_entries(
    state: &mut State,
    slot: SegmentSlot,
    first: ChunkBlock,
    entries: &[Vec<IndexEntry>],
    partition: &mut Partition,
) -> Vec<BlockPlace> {
    let mut tombstones = Vec::new();
    let (mut oldest, mut newest) = (Sequence::MAX, Sequence::NONE);
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
            (oldest, newest) = (oldest.min(entry.sequence), newest.max(entry.sequence.next()));
        }
    }
    state.segments[slot].holds_from(oldest);
    state.writes.next_sequence = state.writes.next_sequence.max(newest);
    tombstones
}

fn set_ceilings(state: &mut State) {
    if mutant(Mutant::SequenceRestarts) {
        state.writes.next_sequence = Sequence::FIRST;
    }
    let step = crate::log::segment::open::sequence_step(state);
    state.writes.ceilings_to_record.0 = state.writes.next_sequence.plus(step);
}
