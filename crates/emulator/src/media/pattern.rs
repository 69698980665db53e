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

/// Blocks that were made again lately, to be handed out once more: up to 16 times 128 KiB.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    slots: [Option<Repeated>; RECENT_WORDS],
}

const RECENT_WORDS: usize = 16;
const REPEATED_BLOCKS_MAX: usize = 32;

/// Blocks of one word.
#[derive(Clone, Debug)]
struct Repeated {
    word: u64,
    blocks: Bytes,
}

impl Recent {
    /// As [`blocks_of`]; a repeated word shares the memory of earlier results.
    pub(super) fn blocks_of(&mut self, words: &[u64]) -> Bytes {
        let Some(first) = words.first().filter(|_| words.len() <= REPEATED_BLOCKS_MAX) else {
            return blocks_of(words);
        };
        if words.iter().any(|word| word != first) {
            return blocks_of(words);
        }
        let slot = &mut self.slots[slot_of(*first)];
        let bytes = words.len() * BLOCK_BYTES;
        match slot {
            Some(known) if known.word == *first && known.blocks.len() >= bytes => {
                known.blocks.slice(..bytes)
            }
            _ => {
                let blocks = blocks_of(words);
                *slot = Some(Repeated { word: *first, blocks: blocks.clone() });
                blocks
            }
        }
    }
}

/// The high bits of a product with 2^64 divided by the golden ratio depend on every bit of a word.
fn slot_of(word: u64) -> usize {
    let mixed = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT_WORDS.ilog2());
    usize::try_from(mixed).expect("a few bits")
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

    #[test]
    fn what_is_handed_out_again_is_the_same() {
        let mut recent = Recent::default();
        for round in 0..200_u64 {
            let word = round * round % 37;
            let mut words = vec![word; 1 + usize::try_from(round % 40).unwrap()];
            if round % 3 == 0 {
                words.push(word + 1);
            }
            assert_eq!(recent.blocks_of(&words), blocks_of(&words), "{words:?}");
        }
        let twice = [recent.blocks_of(&[5; 3]), recent.blocks_of(&[5; 2])];
        assert_eq!(twice[0].as_ptr(), twice[1].as_ptr(), "no copy is made");
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
