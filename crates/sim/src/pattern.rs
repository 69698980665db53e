//! Contents of blocks: every version of every block encodes itself in all of its 4 KiB.
//!
//! The first two words are the version and the address, and all later words follow from both. So a
//! block mixed from two versions, or found at the wrong address, is detected wherever it is cut.
//! Version 0 is zeros.

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, is_zero, zero_blocks};

const WORD_BYTES: usize = 8;

/// An odd constant (2^64 divided by the golden ratio), so that all words of a block differ.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

fn start(lba: u64, version: u64) -> u64 {
    let mixed = (lba ^ version.rotate_left(32)).wrapping_mul(STRIDE);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// The contents of a version of a block.
pub(crate) fn contents(lba: u64, version: u64) -> Bytes {
    if version == 0 {
        return zero_blocks(BlockCount(1));
    }
    let mut buffer = AlignedBuffer::unfilled(BlockCount(1));
    let mut word = start(lba, version);
    let (words, _) = buffer.as_mut().as_chunks_mut::<WORD_BYTES>();
    for bytes in words {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(STRIDE);
    }
    buffer.as_mut()[..WORD_BYTES].copy_from_slice(&version.to_le_bytes());
    buffer.as_mut()[WORD_BYTES..2 * WORD_BYTES].copy_from_slice(&lba.to_le_bytes());
    buffer.freeze()
}

/// The version of a block; `None` for contents that were never written to it.
pub(crate) fn version_of(lba: u64, data: &[u8]) -> Option<u64> {
    assert_eq!(data.len(), BLOCK_BYTES, "a block is a block");
    let word = |at: usize| {
        let bytes = &data[at * WORD_BYTES..(at + 1) * WORD_BYTES];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let version = word(0);
    if version == 0 {
        return is_zero(data).then_some(0);
    }
    let mut expected = start(lba, version).wrapping_add(STRIDE.wrapping_mul(2));
    // Differences are gathered to the end of the block: a loop without a way out takes several
    // words at a time.
    let mut differing = 0;
    let (words, _) = data.as_chunks::<WORD_BYTES>();
    for bytes in &words[2..] {
        differing |= u64::from_le_bytes(*bytes) ^ expected;
        expected = expected.wrapping_add(STRIDE);
    }
    (differing == 0 && word(1) == lba).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_names_its_version_and_nothing_else_does() {
        let block = contents(7, 12);
        assert_eq!(version_of(7, &block), Some(12));
        assert_eq!(version_of(8, &block), None, "found at the wrong address");
        let mut torn = block.to_vec();
        torn[2048..].copy_from_slice(&contents(7, 13)[2048..]);
        assert_eq!(version_of(7, &torn), None, "two versions in one block");
        assert_eq!(version_of(3, &contents(3, 0)), Some(0));
        torn.fill(0);
        torn[4000] = 1;
        assert_eq!(version_of(7, &torn), None, "nearly zeros");
    }
}
