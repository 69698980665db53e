//! The place of a zone's blocks: chunk, die, page.
//!
//! A zone lies on one group of dies. Chunks go round-robin over the dies of its group, in rows of
//! as many data chunks as there are dies without parity. Each row, and each zone, begins one die
//! (five dies) further on, so that zones written together do not meet on the same die.

use std::num::NonZeroU32;

use zoneweave_zoned::{BlockCount, ZoneId, ZoneOffset};

use super::parameters::FlashParameters;

/// Blocks returned by one sense of a die: the share of one kind of page in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) die: u32,
    pub(super) page: u32,
    pub(super) blocks: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Layout {
    groups: u32,
    dies: u32,
    data_dies: u32,
    chunk_blocks: u32,
    page_blocks: u32,
}

impl Layout {
    pub(super) fn new(parameters: &FlashParameters) -> Self {
        let dies = parameters.dies.get();
        let chunk_blocks = (parameters.chunk_kib.get() / 4).max(1);
        let kinds = u32::try_from(parameters.sense_us.len().max(1)).unwrap_or(1);
        Self {
            groups: parameters.groups.get(),
            dies,
            data_dies: dies.saturating_sub(parameters.parity_dies).max(1),
            chunk_blocks,
            page_blocks: (chunk_blocks / kinds).max(1),
        }
    }

    pub(super) fn chunk_blocks(&self) -> u32 {
        self.chunk_blocks
    }

    pub(super) fn dies(&self) -> NonZeroU32 {
        NonZeroU32::new(self.groups * self.dies).expect("both are positive")
    }

    pub(super) fn row_blocks(&self) -> u32 {
        self.chunk_blocks * self.data_dies
    }

    /// The chunk that holds a block.
    pub(super) fn chunk_of(&self, offset: ZoneOffset) -> u32 {
        offset.0 / self.chunk_blocks
    }

    pub(super) fn die_of(&self, zone: ZoneId, chunk: u32) -> u32 {
        self.place(zone, chunk / self.data_dies, chunk % self.data_dies)
    }

    /// Dies that hold the parity of the row that this chunk completes, if it does.
    pub(super) fn parity_after(&self, zone: ZoneId, chunk: u32) -> impl Iterator<Item = u32> + '_ {
        let completes = (chunk + 1).is_multiple_of(self.data_dies);
        let slots = if completes { self.data_dies..self.dies } else { 0..0 };
        slots.map(move |slot| self.place(zone, chunk / self.data_dies, slot))
    }

    /// Every die of the zone's group.
    pub(super) fn group(&self, zone: ZoneId) -> std::ops::Range<u32> {
        let first = zone.0 % self.groups * self.dies;
        first..first + self.dies
    }

    /// The senses that a read takes, at most one for each page.
    pub(super) fn pieces(
        &self,
        zone: ZoneId,
        from: ZoneOffset,
        blocks: BlockCount,
    ) -> impl Iterator<Item = Piece> + '_ {
        let end = from.plus(blocks).0;
        let mut at = from.0;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let in_chunk = at % self.chunk_blocks;
            let page = in_chunk / self.page_blocks;
            let page_end = ((page + 1) * self.page_blocks).min(self.chunk_blocks);
            let blocks = (page_end - in_chunk).min(end - at);
            let die = self.die_of(zone, at / self.chunk_blocks);
            at += blocks;
            Some(Piece { die, page, blocks })
        })
    }

    fn place(&self, zone: ZoneId, row: u32, slot: u32) -> u32 {
        let shift = u64::from(zone.0) * 5 + u64::from(row) + u64::from(slot);
        let within = shift % u64::from(self.dies);
        zone.0 % self.groups * self.dies + u32::try_from(within).expect("below the dies")
    }
}
