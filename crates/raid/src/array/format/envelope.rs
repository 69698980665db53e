//! The envelope of every structured block: its first 48 bytes.

use std::fmt;

use thiserror::Error;
use zoneweave_journal::{EnvelopeError, Uuid};

/// The version of everything that an array writes to media.
pub const FORMAT_VERSION: u16 = 3;

/// The identity of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayUuid(pub [u8; 16]);

impl fmt::Display for ArrayUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_uuid(&self.0, f)
    }
}

impl From<ArrayUuid> for Uuid {
    fn from(array: ArrayUuid) -> Self {
        array.0
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
    /// The header of a record in the parity log of a zoned volume.
    ParityLog = 9,
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
    /// A record of an array with another kind of volume.
    #[error("a record of a volume of kind {found}, not of this one")]
    VolumeKind {
        /// Volume kind in the record.
        found: u8,
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

impl From<EnvelopeError> for FormatError {
    fn from(error: EnvelopeError) -> Self {
        match error {
            EnvelopeError::Magic => Self::BadMagic,
            EnvelopeError::Length => Self::Field { field: "length" },
            EnvelopeError::Checksum => Self::Checksum,
            EnvelopeError::Version { found } => Self::Version { found },
            EnvelopeError::Type { found } => Self::Type { found },
        }
    }
}

const ENVELOPE: zoneweave_journal::Envelope =
    zoneweave_journal::Envelope::new(*b"ZNWEAVE\0", FORMAT_VERSION);

/// Wraps and unwraps the body of a structured block.
pub struct Envelope;

impl Envelope {
    /// Bytes before the body.
    pub const BYTES: usize = zoneweave_journal::Envelope::BYTES;

    /// Completes a block whose body is in place after [`Envelope::BYTES`].
    pub fn seal(block: &mut [u8], block_type: BlockType, array: ArrayUuid, body_bytes: usize) {
        ENVELOPE.seal(block, block_type as u16, array.0, body_bytes);
    }

    /// The array and body of a block of the given type.
    ///
    /// # Errors
    /// The first violation found.
    pub fn open(block: &[u8], block_type: BlockType) -> Result<(ArrayUuid, &[u8]), FormatError> {
        let (array, body) = ENVELOPE.open(block, block_type as u16)?;
        Ok((ArrayUuid(array), body))
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
    pub(crate) fn open_verified(
        block: &[u8],
        block_type: BlockType,
        array: ArrayUuid,
    ) -> Result<&[u8], FormatError> {
        let (found, body) = ENVELOPE.open_verified(block, block_type as u16)?;
        let found = ArrayUuid(found);
        if found == array { Ok(body) } else { Err(FormatError::ForeignArray { found }) }
    }
}

/// Writes a UUID the usual way.
pub(crate) fn display_uuid(uuid: &Uuid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    use zoneweave_zoned::BLOCK_BYTES;

    use super::*;

    #[test]
    fn blocks_of_another_array_or_type_are_told_apart() {
        let array = ArrayUuid([7; 16]);
        let mut block = vec![0_u8; BLOCK_BYTES];
        block[Envelope::BYTES..Envelope::BYTES + 5].copy_from_slice(b"hello");
        Envelope::seal(&mut block, BlockType::Index, array, 5);
        assert_eq!(Envelope::open_of(&block, BlockType::Index, array), Ok(&b"hello"[..]));
        assert_eq!(
            Envelope::open(&block, BlockType::SegmentHeader),
            Err(FormatError::Type { found: 3 })
        );
        let foreign = Err(FormatError::ForeignArray { found: array });
        assert_eq!(Envelope::open_of(&block, BlockType::Index, ArrayUuid([8; 16])), foreign);
        block[Envelope::BYTES] ^= 1;
        assert_eq!(Envelope::open(&block, BlockType::Index), Err(FormatError::Checksum));
    }
}
