//! Decisions of the state about checkpoints.

use std::collections::BTreeSet;

use bytes::Bytes;
use zoneweave_zoned::Lba;

use super::{Attempt, Checkpoints, Extent, Parts, Wanted, void};
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{Address, Page, Pba, SegmentSlot};
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{
    BlockLocation, CheckpointPointer, Coverage, DIRECTORY_ENTRIES, DirectoryBlock, Listed,
    ROOT_ADDRESSES, ROOT_SEGMENTS, RootBlock, RootList, RootTotals, SegmentEntry, ShardId,
    StoredEntries, StoredPage, packed,
};
use crate::log::format::{Sequence, StreamKind};
use crate::log::index::mapping::Mapping;
use crate::log::segment::table::{Phase, Segment, SegmentTable};

/// A block of a checkpoint, fixed.
pub(in crate::log) struct Piece {
    /// First block of the volume that a page maps; zero for other blocks.
    pub(super) lba: Lba,
    pub(in crate::log) sequence: Sequence,
    pub(super) data: Bytes,
}

impl Checkpoints {
    fn root_blocks(&self) -> u64 {
        let space = &self.space;
        let lists = |entries: u64, most: usize| entries.div_ceil(most as u64);
        lists(space.slots.into(), ROOT_SEGMENTS)
            + lists(space.mapping_directories(), ROOT_ADDRESSES)
    }

    fn attempt(&mut self) -> &mut Attempt {
        self.attempt.as_mut().expect("a checkpoint is being written")
    }

    /// Records the address of a page.
    pub(super) fn place_page(&mut self, page: Page, at: Option<Pba>) {
        let directory = directory_of(page);
        let index = Lba(page.0).index();
        let parts = &mut self.attempt().parts;
        parts.pages[index] = at;
        parts.directories[directory] = None;
        self.end_placing(page);
    }

    /// Whether the address of a page's current contents is known, if it has any.
    pub(in crate::log) fn page_is_placed(&self, page: Page) -> bool {
        !self.unplaced.contains_key(&page)
    }

    /// Numbers of the directories to be written.
    pub(super) fn missing_directories(&mut self) -> Vec<usize> {
        let parts = &self.attempt().parts;
        let of_directory = parts.pages.chunks(DIRECTORY_ENTRIES as usize);
        let listing = of_directory.map(|pages| pages.iter().any(Option::is_some));
        let missing = listing.zip(&parts.directories).enumerate();
        missing
            .filter(|(_, (lists, directory))| *lists && directory.is_none())
            .map(|(number, _)| number)
            .collect()
    }

    /// Records the address of a directory.
    pub(super) fn place_directory(&mut self, number: usize, at: Pba) {
        self.attempt().parts.directories[number] = Some(at);
    }

    /// Whether the blocks written may become the newest checkpoint; if so, the next records contain
    /// it.
    pub(super) fn announce_checkpoint(
        &mut self,
        root: &RootBlock,
        at: BlockLocation,
    ) -> Option<CheckpointPointer> {
        let broken = self.attempt().broken && !mutant(Mutant::BrokenCheckpointCounts);
        mark_if(Mark::CheckpointBroken, || broken);
        if broken {
            return None;
        }
        let RootBlock { shard, number, coverage, replay_from, .. } = *root;
        let pointer = CheckpointPointer { shard, number, coverage, replay_from, root: at };
        self.recorded = pointer;
        self.attempt().announced = true;
        Some(pointer)
    }
}

impl SegmentTable {
    /// Whether a segment is about to be freed, so that it must not hold blocks of a checkpoint.
    pub(in crate::log) fn is_leaving(&self, slot: SegmentSlot) -> bool {
        let Some(segment) = self.get(slot) else { return false };
        match segment.phase() {
            Phase::Open => false,
            Phase::Sealed => segment.valid() == 0 || segment.is_busy() || segment.is_damaged(),
            Phase::Leftover | Phase::Dead => true,
        }
    }
}

