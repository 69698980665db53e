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

pub(in crate::log) mod read;
mod take;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use zoneweave_zoned::Lba;

use crate::log::engine::address::{Page, Pba};
use crate::log::engine::footprint::in_tree;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::format::checkpoint::{
    AddressSpace, BlockLocation, CheckpointPointer, Coverage, ShardId,
};
use crate::scheme::Column;

pub(in crate::log) use take::{UNREADABLE, end, give_up, run, write};
pub(in crate::log) use upkeep::Piece;

/// What a checkpoint consists of, by place.
#[derive(Clone, Debug, Default)]
pub(in crate::log) struct Parts {
    /// Mapping blocks, by page; `None` for pages of which nothing is mapped.
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

/// What a checkpoint fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Every page that has changed.
    Changes,
    /// Only what is in segments that are to be freed: the checkpoint knows no more than the one
    /// before.
    Removal,
}

/// Whether a segment waits for the next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    No,
    /// One could be used again.
    Soon,
    /// One is not whole: what else waits for it may be a rebuild, or room for active zones.
    Now,
}

/// A checkpoint being written.
#[derive(Debug)]
struct Attempt {
    number: u64,
    /// Segments from this number on are replayed.
    replay_from: u64,
    /// What it will consist of.
    parts: Parts,
    /// Pages fixed so far, in order.
    fixed: BTreeSet<Page>,
    /// It would not tell the truth, or not be whole.
    broken: bool,
    /// The record of it is being written, or is on media: from now on it counts.
    announced: bool,
}

/// What a page was fixed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixing {
    /// The checkpoint being written.
    Checkpoint,
    /// To leave memory, with the sequence of its block.
    Leaving(u64),
}

/// Memory of where a page is.
const APART: u64 = in_tree(size_of::<(Page, Option<Pba>)>());

/// What is known of checkpoints.
#[derive(Debug)]
pub(in crate::log) struct Checkpoints {
    /// The arithmetic of their addresses.
    pub space: AddressSpace,
    /// Blocks of users for one of a checkpoint; `None` if none are written.
    share: Option<u32>,
    /// How many pages are read at a time that nobody asks for, if users need not wait for all.
    on_demand: Option<NonZeroU32>,
    /// What snapshots say of the newest one: what is on media, or about to be. Its number is a
    /// sequence, as these never come back.
    recorded: CheckpointPointer,
    /// What the newest one consists of, if there is one that counts.
    newest: Option<Parts>,
    /// The newest one may miss something.
    broken: bool,
    /// Whether a segment waits until nothing of the newest one is in it.
    wanted: Wanted,
    /// The last one could not be completed.
    failed: bool,
    /// Blocks that users wrote for which no block of a checkpoint was written yet.
    credit: u64,
    /// Blocks that users wrote since the last one began that fixed all changes.
    since: u64,
    /// It is being recorded that none counts.
    voiding: bool,
    attempt: Option<Attempt>,
    /// Where pages are that were written since the newest one, and have not changed since they
    /// were; `None` where nothing is mapped.
    apart: BTreeMap<Page, Option<Pba>>,
    /// Pages that were fixed, of which it is not known yet where: those for a checkpoint, and
    /// others.
    unplaced: BTreeMap<Page, Fixing>,
    /// Where blocks came to be that are waited for, by their place in the attempt.
    placed: Vec<Option<Pba>>,
}

