//! The wear of a zone in a drive file, written at each reset.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | drive UUID |
//! | 16..20 | zone |
//! | 20..24 | origin: position of the zone's first block in its flash, blocks |
//! | 24..28 | end of the blocks lost by a power failure since the last reset, blocks |
//! | 28..32 | zeros |
//! | 32..32+4E | erases of each of the E erase blocks |
//! | .. | zeros |
//! | last 4 | CRC-32C of all before |
//!
//! The record's length is rounded up to 64 bytes. All zeros are a zone that was never erased. There
//! is one copy: a torn record is replaced by the worst case, in which every reset erased every
//! erase block.

use zoneweave_zoned::{ZoneId, ZoneOffset};

use crate::{WearSettings, ZoneWear};

const COUNTS_AT: usize = 32;

/// Bytes of the record of a zone.
pub(super) fn record_bytes(erase_blocks: u32) -> u64 {
    (COUNTS_AT as u64 + 4 * u64::from(erase_blocks) + 4).next_multiple_of(64)
}

pub(super) fn encode(uuid: &[u8; 16], zone: ZoneId, wear: &ZoneWear, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(uuid);
    let words = [zone.0, wear.origin.0, wear.lost_end.0, 0].into_iter();
    for word in words.chain(wear.erase_counts.iter().copied()) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    assert!(bytes.len() + 4 <= length, "{zone} has the erase blocks of the settings");
    bytes.resize(length - 4, 0);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The wear in a record; `resets` is how often the zone was reset.
pub(super) fn decode(
    uuid: &[u8; 16],
    zone: ZoneId,
    settings: &WearSettings,
    bytes: &[u8],
    resets: u64,
) -> ZoneWear {
    let mut wear = ZoneWear::new(settings);
    if bytes.iter().all(|byte| *byte == 0) {
        return wear;
    }
    wear.origin = ZoneOffset(word(bytes, 20));
    wear.lost_end = ZoneOffset(word(bytes, 24));
    for (index, count) in wear.erase_counts.iter_mut().enumerate() {
        *count = word(bytes, COUNTS_AT + 4 * index);
    }
    // A record that would not encode to the same bytes was not written by this code for this place.
    if encode(uuid, zone, &wear, bytes.len()) == bytes {
        return wear;
    }
    let mut worst = ZoneWear::new(settings);
    worst.erase_counts.fill(u32::try_from(resets).unwrap_or(u32::MAX));
    worst
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
