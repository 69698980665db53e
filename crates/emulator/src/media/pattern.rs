//! Blocks that repeat eight bytes: known by a comparison, kept as one word, made again by a fill.

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, zero_blocks};

const WORD_BYTES: usize = size_of::<u64>();

/// The word that a block repeats, if it does.
pub(crate) fn word_of(block: &[u8]) -> Option<u64> {
    debug_assert_eq!(block.len(), BLOCK_BYTES);
    // A block that equals itself one word further on repeats its first word.
    if block[..BLOCK_BYTES - WORD_BYTES] != block[WORD_BYTES..] {
        return None;
    }
    block.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// The blocks of some words, in one piece.
pub(crate) fn blocks_of(words: &[u64]) -> Bytes {
    let count = BlockCount::of_data_bytes(words.len() * BLOCK_BYTES);
    if words.iter().all(|word| *word == 0) {
        return zero_blocks(count);
    }
    let mut buffer = AlignedBuffer::unfilled(count);
    for (block, word) in buffer.as_mut().chunks_exact_mut(BLOCK_BYTES).zip(words) {
        let (cells, _) = block.as_chunks_mut::<WORD_BYTES>();
        cells.fill(word.to_le_bytes());
    }
    buffer.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn any_differing_byte_is_seen() {
        let block = blocks_of(&[0x0123_4567_89AB_CDEF]);
        assert_eq!(block[..8], 0x0123_4567_89AB_CDEF_u64.to_le_bytes());
        assert_eq!(word_of(&block), Some(0x0123_4567_89AB_CDEF));
        for at in 0..BLOCK_BYTES {
            let mut spoilt = block.to_vec();
            spoilt[at] ^= 0x10;
            assert_eq!(word_of(&spoilt), None, "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn words_and_blocks_are_the_same(words in prop::collection::vec(any::<u64>(), 1..5)) {
            let blocks = blocks_of(&words);
            let found: Vec<_> = blocks.chunks(BLOCK_BYTES).map(word_of).collect();
            prop_assert_eq!(found, words.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
}
