//! Tombstone blocks: extents of the volume that read as zeros since a trim.
//!
//! They are written in stripes like data. Each extent keeps the sequence of its trim when the block
//! is relocated.

use bytes::Bytes;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, Lba};

use super::{ArrayUuid, BlockType, Envelope, FormatError};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::Sequence;

const EXTENT: usize = size_of::<RawExtent>();

/// Extents that fit a tombstone block.
pub const EXTENTS_PER_TOMBSTONE: usize = (BLOCK_BYTES - Envelope::BYTES) / EXTENT;

/// A range that reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimExtent {
    /// First block of the extent.
    pub lba: Lba,
    /// Number of blocks.
    pub blocks: u64,
    /// The sequence of the trim.
    pub sequence: Sequence,
}

/// The contents of a tombstone block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneBlock {
    /// The extents, at most [`EXTENTS_PER_TOMBSTONE`].
    pub extents: Vec<TrimExtent>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawExtent {
    lba: U64,
    blocks: U64,
    sequence: U64,
}

impl TombstoneBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If there are too many extents.
    #[must_use]
    pub fn encode(&self, array: ArrayUuid) -> Bytes {
        assert!(self.extents.len() <= EXTENTS_PER_TOMBSTONE);
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        for (slot, extent) in bytes[Envelope::BYTES..].chunks_exact_mut(EXTENT).zip(&self.extents) {
            let raw = RawExtent {
                lba: extent.lba.0.into(),
                blocks: extent.blocks.into(),
                sequence: extent.sequence.into(),
            };
            slot.copy_from_slice(raw.as_bytes());
        }
        Envelope::seal(bytes, BlockType::Tombstone, array, self.extents.len() * EXTENT);
        block.freeze()
    }

    /// The extents in a block, each within a volume of `volume_blocks` blocks.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], array: ArrayUuid, volume_blocks: u64) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::Tombstone, array)?;
        if !body.len().is_multiple_of(EXTENT) {
            return Err(FormatError::Field { field: "length" });
        }
        let extents = body.chunks_exact(EXTENT).map(|bytes| {
            let raw = RawExtent::ref_from_bytes(bytes)
                .map_err(|_| FormatError::Field { field: "extent" })?;
            let (lba, blocks) = (raw.lba.get(), raw.blocks.get());
            match lba.checked_add(blocks) {
                Some(end) if end <= volume_blocks && raw.sequence.get() < NUMBER_LIMIT => {
                    Ok(TrimExtent { lba: Lba(lba), blocks, sequence: raw.sequence.into() })
                }
                _ => Err(FormatError::Field { field: "extent" }),
            }
        });
        Ok(Self { extents: extents.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_come_back_and_those_beyond_the_volume_are_refused() {
        let extents = vec![
            TrimExtent { lba: Lba(5), blocks: 10, sequence: Sequence(7) },
            TrimExtent { lba: Lba(90), blocks: 10, sequence: Sequence(8) },
        ];
        let block = TombstoneBlock { extents };
        let array = ArrayUuid([1; 16]);
        let bytes = block.encode(array);
        assert_eq!(TombstoneBlock::decode(&bytes, array, 100), Ok(block));
        let error = FormatError::Field { field: "extent" };
        assert_eq!(TombstoneBlock::decode(&bytes, array, 99), Err(error));
    }
}
