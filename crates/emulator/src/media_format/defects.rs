//! The list of unreadable blocks in a drive file: one block, written with the image.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | number of entries, at most 254 |
//! | 4..16 | zeros |
//! | 16.. | entries: zone (4 bytes), block of the zone (4), resets of the zone (8) |
//! | .. | zeros |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! A reset makes the blocks of its zone good again: an entry counts while the zone has the resets
//! that the entry names. Zeros throughout are an empty list.

use zoneweave_zoned::{BLOCK_BYTES, ZoneAddress, ZoneId, ZoneOffset};

use super::error::FormatError;

/// The most unreadable blocks that a drive file can tell of.
pub const DEFECTS_MAX: usize = (CHECKSUM_AT - ENTRIES_AT) / ENTRY_BYTES;

const ENTRIES_AT: usize = 16;
const ENTRY_BYTES: usize = 16;
const CHECKSUM_AT: usize = BLOCK_BYTES - 4;

/// A block that cannot be read until its zone is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Which block.
    pub at: ZoneAddress,
    /// How often its zone had been reset when the block went bad: a later reset clears the defect.
    pub resets: u64,
}

pub(super) fn encode(defects: &[Defect]) -> [u8; BLOCK_BYTES] {
    assert!(defects.len() <= DEFECTS_MAX, "the caller has counted");
    let mut bytes = [0; BLOCK_BYTES];
    let count = u32::try_from(defects.len()).expect("at most 254");
    bytes[..4].copy_from_slice(&count.to_le_bytes());
    for (place, defect) in bytes[ENTRIES_AT..].chunks_exact_mut(ENTRY_BYTES).zip(defects) {
        place[..4].copy_from_slice(&defect.at.zone.0.to_le_bytes());
        place[4..8].copy_from_slice(&defect.at.offset.0.to_le_bytes());
        place[8..].copy_from_slice(&defect.resets.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(super) fn decode(bytes: &[u8; BLOCK_BYTES]) -> Result<Vec<Defect>, FormatError> {
    if *bytes == [0; BLOCK_BYTES] {
        return Ok(Vec::new());
    }
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let count = word(0) as usize;
    if count > DEFECTS_MAX {
        return Err(FormatError::DefectsDamaged);
    }
    let entry = |index: usize| {
        let at = ENTRIES_AT + index * ENTRY_BYTES;
        let address = ZoneAddress { zone: ZoneId(word(at)), offset: ZoneOffset(word(at + 4)) };
        let resets = u64::from(word(at + 8)) | u64::from(word(at + 12)) << 32;
        Defect { at: address, resets }
    };
    let defects: Vec<_> = (0..count).map(entry).collect();
    if encode(&defects) == *bytes { Ok(defects) } else { Err(FormatError::DefectsDamaged) }
}
