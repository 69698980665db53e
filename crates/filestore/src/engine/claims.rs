//! Which file a block of an open zone belongs to that no record knows.
//!
//! A block below the write pointer that does not verify is damaged: a write that a crash cut short
//! leaves none. It must not end its file in silence, as its bytes may have been synced. Two things
//! show the file that it belongs to. Either its tag can still be read, and continues the file. Or
//! later blocks of a file are intact and earlier ones missing, and damaged blocks can hold the
//! missing bytes. In both cases the bytes become a part of the file, and a read of them fails. A
//! file may so get an error where its unsynced blocks were lost by the crash and another file's
//! were damaged: an error too many is better than bytes too few. A last block may be so damaged
//! that its tag has a wrong length. Damaged blocks that belong to no file by these rules are
//! reported.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::{BlockCount, ZoneAddress};

use crate::format::{BlockLayout, Tag};
use crate::ids::FileId;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::{BlockRun, Namespace, ZoneTable};

/// A block of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) at: ZoneAddress,
    pub(crate) tag: Tag,
    /// Whether it verifies. The tag of another may be wrong.
    pub(crate) is_intact: bool,
}

/// How many blocks a start found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailReport {
    /// Added to files.
    pub(crate) added: u64,
    /// Of these, damaged ones.
    pub(crate) damaged: u64,
    /// Damaged ones that belong to no file.
    pub(crate) unclaimed: u64,
    /// Intact ones behind a gap, if there are damaged ones.
    pub(crate) cut_off: u64,
}

/// Where damaged blocks have to be that fill a gap in front of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    InFront,
    Anywhere,
}

/// Extends the files of a store by what a scan found.
pub(crate) struct Claims<'a> {
    pub(crate) namespace: &'a mut Namespace,
    pub(crate) zones: &'a mut ZoneTable,
    pub(crate) layout: BlockLayout,
    /// Blocks that do not verify and that no file has.
    pub(crate) damaged: BTreeSet<ZoneAddress>,
    pub(crate) report: TailReport,
}

impl Claims<'_> {
    /// Adds to each file the blocks that continue it, by file and first byte.
    pub(crate) fn settle(mut self, blocks: BTreeMap<(FileId, u64), Found>) -> TailReport {
        let had_damage = !self.damaged.is_empty();
        // Damaged blocks with a tag go to their files first: they are not free to fill a gap.
        let mut behind = Vec::new();
        for (key, block) in &blocks {
            let mut block = *block;
            if !block.is_intact {
                block.tag.bytes = self.length_of(block.tag, blocks.range(*key..).nth(1));
            }
            if !self.extend(&block) {
                behind.push(block);
            }
        }
        // Damage right in front of a block is more likely its file's than damage elsewhere.
        for place in [Place::InFront, Place::Anywhere] {
            behind.retain(|block| {
                let continues = self.extend(block)
                    || (block.is_intact && self.fill_gap(block, place) && self.extend(block));
                !continues
            });
        }
        for block in behind {
            mark(Mark::TailRejected);
            let is_cut_off = block.is_intact && block.tag.offset > self.end_of(block.tag.file);
            self.report.cut_off += u64::from(had_damage && is_cut_off);
        }
        self.report.unclaimed = self.damaged.len() as u64;
        assert!(self.report.damaged <= self.report.added, "{:?}", self.report);
        self.report
    }

    /// Bytes in a damaged block: the block behind it knows better than its tag.
    fn length_of(&self, tag: Tag, next: Option<(&(FileId, u64), &Found)>) -> u32 {
        let intact = next.filter(|((file, _), found)| *file == tag.file && found.is_intact);
        let until = intact.and_then(|((_, offset), _)| u32::try_from(offset - tag.offset).ok());
        until.filter(|bytes| *bytes as usize <= self.layout.payload_bytes()).unwrap_or(tag.bytes)
    }

    fn end_of(&self, file: FileId) -> u64 {
        let file = self.namespace.file(file).expect("the scan looked the file up");
        file.extents.length()
    }

    /// Adds a block to its file if it continues it.
    fn extend(&mut self, block: &Found) -> bool {
        let (end, offset) = (self.end_of(block.tag.file), block.tag.offset);
        let is_next = offset == end || (mutant(Mutant::GapIgnored) && offset > end);
        if !is_next || (!block.is_intact && mutant(Mutant::DamageEndsFile)) {
            return false;
        }
        if !block.is_intact {
            if !self.damaged.remove(&block.at) {
                return false;
            }
            self.report.damaged += 1;
            mark(Mark::TailDamageKept);
        }
        mark(Mark::TailFound);
        self.push(block.tag.file, block.at, u64::from(block.tag.bytes));
        true
    }

    /// Adds damaged blocks to a file up to the beginning of an intact one, if there are as many as
    /// the bytes need. Returns whether there are.
    fn fill_gap(&mut self, block: &Found, place: Place) -> bool {
        let end = self.end_of(block.tag.file);
        let Some(mut missing) = block.tag.offset.checked_sub(end).filter(|gap| *gap > 0) else {
            return false;
        };
        let needed = missing.div_ceil(self.layout.payload_bytes() as u64);
        let is_in_front = || {
            let nearest =
                self.damaged.range(..block.at).rev().take_while(|at| at.zone == block.at.zone);
            nearest
                .zip(1..=needed)
                .take_while(|(at, back)| {
                    u64::from(at.offset.0) + back == u64::from(block.at.offset.0)
                })
                .count() as u64
                == needed
        };
        let are_enough = match place {
            Place::InFront => is_in_front(),
            Place::Anywhere => needed <= self.damaged.len() as u64,
        };
        if !are_enough || mutant(Mutant::DamageEndsFile) {
            return false;
        }
        mark(Mark::TailGapFilled);
        let mut taken: Vec<ZoneAddress> = (0..needed).map(|_| self.take(block.at)).collect();
        taken.sort_unstable();
        for at in taken {
            let bytes = missing.min(self.layout.payload_bytes() as u64);
            self.push(block.tag.file, at, bytes);
            self.report.damaged += 1;
            missing -= bytes;
        }
        assert!(missing == 0, "{missing} bytes in front of {} have no block", block.at);
        true
    }

    /// Takes the damaged block that is the last in front of an address, or any other.
    fn take(&mut self, behind: ZoneAddress) -> ZoneAddress {
        let before = self.damaged.range(..behind).next_back();
        let at = *before.or_else(|| self.damaged.first()).expect("they were counted");
        self.damaged.remove(&at);
        at
    }

    fn push(&mut self, id: FileId, at: ZoneAddress, bytes: u64) {
        let run = BlockRun { at, blocks: BlockCount(1) };
        let file = self.namespace.file_mut(id).expect("the scan looked the file up");
        file.extents.push(bytes, run);
        file.durable = file.extents.length();
        file.recorded = file.durable;
        self.zones.add_live(run);
        self.report.added += 1;
    }
}
