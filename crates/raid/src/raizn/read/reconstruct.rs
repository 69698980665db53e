//! Reconstructs blocks from those at the same place of the other units of their stripe.
//!
//! Invariant: with checksums, a block that is returned is right. The others were verified, and a
//! block of data has the checksum that was reconstructed beside it.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use crate::array::format::config::Checksums;
use crate::raizn::core::Core;
use crate::raizn::format::metadata::data_sum;
use crate::raizn::stripe::Block;
use crate::scheme::{Column, Role, StripeId};

/// A unit of a stripe of which blocks are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedUnit {
    pub(crate) zone: u32,
    pub(crate) stripe: StripeId,
    pub(crate) role: Role,
    /// Blocks of the stripe that are written: parity counts zeros behind them.
    pub(crate) rest: u32,
}

impl Core {
    /// Reconstructs blocks of a column from the other columns. `None` for blocks of which too many
    /// others are lost.
    pub(crate) async fn reconstruct(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        places: Range<u32>,
    ) -> Vec<Option<Block>> {
        let layout = &self.layout;
        if let Some(blocks) = self.buffered(zone, column, places.clone()) {
            return blocks.into_iter().map(Some).collect();
        }
        let (completed, finished) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            (logical.completed, logical.record.finished.is_some())
        };
        let (start, until) = (places.start, places.end);
        let reads = layout.scheme().iter().map(|other| async move {
            // Nothing is behind the end of a column: a read there counts as an error of its drive.
            let end = self.column_end_of(zone, other, completed, finished).min(until);
            match other == column || end <= start {
                true => Vec::new(),
                false => self.fetch(zone, other, start, end - start).await,
            }
        });
        let read = join_all(reads).await;
        assert!(read.len() == layout.scheme().columns(), "a read of each column");
        let rebuilt = places.map(|at| {
            let stripe = layout.stripe_at(at);
            let role = layout.role_of(zone, stripe, column);
            let rest = completed.saturating_sub(layout.stripe_start(stripe));
            let there = |role: Role| {
                let other = layout.column_of(zone, stripe, role);
                read[other.index()].get((at - start) as usize).cloned().flatten()
            };
            let wanted = WantedUnit { zone, stripe, role, rest };
            self.rebuild_block(wanted, at - layout.row_start(stripe), there)
        });
        rebuilt.collect()
    }

    /// Reconstructs a block of a unit. `there` is the block of another unit at the same place, if
    /// it was read.
    pub(crate) fn rebuild_block(
        &self,
        wanted: WantedUnit,
        within: u32,
        there: impl Fn(Role) -> Option<Block>,
    ) -> Option<Block> {
        let layout = &self.layout;
        let WantedUnit { zone, stripe, role: wanted, rest } = wanted;
        let is_behind =
            |role: Role| layout.scheme().is_data(role) && layout.in_stripe(role, within) >= rest;
        let roles = (0..layout.scheme().columns()).map(Role::of);
        let chunks: Vec<Option<Block>> = roles
            .map(|role| match role {
                _ if role == wanted => None,
                _ if is_behind(role) => Some(Block::zeros()),
                _ => there(role),
            })
            .collect();
        assert!(chunks[wanted.index()].is_none(), "a lost block is no source of itself");
        let rebuilt = self.decode(&chunks, wanted);
        rebuilt.filter(|block| self.is_right(zone, stripe, wanted, within, block))
    }

    /// Blocks of a column from the buffers of their stripes, if they are data in memory.
    fn buffered(&self, zone: u32, column: Column, places: Range<u32>) -> Option<Vec<Block>> {
        let layout = &self.layout;
        let state = self.state.borrow();
        let logical = &state.logical[zone as usize];
        let blocks = places.map(|at| {
            let stripe = layout.stripe_at(at);
            let role = layout.role_of(zone, stripe, column);
            if !layout.scheme().is_data(role) {
                return None;
            }
            let number = layout.in_stripe(role, at - layout.row_start(stripe));
            logical.stripe(stripe)?.block(number).cloned()
        });
        blocks.collect()
    }

    /// Computes the block of one role from those of others.
    pub(crate) fn decode(&self, chunks: &[Option<Block>], wanted: Role) -> Option<Block> {
        let columns = self.layout.scheme().columns();
        assert!(chunks.len() == columns, "{} of {columns} units of a stripe", chunks.len());
        let data: Vec<_> = chunks.iter().map(|c| c.as_ref().map(|c| &c.data[..])).collect();
        let sums: Vec<_> = chunks.iter().map(|c| c.as_ref().map(|c| c.sum.to_le_bytes())).collect();
        let sums: Vec<_> = sums.iter().map(|sum| sum.as_ref().map(|sum| &sum[..])).collect();
        let mut output = AlignedBuffer::unfilled(BlockCount(1));
        let mut sum = [0; 4];
        self.code.reconstruct(&data, &mut [(wanted.index(), output.as_mut())]).ok()?;
        self.code.reconstruct(&sums, &mut [(wanted.index(), &mut sum)]).ok()?;
        Some(Block { data: output.freeze(), sum: u32::from_le_bytes(sum) })
    }

    /// Whether a reconstructed data block has the checksum that was reconstructed with it.
    pub(crate) fn is_right(
        &self,
        zone: u32,
        stripe: StripeId,
        role: Role,
        within: u32,
        block: &Block,
    ) -> bool {
        assert!(block.data.len() == BLOCK_BYTES, "a block of {} bytes", block.data.len());
        if self.checksums == Checksums::None || !self.layout.scheme().is_data(role) {
            return true;
        }
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let number = self.layout.stripe_start(stripe) + self.layout.in_stripe(role, within);
        data_sum(self.seed, zone, generation, number, &block.data) == block.sum
    }
}
