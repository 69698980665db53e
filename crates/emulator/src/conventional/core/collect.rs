//! Garbage collection: valid blocks of a superblock are moved, then the superblock is erased.
//!
//! Collection starts when few superblocks are free, with the superblock that has the fewest valid
//! blocks. A chunk of the victim is read as one operation of its die, behind the die's queue. Its
//! valid blocks then go to the frontier of moved blocks. So collection and the host share the dies
//! in proportion to the blocks that each may have in flight, until the host must wait for free
//! superblocks.
//!
//! Invariant: the room at the frontier of moved blocks, plus the free superblocks reserved from the
//! host, suffice for all valid blocks of the victims. So collection never waits for the host, and
//! always ends.

use super::{Core, Tag};
use crate::Picos;
use crate::conventional::ftl::{FrontierId, Place, SuperblockId};

/// Superblocks that the host leaves to collecting.
const RESERVE: u32 = 1;

/// A superblock being collected.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    superblock: SuperblockId,
    /// The first chunk that is not being read yet.
    next_chunk: u32,
    /// Reads under way, and how many valid blocks each was issued for.
    reads: Vec<(u32, u32)>,
}

impl Core {
    pub(super) fn is_collecting(&self) -> bool {
        !self.victims.is_empty() || !self.erasing.is_empty()
    }

    /// The frontier of moved blocks.
    pub(super) fn collector(&self) -> FrontierId {
        FrontierId(self.config.streams)
    }

    /// Whether the host may take a free superblock.
    pub(super) fn may_open(&self) -> bool {
        let left = self.ftl.free().saturating_sub(1 + RESERVE);
        self.ftl.free() > RESERVE && self.room_for_moving(left) >= self.to_be_moved()
    }

    /// Issues all possible reads and erases; returns whether there were any.
    pub(super) fn collect(&mut self, now: Picos) -> bool {
        let mut issued = false;
        loop {
            let Some(index) = self.victims.iter().position(|one| self.has_unread(one)) else {
                match self.begin_victim() {
                    true => continue,
                    false => break,
                }
            };
            if !self.read_next_chunk(index, now) {
                break;
            }
            issued = true;
        }
        self.erase_empty(now) || issued
    }

    /// A chunk of a victim was read: its valid blocks still have to move.
    pub(super) fn move_chunk(&mut self, superblock: SuperblockId, chunk: u32, at: Picos) {
        let Some(victim) = self.victims.iter_mut().find(|one| one.superblock == superblock) else {
            unreachable!("chunks are read of victims only")
        };
        let read = victim.reads.iter().position(|read| read.0 == chunk);
        let (_, reserved) = victim.reads.swap_remove(read.expect("the read was under way"));
        assert!(self.moving >= reserved, "a read returns only blocks that it reserved");
        self.moving -= reserved;
        let chunk_blocks = self.config.chunk_blocks;
        for offset in chunk * chunk_blocks..(chunk + 1) * chunk_blocks {
            if let Some(to) = self.move_block(superblock, offset) {
                self.moving += 1;
                let (superblock, offset) = self.ftl.superblock_of(to);
                self.placed(superblock, offset, at, Tag::MoveProgram);
            }
        }
    }

    /// A die has erased its part of a superblock.
    pub(super) fn die_erased(&mut self, superblock: SuperblockId) {
        let left = self.erasing.get_mut(&superblock).expect("it is being erased");
        assert!(*left > 0, "each die erases its part once");
        *left -= 1;
        if *left == 0 {
            self.erasing.remove(&superblock);
            self.erased(superblock);
        }
    }

    /// Ends all operations: an erase under way completes, victims stay as they are.
    pub(super) fn stop_collecting(&mut self) {
        self.collecting = false;
        for victim in std::mem::take(&mut self.victims) {
            self.ftl.abandon_collecting(victim.superblock);
        }
        for superblock in std::mem::take(&mut self.erasing).into_keys() {
            self.erased(superblock);
        }
    }

    /// Collects without taking time.
    pub(super) fn collect_untimed(&mut self) {
        while self.wants_victim() {
            let Some(victim) = self.ftl.victim() else { return };
            self.ftl.begin_collecting(victim);
            for offset in 0..self.ftl.superblock_blocks() {
                if let Some(to) = self.move_block(victim, offset) {
                    self.placed_untimed(to);
                }
            }
            self.erased(victim);
        }
        self.moving = self.part_of_chunk(self.collector());
    }

