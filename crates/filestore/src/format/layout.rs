//! How a block of a file is laid out: its bytes, and the place of its tag.
//!
//! On a drive with metadata beside each block, the tag is there and the block is all data. On
//! others the tag is the last 32 bytes of the block itself, which costs 0.8 % of the capacity. Both
//! ways a read of a block brings along what verifies it.

use zoneweave_zoned::{BLOCK_BYTES, BlockCount, OobKind};

/// Bytes of a tag.
pub(super) const TAG_BYTES: usize = 32;

/// Where tags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockLayout {
    /// In the drive's metadata beside the block.
    Separate = 1,
    /// In the last bytes of the block.
    Inline = 2,
}

impl BlockLayout {
    /// The layout for a drive.
    #[must_use]
    pub const fn for_drive(oob: OobKind) -> Self {
        match oob {
            OobKind::None => Self::Inline,
            OobKind::Separate | OobKind::Interleaved => Self::Separate,
        }
    }

    /// The layout of a stored number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Separate),
            2 => Some(Self::Inline),
            _ => None,
        }
    }

    /// For messages: where checksums are.
    #[must_use]
    pub const fn place(self) -> &'static str {
        match self {
            Self::Separate => "beside blocks",
            Self::Inline => "in blocks",
        }
    }

    /// Bytes of a file in a full block.
    #[must_use]
    pub const fn payload_bytes(self) -> usize {
        match self {
            Self::Separate => BLOCK_BYTES,
            Self::Inline => BLOCK_BYTES - TAG_BYTES,
        }
    }

    /// Blocks that so many bytes take, all but the last of them full.
    ///
    /// # Panics
    /// If there are 2^32 blocks or more: no zone is as large.
    #[must_use]
    pub fn blocks_of(self, bytes: u64) -> BlockCount {
        let blocks = bytes.div_ceil(self.payload_bytes() as u64);
        BlockCount(u32::try_from(blocks).expect("fewer blocks than a zone can have"))
    }

    /// Bytes of a file in that many full blocks.
    #[must_use]
    pub const fn bytes_of(self, blocks: BlockCount) -> u64 {
        self.payload_bytes() as u64 * blocks.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_bytes() {
        assert_eq!(BlockLayout::for_drive(OobKind::None).payload_bytes(), 4064);
        assert_eq!(BlockLayout::for_drive(OobKind::Interleaved).payload_bytes(), 4096);
        let blocks = [0, 1, 4064, 4065].map(|bytes| BlockLayout::Inline.blocks_of(bytes).0);
        assert_eq!(blocks, [0, 1, 1, 2]);
        assert_eq!(BlockLayout::Inline.bytes_of(BlockCount(2)), 8128);
    }
}
