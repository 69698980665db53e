//! The tag of a block: the file that it belongs to, its place in that file, and a checksum.
//!
//! The checksum also covers the block's address and the use of its zone, which are not stored. So
//! a block that was written elsewhere, or before the last reset of its zone, does not verify.

use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_journal::Seed;
use zoneweave_zoned::{BLOCK_BYTES, ZoneAddress};

use super::layout::{BlockLayout, TAG_BYTES};
use crate::ids::{FileId, Incarnation, Version};

/// Identifies a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The file.
    pub file: FileId,
    /// The version of the file when it was appended.
    pub version: Version,
    /// The first byte of the file in the block.
    pub offset: u64,
    /// Bytes of the file in the block, from 1 to all; the rest is zeros.
    pub bytes: u32,
    /// Whether the block was relocated. A copy counts only once it is on record: a start that finds
    /// it takes it for garbage.
    pub is_copy: bool,
}

/// Why a block does not verify.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TagError {
    /// The block or its tag is not there.
    #[error("the tag is missing")]
    Missing,
    /// The block changed, is of another place, or of an earlier use of its zone.
    #[error("checksum mismatch")]
    Checksum,
    /// An intact tag with impossible fields.
    #[error("the tag is malformed")]
    Malformed,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    checksum: U32,
    bytes: U32,
    file: U64,
    offset: U64,
    version: U32,
    /// 1 for a copy.
    flags: U32,
}

const _: () = assert!(size_of::<Raw>() == Tag::BYTES);

impl Tag {
    /// Bytes of a tag.
    pub const BYTES: usize = TAG_BYTES;

    /// The tag of a block at an address.
    ///
    /// # Panics
    /// If `payload` is not the payload of a block.
    #[must_use]
    pub fn encode(
        &self,
        layout: BlockLayout,
        seed: Seed,
        at: ZoneAddress,
        incarnation: Incarnation,
        payload: &[u8],
    ) -> [u8; Self::BYTES] {
        assert!(payload.len() == layout.payload_bytes(), "a payload of {}", payload.len());
        assert!(self.bytes as usize <= payload.len() && self.bytes > 0, "{} bytes", self.bytes);
        let mut raw = Raw {
            checksum: 0.into(),
            bytes: self.bytes.into(),
            file: self.file.0.into(),
            offset: self.offset.into(),
            version: self.version.0.into(),
            flags: u32::from(self.is_copy).into(),
        };
        raw.checksum = checksum(seed, at, incarnation, &raw.as_bytes()[4..], payload).into();
        raw.as_bytes().try_into().expect("the size is asserted")
    }

    /// The tag of a block as read, if it verifies, and the block's payload.
    ///
    /// # Errors
    /// The first violation found.
    pub fn open<'a>(
        layout: BlockLayout,
        seed: Seed,
        at: ZoneAddress,
        incarnation: Incarnation,
        block: &'a [u8],
        metadata: &[u8],
    ) -> Result<(Self, &'a [u8]), TagError> {
        if block.len() != BLOCK_BYTES {
            return Err(TagError::Missing);
        }
        let (payload, inline) = block.split_at(layout.payload_bytes());
        let tag = match layout {
            BlockLayout::Separate => metadata.get(..Self::BYTES).ok_or(TagError::Missing)?,
            BlockLayout::Inline => inline,
        };
        let raw = Raw::ref_from_bytes(tag).map_err(|_| TagError::Missing)?;
        if checksum(seed, at, incarnation, &tag[4..], payload) != raw.checksum.get() {
            return Err(TagError::Checksum);
        }
        let tag = raw.tag(layout).ok_or(TagError::Malformed)?;
        Ok((tag, payload))
    }

    /// The fields of a stored tag, if they are possible. The checksum is not verified.
    pub(crate) fn unverified(stored: &[u8], layout: BlockLayout) -> Option<Self> {
        Raw::ref_from_bytes(stored).ok()?.tag(layout)
    }
}

impl Raw {
    fn tag(&self, layout: BlockLayout) -> Option<Tag> {
        let bytes = self.bytes.get();
        let end = self.offset.get().checked_add(u64::from(bytes));
        let is_length = (1..=layout.payload_bytes()).contains(&(bytes as usize));
        if !is_length || end.is_none() || self.flags.get() > 1 {
            return None;
        }
        Some(Tag {
            file: FileId(self.file.get()),
            version: Version(self.version.get()),
            offset: self.offset.get(),
            bytes,
            is_copy: self.flags.get() == 1,
        })
    }
}

fn checksum(
    seed: Seed,
    at: ZoneAddress,
    incarnation: Incarnation,
    rest: &[u8],
    payload: &[u8],
) -> u32 {
    let mut place = [0; 16];
    place[..4].copy_from_slice(&at.zone.0.to_le_bytes());
    place[4..8].copy_from_slice(&at.offset.0.to_le_bytes());
    place[8..].copy_from_slice(&incarnation.0.to_le_bytes());
    seed.checksum(&[&place, rest, payload])
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::ZoneId;

    use super::*;

    const AT: ZoneAddress = ZoneAddress::new(ZoneId(3), 7);
    const USE: Incarnation = Incarnation(9);

    fn tagged(layout: BlockLayout) -> (Tag, Vec<u8>, Vec<u8>) {
        let tag =
            Tag { file: FileId(5), version: Version(1), offset: 10_000, bytes: 3, is_copy: false };
        let mut block = vec![0; BLOCK_BYTES];
        block[..3].copy_from_slice(b"abc");
        let seed = Seed::of([1; 16]);
        let encoded = tag.encode(layout, seed, AT, USE, &block[..layout.payload_bytes()]);
        let metadata = match layout {
            BlockLayout::Separate => encoded.to_vec(),
            BlockLayout::Inline => {
                block[layout.payload_bytes()..].copy_from_slice(&encoded);
                Vec::new()
            }
        };
        (tag, block, metadata)
    }

    #[test]
    fn a_block_verifies_in_its_place_only() {
        for layout in [BlockLayout::Separate, BlockLayout::Inline] {
            let (tag, block, metadata) = tagged(layout);
            let open = |owner, at, incarnation| {
                Tag::open(layout, Seed::of(owner), at, incarnation, &block, &metadata)
            };
            assert_eq!(open([1; 16], AT, USE).map(|(tag, _)| tag), Ok(tag));
            assert_eq!(open([2; 16], AT, USE), Err(TagError::Checksum));
            assert_eq!(open([1; 16], AT, Incarnation(8)), Err(TagError::Checksum));
            let elsewhere = ZoneAddress::new(ZoneId(3), 8);
            assert_eq!(open([1; 16], elsewhere, USE), Err(TagError::Checksum));
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let (_, mut block, _) = tagged(BlockLayout::Inline);
        for bit in (0..BLOCK_BYTES * 8).step_by(37) {
            block[bit / 8] ^= 1 << (bit % 8);
            let seed = Seed::of([1; 16]);
            let opened = Tag::open(BlockLayout::Inline, seed, AT, USE, &block, &[]);
            assert_eq!(opened, Err(TagError::Checksum), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_is_not_there_is_missing() {
        let seed = Seed::of([1; 16]);
        for (block, metadata) in [(0, 64), (BLOCK_BYTES, 0), (BLOCK_BYTES, 31)] {
            let (block, metadata) = (vec![0; block], vec![0; metadata]);
            let opened = Tag::open(BlockLayout::Separate, seed, AT, USE, &block, &metadata);
            assert_eq!(opened, Err(TagError::Missing));
        }
    }
}
