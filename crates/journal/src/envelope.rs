//! The first 48 bytes of a self-checking block: magic, version, type, owner and checksum.

use thiserror::Error;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::BLOCK_BYTES;

use crate::checksum::{Seed, Uuid};

/// The kind of envelope of a format: its magic number and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    magic: [u8; 8],
    version: u16,
}

/// Why a block does not open. The checks are made in this order.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// The block is not of this format, or was overwritten.
    #[error("the magic number is missing")]
    Magic,
    /// The length is impossible.
    #[error("the length is out of range")]
    Length,
    /// The contents changed since they were written.
    #[error("checksum mismatch")]
    Checksum,
    /// An intact block of another version of the format.
    #[error("format version {found}")]
    Version {
        /// Version in the block.
        found: u16,
    },
    /// An intact block of another type.
    #[error("a block of type {found}")]
    Type {
        /// Type in the block.
        found: u16,
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
    owner: Uuid,
}

const _: () = assert!(size_of::<Raw>() == Envelope::BYTES);

impl Envelope {
    /// Bytes before the body.
    pub const BYTES: usize = 48;

    /// The envelope of a format.
    #[must_use]
    pub const fn new(magic: [u8; 8], version: u16) -> Self {
        Self { magic, version }
    }

    /// Completes a block whose body is in place after [`Envelope::BYTES`].
    ///
    /// # Panics
    /// If the body does not fit, or `block` is not one block.
    pub fn seal(&self, block: &mut [u8], block_type: u16, owner: Uuid, body_bytes: usize) {
        let length = Self::BYTES + body_bytes;
        assert!(block.len() == BLOCK_BYTES, "a block of {} bytes", block.len());
        assert!(length <= BLOCK_BYTES, "a body of {body_bytes} bytes");
        let raw = Raw {
            magic: self.magic,
            version: self.version.into(),
            block_type: block_type.into(),
            length: u32::try_from(length).expect("at most 4096").into(),
            checksum: 0.into(),
            reserved: [0; 12],
            owner,
        };
        block[..Self::BYTES].copy_from_slice(raw.as_bytes());
        let checksum = checksum_of(&block[..length], owner);
        block[16..20].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The owner and body of a block of the given type.
    ///
    /// # Errors
    /// The first violation found.
    pub fn open<'a>(
        &self,
        block: &'a [u8],
        block_type: u16,
    ) -> Result<(Uuid, &'a [u8]), EnvelopeError> {
        self.open_if(block, block_type, |covered, owner| Some(checksum_of(covered, owner)))
    }

    /// As [`Envelope::open`], for a block whose bytes were all verified in another way: the
    /// checksum is left out.
    ///
    /// # Errors
    /// The first violation found.
    pub fn open_verified<'a>(
        &self,
        block: &'a [u8],
        block_type: u16,
    ) -> Result<(Uuid, &'a [u8]), EnvelopeError> {
        self.open_if(block, block_type, |_, _| None)
    }

    /// Opens a block; `checksum` is its checksum, or `None` if it needs no verification.
    fn open_if<'a>(
        &self,
        block: &'a [u8],
        block_type: u16,
        checksum: impl Fn(&[u8], Uuid) -> Option<u32>,
    ) -> Result<(Uuid, &'a [u8]), EnvelopeError> {
        let (raw, _) = Raw::ref_from_prefix(block).map_err(|_| EnvelopeError::Magic)?;
        if raw.magic != self.magic {
            return Err(EnvelopeError::Magic);
        }
        let length = raw.length.get() as usize;
        if length < Self::BYTES || length > block.len() {
            return Err(EnvelopeError::Length);
        }
        if checksum(&block[..length], raw.owner).is_some_and(|sum| sum != raw.checksum.get()) {
            return Err(EnvelopeError::Checksum);
        }
        if raw.version.get() != self.version {
            return Err(EnvelopeError::Version { found: raw.version.get() });
        }
        if raw.block_type.get() != block_type {
            return Err(EnvelopeError::Type { found: raw.block_type.get() });
        }
        Ok((raw.owner, &block[Self::BYTES..length]))
    }
}

/// The checksum over a block with its checksum field taken as zero.
fn checksum_of(covered: &[u8], owner: Uuid) -> u32 {
    Seed::of(owner).checksum(&[&covered[..16], &[0; 4], &covered[20..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVELOPE: Envelope = Envelope::new(*b"JOURNAL\0", 4);
    const OWNER: Uuid = [7; 16];

    fn sealed(of: Envelope) -> Vec<u8> {
        let mut block = vec![0_u8; BLOCK_BYTES];
        block[Envelope::BYTES..Envelope::BYTES + 5].copy_from_slice(b"hello");
        of.seal(&mut block, 3, OWNER, 5);
        block
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let mut block = sealed(ENVELOPE);
        assert_eq!(ENVELOPE.open(&block, 3), Ok((OWNER, &b"hello"[..])));
        for bit in 0..(Envelope::BYTES + 5) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(ENVELOPE.open(&block, 3).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(ENVELOPE.open(&block[..10], 3), Err(EnvelopeError::Magic));
        assert_eq!(ENVELOPE.open(&block[..50], 3), Err(EnvelopeError::Length));
    }

    /// A reader must be able to say that a block is intact but of another release.
    #[test]
    fn intact_blocks_name_their_version_and_type() {
        let block = sealed(Envelope::new(*b"JOURNAL\0", 9));
        assert_eq!(ENVELOPE.open(&block, 3), Err(EnvelopeError::Version { found: 9 }));
        assert_eq!(ENVELOPE.open(&sealed(ENVELOPE), 2), Err(EnvelopeError::Type { found: 3 }));
        let foreign = sealed(Envelope::new(*b"ANOTHER\0", 4));
        assert_eq!(ENVELOPE.open(&foreign, 3), Err(EnvelopeError::Magic));
    }

    #[test]
    fn verified_blocks_need_no_checksum() {
        let mut block = sealed(ENVELOPE);
        block[Envelope::BYTES] ^= 1;
        assert_eq!(ENVELOPE.open(&block, 3), Err(EnvelopeError::Checksum));
        assert!(ENVELOPE.open_verified(&block, 3).is_ok());
        assert!(ENVELOPE.open_verified(&block, 2).is_err());
    }
}
