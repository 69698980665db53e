//! How stored blocks go bad.

use zoneweave_runtime::Random;

/// A part of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// The 4,096 bytes.
    Data,
    /// The blocks' metadata.
    Oob,
    /// Both.
    Both,
}

/// How blocks go bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of each part flips, chosen by the seed.
    BitFlip {
        /// The damaged part.
        part: BlockPart,
        /// Which bit.
        seed: u64,
    },
    /// Random bytes replace the part.
    Garbage {
        /// The damaged part.
        part: BlockPart,
        /// Which bytes.
        seed: u64,
    },
}

impl Damage {
    /// Damages blocks in place: `data` and `oob` are each one block's or one command's.
    pub fn apply(&self, data: &mut [u8], oob: &mut [u8]) {
        let (Self::BitFlip { part, seed } | Self::Garbage { part, seed }) = *self;
        let mut random = Random::new(seed);
        let hit = [(data, part != BlockPart::Oob), (oob, part != BlockPart::Data)];
        for (bytes, _) in hit.into_iter().filter(|(bytes, hit)| *hit && !bytes.is_empty()) {
            match self {
                Self::BitFlip { .. } => flip_bit(bytes, &mut random),
                Self::Garbage { .. } => random.fill(bytes),
            }
        }
    }
}

fn flip_bit(bytes: &mut [u8], random: &mut Random) {
    let bit = random.below(bytes.len() as u64 * 8);
    let byte = usize::try_from(bit / 8).expect("an index into a slice");
    bytes[byte] ^= 1 << (bit % 8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_flip_changes_one_bit_of_each_part() {
        let (mut data, mut oob) = (vec![0_u8; 4096], vec![0_u8; 64]);
        Damage::BitFlip { part: BlockPart::Both, seed: 3 }.apply(&mut data, &mut oob);
        let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!((ones(&data), ones(&oob)), (1, 1));
    }
}
