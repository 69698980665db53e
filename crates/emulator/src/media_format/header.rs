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
//! | 64..68 | erase blocks of a zone, 0 if erases are not counted |
//! | 68..72 | erase blocks abreast |
//! | 72..76 | endurance, cycles, `FFFFFFFF` for no limit |
//! | 76..80 | flags: 1 partial erase, 2 circular map, 4 finish programs, 8 worn goes offline |
//! | 80..84 | bytes of a zone descriptor extension, 0 for none |
//! | 84..88 | 1: reads may cross zones, 2: reads of unwritten blocks fail |
//! | 88..120 | the name of the preset with the drive's timing, zero-padded; zeros for none |
//! | 120..4092 | zeros |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! In version 1 bytes 64..120 are zeros; version 2 has an [extension](super::Extension).

use zoneweave_zoned::{BlockCount, Geometry, OobKind};

use super::error::FormatError;
use super::extension::Extension;
use super::limits::FORMAT_VERSION;
use super::preset_name::PresetName;
use crate::{BlockMapping, EraseMode, WearSettings, WornZone};

/// Bytes of the header block.
pub const HEADER_BYTES: usize = 4096;

/// The first bytes of every drive file.
pub const MAGIC: [u8; 8] = *b"ZWDRIVE1";

const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const UNLIMITED: u32 = u32::MAX;

pub(super) fn encode(
    geometry: &Geometry,
    uuid: &[u8; 16],
    extension: Option<&Extension>,
) -> [u8; HEADER_BYTES] {
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
    let version: u32 = if extension.is_some() { 2 } else { 1 };
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[12..28].copy_from_slice(uuid);
    for (place, field) in header[28..64].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    if let Some(wear) = extension.and_then(|extension| extension.wear.as_ref()) {
        for (place, field) in header[64..80].chunks_exact_mut(4).zip(wear_fields(wear)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
    }
    if let Some(preset) = extension.and_then(|extension| extension.preset.as_ref()) {
        header[88..120].copy_from_slice(&preset.bytes());
    }
    header[80..84].copy_from_slice(&geometry.descriptor_extension_bytes.to_le_bytes());
    header[84..88].copy_from_slice(&capabilities(geometry).to_le_bytes());
    let checksum = crc32c::crc32c(&header[..CHECKSUM_AT]);
    header[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn capabilities(geometry: &Geometry) -> u32 {
    u32::from(geometry.reads_across_zones) | u32::from(geometry.unwritten_read_error) << 1
}

fn wear_fields(wear: &WearSettings) -> [u32; 4] {
    let flags = u32::from(wear.reset == EraseMode::Partial)
        | u32::from(wear.mapping == BlockMapping::Circular) << 1
        | u32::from(wear.finish_programs) << 2
        | u32::from(wear.worn == WornZone::Offline) << 3;
    [wear.erase_blocks, wear.abreast, wear.endurance_cycles.unwrap_or(UNLIMITED), flags]
}

fn wear(fields: [u32; 4]) -> Result<Option<WearSettings>, FormatError> {
    let [erase_blocks, abreast, endurance, flags] = fields;
    if fields == [0; 4] {
        return Ok(None);
    }
    if flags >= 16 {
        return Err(FormatError::Field { field: "wear flags", value: flags });
    }
    Ok(Some(WearSettings {
        erase_blocks,
        abreast,
        endurance_cycles: Some(endurance).filter(|cycles| *cycles != UNLIMITED),
        reset: if flags & 1 != 0 { EraseMode::Partial } else { EraseMode::Full },
        mapping: if flags & 2 != 0 { BlockMapping::Circular } else { BlockMapping::Fixed },
        finish_programs: flags & 4 != 0,
        worn: if flags & 8 != 0 { WornZone::Offline } else { WornZone::ReadOnly },
    }))
}

/// The contents of a header.
pub(super) type Decoded = (Geometry, [u8; 16], Option<Extension>);

/// Decodes the fields; whether they fit together is not checked here.
pub(super) fn decode(header: &[u8]) -> Result<Decoded, FormatError> {
    let Some(header) = header.first_chunk::<HEADER_BYTES>() else {
        let (found, needed) = (header.len() as u64, HEADER_BYTES as u64);
        // A file that never was a drive has not lost its end.
        return Err(match header.starts_with(&MAGIC) {
            true => FormatError::Truncated { found, needed },
            false => FormatError::TooShort { found },
        });
    };
    if header[..8] != MAGIC {
        return Err(FormatError::NotADrive);
    }
    // The version comes first: later ones may keep their checksum elsewhere.
    let version = word(header, 8);
    if version == 0 || version > FORMAT_VERSION {
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
        write_unit: BlockCount(1),
        volatile_cache: flag("volatile cache", word(header, 60))?,
        descriptor_extension_bytes: word(header, 80),
        reads_across_zones: word(header, 84) & 1 != 0,
        unwritten_read_error: word(header, 84) & 2 != 0,
        zrwa: None,
    };
    let (extension, reserved) = match version {
        1 => (None, 64),
        _ => {
            let wear = wear([64, 68, 72, 76].map(|at| word(header, at)))?;
            let preset = PresetName::decode(&header[88..120])?;
            (Some(Extension { wear, preset }), 120)
        }
    };
    if word(header, 84) >= 4 {
        return Err(FormatError::Field { field: "capabilities", value: word(header, 84) });
    }
    if let Some(byte) = header[reserved..CHECKSUM_AT].iter().find(|byte| **byte != 0) {
        return Err(FormatError::Field { field: "reserved", value: (*byte).into() });
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&header[12..28]);
    Ok((geometry, uuid, extension))
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
