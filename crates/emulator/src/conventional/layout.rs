//! Where the blocks of a superblock lie: which chunk, which die, which kind of page.
//!
//! As in a zone of the zoned drive: chunks go round-robin over the dies, in rows of as many data
//! chunks as there are dies without parity; each row begins one die further on, each superblock
//! five.

use super::ftl::SuperblockId;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) dies: u32,
    pub(super) data_dies: u32,
    pub(super) chunk_blocks: u32,
    pub(super) page_blocks: u32,
}

impl Layout {
    pub(super) fn chunk_of(&self, offset: u32) -> u32 {
        offset / self.chunk_blocks
    }

    /// The kind of page within a die that a block lies on.
    pub(super) fn page_of(&self, offset: u32) -> u32 {
        offset % self.chunk_blocks / self.page_blocks
    }

    pub(super) fn die_of(&self, superblock: SuperblockId, chunk: u32) -> u32 {
        self.slot(superblock, chunk / self.data_dies, chunk % self.data_dies)
    }

    /// Dies that hold the parity of the row that this chunk completes, if it does.
    pub(super) fn parity_after(
        self,
        superblock: SuperblockId,
        chunk: u32,
    ) -> impl Iterator<Item = u32> {
        let completes = (chunk + 1).is_multiple_of(self.data_dies);
        let slots = if completes { self.data_dies..self.dies } else { 0..0 };
        slots.map(move |slot| self.slot(superblock, chunk / self.data_dies, slot))
    }

    fn slot(&self, superblock: SuperblockId, row: u32, slot: u32) -> u32 {
        let shift = u64::from(superblock.0) * 5 + u64::from(row) + u64::from(slot);
        u32::try_from(shift % u64::from(self.dies)).expect("below the number of dies")
    }
}