    fn wants_victim(&mut self) -> bool {
        let victims = u32::try_from(self.victims.len() + self.erasing.len()).expect("few");
        let free = self.ftl.free() + victims;
        self.collecting = free < self.config.collect.until
            && (self.collecting || free <= self.config.collect.below);
        self.collecting
    }

    fn begin_victim(&mut self) -> bool {
        if !self.wants_victim() {
            return false;
        }
        let Some(superblock) = self.ftl.victim() else { return false };
        let needed = self.to_be_moved() + u64::from(self.ftl.valid(superblock));
        if self.room_for_moving(self.ftl.free()) < needed {
            return false;
        }
        self.ftl.begin_collecting(superblock);
        self.victims.push(Victim { superblock, next_chunk: 0, reads: Vec::new() });
        true
    }

    /// Room at the frontier and in so many free superblocks.
    fn room_for_moving(&self, superblocks: u32) -> u64 {
        let blocks = u64::from(superblocks) * u64::from(self.ftl.superblock_blocks());
        blocks + u64::from(self.ftl.room(self.collector()))
    }

    fn to_be_moved(&self) -> u64 {
        self.victims.iter().map(|victim| u64::from(self.ftl.valid(victim.superblock))).sum()
    }

    fn has_unread(&self, victim: &Victim) -> bool {
        victim.next_chunk * self.config.chunk_blocks < self.ftl.superblock_blocks()
    }

    /// Reads the next chunk of a victim that has anything valid; false if there must be room first.
    fn read_next_chunk(&mut self, index: usize, now: Picos) -> bool {
        let Victim { superblock, next_chunk: chunk, .. } = self.victims[index];
        if self.moving + self.config.chunk_blocks > self.config.collect.buffer_blocks {
            return false;
        }
        let nothing_left = self.ftl.valid(superblock) == 0;
        let (valid, duration) = match nothing_left {
            true => (0, Picos::ZERO),
            false => self.read_of(superblock, chunk),
        };
        let victim = &mut self.victims[index];
        victim.next_chunk = match nothing_left {
            true => self.ftl.superblock_blocks() / self.config.chunk_blocks,
            false => chunk + 1,
        };
        if valid > 0 {
            victim.reads.push((chunk, valid));
            self.moving += valid;
            let die = self.layout.die_of(superblock, chunk);
            self.flash.operate(die, now, duration, Tag::MoveRead(superblock, chunk).encode());
        }
        true
    }

    /// Valid blocks of a chunk, and how long a die takes to read them.
    fn read_of(&mut self, superblock: SuperblockId, chunk: u32) -> (u32, Picos) {
        let (mut valid, mut duration, mut sensed) = (0, Picos::ZERO, None);
        let first = chunk * self.config.chunk_blocks;
        for offset in first..first + self.config.chunk_blocks {
            if self.ftl.valid_at(self.ftl.place_in(superblock, offset)).is_none() {
                continue;
            }
            let page = self.layout.page_of(offset);
            if sensed != Some(page) {
                sensed = Some(page);
                let kinds = self.config.flash.sense.len();
                duration += self.config.flash.sense[page as usize % kinds].draw(&mut self.random);
            }
            duration += self.config.flash.transfer;
            valid += 1;
        }
        (valid, duration)
    }

    /// Moves a block if it is valid.
    fn move_block(&mut self, superblock: SuperblockId, offset: u32) -> Option<Place> {
        let from = self.ftl.place_in(superblock, offset);
        self.ftl.valid_at(from)?;
        let collector = self.collector();
        if self.ftl.room(collector) == 0 {
            self.ftl.open(collector);
        }
        let content = self.contents.get(from);
        let to = self.ftl.relocate(collector, from).expect("the block is valid");
        self.contents.put(to, content);
        self.counters.moved_blocks += 1;
        Some(to)
    }

    fn erase_empty(&mut self, now: Picos) -> bool {
        let is_empty = |victim: &Victim| !self.has_unread(victim) && victim.reads.is_empty();
        if !self.victims.iter().any(is_empty) {
            return false;
        }
        let (empty, rest): (Vec<_>, Vec<_>) = self.victims.iter().cloned().partition(is_empty);
        self.victims = rest;
        for victim in &empty {
            self.erasing.insert(victim.superblock, self.config.flash.dies);
            for die in 0..self.config.flash.dies {
                self.flash.erase(die, now, Tag::Erase(victim.superblock).encode());
            }
        }
        true
    }

    fn erased(&mut self, superblock: SuperblockId) {
        self.contents.erase(superblock);
        self.ftl.erased(superblock);
        self.counters.erases += 1;
    }
}
