//! Blocks of the volume that cannot be read before a member returns.
//!
//! They are not lost, so they are on no list of lost blocks. An operator has to know of them all the
//! same: an error that only a client has seen leaves no trace. They are known in memory alone, as a
//! read, a scrub or a relocation meets them again.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::array::format::faults::LostStatus;
use crate::log::engine::address::Pba;
use crate::log::engine::state::State;
use crate::log::format::EntryKind;
use crate::log::segment::scan::ListedBlock;

/// Most blocks that are remembered: some 100 KiB of memory. Beyond it, the newest ones are not.
const BLOCKS_MOST: usize = 2048;

/// Blocks that only members out of service can give.
#[derive(Debug, Default)]
pub(in crate::log) struct AwaitedBlocks {
    /// By their address on media, with the block of the volume once that is known.
    blocks: BTreeMap<Pba, Option<Lba>>,
}

impl AwaitedBlocks {
    /// A block can neither be read nor reconstructed before a member returns.
    pub(in crate::log) fn note(&mut self, pba: Pba) {
        if self.blocks.len() < BLOCKS_MOST {
            self.blocks.entry(pba).or_default();
        }
        assert!(self.blocks.len() <= BLOCKS_MOST, "{} blocks are awaited", self.blocks.len());
    }

    /// A block that may be awaited is this one of the volume.
    pub(in crate::log) fn identify(&mut self, pba: Pba, lba: Lba) {
        if let Some(block) = self.blocks.get_mut(&pba) {
            *block = Some(lba);
        }
    }

    /// A drive has joined: whatever is still missing is met again.
    pub(in crate::log) fn forget(&mut self) {
        self.blocks.clear();
    }
}

impl State {
    /// A listed block can be neither read nor reconstructed before a member returns.
    pub(in crate::log) fn note_awaited(&mut self, (place, entry): &ListedBlock) {
        if entry.kind == EntryKind::Data {
            let pba = self.space.pba(*place);
            self.awaited.note(pba);
            self.awaited.identify(pba, entry.lba);
        }
    }

    /// The ranges of the volume that cannot be read before a member returns, except blocks that
    /// were written since.
    pub(in crate::log) fn awaited_ranges(&self) -> Vec<LostStatus> {
        let known = self.awaited.blocks.iter().filter_map(|(pba, lba)| Some((*pba, (*lba)?)));
        let volume = self.array.config.log().volume_blocks;
        let is_there = |(pba, lba): &(Pba, Lba)| {
            lba.0 < volume
                && match self.mapping.index.get(*lba) {
                    Some(now) => now == *pba,
                    None => !self.mapping.has_whole_index(),
                }
        };
        let mut lbas: Vec<_> = known.filter(is_there).map(|(_, lba)| lba.0).collect();
        lbas.sort_unstable();
        lbas.dedup();
        let runs = lbas.chunk_by(|one, next| one + 1 == *next);
        runs.map(|run| LostStatus { lba: run[0], blocks: run.len() as u64 }).collect()
    }
}
