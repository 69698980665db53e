//! A hash of 128 bits to distinguish states.
//!
//! States are not chosen by an adversary, and there are some 2^24 of them: the probability of a
//! collision is about 2^-80.

/// An odd number without pattern: 2^128 divided by the golden ratio.
const FACTOR: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;

/// The hash of the added values, in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hash(u128);

impl Hash {
    /// Adds a number.
    pub(super) fn number(&mut self, number: u128) {
        // Multiplication carries differences upwards, rotation brings them back down.
        self.0 = (self.0 ^ number).wrapping_add(1).wrapping_mul(FACTOR).rotate_right(59);
    }

    /// Adds bytes and their number.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.number(u64::from_le_bytes(word.try_into().expect("eight bytes")).into());
        }
        for byte in words.remainder() {
            self.number((*byte).into());
        }
        self.number(bytes.len() as u128);
    }

    /// The hash.
    pub(super) fn value(mut self) -> u128 {
        self.number(0);
        self.number(0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flipped_bit_gives_another_hash() {
        let hash = |bytes: &[u8]| {
            let mut hash = Hash::default();
            hash.bytes(bytes);
            hash.value()
        };
        let mut seen = BTreeSet::from([hash(&[0; 512])]);
        for bit in 0..4096 {
            let mut bytes = [0; 512];
            bytes[bit / 8] = 1 << (bit % 8);
            assert!(seen.insert(hash(&bytes)));
        }
        let halves: BTreeSet<_> = seen.iter().map(|hash| hash >> 96).collect();
        assert!(halves.len() > 4090, "the upper bits alone tell them apart");
    }
}
