//! Blocks of the volume that cannot be read before a member returns.
//!
//! They are not lost, so they are on no list of lost blocks. An operator has to know of them all
//! the same: an error that only a client has seen leaves no trace. They are known in memory alone,
//! as a read, a scrub or a relocation meets them again.

use std::collections::BTreeSet;

use zoneweave_zoned::Lba;

use crate::array::format::faults::LostStatus;
use crate::log::engine::address::{BlockPlace, Pba, SegmentSlot};
use crate::log::engine::state::State;
use crate::log::format::EntryKind;
use crate::log::read::awaited_blocks::AwaitedBlock;
use crate::log::segment::scan::ListedBlock;
use crate::scheme::ColumnSet;

/// Most blocks that are remembered: some 100 KiB of memory. Beyond it, the newest ones are not.
const BLOCKS_MOST: usize = 2048;

impl State {
    /// The slots without a drive in service.
    #[must_use]
    pub(in crate::log) fn out_of_service(&self) -> ColumnSet {
        let members = self.array.scheme().iter().zip(&self.array.members);
        members.filter(|(_, member)| member.device.is_none()).map(|(column, _)| column).collect()
    }

    /// A block can be neither read nor reconstructed before a member returns.
    pub(in crate::log) fn note_awaited_at(&mut self, place: BlockPlace) {
        let pba = self.space.pba(place);
        let segment = self.segments[place.slot].id;
        if self.awaited.blocks.get(&pba).is_some_and(|known| known.segment == segment) {
            return;
        }
        self.awaited.blocks.remove(&pba);
        if self.awaited.blocks.len() >= BLOCKS_MOST {
            let mut blocks = std::mem::take(&mut self.awaited.blocks);
            blocks.retain(|pba, block| self.still_awaits(*pba, *block));
            self.awaited.blocks = blocks;
        }
        if self.awaited.blocks.len() < BLOCKS_MOST {
            self.awaited.blocks.insert(pba, AwaitedBlock { segment, lba: None });
        }
        let known = self.awaited.blocks.len();
        assert!(known <= BLOCKS_MOST, "{known} blocks are awaited");
    }

    /// A listed block can be neither read nor reconstructed before a member returns. Blocks of
    /// parity count as well: their segment is relocated when one does.
    pub(in crate::log) fn note_awaited(&mut self, (place, entry): &ListedBlock) {
        self.note_awaited_at(*place);
        if entry.kind == EntryKind::Data {
            self.awaited.identify(self.space.pba(*place), entry.lba);
        }
    }

    /// The ranges of the volume that cannot be read before a member returns, except blocks that
    /// were written since.
    pub(in crate::log) fn awaited_ranges(&self) -> Vec<LostStatus> {
        let known = self.awaited.blocks.iter();
        let known = known.filter(|(pba, block)| self.still_awaits(**pba, **block));
        let mut lbas: Vec<_> = known.filter_map(|(_, block)| Some(block.lba?.0)).collect();
        lbas.sort_unstable();
        lbas.dedup();
        let runs = lbas.chunk_by(|one, next| one + 1 == *next);
        runs.map(|run| LostStatus { lba: run[0], blocks: run.len() as u64 }).collect()
    }

    /// The segments of blocks that may wait for a member.
    pub(in crate::log) fn awaited_segments(&self) -> BTreeSet<SegmentSlot> {
        let known = self.awaited.blocks.iter();
        let known = known.filter(|(pba, block)| self.still_awaits(**pba, **block));
        known.map(|(pba, _)| self.space.place(*pba).slot).collect()
    }

    /// Whether a block is still in its place, as far as the index in memory tells.
    fn still_awaits(&self, pba: Pba, block: AwaitedBlock) -> bool {
        let volume = self.array.config.log().volume_blocks;
        let segment = self.segments.get(self.space.place(pba).slot);
        let is_mapped = |lba: Lba| match self.mapping.index.get(lba) {
            Some(now) => now == pba,
            None => !self.mapping.has_whole_index(),
        };
        segment.is_some_and(|segment| segment.id == block.segment && segment.is_closed())
            && block.lba.is_none_or(|lba| lba.0 < volume && is_mapped(lba))
    }
}
