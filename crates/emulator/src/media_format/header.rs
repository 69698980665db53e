//! The header of a drive file.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | mark `ZWDRIVE1` |
//! | 8..12 | format version |
//! | 12..28 | drive UUID |
//! | 28..32 | zones |
//! | 32..36 | zone size, blocks |
//! | 36..40 | zone capacity, blocks |
//! | 40..44 | metadata: 0 none, 1 separate, 2 interleaved |
//! | 44..48 | open-zone limit, `FFFFFFFF` for none |
//! | 48..52 | active-zone limit, `FFFFFFFF` for none |
//! | 52..56 | append limit, blocks |
//! | 56..60 | largest transfer, blocks |
//! | 60..64 | volatile cache: 0 or 1 |
//! | 64..4092 | zeros |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |

use zoneweave_zoned::{BlockCount, Geometry, OobKind};

use super::FormatError;

/// Bytes of the header block.
pub const HEADER_BYTES: usize = 4096;

/// The first bytes of every drive file.
pub const MAGIC: [u8; 8] = *b"ZWDRIVE1";

/// The version this program writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const UNLIMITED: u32 = u32::MAX;

pub(super) fn encode(geometry: &Geometry, uuid: &[u8; 16]) -> [u8; HEADER_BYTES] {
    let oob = match geometry.oob {
        OobKind::None => 0,
        OobKind::Separate => 1,
        OobKind::Interleaved => 2,
    };
    let fields = [
        geometry.zones,
        geometry.zone_size.0,
        geometry.zone_capacity.0,
        oob,
        geometry.max_open.unwrap_or(UNLIMITED),
        geometry.max_active.unwrap_or(UNLIMITED),
        geometry.append_limit.0,
        geometry.max_transfer.0,
        u32::from(geometry.volatile_cache),
    ];
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..28].copy_from_slice(uuid);
    for (place, field) in header[28..64].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&header[..CHECKSUM_AT]);
    header[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Decodes the fields; whether they fit together is not checked here.
pub(super) fn decode(header: &[u8]) -> Result<(Geometry, [u8; 16]), FormatError> {
    let Some(header) = header.first_chunk::<HEADER_BYTES>() else {
        let (found, needed) = (header.len() as u64, HEADER_BYTES as u64);
        return Err(FormatError::Truncated { found, needed });
    };
    if header[..8] != MAGIC {
        return Err(FormatError::NotADrive);
    }
    // The version comes first: later ones may keep their checksum elsewhere.
    let version = word(header, 8);
    if version != FORMAT_VERSION {
        return Err(FormatError::Version { found: version });
    }
    let (stored, computed) = (word(header, CHECKSUM_AT), crc32c::crc32c(&header[..CHECKSUM_AT]));
    if stored != computed {
        return Err(FormatError::HeaderChecksum { stored, computed });
    }
    let limit = |at| Some(word(header, at)).filter(|limit| *limit != UNLIMITED);
    let geometry = Geometry {
        zones: word(header, 28),
        zone_size: BlockCount(word(header, 32)),
        zone_capacity: BlockCount(word(header, 36)),
        oob: oob_kind(word(header, 40))?,
        max_open: limit(44),
        max_active: limit(48),
        append_limit: BlockCount(word(header, 52)),
        max_transfer: BlockCount(word(header, 56)),
        volatile_cache: flag("volatile cache", word(header, 60))?,
    };
    if let Some(byte) = header[64..CHECKSUM_AT].iter().find(|byte| **byte != 0) {
        return Err(FormatError::Field { field: "reserved", value: (*byte).into() });
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&header[12..28]);
    Ok((geometry, uuid))
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn oob_kind(value: u32) -> Result<OobKind, FormatError> {
    match value {
        0 => Ok(OobKind::None),
        1 => Ok(OobKind::Separate),
        2 => Ok(OobKind::Interleaved),
        value => Err(FormatError::Field { field: "metadata", value }),
    }
}

fn flag(field: &'static str, value: u32) -> Result<bool, FormatError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(FormatError::Field { field, value }),
    }
}
