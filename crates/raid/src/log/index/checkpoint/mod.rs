//! Checkpoints of the index: the parts of the newest one, and when the next is due.
//!
//! With a checkpoint a start reads the pages of the index and the summaries of few segments instead
//! of the summaries of all. A checkpoint is written like user data: its blocks go to users'
//! segments and become dead with the next checkpoint. They are not relocated, except for pages that
//! have left memory ([`cache`](super::cache)). Every rule here follows from the first:
//!
//! * **Everything that a checkpoint does not record must be in segments that a start replays.** A
//!   checkpoint first chooses the *settled* segments: complete, with no write in flight. Its pages
//!   are fixed afterwards. Any entry that they lack is in a segment that was not settled, or was
//!   opened later.
//! * An entry that is redirected into a settled segment (a relocation that is undone) *breaks* the
//!   checkpoint, as its page may point into a segment that is freed next. A broken checkpoint is
//!   durably *voided* before any segment is freed.
//! * A segment with blocks of the newest checkpoint is freed once the next checkpoint no longer
//!   uses them. If users would have to wait for that, the checkpoint is voided instead. Progress
//!   therefore never depends on writing a checkpoint.
//!
//! A start that finds a void checkpoint, or one with a missing part, replays every summary.

pub(in crate::log) mod confirm;
pub(in crate::log) mod read;
mod take;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use fixedbitset::FixedBitSet;
use zoneweave_zoned::Lba;

use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::engine::footprint::in_tree;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::format::checkpoint::{
    AddressSpace, BlockLocation, CheckpointPointer, Coverage, ShardId,
};
use crate::log::format::{Generation, SegmentId, Sequence};
use crate::log::segment::table::Segment;
use crate::scheme::Column;

pub(in crate::log) use take::{end, give_up, run, write};
pub(in crate::log) use upkeep::Piece;

/// Addresses of the blocks of a checkpoint.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// Mapping blocks, by page; `None` for pages without mapped blocks.
    pub pages: Vec<Option<Pba>>,
    /// Directories of mapping blocks.
    pub directories: Vec<Option<Pba>>,
    /// The chain of root blocks.
    pub roots: Vec<Pba>,
}

impl Parts {
    fn places(&self) -> impl Iterator<Item = Pba> {
        let listed = self.pages.iter().chain(&self.directories).flatten();
        listed.chain(&self.roots).copied()
    }
}

/// The scope of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Every page that has changed.
    Changes,
    /// Only blocks in segments that are to be freed: the checkpoint covers no more than the one
    /// before.
    Removal,
}

/// The most urgent reason for the next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    No,
    /// A segment could be reused.
    Soon,
    /// An incomplete segment could be freed: a rebuild, or active zones, may depend on it.
    Now,
}

/// A checkpoint being written.
#[derive(Debug)]
struct Attempt {
    number: Sequence,
    /// Segments from this number on are replayed.
    replay_from: SegmentId,
    /// Slots of the segments of which it will cover everything, at its beginning.
    covered: FixedBitSet,
    /// Addresses of the blocks written so far.
    parts: Parts,
    /// Pages fixed so far, in order.
    fixed: BTreeSet<Page>,
    /// It would be wrong or incomplete.
    broken: bool,
    /// Its record is being written, or is on media: from now on it counts.
    announced: bool,
}

impl Attempt {
    /// Whether it will cover everything in a segment.
    fn covers(&self, slot: SegmentSlot, segment: &Segment) -> bool {
        // A later segment may have the slot of one that was covered.
        segment.id < self.replay_from && self.covered.contains(slot.index())
    }
}

/// The purpose for which a page was fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixing {
    /// For the checkpoint being written.
    Checkpoint,
    /// For eviction; with the sequence of its mapping block.
    Leaving(Sequence),
}

/// Memory of an entry in `apart`, in bytes.
const APART: u64 = in_tree(size_of::<(Page, Option<Pba>)>());

