//! Frames: the mapping of blocks to the drive's blocks, and the header block of each frame.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | magic | `ZNFRAME\0` |
//! | 8..10 | version | 1 |
//! | 10 | exponent | a frame has 2^exponent blocks |
//! | 11 | written | blocks of the frame that were written; the rest is padding |
//! | 12..16 | checksum | CRC-32C up to the end of the metadata, with zeros for itself |
//! | 16..20 | zone | number of the zone |
//! | 20..24 | frame | its number in the zone |
//! | 24..64 | | zero |
//! | 64.. | metadata | 64 bytes for each block of the frame; all ones for padding blocks |
//!
//! Little-endian; the rest of the block is zero.

use bytes::Bytes;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, OOB_BYTES, ZoneId, ZoneOffset, is_zero,
};

const MAGIC: [u8; 8] = *b"ZNFRAME\0";
const VERSION: u16 = 1;

/// Metadata of padding blocks: it differs from that of any written or unwritten block.
const FILLED: u8 = 0xFF;

/// Size of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShape {
    exponent: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U16,
    exponent: u8,
    written: u8,
    checksum: U32,
    zone: U32,
    frame: U32,
    reserved: [u8; 40],
}

/// Contents of a frame's first block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// It was never written.
    Blank,
    /// Metadata of the frame's other blocks.
    Intact(Bytes),
    /// It does not verify, or belongs elsewhere.
    Damaged,
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Zone of the drive.
    pub zone: ZoneId,
    /// Its number in the zone.
    pub number: u32,
}

impl Default for FrameShape {
    /// Eight blocks: an eighth of the drive's capacity is not for data, and 28 KiB is the smallest
    /// write.
    fn default() -> Self {
        Self { exponent: 3 }
    }
}

impl FrameShape {
    /// Frames of 2^exponent blocks, from 4 to 64; `None` for other sizes.
    #[must_use]
    pub const fn of_exponent(exponent: u8) -> Option<Self> {
        match exponent {
            2..=6 => Some(Self { exponent }),
            _ => None,
        }
    }

    /// Blocks of a frame, including its header.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        1 << self.exponent
    }

    /// Blocks of a frame without its header: the write unit.
    #[must_use]
    pub const fn unit(self) -> BlockCount {
        BlockCount(self.blocks() - 1)
    }

    /// Blocks for data in so many blocks of the drive.
    #[must_use]
    pub const fn usable(self, blocks: BlockCount) -> BlockCount {
        BlockCount(blocks.0 / self.blocks() * self.unit().0)
    }

    /// The write pointer, given that of the drive.
    pub(super) const fn written(self, below: ZoneOffset) -> ZoneOffset {
        let (frame, within) = (below.0 / self.blocks(), below.0 % self.blocks());
        ZoneOffset(frame * self.unit().0 + within.saturating_sub(1))
    }

    /// The frame of a block, and its position behind the header.
    pub(super) const fn frame_of(self, block: ZoneOffset) -> (u32, u32) {
        (block.0 / self.unit().0, block.0 % self.unit().0)
    }

    /// Start of a frame on the drive.
    pub(super) const fn start_of(self, frame: u32) -> ZoneOffset {
        ZoneOffset(frame * self.blocks())
    }

    /// The header of a frame with the metadata of the blocks written to it.
    pub(super) fn encode(self, frame: Frame, oob: &[u8]) -> Bytes {
        let unit = self.unit();
        assert!(
            oob.len() <= unit.oob_bytes() && oob.len().is_multiple_of(OOB_BYTES),
            "{} bytes of metadata in frame {} of {}",
            oob.len(),
            frame.number,
            frame.zone
        );
        let written = oob.len() / OOB_BYTES;
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let bytes = block.as_mut();
        let raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            exponent: self.exponent,
            written: u8::try_from(written).expect("at most 63 blocks"),
            checksum: 0.into(),
            zone: frame.zone.0.into(),
            frame: frame.number.into(),
            reserved: [0; 40],
        };
        bytes[..size_of::<Raw>()].copy_from_slice(raw.as_bytes());
        let all = &mut bytes[size_of::<Raw>()..self.length()];
        all[..oob.len()].copy_from_slice(oob);
        all[oob.len()..unit.oob_bytes()].fill(FILLED);
        let checksum = crc32c::crc32c(&bytes[..self.length()]);
        bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        block.freeze()
    }

    /// Decodes the first block of a frame.
    pub(super) fn decode(self, frame: Frame, block: &Bytes) -> Header {
        if is_zero(block) {
            return Header::Blank;
        }
        let Ok((raw, _)) = Raw::ref_from_prefix(block) else { return Header::Damaged };
        let ours = raw.magic == MAGIC
            && raw.version.get() == VERSION
            && raw.exponent == self.exponent
            && u32::from(raw.written) <= self.unit().0;
        let in_place = raw.zone.get() == frame.zone.0 && raw.frame.get() == frame.number;
        if !ours || !in_place {
            return Header::Damaged;
        }
        let mut before = crc32c::crc32c(&block[..CHECKSUM]);
        before = crc32c::crc32c_append(before, &[0; 4]);
        let checksum = crc32c::crc32c_append(before, &block[CHECKSUM + 4..self.length()]);
        if checksum != raw.checksum.get() {
            return Header::Damaged;
        }
        Header::Intact(block.slice(size_of::<Raw>()..self.length()))
    }

    /// Bytes of a header that may be other than zero.
    const fn length(self) -> usize {
        size_of::<Raw>() + self.unit().oob_bytes()
    }
}

