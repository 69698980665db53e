//! The state machine of a conventional drive, without clocks or waiting.
//!
//! Commands are fetched in the order of submission. A write takes effect when the buffer and its
//! frontier have room; a write without room blocks all later commands, reads included. Its blocks
//! get their places at once, and are programmed chunk by chunk. Blocks that are not programmed yet
//! are read from the buffer.

mod collect;
mod request;
mod tag;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use zoneweave_runtime::Random;
use zoneweave_zoned::Lba;

use self::collect::Victim;
pub(super) use self::request::{Due, Request, Responder};
use self::tag::Tag;
use super::contents::{Content, Contents};
use super::counters::ConventionalCounters;
use super::ftl::{FrontierId, Ftl, Place, SuperblockId};
use super::layout::Layout;
use super::parameters::{ConventionalConfig, ConventionalError};
use crate::Picos;
use crate::flash::Flash;

/// A command: a part of a request, no larger than commands are.
pub(super) struct Command {
    pub(super) work: Work,
    pub(super) request: Request,
}

/// The work of a command.
pub(super) enum Work {
    Read { lba: Lba, blocks: u32 },
    Write { lba: Lba, contents: Vec<Content>, frontier: FrontierId },
    Trim { lba: Lba, blocks: u64 },
    Flush,
}

pub(super) struct Core {
    config: ConventionalConfig,
    layout: Layout,
    ftl: Ftl,
    contents: Contents,
    flash: Flash,
    random: Random,
    counters: ConventionalCounters,
    /// Commands in the order in which they take effect.
    fetched: VecDeque<Command>,
    /// Writes among them.
    fetched_writes: u32,
    /// Writes beyond the limit of fetched ones.
    queued: VecDeque<Command>,
    /// When the writes complete that took effect.
    completing: VecDeque<Picos>,
    /// Room for blocks that the host writes.
    buffer_free: u32,
    /// Chunks that a program has been queued for, or will be.
    unprogrammed: BTreeSet<(SuperblockId, u32)>,
    write_core_free: Picos,
    read_core_free: Picos,
    collecting: bool,
    victims: Vec<Victim>,
    /// Dies that have not erased their part yet.
    erasing: BTreeMap<SuperblockId, u32>,
    /// Blocks being moved: to be read, read, or being programmed.
    moving: u32,
}

impl Core {
    pub(super) fn new(config: ConventionalConfig) -> Result<Self, ConventionalError> {
        config.check()?;
        let superblock_blocks =
            u32::try_from(config.superblock_blocks()).expect("fewer than all blocks");
        let kinds = u32::try_from(config.flash.sense.len()).expect("a few kinds of pages");
        let layout = Layout {
            dies: config.flash.dies,
            data_dies: config.flash.dies - config.parity_dies,
            chunk_blocks: config.chunk_blocks,
            page_blocks: config.chunk_blocks.div_ceil(kinds),
        };
        let mut random = Random::new(config.seed);
        let frontiers = config.streams + 1;
        Ok(Self {
            layout,
            ftl: Ftl::new(
                config.logical_blocks(),
                config.superblocks,
                superblock_blocks,
                frontiers,
            ),
            contents: Contents::new(config.superblocks, superblock_blocks),
            flash: Flash::new(config.flash.clone(), random.fork()),
            random,
            counters: ConventionalCounters::default(),
            fetched: VecDeque::new(),
            fetched_writes: 0,
            queued: VecDeque::new(),
            completing: VecDeque::new(),
            buffer_free: config.buffer_blocks,
            unprogrammed: BTreeSet::new(),
            write_core_free: Picos::ZERO,
            read_core_free: Picos::ZERO,
            collecting: false,
            victims: Vec::new(),
            erasing: BTreeMap::new(),
            moving: 0,
            config,
        })
    }

    pub(super) fn config(&self) -> &ConventionalConfig {
        &self.config
    }

    pub(super) fn counters(&self) -> ConventionalCounters {
        self.counters
    }

    pub(super) fn erases(&self) -> Vec<u32> {
        (0..self.ftl.superblocks()).map(|id| self.ftl.erases(SuperblockId(id))).collect()
    }

    /// Whether a block has a place.
    pub(super) fn is_mapped(&self, lba: Lba) -> bool {
        self.ftl.lookup(lba).is_some()
    }

    /// A command arrives.
    pub(super) fn submit(&mut self, command: Command) {
        if !matches!(command.work, Work::Write { .. }) {
            self.fetched.push_back(command);
        } else if self.has_fetch_slot() && self.queued.is_empty() {
            self.fetched_writes += 1;
            self.fetched.push_back(command);
        } else {
            self.queued.push_back(command);
        }
    }

