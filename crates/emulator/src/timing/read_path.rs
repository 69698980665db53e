//! The core that reads pass through, the read-ahead, and the host link.
//!
//! A read that continues the one before it in its zone is served from the read-ahead. Blocks that
//! no program has taken yet come from the write buffer, and blocks never written from nowhere.

use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneOffset};

use super::layout::Layout;
use super::parameters::ReadParameters;
use crate::Picos;
use crate::flash::Flash;

#[derive(Clone, Debug)]
pub(super) struct ReadPath {
    parameters: ReadParameters,
    link_block: Picos,
    core_free: Picos,
    link_free: Picos,
    /// Where the latest read of each zone ended.
    last_end: Vec<ZoneOffset>,
}

impl ReadPath {
    pub(super) fn new(parameters: ReadParameters, zones: usize) -> Self {
        let link_block = parameters.link_mib_per_s.block_time();
        let last_end = vec![ZoneOffset(0); zones];
        let (core_free, link_free) = (Picos::ZERO, Picos::ZERO);
        Self { parameters, link_block, core_free, link_free, last_end }
    }

    pub(super) fn clear(&mut self) {
        (self.core_free, self.link_free) = (Picos::ZERO, Picos::ZERO);
        self.last_end.fill(ZoneOffset(0));
    }

    /// A read of a zone written up to `written`; returns when it completes.
    pub(super) fn plan(
        &mut self,
        at: ZoneAddress,
        blocks: BlockCount,
        written: ZoneOffset,
        now: Picos,
        layout: &Layout,
        flash: &mut Flash,
    ) -> Picos {
        let count = u64::from(blocks.0);
        let work =
            self.parameters.core_us.picos() + self.parameters.core_block_us.picos().times(count);
        self.core_free = self.core_free.max(now) + work;
        let arrival = self.core_free;
        // The link is a limit of rate: it does not keep early answers waiting for late ones.
        self.link_free = self.link_free.max(now) + self.link_block.times(count);
        let ready = if self.is_read_ahead(at, blocks) {
            let latency = self.parameters.ahead_us.picos()
                + self.parameters.ahead_block_us.picos().times(count);
            arrival + latency.since(work)
        } else {
            self.sensed(at, blocks, written, arrival, layout, flash)
                + self.parameters.fixed_us.picos()
        };
        ready.max(self.link_free)
    }

    fn is_read_ahead(&mut self, at: ZoneAddress, blocks: BlockCount) -> bool {
        let last = &mut self.last_end[at.zone.index()];
        let continues = at.offset == *last && at.offset.0 > 0;
        *last = at.offset.plus(blocks);
        continues
    }

    fn sensed(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
        written: ZoneOffset,
        arrival: Picos,
        layout: &Layout,
        flash: &mut Flash,
    ) -> Picos {
        let programmed = layout.chunk_of(written) * layout.chunk_blocks();
        let on_dies = programmed.saturating_sub(at.offset.0).min(blocks.0);
        let mut end = arrival;
        for piece in layout.pieces(at.zone, at.offset, BlockCount(on_dies)) {
            end = end.max(flash.read(piece.die, piece.page, piece.blocks, arrival));
        }
        end
    }
}
