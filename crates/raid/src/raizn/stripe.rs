//! Stripe buffers: the data of stripes that are not complete on media yet, and their parity.
//!
//! A buffer shares the memory of the writes. Parity is computed from it for any end: blocks at and
//! behind the end count as zeros.

use bytes::Bytes;
use zoneweave_erasure::Code;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, zero_blocks};

use crate::raizn::layout::Layout;
use crate::scheme::StripeId;

/// A block of data, and its data checksum (zero for volumes without checksums).
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) data: Bytes,
    pub(crate) sum: u32,
}

impl Block {
    /// A block that counts as zeros, such as data behind the end of a zone.
    #[must_use]
    pub(crate) fn zeros() -> Self {
        Self { data: zero_blocks(BlockCount(1)), sum: 0 }
    }
}

/// The data of one stripe, from its first block on.
#[derive(Clone, Debug)]
pub(crate) struct StripeBuffer {
    pub(crate) stripe: StripeId,
    /// By their number in the stripe.
    blocks: Vec<Block>,
}

/// Blocks of a parity unit.
pub(crate) struct ParityBlocks {
    pub(crate) data: Bytes,
    /// The parity of the data checksums of each block.
    pub(crate) sums: Vec<u32>,
}

impl ParityBlocks {
    /// The blocks one by one.
    pub(crate) fn into_blocks(self) -> impl Iterator<Item = Block> {
        self.sums.into_iter().enumerate().map(move |(index, sum)| {
            let bytes = index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES;
            Block { data: self.data.slice(bytes), sum }
        })
    }
}

impl StripeBuffer {
    #[must_use]
    pub(crate) fn new(stripe: StripeId) -> Self {
        Self { stripe, blocks: Vec::new() }
    }

    /// Blocks in the buffer.
    #[must_use]
    pub(crate) fn filled(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("a stripe of few blocks")
    }

    /// Adds the next block.
    pub(crate) fn push(&mut self, block: Block) {
        assert!(block.data.len() == BLOCK_BYTES, "a block of {} bytes", block.data.len());
        self.blocks.push(block);
    }

    /// The block of a number in the stripe, if it is there.
    #[must_use]
    pub(crate) fn block(&self, index: u32) -> Option<&Block> {
        self.blocks.get(index as usize)
    }

    /// Computes blocks `within` of all parity units, counting the stripe's first `rest` blocks.
    #[must_use]
    pub(crate) fn parity(
        &self,
        layout: &Layout,
        code: &Code,
        rest: u32,
        within: std::ops::Range<u32>,
    ) -> Vec<ParityBlocks> {
        assert!(rest <= self.filled(), "{rest} blocks of {}", self.filled());
        assert!(!within.is_empty() && within.end <= layout.unit(), "blocks {within:?} of a unit");
        let count = BlockCount(within.end - within.start);
        let parities = code.parity_chunks();
        let mut outputs: Vec<_> = (0..parities).map(|_| AlignedBuffer::unfilled(count)).collect();
        let mut sums = vec![Vec::with_capacity(count.index()); parities];
        let zeros = zero_blocks(BlockCount(1));
        let mut column_sums = vec![[0; 4]; parities];
        for (index, within) in within.enumerate() {
            let unit = |unit: u32| {
                let at = unit * layout.unit() + within;
                (at < rest).then(|| &self.blocks[at as usize])
            };
            let data: Vec<&[u8]> =
                (0..layout.data()).map(|u| unit(u).map_or(&zeros[..], |b| &b.data[..])).collect();
            let bytes = index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES;
            let mut chunks: Vec<&mut [u8]> =
                outputs.iter_mut().map(|output| &mut output.as_mut()[bytes.clone()]).collect();
            code.encode(&data, &mut chunks);
            let data_sums: Vec<[u8; 4]> = (0..layout.data())
                .map(|u| unit(u).map_or([0; 4], |block| block.sum.to_le_bytes()))
                .collect();
            let data_sums: Vec<&[u8]> = data_sums.iter().map(|sum| &sum[..]).collect();
            let mut chunks: Vec<&mut [u8]> =
                column_sums.iter_mut().map(|sum| &mut sum[..]).collect();
            code.encode(&data_sums, &mut chunks);
            for (sums, sum) in sums.iter_mut().zip(&column_sums) {
                sums.push(u32::from_le_bytes(*sum));
            }
        }
        let outputs = outputs.into_iter().zip(sums);
        outputs.map(|(data, sums)| ParityBlocks { data: data.freeze(), sums }).collect()
    }
}
