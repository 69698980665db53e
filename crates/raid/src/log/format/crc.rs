//! CRC-32C, of a few bytes and of whole blocks.
//!
//! Whole blocks go by carry-less multiplication, in which a processor does several times what its
//! own instruction for CRC-32C does. That takes some time to begin and to end, so what is short
//! goes by the instruction. The offline checker knows the instruction only: each simulated history
//! compares the two.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes from which on multiplying is faster.
const LONG_BYTES: usize = 1024;

/// The checksum of what `sum` is that of, and `bytes` behind it.
#[must_use]
pub(super) fn append(sum: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG_BYTES {
        return crc32c::crc32c_append(sum, bytes);
    }
    // A digest goes on from the remainder, of which the checksum is the complement.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a checksum of 32 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_are_one(sum: u32, skip in 0_usize..70, bytes in prop::collection::vec(any::<u8>(), 70..9000)) {
            // Wherever it begins in memory, and however long it is.
            let bytes = &bytes[skip..];
            prop_assert_eq!(append(sum, bytes), crc32c::crc32c_append(sum, bytes));
        }
    }

    #[test]
    fn it_is_the_checksum_that_others_know() {
        assert_eq!(append(0, b"123456789"), 0xE306_9283);
        assert_eq!(append(0, &[0; 4096]), 0x98F9_4189);
    }
}