    /// Runs everything due at `now`; returns the requests whose last command took effect.
    pub(super) fn advance(&mut self, now: Picos) -> Vec<Due> {
        let mut due = Vec::new();
        loop {
            while let Some(ended) = self.flash.finished(now) {
                self.operation_ended(Tag::decode(ended.tag), ended.at);
            }
            self.fetch(now);
            let served = self.serve(now, &mut due);
            let collected = self.collect(now);
            if !served && !collected {
                return due;
            }
        }
    }

    /// When something happens by itself that somebody waits for.
    pub(super) fn next_event(&mut self) -> Option<Picos> {
        let fetch = self.completing.front().copied().filter(|_| !self.queued.is_empty());
        let busy = !self.fetched.is_empty() || self.is_collecting();
        let flash = if busy { self.flash.next_finished() } else { None };
        fetch.into_iter().chain(flash).min()
    }

    /// The power fails and returns, or the process that waited for the commands is gone. Commands
    /// that have not taken effect never will; written blocks stay.
    pub(super) fn forget_commands(&mut self) {
        self.fetched.clear();
        self.fetched_writes = 0;
        self.queued.clear();
    }

    /// Capacitors power the writing of the buffer, and operations of the dies end.
    pub(super) fn power_loss(&mut self) {
        self.forget_commands();
        self.completing.clear();
        self.flash.clear();
        self.unprogrammed.clear();
        (self.write_core_free, self.read_core_free) = (Picos::ZERO, Picos::ZERO);
        self.stop_collecting();
        let open = (0..self.config.streams).map(|stream| self.part_of_chunk(FrontierId(stream)));
        self.buffer_free = self.config.buffer_blocks - open.sum::<u32>();
        self.moving = self.part_of_chunk(self.collector());
    }

    /// Writes a block without taking time, as a past write. No command may be in flight.
    pub(super) fn write_untimed(&mut self, lba: Lba, content: Content) {
        assert!(self.fetched.is_empty(), "no command waits");
        assert!(!self.is_collecting(), "nothing is being collected");
        let frontier = FrontierId(0);
        if self.ftl.room(frontier) == 0 {
            self.collect_untimed();
            self.ftl.open(frontier);
        }
        let place = self.ftl.write(frontier, lba);
        self.contents.put(place, content);
        self.placed_untimed(place);
        self.counters.written_blocks += 1;
        match self.part_of_chunk(frontier) {
            0 => self.buffer_free += self.config.chunk_blocks - 1,
            _ => self.buffer_free -= 1,
        }
    }

    fn has_fetch_slot(&self) -> bool {
        let completing = u32::try_from(self.completing.len()).expect("limited");
        self.fetched_writes + completing < self.config.fetched_writes
    }

    fn fetch(&mut self, now: Picos) {
        while self.completing.front().is_some_and(|done| *done <= now) {
            self.completing.pop_front();
        }
        while self.has_fetch_slot()
            && let Some(next) = self.queued.pop_front()
        {
            self.fetched_writes += 1;
            self.fetched.push_back(next);
        }
    }

    /// Commands take effect, up to the first that has to wait.
    fn serve(&mut self, now: Picos, due: &mut Vec<Due>) -> bool {
        let mut served = false;
        while let Some(first) = self.fetched.front() {
            if let Work::Write { contents, frontier, .. } = &first.work
                && !self.has_room(*frontier, blocks_of(contents))
            {
                break;
            }
            let Some(Command { work, mut request }) = self.fetched.pop_front() else { break };
            let (done, read) = self.take_effect(work, now);
            request.part_done(done, read);
            due.extend(request.into_due());
            served = true;
        }
        served
    }

    fn take_effect(&mut self, work: Work, now: Picos) -> (Picos, Vec<Bytes>) {
        match work {
            Work::Read { lba, blocks } => self.read(lba, blocks, now),
            Work::Write { lba, contents, frontier } => {
                (self.write(lba, contents, frontier, now), Vec::new())
            }
            Work::Trim { lba, blocks } => (self.trim(lba, blocks, now), Vec::new()),
            Work::Flush => (now + self.config.manage.flush, Vec::new()),
        }
    }

    fn has_room(&self, frontier: FrontierId, blocks: u32) -> bool {
        let at_frontier = self.ftl.room(frontier) >= blocks || self.may_open();
        self.buffer_free >= blocks && at_frontier
    }