impl Mapping {
    /// Blocks of a page in memory that read as zeros because of a tombstone, a bit each.
    fn trims_of(&self, page: Page) -> Vec<u8> {
        let count = self.index.count_of(page);
        if self.tombstones.is_empty() {
            return vec![0; count.div_ceil(8)];
        }
        let mut trims = Vec::with_capacity(count);
        let is_trim = |pba: Option<Pba>| pba.is_some_and(|pba| self.tombstones.contains_key(&pba));
        self.index.tell_all(page, |pba| trims.push(is_trim(pba)));
        // In memory the last page may extend beyond the volume.
        trims.truncate(count);
        packed(&trims, |trim| *trim)
    }
}

impl State {
    /// The scope of the next checkpoint, if one is due.
    pub(super) fn next_checkpoint(&self) -> Option<Extent> {
        let checkpoints = &self.checkpoints;
        let share = u64::from(checkpoints.share?);
        let busy =
            checkpoints.voiding || self.mapping.absent.is_some() || self.mapping.has_lost_page();
        if self.array.stopped.is_some() || self.array.membership_dirty || busy {
            return None;
        }
        let changed = self.mapping.index.changed_pages();
        let told = changed + checkpoints.apart.len() as u64;
        let directories = told.min(checkpoints.space.mapping_directories());
        let cost = changed + directories + self.checkpoints.root_blocks();
        // Segments being filled are replayed in any case: a checkpoint for less than this gains
        // nothing.
        let least = self.geometry.data_blocks() / 2;
        match () {
            () if told > 0
                && checkpoints.since >= least
                && checkpoints.credit >= share * cost
                && self.segments.iter().any(|(_, segment)| segment.is_final()) =>
            {
                Some(Extent::Changes)
            }
            () if checkpoints.newest.is_none() || checkpoints.broken => None,
            () if checkpoints.wanted == Wanted::Now => Some(Extent::Removal),
            // At least a page and its directory.
            () if checkpoints.credit < share * (self.checkpoints.root_blocks() + 2) => None,
            () if checkpoints.wanted == Wanted::Soon => Some(Extent::Removal),
            () => None,
        }
    }

    /// Begins a checkpoint; returns the pages to fix.
    pub(super) fn begin_checkpoint(&mut self, extent: Extent) -> Vec<Page> {
        let Checkpoints { broken, voiding, .. } = self.checkpoints;
        assert!(self.checkpoints.attempt.is_none(), "two checkpoints are written at a time");
        // Whether it covers the same as the one before.
        let repeats = extent == Extent::Removal;
        assert!(!(repeats && (broken || voiding)), "a checkpoint of one that does not count");
        let will_cover = |segment: &Segment| match extent {
            Extent::Changes => segment.is_final() || mutant(Mutant::CheckpointSkipsOpen),
            Extent::Removal => segment.is_in_checkpoint(),
        };
        let covered = self.segments.iter().filter(|(_, segment)| will_cover(segment));
        let covered = covered.map(|(slot, _)| slot.index()).collect();
        let number = self.writes.take_sequence();
        let checkpoints = &mut self.checkpoints;
        checkpoints.wanted = Wanted::No;
        let pages = usize::try_from(checkpoints.space.mapping_blocks()).expect("fits in memory");
        let directories =
            usize::try_from(checkpoints.space.mapping_directories()).expect("fewer than pages");
        let none = || Parts {
            pages: vec![None; pages],
            directories: vec![None; directories],
            roots: Vec::new(),
        };
        let mut parts = checkpoints.newest.clone().unwrap_or_else(none);
        parts.roots.clear();
        // Pages written since and clean are reused.
        for (page, at) in &checkpoints.apart {
            parts.pages[Lba(page.0).index()] = *at;
            parts.directories[directory_of(*page)] = None;
        }
        let fixed = BTreeSet::new();
        let replay_from = self.registry.next_segment;
        let leaving = |state: &Self, at: &Option<Pba>| {
            at.is_some_and(|pba| state.segments.is_leaving(state.space.place(pba).slot))
        };
        let mut to_fix: Vec<_> = if extent == Extent::Changes {
            self.mapping.index.changed().collect()
        } else {
            Vec::new()
        };
        if extent == Extent::Changes && !mutant(Mutant::LeavingPageLeftOut) {
            // The addresses of pages in flight are not known yet.
            to_fix.extend(self.checkpoints.unplaced.keys());
        }
        let changed = to_fix.len();
        let pages = (0..).map(Page).zip(&parts.pages);
        to_fix.extend(pages.filter(|(_, at)| leaving(self, at)).map(|(page, _)| page));
        to_fix.sort_unstable();
        to_fix.dedup();
        mark_if(Mark::CheckpointPageMoved, || to_fix.len() > changed);
        // A directory in a segment that is to be freed is written again, with the same contents.
        for directory in &mut parts.directories {
            if leaving(self, directory) {
                *directory = None;
            }
        }
        if extent == Extent::Changes {
            self.checkpoints.since = 0;
        }
        mark(if extent == Extent::Changes {
            Mark::CheckpointBegun
        } else {
            Mark::CheckpointForRemoval
        });
        self.checkpoints.attempt = Some(Attempt {
            number,
            replay_from,
            covered,
            parts,
            fixed,
            broken: false,
            announced: false,
        });
        if !self.checkpoints.apart.is_empty() {
            self.count_reached();
        }
        to_fix
    }