const CHECKSUM: usize = 12;

const _: () = assert!(size_of::<Raw>() == 64);
const _: () = assert!(size_of::<Raw>() + 63 * OOB_BYTES == BLOCK_BYTES, "the largest frame");

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Frame = Frame { zone: ZoneId(3), number: 9 };

    #[test]
    fn a_header_comes_back_with_all_metadata_of_its_frame() {
        for exponent in 2..=6 {
            let shape = FrameShape::of_exponent(exponent).unwrap();
            let unit = shape.unit();
            let oob: Vec<_> = (0..251_u8).cycle().take(unit.oob_bytes()).collect();
            let block = shape.encode(AT, &oob);
            assert_eq!(shape.decode(AT, &block), Header::Intact(Bytes::from(oob.clone())));
            let part = shape.encode(AT, &oob[..OOB_BYTES]);
            let Header::Intact(metadata) = shape.decode(AT, &part) else { panic!("intact") };
            assert_eq!(metadata[..OOB_BYTES], oob[..OOB_BYTES]);
            assert!(metadata[OOB_BYTES..].iter().all(|byte| *byte == FILLED));
        }
        assert!([0, 1, 7, 200].iter().all(|exponent| FrameShape::of_exponent(*exponent).is_none()));
    }

    #[test]
    fn what_is_damaged_or_elsewhere_is_noticed() {
        let shape = FrameShape::default();
        let block = shape.encode(AT, &[7; 3 * OOB_BYTES]);
        for bit in 0..shape.length() * 8 {
            let mut damaged = block.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(shape.decode(AT, &damaged.into()), Header::Damaged, "bit {bit}");
        }
        for other in [Frame { zone: ZoneId(2), ..AT }, Frame { number: 8, ..AT }] {
            assert_eq!(shape.decode(other, &block), Header::Damaged);
        }
        let other_size = FrameShape::of_exponent(4).unwrap();
        assert_eq!(other_size.decode(AT, &block), Header::Damaged);
        assert_eq!(shape.decode(AT, &vec![0; BLOCK_BYTES].into()), Header::Blank);
    }

    #[test]
    fn every_block_has_one_place() {
        let shape = FrameShape::default();
        let mut next = 0;
        for block in 0..700 {
            let (frame, within) = shape.frame_of(ZoneOffset(block));
            let at = shape.start_of(frame).0 + 1 + within;
            next += if within == 0 { 1 } else { 0 };
            assert_eq!(at, next);
            next += 1;
            assert_eq!(shape.written(ZoneOffset(at)).0, block);
            assert_eq!(shape.written(ZoneOffset(at + 1)).0, block + 1);
        }
        assert_eq!((shape.usable(BlockCount(23)).0, shape.written(ZoneOffset(0)).0), (14, 0));
        assert_eq!(shape.written(ZoneOffset(1)).0, 0, "a header alone");
    }
}
