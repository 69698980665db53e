//! CRC-32C of short inputs and of whole blocks, seeded with the owner of the data.
//!
//! Whole blocks use carry-less multiplication, several times as fast as the processor's CRC-32C
//! instruction. It takes some time to begin and to end, so short inputs use the instruction. The
//! offline checker uses the instruction only, and each simulated history compares the two.

use crc_fast::{CrcAlgorithm, Digest};

/// 128 random bits, as bytes in order.
pub type Uuid = [u8; 16];

/// Length in bytes from which multiplication is faster.
const LONG_BYTES: usize = 1024;

/// The start value of every checksum of an owner: CRC-32C of its UUID. Blocks of another owner
/// never verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of an owner.
    #[must_use]
    pub fn of(owner: impl Into<Uuid>) -> Self {
        Self(crc32c::crc32c(&owner.into()))
    }

    /// The checksum of the pieces one after the other.
    #[inline]
    #[must_use]
    pub fn checksum(self, pieces: &[&[u8]]) -> u32 {
        pieces.iter().fold(self.0, |sum, piece| append(sum, piece))
    }
}

/// Extends a checksum by `bytes`.
#[inline]
fn append(sum: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG_BYTES {
        return crc32c::crc32c_append(sum, bytes);
    }
    // A digest continues from the remainder, and the checksum is its complement.
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
            // For any alignment and length.
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