    /// Fixes a page for the checkpoint being written: its mapping block will contain the current
    /// entries. `None` if it has no mapped blocks.
    pub(super) fn fix_page(&mut self, page: Page) -> Option<Piece> {
        let piece = self.encode_page(page);
        self.checkpoints.attempt().fixed.insert(page);
        if self.mapping.offload.is_some() {
            self.checkpoints.begin_placing(page);
        }
        if piece.is_some() {
            self.spend_credit(1);
        }
        piece
    }

    /// Encodes the entries of a page and marks it clean. `None` if it has no mapped blocks.
    pub(in crate::log) fn encode_page(&mut self, page: Page) -> Option<Piece> {
        // It would pass for a page without mapped blocks.
        assert!(!self.is_away(page), "page {} is written while it is not in memory", page.0);
        let entries = self.mapping.index.stored(page, self.checkpoints.space.entry_bytes);
        if !mutant(Mutant::PageFixedLate) {
            self.mapping.index.mark_fixed(page);
        }
        let entries = entries.filter(StoredEntries::map_something)?;
        let trims = self.mapping.trims_of(page);
        let sequence = self.writes.take_sequence();
        let coverage = Coverage { covered: Sequence::NONE, sequence };
        let first = Lba(self.mapping.index.blocks_of(page).start);
        let block = StoredPage { shard: ShardId::default(), first, coverage, entries, trims };
        let data = block.encode(&self.checkpoints.space);
        Some(Piece { lba: first, sequence, data })
    }

    /// Adopts a page written before or since the checkpoint began, if its mapping block has the
    /// current entries and can stay in its place.
    pub(super) fn adopt_page(&mut self, page: Page) -> bool {
        let at = self.page_at(page).filter(|_| self.checkpoints.apart.contains_key(&page));
        let at = at.filter(|at| !self.segments.is_leaving(self.space.place(*at).slot));
        let Some(at) = at else { return false };
        mark(Mark::PageAdopted);
        let parts = &mut self.checkpoints.attempt().parts;
        let before = parts.pages[Lba(page.0).index()].replace(at);
        parts.directories[directory_of(page)] = None;
        if before != Some(at) {
            let slot = self.space.place(at).slot;
            self.segments[slot].checkpoint_blocks += 1;
        }
        true
    }

    /// Address of the mapping block with the current entries of a page; `None` if there is none, or
    /// the page has no mapped blocks.
    pub(in crate::log) fn page_at(&self, page: Page) -> Option<Pba> {
        if self.mapping.index.has_changed(page) || !self.checkpoints.page_is_placed(page) {
            return None;
        }
        let Checkpoints { apart, attempt, newest, .. } = &self.checkpoints;
        if let Some(at) = apart.get(&page) {
            return *at;
        }
        let fixed = attempt.as_ref().filter(|attempt| attempt.fixed.contains(&page));
        let parts = fixed.map(|attempt| &attempt.parts).or(newest.as_ref());
        parts.and_then(|parts| parts.pages[Lba(page.0).index()])
    }

