//! Records of the parity log: a header block, then the blocks that it describes.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0 | kind: 1 partial parity, 2 relocated blocks |
//! | 1 | parity unit (0 for P), of partial parity |
//! | 2 | blocks behind the header |
//! | 3 | zero |
//! | 4..8 | logical zone |
//! | 8..16 | generation of the zone |
//! | 16..24 | mount |
//! | 24..28 | partial parity: logical block behind the last one that it includes |
//! | 28..32 | partial parity: block of the unit; relocated blocks: column offset of the first |
//! | 32..160 | checksum of each block: CRC-32C over (array UUID, block) |
//! | 160..288 | data checksum of each block, or the parity of several, as in block metadata |
//!
//! *Partial parity* is the parity of a stripe that counts blocks at and behind its end as zeros
//! (RAIZN §5.1). A record has only the blocks of the unit that its write changed.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_journal::Seed;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::envelope::{ArrayUuid, BlockType, Envelope, FormatError};
use crate::array::format::numbers::Generation;
use crate::raizn::format::body::Mount;
use crate::raizn::layout::UNIT_BLOCKS_MOST;

const MOST: usize = UNIT_BLOCKS_MOST as usize;

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// Parity of a partial stripe.
    Parity {
        /// Number of the parity unit.
        parity: u8,
        /// Logical block behind the last one that it includes.
        end: u32,
        /// Block of the unit.
        within: u32,
    },
    /// Blocks of the column whose places hold junk.
    Relocated {
        /// Column offset of the first.
        at: u32,
    },
}

/// The header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) zone: u32,
    pub(crate) generation: Generation,
    pub(crate) mount: Mount,
    pub(crate) kind: LogKind,
    /// For each block, its checksum and its data checksum.
    pub(crate) sums: Vec<[u32; 2]>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    kind: u8,
    parity: u8,
    blocks: u8,
    reserved: u8,
    zone: U32,
    generation: U64,
    mount: U64,
    end: U32,
    at: U32,
    blocks_sums: [U32; MOST],
    data_sums: [U32; MOST],
}

const _: () = assert!(size_of::<Raw>() == 32 + 8 * MOST);
const _: () = assert!(Envelope::BYTES + size_of::<Raw>() <= BLOCK_BYTES);

impl LogHeader {
    /// Blocks behind the header.
    #[must_use]
    pub(crate) fn blocks(&self) -> u32 {
        u32::try_from(self.sums.len()).expect("at most 32 blocks")
    }

    /// The header block.
    #[must_use]
    pub(crate) fn encode(&self, array: ArrayUuid) -> Bytes {
        assert!((1..=MOST).contains(&self.sums.len()), "a record of {} blocks", self.sums.len());
        let (kind, parity, end, at) = match self.kind {
            LogKind::Parity { parity, end, within } => (1, parity, end, within),
            LogKind::Relocated { at } => (2, 0, 0, at),
        };
        let column = |which: usize| {
            let mut sums = [U32::ZERO; MOST];
            sums.iter_mut().zip(&self.sums).for_each(|(raw, sums)| *raw = sums[which].into());
            sums
        };
        let raw = Raw {
            kind,
            parity,
            blocks: u8::try_from(self.sums.len()).expect("at most 32 blocks"),
            reserved: 0,
            zone: self.zone.into(),
            generation: self.generation.into(),
            mount: self.mount.0.into(),
            end: end.into(),
            at: at.into(),
            blocks_sums: column(0),
            data_sums: column(1),
        };
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        bytes[Envelope::BYTES..Envelope::BYTES + size_of::<Raw>()].copy_from_slice(raw.as_bytes());
        Envelope::seal(bytes, BlockType::ParityLog, array, size_of::<Raw>());
        block.freeze()
    }

    /// Decodes a header block. Whether its zone and places exist is for the caller to check.
    ///
    /// # Errors
    /// The first violation of the format.
    pub(crate) fn decode(block: &[u8], array: ArrayUuid) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::ParityLog, array)?;
        let field = |field| FormatError::Field { field };
        let raw = Raw::ref_from_bytes(body).map_err(|_| field("length"))?;
        let kind = match raw.kind {
            1 => LogKind::Parity { parity: raw.parity, end: raw.end.get(), within: raw.at.get() },
            2 => LogKind::Relocated { at: raw.at.get() },
            _ => return Err(field("kind")),
        };
        let blocks = usize::from(raw.blocks);
        let numbers = [raw.generation.get(), raw.mount.get()];
        if !(1..=MOST).contains(&blocks) || numbers.iter().any(|number| *number >= NUMBER_LIMIT) {
            return Err(field("blocks"));
        }
        let sums = raw.blocks_sums.iter().zip(&raw.data_sums).take(blocks);
        Ok(Self {
            zone: raw.zone.get(),
            generation: raw.generation.into(),
            mount: Mount(raw.mount.get()),
            kind,
            sums: sums.map(|(block, data)| [block.get(), data.get()]).collect(),
        })
    }

    /// Whether a block is the one that the header describes.
    #[must_use]
    pub(crate) fn verifies(&self, seed: Seed, index: usize, block: &[u8]) -> bool {
        self.sums.get(index).is_some_and(|sums| sums[0] == seed.checksum(&[block]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_and_flipped_bits_are_noticed() {
        let array = ArrayUuid([3; 16]);
        let kinds =
            [LogKind::Parity { parity: 1, end: 77, within: 5 }, LogKind::Relocated { at: 12 }];
        for kind in kinds {
            let sums = (0..16).map(|i| [i, i * 1000]).collect();
            let (generation, mount) = (Generation(2), Mount(9));
            let header = LogHeader { zone: 4, generation, mount, kind, sums };
            let mut block = header.encode(array).to_vec();
            assert_eq!(LogHeader::decode(&block, array).as_ref(), Ok(&header));
            assert!(LogHeader::decode(&block, ArrayUuid([4; 16])).is_err());
            for byte in 0..Envelope::BYTES + size_of::<Raw>() {
                block[byte] ^= 4;
                assert!(LogHeader::decode(&block, array).is_err(), "byte {byte}");
                block[byte] ^= 4;
            }
        }
    }
}