/// State of checkpoints.
#[derive(Debug)]
pub(in crate::log) struct Checkpoints {
    /// The arithmetic of their addresses.
    pub space: AddressSpace,
    /// Blocks of users for each block of a checkpoint; `None` if none are written.
    share: Option<u32>,
    /// Absent pages prefetched at a time, if users need not wait for all.
    on_demand: Option<NonZeroU32>,
    /// The newest checkpoint in snapshots of the superblock: on media, or about to be. Its number
    /// is a sequence, as these are never reused.
    recorded: CheckpointPointer,
    /// Addresses of the newest checkpoint; `None` if there is no valid one.
    newest: Option<Parts>,
    /// The newest checkpoint may miss an entry.
    broken: bool,
    /// Whether a segment waits until it holds no block of the newest checkpoint.
    wanted: Wanted,
    /// The last attempt failed.
    failed: bool,
    /// Blocks written by users that no block of a checkpoint has been charged to.
    credit: u64,
    /// Blocks written by users since the last checkpoint of all changes began.
    since: u64,
    /// A void record is being written.
    voiding: bool,
    attempt: Option<Attempt>,
    /// Addresses of pages written since the newest checkpoint and clean since then; `None` for
    /// pages without mapped blocks.
    apart: BTreeMap<Page, Option<Pba>>,
    /// Pages that were fixed and whose address is not known yet.
    unplaced: BTreeMap<Page, Fixing>,
    /// Addresses of blocks in flight, by their position in the attempt.
    placed: Vec<Option<Pba>>,
}

impl Checkpoints {
    /// Starts without a checkpoint. Snapshots record that with a number above any on media:
    /// superblock zones that could not be read, or not reset, may hold the record of a checkpoint.
    #[must_use]
    pub(in crate::log) fn new(
        space: AddressSpace,
        share: Option<u32>,
        on_demand: Option<NonZeroU32>,
        number: Sequence,
    ) -> Self {
        Self {
            space,
            share,
            on_demand,
            recorded: void(number),
            newest: None,
            broken: false,
            wanted: Wanted::No,
            failed: false,
            credit: 0,
            since: 0,
            voiding: false,
            attempt: None,
            apart: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            placed: Vec::new(),
        }
    }

    /// The pointer for snapshots of the superblock.
    #[must_use]
    pub(in crate::log) fn recorded(&self) -> CheckpointPointer {
        self.recorded
    }

    /// Whether checkpoints are written.
    #[must_use]
    pub(in crate::log) fn is_on(&self) -> bool {
        self.share.is_some()
    }

    /// Whether one is being written.
    #[must_use]
    pub(in crate::log) fn is_under_way(&self) -> bool {
        self.attempt.is_some()
    }

    /// Address of a page in the newest checkpoint.
    #[must_use]
    pub(in crate::log) fn page(&self, page: Page) -> Option<Pba> {
        self.newest.as_ref()?.pages[Lba(page.0).index()]
    }

    /// Pages to prefetch at a time; `None` if users wait for all pages, or checkpoints have none.
    #[must_use]
    pub(in crate::log) fn pages_on_demand(&self) -> Option<NonZeroU32> {
        self.on_demand.filter(|_| self.newest.is_some())
    }

    /// The pages of the newest checkpoint with mapped blocks.
    pub(in crate::log) fn pages(&self) -> impl Iterator<Item = (Page, Pba)> {
        let pages = self.newest.iter().flat_map(|parts| (0..).map(Page).zip(&parts.pages));
        pages.filter_map(|(page, at)| Some((page, (*at)?)))
    }