    pub(super) fn fix_directory(&mut self, number: usize) -> Piece {
        let sequence = self.writes.take_sequence();
        let first = number * DIRECTORY_ENTRIES as usize;
        let pages = self.checkpoints.space.mapping_blocks();
        assert!((first as u64) < pages, "directory {number} begins with page {first} of {pages}");
        let pages = self.checkpoints.attempt().parts.pages[first..].iter();
        let pages = pages.take(DIRECTORY_ENTRIES as usize);
        let entries = pages.map(|page| page.map(Address::from)).collect();
        let block = DirectoryBlock {
            shard: ShardId::default(),
            listed: Listed::Mapping,
            first: first as u64,
            sequence,
            entries,
        };
        self.spend_credit(1);
        Piece { lba: Lba(0), sequence, data: block.encode(&self.checkpoints.space) }
    }

    /// The chain of root blocks, without their links.
    pub(super) fn chain(&mut self) -> Vec<RootBlock> {
        let sequence = self.writes.take_sequence();
        let attempt = self.checkpoints.attempt();
        // Mapping blocks of absent pages are valid here, and of no use to a start.
        let segments = self.segments.iter().map(|(slot, segment)| SegmentEntry {
            segment: segment.id,
            generation: segment.generation,
            live_blocks: segment.valid() - segment.pages_away(),
            min_sequence: segment.min_sequence().min(sequence),
            slot: slot.0,
            replay: !attempt.covers(slot, segment),
        });
        let segments: Vec<_> = segments.collect();
        let live: u64 = segments.iter().map(|segment| segment.live_blocks).sum();
        let trims = self.mapping.tombstones.len() as u64;
        assert!(trims <= live, "{trims} tombstone blocks among {live} valid ones");
        let mapped_blocks = live - trims;
        let directories = attempt.parts.directories.iter();
        let directories: Vec<_> =
            directories.map(|directory| directory.map(Address::from)).collect();
        let count = |length: usize| u32::try_from(length).expect("counted in 32 bits");
        let totals = RootTotals {
            segments: count(segments.len()),
            mapping_directories: count(directories.len()),
            validity_directories: 0,
            mapped_blocks,
        };
        let lists = split_into(&segments, ROOT_SEGMENTS, RootList::Segments).chain(split_into(
            &directories,
            ROOT_ADDRESSES,
            |part| RootList::Directories(Listed::Mapping, part),
        ));
        let block = |(part, (first, list))| RootBlock {
            shard: ShardId::default(),
            number: attempt.number,
            coverage: Coverage { covered: Sequence::NONE, sequence },
            replay_from: attempt.replay_from,
            totals,
            part,
            next: None,
            first,
            list,
        };
        let chain: Vec<_> = (0..).zip(lists).map(block).collect();
        // As a start reads it: a chain that it refuses would be of no use.
        assert!(
            chain.first().is_some_and(RootBlock::begins)
                && chain.last().is_some_and(RootBlock::ends),
            "a chain of {} root blocks is incomplete",
            chain.len()
        );
        assert!(
            chain.windows(2).all(|pair| pair[1].continues(&pair[0])),
            "root blocks of the same checkpoint are out of order"
        );
        self.spend_credit(chain.len() as u64);
        chain
    }

    fn spend_credit(&mut self, blocks: u64) {
        self.counters.checkpoint_blocks += blocks;
        let checkpoints = &mut self.checkpoints;
        let spent = blocks * checkpoints.share.map_or(0, u64::from);
        checkpoints.credit = checkpoints.credit.saturating_sub(spent);
    }

    /// Records the address of a root block; returns the reference to it.
    pub(super) fn place_root(&mut self, at: Pba) -> Option<BlockLocation> {
        self.checkpoints.attempt().parts.roots.push(at);
        let place = self.space.place(at);
        let segment = self.segments.get(place.slot)?;
        let (segment, generation) = (segment.id, segment.generation);
        Some(BlockLocation { segment, generation, column: place.column, block: place.block })
    }