    fn write(
        &mut self,
        lba: Lba,
        contents: Vec<Content>,
        frontier: FrontierId,
        now: Picos,
    ) -> Picos {
        let blocks = blocks_of(&contents);
        let times = &self.config.write;
        let latency = match blocks {
            1 => times.single,
            _ => times.larger + times.larger_block.times(u64::from(blocks)),
        };
        let start = now.max(self.write_core_free);
        let core = times.core.draw(&mut self.random);
        self.write_core_free = start + core;
        let done = start + latency.max(core);
        self.fetched_writes -= 1;
        self.completing.push_back(done);
        self.buffer_free -= blocks;
        self.counters.written_blocks += u64::from(blocks);
        for (index, content) in (0..).zip(contents) {
            if self.ftl.room(frontier) == 0 {
                self.ftl.open(frontier);
            }
            let place = self.ftl.write(frontier, lba.plus(index));
            self.contents.put(place, content);
            let (superblock, offset) = self.ftl.superblock_of(place);
            self.placed(superblock, offset, done, Tag::Program);
        }
        done
    }

    /// A block got its place. The chunk that it begins enters the buffer; the chunk that it
    /// completes is programmed.
    fn placed(
        &mut self,
        superblock: SuperblockId,
        offset: u32,
        arrival: Picos,
        tag: fn(SuperblockId, u32) -> Tag,
    ) {
        let chunk = self.layout.chunk_of(offset);
        if offset.is_multiple_of(self.config.chunk_blocks) {
            self.unprogrammed.insert((superblock, chunk));
        }
        if !(offset + 1).is_multiple_of(self.config.chunk_blocks) {
            return;
        }
        let die = self.layout.die_of(superblock, chunk);
        self.flash.program(die, arrival, tag(superblock, chunk).encode());
        for die in self.layout.parity_after(superblock, chunk) {
            self.flash.program(die, arrival, Tag::Parity.encode());
        }
    }

    /// As [`Core::placed`], of a block that was programmed long ago.
    fn placed_untimed(&mut self, place: Place) {
        let (superblock, offset) = self.ftl.superblock_of(place);
        if (offset + 1).is_multiple_of(self.config.chunk_blocks) {
            self.unprogrammed.remove(&(superblock, self.layout.chunk_of(offset)));
        }
    }

    fn operation_ended(&mut self, tag: Tag, at: Picos) {
        match tag {
            Tag::Program(superblock, chunk) => {
                self.unprogrammed.remove(&(superblock, chunk));
                self.buffer_free += self.config.chunk_blocks;
            }
            Tag::MoveProgram(superblock, chunk) => {
                self.unprogrammed.remove(&(superblock, chunk));
                self.moving -= self.config.chunk_blocks;
            }
            Tag::Parity => {}
            Tag::MoveRead(superblock, chunk) => self.move_chunk(superblock, chunk, at),
            Tag::Erase(superblock) => self.die_erased(superblock),
        }
    }

    fn read(&mut self, lba: Lba, blocks: u32, now: Picos) -> (Picos, Vec<Bytes>) {
        let times = self.config.read.clone();
        let start = now.max(self.read_core_free);
        let arrival = start + times.core + times.core_block.times(u64::from(blocks));
        self.read_core_free = arrival;
        let mut data = Vec::with_capacity(blocks as usize);
        // Neighbours on one page are sensed together.
        let mut senses: Vec<(u32, u32, u32)> = Vec::with_capacity(2);
        for index in 0..u64::from(blocks) {
            let Some(place) = self.ftl.lookup(lba.plus(index)) else {
                data.push(Content::ZEROS.into_bytes());
                continue;
            };
            data.push(self.contents.get(place).into_bytes());
            let (superblock, offset) = self.ftl.superblock_of(place);
            let chunk = self.layout.chunk_of(offset);
            if self.unprogrammed.contains(&(superblock, chunk)) {
                continue;
            }
            let die = self.layout.die_of(superblock, chunk);
            let page = self.layout.page_of(offset);
            match senses.last_mut().filter(|last| (last.0, last.1) == (die, page)) {
                Some(last) => last.2 += 1,
                None => senses.push((die, page, 1)),
            }
        }
        let mut end = arrival;
        for (die, page, blocks) in senses {
            end = end.max(self.flash.read(die, page, blocks, arrival));
        }
        (end + times.fixed, data)
    }

    fn trim(&mut self, lba: Lba, blocks: u64, now: Picos) -> Picos {
        let unmapped = (0..blocks).filter(|index| self.ftl.unmap(lba.plus(*index))).count() as u64;
        self.counters.trimmed_blocks += unmapped;
        now + self.config.manage.trim + self.config.manage.trim_block.times(unmapped)
    }

    /// Blocks of a frontier's last chunk if it is not complete.
    fn part_of_chunk(&self, frontier: FrontierId) -> u32 {
        let room = self.ftl.room(frontier);
        let written = if room == 0 { 0 } else { self.ftl.superblock_blocks() - room };
        written % self.config.chunk_blocks
    }
}

fn blocks_of(contents: &[Content]) -> u32 {
    u32::try_from(contents.len()).expect("a command has few blocks")
}
