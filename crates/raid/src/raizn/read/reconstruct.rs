//! Reconstructs blocks from those at the same place of the other units of their stripe.
//!
//! Invariant: with checksums, a block that is returned is right. The others were verified, and a
//! block of data has the checksum that was reconstructed beside it.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, zero_blocks};

use crate::array::format::config::Checksums;
use crate::raizn::core::Core;
use crate::raizn::format::metadata::data_sum;
use crate::raizn::stripe::Block;
use crate::scheme::{Role, StripeId};

impl Core {
    /// Reconstructs blocks of a unit from the other columns. `None` for blocks of which too many
    /// others are lost.
    pub(crate) async fn reconstruct(
        self: &Rc<Self>,
        zone: u32,
        stripe: StripeId,
        wanted: Role,
        within: Range<u32>,
    ) -> Vec<Option<Block>> {
        let layout = &self.layout;
        if let Some(blocks) = self.buffered(zone, stripe, wanted, within.clone()) {
            return blocks.into_iter().map(Some).collect();
        }
        let completed = self.state.borrow().logical[zone as usize].completed;
        let rest = completed.saturating_sub(layout.stripe_start(stripe));
        let at = layout.row_start(stripe) + within.start;
        let count = within.end - within.start;
        let roles = || (0..layout.scheme().columns()).map(Role::of);
        let reads = roles().map(|role| async move {
            if role == wanted {
                return Vec::new();
            }
            self.fetch(zone, layout.column_of(zone, stripe, role), at, count).await
        });
        let read = join_all(reads).await;
        let zeros = zero_blocks(BlockCount(1));
        let mut blocks = Vec::with_capacity(count as usize);
        for (index, within) in within.enumerate() {
            let chunks: Vec<Option<Block>> = roles()
                .zip(&read)
                .map(|(role, read)| {
                    let is_data = layout.scheme().is_data(role);
                    if is_data && layout.in_stripe(role, within) >= rest {
                        return (role != wanted).then(|| Block { data: zeros.clone(), sum: 0 });
                    }
                    read.get(index).cloned().flatten()
                })
                .collect();
            let rebuilt = self.decode(&chunks, wanted);
            blocks.push(rebuilt.filter(|block| self.is_right(zone, stripe, wanted, within, block)));
        }
        blocks
    }

    /// Blocks of a unit from the stripe's buffer, if its data is in memory.
    fn buffered(
        &self,
        zone: u32,
        stripe: StripeId,
        role: Role,
        within: Range<u32>,
    ) -> Option<Vec<Block>> {
        if !self.layout.scheme().is_data(role) {
            return None;
        }
        let state = self.state.borrow();
        let buffer = state.logical[zone as usize].stripe(stripe)?;
        within.map(|within| buffer.block(self.layout.in_stripe(role, within)).cloned()).collect()
    }

    /// Computes the block of one role from those of others.
    pub(crate) fn decode(&self, chunks: &[Option<Block>], wanted: Role) -> Option<Block> {
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
