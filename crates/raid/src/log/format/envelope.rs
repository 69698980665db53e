//! The first 48 bytes of every structured block: its type, its array, and its checksum.

use std::fmt;

use thiserror::Error;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::BLOCK_BYTES;

use super::{FORMAT_VERSION, crc};

const MAGIC: [u8; 8] = *b"ZNWEAVE\0";

/// The identity of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayUuid(pub [u8; 16]);

impl fmt::Display for ArrayUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_uuid(&self.0, f)
    }
}

/// The start value of every checksum of an array: CRC-32C of its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of an array.
    #[must_use]
    pub fn of(uuid: ArrayUuid) -> Self {
        Self(crc32c::crc32c(&uuid.0))
    }

    /// The checksum of the pieces one after the other.
    #[must_use]
    pub fn checksum(self, pieces: &[&[u8]]) -> u32 {
        pieces.iter().fold(self.0, |sum, piece| crc::append(sum, piece))
    }
}

/// Type of a structured block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BlockType {
    /// A superblock record.
    Superblock = 1,
    /// A segment header.
    SegmentHeader = 2,
    /// A block of a summary.
    Index = 3,
    /// Trimmed extents.
    Tombstone = 4,
    /// A page of the index.
    Mapping = 5,
    /// Valid blocks of a segment's column.
    Validity = 6,
    /// Addresses of mapping or validity blocks.
    Directory = 7,
    /// Contents of a checkpoint.
    CheckpointRoot = 8,
}

/// Why a block does not decode.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// The block is not a structured block of this format, or was overwritten.
    #[error("no Zoneweave block: the magic number is missing")]
    BadMagic,
    /// Written by another release.
    #[error("format version {found}, and this release reads version {FORMAT_VERSION}")]
    Version {
        /// Version in the block.
        found: u16,
    },
    /// A block of another type.
    #[error("a block of another kind ({found}) than expected")]
    Type {
        /// Type in the block.
        found: u16,
    },
    /// The block belongs to another array.
    #[error("a block of array {found}, not of this one")]
    ForeignArray {
        /// The array it belongs to.
        found: ArrayUuid,
    },
    /// The contents changed since they were written.
    #[error("checksum mismatch")]
    Checksum,
    /// The checksum is right but a field is out of range.
    #[error("field `{field}` is out of range")]
    Field {
        /// Name of the field.
        field: &'static str,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U16,
    block_type: U16,
    /// Bytes covered by the checksum, from the start of the block.
    length: U32,
    checksum: U32,
    reserved: [u8; 12],
    array: [u8; 16],
}

/// Wraps and unwraps the body of a structured block.
pub struct Envelope;

impl Envelope {
    /// Bytes before the body.
    pub const BYTES: usize = 48;

    /// Completes a block whose body is in place after [`Envelope::BYTES`].
    pub fn seal(block: &mut [u8], block_type: BlockType, array: ArrayUuid, body_bytes: usize) {
        let length = Self::BYTES + body_bytes;
        assert!(block.len() == BLOCK_BYTES && length <= BLOCK_BYTES, "a body of {body_bytes}");
        let raw = Raw {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            block_type: (block_type as u16).into(),
            length: u32::try_from(length).expect("below 4096").into(),
            checksum: 0.into(),
            reserved: [0; 12],
            array: array.0,
        };
        block[..Self::BYTES].copy_from_slice(raw.as_bytes());
        let checksum = checksum_of(&block[..length], array);
        block[16..20].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The array and body of a block of the given type.
    ///
    /// # Errors
    /// The first violation found.
    pub fn open(block: &[u8], block_type: BlockType) -> Result<(ArrayUuid, &[u8]), FormatError> {
        Self::open_if(block, block_type, |covered, array| Some(checksum_of(covered, array)))
    }

    /// Opens a block; `checksum` is its checksum, or `None` if it needs no verification.
    fn open_if(
        block: &[u8],
        block_type: BlockType,
        checksum: impl Fn(&[u8], ArrayUuid) -> Option<u32>,
    ) -> Result<(ArrayUuid, &[u8]), FormatError> {
        let (raw, _) = Raw::ref_from_prefix(block).map_err(|_| FormatError::BadMagic)?;
        if raw.magic != MAGIC {
            return Err(FormatError::BadMagic);
        }
        let length = raw.length.get() as usize;
        if length < Self::BYTES || length > block.len() {
            return Err(FormatError::Field { field: "length" });
        }
        let array = ArrayUuid(raw.array);
        if checksum(&block[..length], array).is_some_and(|sum| sum != raw.checksum.get()) {
            return Err(FormatError::Checksum);
        }
        if raw.version.get() != FORMAT_VERSION {
            return Err(FormatError::Version { found: raw.version.get() });
        }
        if raw.block_type.get() != block_type as u16 {
            return Err(FormatError::Type { found: raw.block_type.get() });
        }
        Ok((array, &block[Self::BYTES..length]))
    }

    /// As [`Envelope::open`], for a block that must belong to a known array.
    ///
    /// # Errors
    /// The first violation found, or that the block belongs to another array.
    pub fn open_of(
        block: &[u8],
        block_type: BlockType,
        array: ArrayUuid,
    ) -> Result<&[u8], FormatError> {
        let (found, body) = Self::open(block, block_type)?;
        if found == array { Ok(body) } else { Err(FormatError::ForeignArray { found }) }
    }

    /// As [`Envelope::open_of`], for a block whose bytes were all verified by its block metadata.
    ///
    /// # Errors
    /// As [`Envelope::open_of`], without the checksum.
    pub(super) fn open_verified(
        block: &[u8],
        block_type: BlockType,
        array: ArrayUuid,
    ) -> Result<&[u8], FormatError> {
        let (found, body) = Self::open_if(block, block_type, |_, _| None)?;
        if found == array { Ok(body) } else { Err(FormatError::ForeignArray { found }) }
    }
}

/// The checksum over a block with its checksum field taken as zero.
fn checksum_of(covered: &[u8], array: ArrayUuid) -> u32 {
    Seed::of(array).checksum(&[&covered[..16], &[0; 4], &covered[20..]])
}

const _: () = assert!(size_of::<Raw>() == Envelope::BYTES);

/// 128 random bits, as bytes in order.
pub type Uuid = [u8; 16];

/// Writes a UUID the usual way.
pub(super) fn display_uuid(uuid: &Uuid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            f.write_str("-")?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_noticed() {
        let array = ArrayUuid([7; 16]);
        let mut block = vec![0_u8; BLOCK_BYTES];
        block[Envelope::BYTES..Envelope::BYTES + 5].copy_from_slice(b"hello");
        Envelope::seal(&mut block, BlockType::Index, array, 5);
        assert_eq!(Envelope::open_of(&block, BlockType::Index, array), Ok(&b"hello"[..]));
        for bit in 0..(Envelope::BYTES + 5) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(Envelope::open(&block, BlockType::Index).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(
            Envelope::open(&block, BlockType::SegmentHeader),
            Err(FormatError::Type { found: 3 })
        );
        assert!(Envelope::open(&block[..10], BlockType::Index).is_err());
    }
}