    /// Ends an attempt: its blocks are the newest checkpoint, or are discarded.
    pub(super) fn end_checkpoint(&mut self, durable: bool, closing: bool) {
        let Some(attempt) = self.checkpoints.attempt.take() else { return };
        // Segments that still wait will say so again.
        self.checkpoints.wanted = Wanted::No;
        // Unless a void record was made meanwhile. If the checkpoint broke meanwhile, it counts
        // until that is recorded.
        let taken = durable && self.checkpoints.recorded.number == attempt.number;
        mark_if(Mark::CheckpointBrokenInRecord, || taken && attempt.broken);
        self.checkpoints.failed = !(taken || closing);
        if taken {
            mark(Mark::CheckpointTaken);
            self.counters.checkpoints += 1;
            if mutant(Mutant::PageFixedLate) {
                attempt.fixed.iter().for_each(|page| self.mapping.index.mark_fixed(*page));
            }
            let parts = &attempt.parts;
            let told = |page: &Page, at: &mut Option<Pba>| parts.pages[Lba(page.0).index()] != *at;
            self.checkpoints.apart.retain(told);
            for (slot, segment) in self.segments.iter_mut() {
                match attempt.covers(slot, segment) {
                    true => segment.enter_checkpoint(),
                    false => segment.leave_checkpoint(),
                }
            }
            self.checkpoints.newest = Some(attempt.parts);
            self.checkpoints.broken = attempt.broken && !mutant(Mutant::BreakInRecordForgotten);
        } else {
            mark(Mark::CheckpointAbandoned);
            self.keep_fixed(&attempt);
        }
        self.count_reached();
    }

    /// If pages may be absent, pages fixed for a failed checkpoint keep their new addresses; else
    /// they are fixed again for the next one.
    fn keep_fixed(&mut self, attempt: &Attempt) {
        for page in &attempt.fixed {
            let at = attempt.parts.pages[Lba(page.0).index()];
            let placed = self.checkpoints.end_placing_of(*page);
            let tells =
                self.mapping.offload.is_some() && placed && !self.mapping.index.has_changed(*page);
            if !tells {
                self.mapping.index.mark_changed(*page);
            } else if !self.checkpoints.apart.contains_key(page)
                && self.checkpoints.page_is_placed(*page)
            {
                self.checkpoints.apart.insert(*page, at);
            }
        }
    }

    /// Recounts the blocks of checkpoints in each segment.
    pub(in crate::log) fn count_reached(&mut self) {
        for (_, segment) in self.segments.iter_mut() {
            segment.checkpoint_blocks = 0;
        }
        let Checkpoints { newest, attempt, .. } = &self.checkpoints;
        let under_way = attempt.as_ref().map(|attempt| &attempt.parts);
        let placed = self.checkpoints.placed.iter().flatten().copied();
        let places = newest.iter().chain(under_way).flat_map(Parts::places);
        for pba in places.chain(placed) {
            if let Some(segment) = self.segments.get_mut(self.space.place(pba).slot) {
                segment.checkpoint_blocks += 1;
            }
        }
    }

    /// Records the address of a block of a checkpoint.
    pub(in crate::log) fn place_piece(&mut self, piece: usize, at: Pba) {
        if let Some(placed) = self.checkpoints.placed.get_mut(piece) {
            *placed = Some(at);
            self.segments[self.space.place(at).slot].checkpoint_blocks += 1;
        }
    }

    /// Whether checkpoints permit a segment to be freed: it holds none of their blocks, or users
    /// wait, or there will be no checkpoint otherwise.
    pub(in crate::log) fn may_leave_checkpoint(&self, segment: &Segment) -> bool {
        let Checkpoints { newest, broken, failed, .. } = &self.checkpoints;
        let none = newest.is_none() && !self.checkpoints.is_under_way();
        let none_comes = none || *broken || *failed || !self.checkpoints.is_on();
        segment.checkpoint_blocks == 0 || none_comes || self.users_wait()
    }

    /// Whether a task waits for space, or recovery may need it.
    fn users_wait(&self) -> bool {
        let queued = self.writes.user.queued() > 0 || self.writes.relocation.queued() > 0;
        let urgent = queued || self.recovering.is_some() || self.free_segments() == 0;
        urgent && !self.has_free_segment(StreamKind::User)
    }

    /// Records that a segment has to be freed and waits for the next checkpoint; returns whether
    /// that is new.
    pub(in crate::log) fn want_checkpoint(&mut self, slot: SegmentSlot) -> bool {
        let segment = &self.segments[slot];
        let wanted = match () {
            () if segment.is_to_go() => Wanted::Now,
            () if self.needs_space() => Wanted::Soon,
            // The blocks of the next checkpoint could be all that this frees.
            () => Wanted::No,
        };
        let news = wanted > self.checkpoints.wanted && !self.checkpoints.is_under_way();
        self.checkpoints.wanted = self.checkpoints.wanted.max(wanted);
        news
    }

