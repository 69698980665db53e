//! The 64 bytes of metadata beside each block, on drives that have them.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | data checksum; of parity blocks, the parity of those of the data blocks |
//! | 4..8 | logical zone |
//! | 8..16 | generation of the zone |
//! | 16..20 | logical block of data, column offset of parity |
//! | 20 | place: 1 data, 2 parity, 3 superblock record, 4 parity log, 5 hole |
//! | 21..60 | zero |
//! | 60..64 | own checksum |
//!
//! The *data checksum* is CRC-32C over (array UUID, zone, generation, logical block, data): a
//! misdirected block or one from before a reset does not verify. The *own checksum* covers (array
//! UUID, digest, bytes 0..60). The digest is the data checksum of a data block, and CRC-32C over
//! (array UUID, block) of any other. A record of the superblock has its sequence as the generation
//! and its slot as the zone. A *hole* stands for a block of a column that a rebuild could not make:
//! it never verifies as one.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_journal::Seed;

use crate::array::format::numbers::Generation;
use crate::scheme::Column;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Data = 1,
    Parity = 2,
    Superblock = 3,
    ParityLog = 4,
    Hole = 5,
}

/// The metadata of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockMetadata {
    /// The data checksum, or the parity of several.
    pub(crate) sum: u32,
    pub(crate) zone: u32,
    pub(crate) generation: Generation,
    pub(crate) block: u32,
    pub(crate) kind: Kind,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    sum: U32,
    zone: U32,
    generation: U64,
    block: U32,
    kind: u8,
    reserved: [u8; 39],
    own: U32,
}

const _: () = assert!(size_of::<Raw>() == zoneweave_zoned::OOB_BYTES);

/// The bytes that the own checksum covers.
const COVERED: usize = size_of::<Raw>() - size_of::<U32>();

/// The checksum of a data block.
#[must_use]
pub(crate) fn data_sum(
    seed: Seed,
    zone: u32,
    generation: Generation,
    block: u32,
    data: &[u8],
) -> u32 {
    let mut whose = [0; 16];
    whose[..4].copy_from_slice(&zone.to_le_bytes());
    whose[4..8].copy_from_slice(&block.to_le_bytes());
    whose[8..].copy_from_slice(&generation.0.to_le_bytes());
    seed.checksum(&[&whose, data])
}

impl BlockMetadata {
    /// That of a superblock record.
    #[must_use]
    pub(crate) fn of_superblock(record_sequence: u64, slot: Column) -> Self {
        let (zone, generation) = (u32::from(slot.0), Generation(record_sequence));
        Self { sum: 0, zone, generation, block: 0, kind: Kind::Superblock }
    }

    /// That of a block in the parity log.
    #[must_use]
    pub(crate) fn of_log(sequence: u64) -> Self {
        Self { sum: 0, zone: 0, generation: Generation(sequence), block: 0, kind: Kind::ParityLog }
    }

    /// Whether it is of a superblock record.
    #[must_use]
    pub(crate) fn is_superblock(self) -> bool {
        self.kind == Kind::Superblock
    }

    /// The bytes beside a block. The data checksum of a data block is already known.
    #[must_use]
    pub(crate) fn seal(&self, seed: Seed, block: &[u8]) -> Bytes {
        let digest = match self.kind {
            Kind::Data => self.sum,
            _ => seed.checksum(&[block]),
        };
        Bytes::copy_from_slice(self.sealed(seed, digest).as_bytes())
    }

    fn sealed(&self, seed: Seed, digest: u32) -> Raw {
        let mut raw = Raw {
            sum: self.sum.into(),
            zone: self.zone.into(),
            generation: self.generation.into(),
            block: self.block.into(),
            kind: self.kind as u8,
            reserved: [0; 39],
            own: 0.into(),
        };
        raw.own = seed.checksum(&[&digest.to_le_bytes(), &raw.as_bytes()[..COVERED]]).into();
        raw
    }

    /// The metadata of a block, if both verify.
    #[must_use]
    pub(crate) fn open(seed: Seed, metadata: &[u8], block: &[u8]) -> Option<Self> {
        let raw = Raw::ref_from_bytes(metadata).ok()?;
        let kind = match raw.kind {
            1 => Kind::Data,
            2 => Kind::Parity,
            3 => Kind::Superblock,
            4 => Kind::ParityLog,
            5 => Kind::Hole,
            _ => return None,
        };
        let found = Self {
            sum: raw.sum.get(),
            zone: raw.zone.get(),
            generation: raw.generation.into(),
            block: raw.block.get(),
            kind,
        };
        let digest = match kind {
            Kind::Data => data_sum(seed, found.zone, found.generation, found.block, block),
            _ => seed.checksum(&[block]),
        };
        let own = seed.checksum(&[&digest.to_le_bytes(), &metadata[..COVERED]]);
        let verifies = own == raw.own.get() && (kind != Kind::Data || digest == found.sum);
        verifies.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BLOCK_BYTES;

    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let seed = Seed::of([7; 16]);
        let mut block = vec![0x5A; BLOCK_BYTES];
        for kind in [Kind::Data, Kind::Parity, Kind::Superblock, Kind::ParityLog, Kind::Hole] {
            let sum = data_sum(seed, 3, Generation(9), 17, &block);
            let generation = Generation(9);
            let meta = BlockMetadata { sum, zone: 3, generation, block: 17, kind };
            let mut bytes = meta.seal(seed, &block).to_vec();
            assert_eq!(BlockMetadata::open(seed, &bytes, &block), Some(meta));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(BlockMetadata::open(seed, &bytes, &block), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            block[100] ^= 1;
            assert_eq!(BlockMetadata::open(seed, &bytes, &block), None);
            block[100] ^= 1;
        }
    }
}