impl Checkpoints {
    /// None so far. Snapshots say so, by a number above any on media: superblock zones that could
    /// not be read, or not be reset, may have the record of one.
    #[must_use]
    pub(in crate::log) fn new(
        space: AddressSpace,
        share: Option<u32>,
        on_demand: Option<NonZeroU32>,
        number: u64,
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

    /// What snapshots of the superblock say.
    #[must_use]
    pub(in crate::log) fn recorded(&self) -> CheckpointPointer {
        self.recorded
    }

    /// Whether any are written.
    #[must_use]
    pub(in crate::log) fn is_on(&self) -> bool {
        self.share.is_some()
    }

    /// Whether one is being written.
    #[must_use]
    pub(in crate::log) fn is_under_way(&self) -> bool {
        self.attempt.is_some()
    }

    /// Where a page of the newest one is.
    #[must_use]
    pub(in crate::log) fn page(&self, page: Page) -> Option<Pba> {
        self.newest.as_ref()?.pages[Lba(page.0).index()]
    }

    /// Whether there are pages, and users need not wait for all of them: how many are read at a
    /// time that nobody asks for.
    #[must_use]
    pub(in crate::log) fn pages_on_demand(&self) -> Option<NonZeroU32> {
        self.on_demand.filter(|_| self.newest.is_some())
    }

    /// The pages of the newest one that say something.
    pub(in crate::log) fn pages(&self) -> impl Iterator<Item = (Page, Pba)> {
        let pages = self.newest.iter().flat_map(|parts| (0..).map(Page).zip(&parts.pages));
        pages.filter_map(|(page, at)| Some((page, (*at)?)))
    }

    /// Memory that the parts of one take.
    #[must_use]
    pub(in crate::log) fn bytes_of(space: &AddressSpace) -> u64 {
        let places = space.mapping_blocks() + space.mapping_directories();
        places * size_of::<Option<Pba>>() as u64
    }

    /// Memory that they take.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        let under_way = self.attempt.as_ref().map(|attempt| &attempt.parts);
        let parts = self.newest.iter().chain(under_way);
        let places = parts.map(|parts| parts.pages.capacity() + parts.directories.capacity());
        (places.sum::<usize>() * size_of::<Option<Pba>>()) as u64
    }

    /// Memory of what is known of pages beside, if all of them were written since the newest one.
    #[must_use]
    pub(in crate::log) fn bytes_apart_of(space: &AddressSpace) -> u64 {
        space.mapping_blocks() * APART
    }

    /// Memory of what is known of pages beside.
    #[must_use]
    pub(in crate::log) fn bytes_apart(&self) -> u64 {
        let unplaced = self.unplaced.len() as u64 * in_tree(size_of::<(Page, Fixing)>());
        self.apart.len() as u64 * APART + unplaced
    }

    /// A page is fixed for the checkpoint being written: what else was written of it tells no more.
    fn begin_placing(&mut self, page: Page) {
        self.apart.remove(&page);
        self.unplaced.insert(page, Fixing::Checkpoint);
    }

    /// It is known where the checkpoint has it.
    fn end_placing(&mut self, page: Page) {
        if self.unplaced.get(&page) == Some(&Fixing::Checkpoint) {
            self.unplaced.remove(&page);
        }
    }

    /// Whether it is known where an attempt that failed has a page.
    fn end_placing_of(&mut self, page: Page) -> bool {
        let unplaced = self.unplaced.get(&page) == Some(&Fixing::Checkpoint);
        self.end_placing(page);
        !unplaced
    }

    /// A page is fixed to leave memory.
    pub(in crate::log) fn begin_leaving(&mut self, page: Page, sequence: u64) {
        self.apart.remove(&page);
        self.unplaced.insert(page, Fixing::Leaving(sequence));
    }

    /// It is known where it is, or will never be. Whether it was not fixed again since.
    pub(in crate::log) fn end_leaving(&mut self, page: Page, sequence: u64) -> bool {
        let ours = self.unplaced.get(&page) == Some(&Fixing::Leaving(sequence));
        if ours {
            self.unplaced.remove(&page);
        }
        ours
    }

    /// Notes where a page is that has not changed since it was fixed; `None` if nothing of it is
    /// mapped.
    pub(in crate::log) fn put_apart(&mut self, page: Page, at: Option<Pba>) {
        self.apart.insert(page, at);
    }

    /// Forgets where pages are, of those that nothing else tells; returns them.
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
    pub(in crate::log) fn note_written(&mut self) {
        self.credit += 1;
        self.since += 1;
    }

    /// Goes on with the checkpoint that a start has read.
    pub(in crate::log) fn go_on_with(&mut self, pointer: CheckpointPointer, parts: Parts) {
        self.recorded = pointer;
        self.newest = Some(parts);
    }
}

/// What says that there is none: segments have generations above zero.
fn void(number: u64) -> CheckpointPointer {
    let root = BlockLocation { segment: 0, generation: 0, column: Column(0), block: ChunkBlock(0) };
    let (shard, coverage) = (ShardId::default(), Coverage::default());
    CheckpointPointer { shard, number, coverage, replay_from: 0, root }
}