    /// Whether freeing a segment invalidates the newest checkpoint.
    pub(in crate::log) fn ends_checkpoint(&self, slot: SegmentSlot) -> bool {
        let Checkpoints { newest, attempt, .. } = &self.checkpoints;
        let reached = self.segments[slot].checkpoint_blocks > 0;
        let broken = self.checkpoints.broken && !mutant(Mutant::BrokenCheckpointCounts);
        let announced = |attempt: &Attempt| {
            attempt.announced
                && (attempt.broken || reached)
                && !mutant(Mutant::BreakInRecordForgotten)
        };
        newest.is_some() && (broken || reached) || attempt.as_ref().is_some_and(announced)
    }

    /// Records that a segment is freed.
    pub(in crate::log) fn record_freed(&mut self, slot: SegmentSlot) {
        let reached = self.segments[slot].checkpoint_blocks > 0;
        if let Some(attempt) = self.checkpoints.attempt.as_mut().filter(|_| reached) {
            attempt.broken = true;
        }
        // Pages in flight to the freed segment will be written again.
        let space = self.space;
        let gone = |at: &Option<Pba>| at.is_some_and(|pba| space.place(pba).slot == slot);
        self.checkpoints.placed.iter_mut().filter(|at| gone(at)).for_each(|at| *at = None);
        self.forget_pages_in(slot);
    }

    /// Records that an entry is redirected into a segment.
    pub(in crate::log) fn record_mapped(&mut self, slot: SegmentSlot) {
        let segment = &self.segments[slot];
        mark_if(Mark::CheckpointMisses, || segment.is_in_checkpoint());
        self.checkpoints.broken |= segment.is_in_checkpoint();
        if let Some(attempt) = &mut self.checkpoints.attempt {
            attempt.broken |= attempt.covers(slot, segment);
        }
    }

    /// Begins to record that there is no checkpoint.
    pub(super) fn begin_void(&mut self) -> CheckpointPointer {
        mark(Mark::CheckpointVoided);
        if let Some(attempt) = &mut self.checkpoints.attempt {
            attempt.broken = true;
        }
        self.checkpoints.voiding = true;
        self.checkpoints.recorded = void(self.writes.take_sequence());
        self.checkpoints.recorded
    }

    /// Ends it: media have that record.
    pub(super) fn end_void(&mut self) {
        self.checkpoints.broken = false;
        self.checkpoints.voiding = false;
        // The other pages have no mapped blocks, or are dirty.
        assert!(
            self.checkpoints.attempt.as_ref().is_none_or(|attempt| attempt.broken),
            "a checkpoint survives its voiding"
        );
        let parts = self.checkpoints.newest.take().unwrap_or_default();
        let told = (0..).map(Page).zip(parts.pages).filter(|(_, at)| at.is_some());
        for (page, at) in told {
            // The mapping block is still there with its contents; later checkpoints may list it.
            let fixed = |attempt: &Attempt| attempt.fixed.contains(&page);
            let elsewhere = self.checkpoints.apart.contains_key(&page)
                || !self.checkpoints.page_is_placed(page)
                || self.checkpoints.attempt.as_ref().is_some_and(fixed);
            match self.mapping.offload {
                Some(_) if elsewhere || self.mapping.index.has_changed(page) => {}
                Some(_) => {
                    self.checkpoints.apart.insert(page, at);
                }
                None => self.mapping.index.mark_changed(page),
            }
        }
        for (_, segment) in self.segments.iter_mut() {
            segment.leave_checkpoint();
        }
        self.count_reached();
    }
}

fn directory_of(page: Page) -> usize {
    Lba(page.0 / u64::from(DIRECTORY_ENTRIES)).index()
}

/// The parts of a list, each with the place of its first entry.
fn split_into<'a, T: Clone>(
    list: &'a [T],
    most: usize,
    make: impl Fn(Vec<T>) -> RootList + 'a,
) -> impl Iterator<Item = (u32, RootList)> + 'a {
    let firsts = (0..).step_by(most);
    firsts.zip(list.chunks(most)).map(move |(first, part)| (first, make(part.to_vec())))
}
