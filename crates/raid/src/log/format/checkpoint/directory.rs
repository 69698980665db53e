//! Directory blocks: the addresses of mapping blocks, or of validity blocks. Only directories with
//! a change are written again, so the cost of a checkpoint follows the changes, not the size of the
//! volume.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{
    Address, AddressSpace, BODY_BYTES, BlockType, Envelope, FormatError, RawShard, ShardId, field,
    sealed, split,
};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::Sequence;

/// Entries of a directory block: always 8 bytes each.
pub const DIRECTORY_ENTRIES: u32 = 500;

/// The kind of blocks in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Listed {
    /// Mapping blocks, in the order of the volume.
    Mapping = 1,
    /// Validity blocks, in the order of slot, column and first chunk block.
    Validity = 2,
}

impl Listed {
    pub(super) const fn of(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::Mapping),
            2 => Some(Self::Validity),
            _ => None,
        }
    }

    /// Most blocks of this kind in a checkpoint.
    pub(super) fn blocks(self, space: &AddressSpace) -> u64 {
        match self {
            Self::Mapping => space.mapping_blocks(),
            Self::Validity => space.validity_blocks(),
        }
    }

    /// Number of directories for them.
    pub(super) fn directories(self, space: &AddressSpace) -> u64 {
        self.blocks(space).div_ceil(DIRECTORY_ENTRIES.into())
    }
}

/// Addresses of up to [`DIRECTORY_ENTRIES`] blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryBlock {
    /// Volume and shard of the checkpoint.
    pub shard: ShardId,
    /// Kind of the listed blocks.
    pub listed: Listed,
    /// The number of the first: a multiple of [`DIRECTORY_ENTRIES`].
    pub first: u64,
    /// The block's own sequence, assigned when its contents were fixed.
    pub sequence: Sequence,
    /// Address of each block; `None` if it does not exist, because nothing is mapped or valid
    /// there.
    pub entries: Vec<Option<Address>>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    shard: RawShard,
    listed: u8,
    reserved: [u8; 3],
    count: U32,
    reserved_too: [u8; 4],
    first: U64,
    sequence: U64,
    reserved_last: [u8; 16],
}

const HEAD: usize = size_of::<Raw>();
const _: () = assert!(HEAD == 48 && HEAD + DIRECTORY_ENTRIES as usize * 8 <= BODY_BYTES);

impl DirectoryBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If it is not a directory of that space, or an address is beyond it.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        let count = self.entries.len() as u64;
        assert_eq!(entries_from(space, self.listed, self.first), Some(count), "{}", self.first);
        let raw = Raw {
            shard: self.shard.into(),
            listed: self.listed as u8,
            reserved: [0; 3],
            count: u32::try_from(count).expect("at most 500").into(),
            reserved_too: [0; 4],
            first: self.first.into(),
            sequence: self.sequence.into(),
            reserved_last: [0; 16],
        };
        let entries = encode_addresses(&self.entries, space);
        sealed(BlockType::Directory, space.array, &[raw.as_bytes(), &entries])
    }

    /// The directory in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], space: &AddressSpace) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::Directory, space.array)?;
        let (raw, rest) = split::<Raw>(body)?;
        let Some(listed) = Listed::of(raw.listed) else { return field("kind of directory") };
        let (first, count) = (raw.first.get(), raw.count.get());
        if entries_from(space, listed, first) != Some(count.into()) {
            return field("first or count");
        }
        if rest.len() != count as usize * 8 {
            return field("length");
        }
        if raw.sequence.get() >= NUMBER_LIMIT {
            return field("sequence");
        }
        Ok(Self {
            shard: raw.shard.into(),
            listed,
            first,
            sequence: raw.sequence.into(),
            entries: decode_addresses(rest, space)?,
        })
    }
}

/// Entries of the directory that starts at a number; `None` if none starts there.
fn entries_from(space: &AddressSpace, listed: Listed, first: u64) -> Option<u64> {
    let left = listed.blocks(space).checked_sub(first).filter(|left| *left > 0)?;
    let most = u64::from(DIRECTORY_ENTRIES);
    first.is_multiple_of(most).then_some(left.min(most))
}

/// Addresses in eight bytes each.
pub(super) fn encode_addresses(addresses: &[Option<Address>], space: &AddressSpace) -> Vec<u8> {
    addresses.iter().flat_map(|address| space.stored(*address).to_le_bytes()).collect()
}

/// As many addresses as there are whole eights of bytes.
pub(super) fn decode_addresses(
    bytes: &[u8],
    space: &AddressSpace,
) -> Result<Vec<Option<Address>>, FormatError> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| space.address(u64::from_le_bytes(*word))).collect()
}
