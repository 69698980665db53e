//! Data on its way to and from drives: shared slices of page-aligned memory.
//!
//! [`bytes::Bytes`] is the shared slice: parity, retries and coalesced writes hold the same
//! memory, and a command keeps it alive until its completion. [`AlignedBuffer`] is memory while it
//! has one owner and can still be written; freezing it makes a `Bytes` without copying.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::{BLOCK_BYTES, BlockCount, OOB_BYTES};

#[derive(FromBytes, IntoBytes, Immutable, Clone)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES]);

/// Memory that a thread keeps for its next buffers: 32 MiB. A fresh page costs the kernel more
/// than the copy into it (half the time of large writes over a socket, measured).
const KEPT_BLOCKS: usize = 8 * 1024;

/// Buffers given back, by length.
#[derive(Default)]
struct Kept {
    by_length: BTreeMap<usize, Vec<Box<[Page]>>>,
    blocks: usize,
    /// Blocks of buffers that are not given back yet.
    in_use: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Page-aligned memory of whole blocks with one owner. It is kept for reuse when it is dropped.
pub struct AlignedBuffer {
    pages: Box<[Page]>,
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        // The cache is gone if the thread is ending.
        let _ended = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            // A buffer may come from another thread.
            kept.in_use = kept.in_use.saturating_sub(pages.len());
            if kept.blocks + pages.len() <= KEPT_BLOCKS {
                kept.blocks += pages.len();
                kept.by_length.entry(pages.len()).or_default().push(pages);
            }
        });
    }
}

impl AlignedBuffer {
    /// Zeroed memory for `blocks` blocks.
    ///
    /// # Panics
    /// If the machine is out of memory.
    #[must_use]
    pub fn zeroed(blocks: BlockCount) -> Self {
        if let Some(mut reused) = Self::reused(blocks) {
            reused.as_mut().fill(0);
            return reused;
        }
        Self::fresh(blocks)
    }

    /// Memory for `blocks` blocks with arbitrary contents, for callers that fill all of it.
    ///
    /// # Panics
    /// If the machine is out of memory.
    #[must_use]
    pub fn unfilled(blocks: BlockCount) -> Self {
        Self::reused(blocks).unwrap_or_else(|| Self::fresh(blocks))
    }

    fn reused(blocks: BlockCount) -> Option<Self> {
        KEPT.with_borrow_mut(|kept| {
            kept.in_use += blocks.index();
            let pages = kept.by_length.get_mut(&blocks.index())?.pop()?;
            kept.blocks -= pages.len();
            Some(Self { pages })
        })
    }

    fn fresh(blocks: BlockCount) -> Self {
        let pages = <[Page]>::new_box_zeroed_with_elems(blocks.index());
        Self { pages: pages.expect("memory for a bounded number of blocks") }
    }

    /// The same memory as a shared slice.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.pages.as_bytes()
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.pages.as_mut_bytes()
    }
}

/// Blocks of this thread's buffers in use, to look for leaks.
#[must_use]
pub fn blocks_in_use() -> usize {
    KEPT.with_borrow(|kept| kept.in_use)
}

static ZEROS: [u8; 64 * BLOCK_BYTES] = [0; 64 * BLOCK_BYTES];

/// A slice of `count` zero blocks, shared up to 64 blocks.
#[must_use]
pub fn zero_blocks(count: BlockCount) -> Bytes {
    if count.data_bytes() <= ZEROS.len() {
        return Bytes::from_static(&ZEROS[..count.data_bytes()]);
    }
    AlignedBuffer::zeroed(count).freeze()
}

/// Whether every byte is zero. A comparison of slices takes many bytes at a time; a loop over
/// bytes that may end at any of them does not.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|part| *part == ZEROS[..part.len()])
}

/// Blocks of data with their out-of-band metadata.
///
/// `data` is a scatter list whose pieces are whole blocks. `oob` has 64 bytes a block, or is empty
/// if the drive has none or the caller needs none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The blocks, in order.
    pub data: Vec<Bytes>,
    /// Their metadata, in the same order.
    pub oob: Bytes,
}

impl Payload {
    /// One payload of several: data one behind the other, and metadata likewise.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let (mut data, mut oob) = (Vec::new(), Vec::new());
        for part in parts {
            data.extend(part.data);
            oob.extend_from_slice(&part.oob);
        }
        Self { data, oob: oob.into() }
    }

    /// A payload of one slice.
    #[must_use]
    pub fn new(data: Bytes, oob: Bytes) -> Self {
        let payload = Self { data: vec![data], oob };
        payload.assert_whole();
        payload
    }

    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> BlockCount {
        BlockCount::of_data_bytes(self.data.iter().map(Bytes::len).sum())
    }

    /// Asserts that pieces are whole blocks and metadata matches them.
    pub fn assert_whole(&self) {
        assert!(self.data.iter().all(|piece| piece.len().is_multiple_of(BLOCK_BYTES)));
        let matches = self.oob.is_empty() || self.oob.len() == self.blocks().oob_bytes();
        assert!(matches, "{} metadata bytes for {}", self.oob.len(), self.blocks());
    }

    /// Block `index` of the payload, sharing its memory.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn block(&self, index: usize) -> Bytes {
        let mut at = index * BLOCK_BYTES;
        for piece in &self.data {
            if at < piece.len() {
                return piece.slice(at..at + BLOCK_BYTES);
            }
            at -= piece.len();
        }
        panic!("block {index} of a payload of {}", self.blocks());
    }

    /// The metadata of block `index`; empty if the payload carries none.
    #[must_use]
    pub fn block_oob(&self, index: usize) -> Bytes {
        self.oob.slice_ref(self.oob_of(index))
    }

    /// The metadata of block `index`, borrowed.
    ///
    /// # Panics
    /// If it carries some, and not of that block.
    #[must_use]
    pub fn oob_of(&self, index: usize) -> &[u8] {
        if self.oob.is_empty() {
            &[]
        } else {
            &self.oob[index * OOB_BYTES..(index + 1) * OOB_BYTES]
        }
    }

    /// Every block in order, sharing memory.
    pub fn iter_blocks(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.data.iter().flat_map(|piece| {
            (0..piece.len()).step_by(BLOCK_BYTES).map(move |at| piece.slice(at..at + BLOCK_BYTES))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_is_zeroed() {
        let mut first = AlignedBuffer::zeroed(BlockCount(3));
        first.as_mut().fill(0xFF);
        drop(first.freeze());
        assert!(AlignedBuffer::zeroed(BlockCount(3)).as_ref().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn one_byte_that_is_not_zero_is_found_wherever_it_is() {
        let mut bytes = vec![0; ZEROS.len() + 100];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in (0..bytes.len()).step_by(4093).chain([bytes.len() - 1]) {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "byte {at}");
            bytes[at] = 0;
        }
    }

    #[test]
    fn blocks_of_a_scatter_list_are_found_across_pieces() {
        let mut buffer = AlignedBuffer::zeroed(BlockCount(2));
        buffer.as_mut()[BLOCK_BYTES] = 7;
        let two = buffer.freeze();
        assert!(two.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        let payload = Payload { data: vec![zero_blocks(BlockCount(1)), two], oob: Bytes::new() };
        assert_eq!(payload.blocks(), BlockCount(3));
        assert_eq!(payload.block(2)[0], 7);
        assert_eq!(payload.iter_blocks().nth(2).unwrap()[0], 7);
        assert_eq!(payload.block(1)[0], 0);
    }
}