    /// Memory of the addresses of one checkpoint, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_of(space: &AddressSpace) -> u64 {
        let places = space.mapping_blocks() + space.mapping_directories();
        places * size_of::<Option<Pba>>() as u64
    }

    /// Memory of checkpoints, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        let under_way = self.attempt.as_ref().map(|attempt| &attempt.parts);
        let parts = self.newest.iter().chain(under_way);
        let places = parts.map(|parts| parts.pages.capacity() + parts.directories.capacity());
        (places.sum::<usize>() * size_of::<Option<Pba>>()) as u64
    }

    /// Memory of `apart` in bytes, if every page was written since the newest checkpoint.
    #[must_use]
    pub(in crate::log) fn bytes_apart_of(space: &AddressSpace) -> u64 {
        space.mapping_blocks() * APART
    }

    /// Memory of `apart` and `unplaced`, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_apart(&self) -> u64 {
        let unplaced = self.unplaced.len() as u64 * in_tree(size_of::<(Page, Fixing)>());
        self.apart.len() as u64 * APART + unplaced
    }

    /// Records that a page is fixed for the checkpoint being written: earlier mapping blocks of it
    /// are obsolete.
    fn begin_placing(&mut self, page: Page) {
        assert!(self.attempt.is_some(), "page {} is fixed for no checkpoint", page.0);
        self.apart.remove(&page);
        self.unplaced.insert(page, Fixing::Checkpoint);
    }

    /// Records that the page's address in the checkpoint is known.
    fn end_placing(&mut self, page: Page) {
        if self.unplaced.get(&page) == Some(&Fixing::Checkpoint) {
            self.unplaced.remove(&page);
        }
    }

    /// Returns whether a failed attempt knows the address of a page.
    fn end_placing_of(&mut self, page: Page) -> bool {
        let unplaced = self.unplaced.get(&page) == Some(&Fixing::Checkpoint);
        self.end_placing(page);
        !unplaced
    }

    /// Records that a page is fixed for eviction.
    pub(in crate::log) fn begin_leaving(&mut self, page: Page, sequence: Sequence) {
        let before = self.unplaced.get(&page);
        assert!(before.is_none(), "page {} leaves while it is in flight: {before:?}", page.0);
        self.apart.remove(&page);
        self.unplaced.insert(page, Fixing::Leaving(sequence));
    }

    /// Records that its address is known, or never will be. Returns whether it was not fixed again
    /// since.
    pub(in crate::log) fn end_leaving(&mut self, page: Page, sequence: Sequence) -> bool {
        let ours = self.unplaced.get(&page) == Some(&Fixing::Leaving(sequence));
        if ours {
            self.unplaced.remove(&page);
        }
        ours
    }

    /// Records the address of a page that is clean since it was fixed; `None` if it has no mapped
    /// blocks.
    pub(in crate::log) fn put_apart(&mut self, page: Page, at: Option<Pba>) {
        self.apart.insert(page, at);
    }

    /// Forgets and returns pages whose only address satisfies `gone`.
    pub(in crate::log) fn forget(&mut self, gone: impl Fn(Pba) -> bool) -> Vec<Page> {
        let apart = self.apart.iter().filter_map(|(page, at)| Some((*page, (*at)?)));
        let fixed = self.attempt.iter().flat_map(|attempt| {
            let place = |page: &Page| attempt.parts.pages[Lba(page.0).index()];
            attempt.fixed.iter().filter_map(move |page| Some((*page, place(page)?)))
        });
        let fixed = fixed.filter(|(page, _)| !self.apart.contains_key(page));
        let gone: Vec<_> = apart.chain(fixed).filter(|(_, at)| gone(*at)).collect();
        for (page, _) in &gone {
            self.apart.remove(page);
        }
        gone.into_iter().map(|(page, _)| page).collect()
    }

    /// Counts a block that users wrote.
    pub(in crate::log) fn count_written(&mut self) {
        self.credit += 1;
        self.since += 1;
    }

    /// Adopts the checkpoint that a start has read.
    fn go_on_with(&mut self, pointer: CheckpointPointer, parts: Parts) {
        assert!(self.newest.is_none(), "checkpoint {} follows another", pointer.number);
        let (pages, directories) = (parts.pages.len() as u64, parts.directories.len() as u64);
        assert!(
            pages == self.space.mapping_blocks() && directories == self.space.mapping_directories(),
            "checkpoint {} has {pages} pages in {directories} directories",
            pointer.number
        );
        self.recorded = pointer;
        self.newest = Some(parts);
    }
}

/// A pointer that records the absence of a checkpoint: segments have generations above zero.
fn void(number: Sequence) -> CheckpointPointer {
    let root = BlockLocation {
        segment: SegmentId::NONE,
        generation: Generation::NONE,
        column: Column(0),
        block: ChunkBlock(0),
    };
    let (shard, coverage) = (ShardId::default(), Coverage::default());
    CheckpointPointer { shard, number, coverage, replay_from: SegmentId::NONE, root }
}
