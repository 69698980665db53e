//! Identify data of an NVMe drive, decoded and checked.
//!
//! The offsets are those of the NVMe Base, NVM and Zoned Namespace command set specifications.

use thiserror::Error;
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, ByteSize, EXTENSION_UNIT_BYTES, Geometry, OOB_BYTES, OobKind,
    ZrwaGeometry,
};

/// Bytes of every Identify answer.
pub(super) const IDENTIFY_BYTES: usize = 4096;

/// The unit of MDTS and ZASL. It is the controller's smallest page, which is 4 KiB or more: taken
/// as 4 KiB, limits are never exceeded.
const PAGE_BYTES: u64 = 4096;

/// The largest transfer. The kernel maps at most 127 pages a command, and an unaligned buffer takes
/// one page more than its size.
const TRANSFER_BLOCKS: u32 = 64;

/// The blocks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) block_bytes: u64,
    pub(super) metadata_bytes: u16,
}

/// A namespace (CNS 00h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) blocks: u64,
    pub(super) format: Format,
    /// The number of that format.
    pub(super) format_index: u8,
    /// Every format the namespace could have.
    pub(super) formats: Vec<Format>,
    /// Whether metadata follows each block in the data buffer.
    pub(super) interleaved: bool,
    /// Whether the drive stores its own checksums in the metadata (protection information).
    pub(super) protected: bool,
    /// A name that no other namespace has, if the drive gives it one.
    pub(super) id: [u8; 16],
}

/// A controller (CNS 01h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) serial: String,
    pub(super) model: String,
    /// MDTS: a power of two of pages; zero for no limit.
    pub(super) transfer: u8,
    pub(super) volatile_cache: bool,
}

/// The zones of a namespace (CNS 05h of the Zoned Namespace command set).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zones {
    pub(super) size: u64,
    pub(super) max_open: Option<u32>,
    pub(super) max_active: Option<u32>,
    pub(super) reads_across: bool,
    pub(super) extension_units: u8,
    pub(super) zrwa: Option<ZrwaGeometry>,
}

/// A contradiction in the drive's description.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NonsenseError {
    /// Sizes contradict each other.
    #[error(
        "a namespace of {} in zones of {}", ByteSize::of_blocks(*blocks), ByteSize::of_blocks(*size)
    )]
    Zones {
        /// Blocks of the namespace.
        blocks: u64,
        /// Blocks of a zone.
        size: u64,
    },
    /// A format is in use that is not there.
    #[error("its format is number {index} of {formats}")]
    Format {
        /// The format in use.
        index: u8,
        /// How many there are.
        formats: usize,
    },
    /// The zones it reports.
    #[error("its zone report is invalid")]
    Report,
    /// Zones differ.
    #[error("its zones have different capacities: {} and {}", BlockCount(*one), BlockCount(*other))]
    Capacities {
        /// The capacity of one zone.
        one: u32,
        /// The capacity of another zone.
        other: u32,
    },
    /// The whole.
    #[error("{0}")]
    Geometry(#[from] zoneweave_zoned::GeometryError),
}

fn u16_at(bytes: &[u8; IDENTIFY_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8; IDENTIFY_BYTES], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8; IDENTIFY_BYTES], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// ASCII, filled up with spaces.
fn text(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
    bytes.iter().map(shown).collect::<String>().trim().to_owned()
}

impl Namespace {
    pub(super) fn parse(bytes: &[u8; IDENTIFY_BYTES]) -> Result<Self, NonsenseError> {
        // FLBAS: the format's number in bits 3..0 and 6..5, and how metadata travels.
        let flbas = bytes[26];
        let format_index = flbas & 0xF | (flbas >> 5 & 0x3) << 4;
        let count = usize::from(bytes[25] & 0x3F) + 1;
        let format = |index: usize| {
            let at = 128 + 4 * index;
            let shift = bytes[at + 2];
            Format {
                block_bytes: 1_u64.checked_shl(shift.into()).unwrap_or(0),
                metadata_bytes: u16_at(bytes, at),
            }
        };
        let formats: Vec<_> = (0..count).map(format).collect();
        let Some(format) = formats.get(usize::from(format_index)).copied() else {
            return Err(NonsenseError::Format { index: format_index, formats: count });
        };
        // NGUID, or else EUI64.
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[104..120]);
        if id == [0; 16] {
            id[8..].copy_from_slice(&bytes[120..128]);
        }
        Ok(Self {
            blocks: u64_at(bytes, 0),
            format,
            format_index,
            formats,
            interleaved: flbas & 1 << 4 != 0,
            protected: bytes[29] & 0x7 != 0,
            id,
        })
    }

    /// The number of a format that can be used here, if the drive has any.
    pub(super) fn fitting_format(&self) -> Option<usize> {
        self.formats.iter().position(|format| format.fits())
    }
}

impl Format {
    pub(super) fn fits(self) -> bool {
        self.block_bytes == BLOCK_BYTES as u64 && usize::from(self.metadata_bytes) == OOB_BYTES
    }
}

impl Controller {
    pub(super) fn parse(bytes: &[u8; IDENTIFY_BYTES]) -> Self {
        Self {
            serial: text(&bytes[4..24]),
            model: text(&bytes[24..64]),
            transfer: bytes[77],
            volatile_cache: bytes[525] & 1 != 0,
        }
    }
}

impl Zones {
    /// The zones of a namespace in a format.
    pub(super) fn parse(bytes: &[u8; IDENTIFY_BYTES], format_index: u8) -> Self {
        // LBAFE: the zone size of the format.
        let at = 2816 + 16 * usize::from(format_index);
        // Numbers of resources are counted from zero, and all ones stand for no limit.
        let limit = |at: usize| u32_at(bytes, at).checked_add(1);
        let operations = u16_at(bytes, 2);
        let zrwa = ZrwaGeometry {
            size: BlockCount(u16_at(bytes, 50).into()),
            flush_granularity: BlockCount(u16_at(bytes, 48).into()),
            resources: u32_at(bytes, 44).saturating_add(1),
        };
        Self {
            size: u64_at(bytes, at),
            max_active: limit(4),
            max_open: limit(8),
            reads_across: operations & 1 != 0,
            extension_units: bytes[at + 8],
            zrwa: (operations & 2 != 0).then_some(zrwa),
        }
    }
}

/// The largest power of two of pages that one command can transfer, in blocks.
fn transfer_blocks(exponent: u8) -> u32 {
    let pages = match exponent {
        0 => u64::MAX / PAGE_BYTES,
        exponent => 1_u64.checked_shl(exponent.into()).unwrap_or(u64::MAX / PAGE_BYTES),
    };
    let blocks = pages.saturating_mul(PAGE_BYTES) / BLOCK_BYTES as u64;
    u32::try_from(blocks).unwrap_or(u32::MAX).min(TRANSFER_BLOCKS)
}

/// The drive's geometry, as if zones could be written to their end. The report has the true
/// capacity.
pub(super) fn geometry(
    namespace: &Namespace,
    controller: &Controller,
    zones: &Zones,
    append_exponent: u8,
) -> Result<Geometry, NonsenseError> {
    let nonsense = NonsenseError::Zones { blocks: namespace.blocks, size: zones.size };
    let (Ok(zone_size), false) = (u32::try_from(zones.size), zones.size == 0) else {
        return Err(nonsense);
    };
    // The blocks behind the last whole zone belong to no zone.
    let Ok(count) = u32::try_from(namespace.blocks / zones.size) else { return Err(nonsense) };
    let max_transfer = transfer_blocks(controller.transfer);
    let append_limit = match append_exponent {
        0 => max_transfer,
        exponent => transfer_blocks(exponent).min(max_transfer),
    };
    let geometry = Geometry {
        zones: count,
        zone_size: BlockCount(zone_size),
        zone_capacity: BlockCount(zone_size),
        oob: OobKind::Separate,
        // Drives that limit open zones only let them all be active.
        max_open: zones.max_open,
        max_active: zones.max_active,
        append_limit: BlockCount(append_limit),
        max_transfer: BlockCount(max_transfer),
        write_unit: BlockCount(1),
        volatile_cache: controller.volatile_cache,
        descriptor_extension_bytes: u32::from(zones.extension_units) * EXTENSION_UNIT_BYTES,
        reads_across_zones: zones.reads_across,
        unwritten_read_error: false,
        // An area that fits nothing is none.
        zrwa: None,
    };
    geometry.validate()?;
    let with_area = Geometry { zrwa: zones.zrwa, ..geometry.clone() };
    Ok(if with_area.validate().is_ok() { with_area } else { geometry })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8; IDENTIFY_BYTES], at: usize, field: &[u8]) {
        bytes[at..at + field.len()].copy_from_slice(field);
    }

    /// A namespace with the formats 512, 4096 and 4096 + 64, the last in use.
    fn namespace() -> [u8; IDENTIFY_BYTES] {
        let mut bytes = [0; IDENTIFY_BYTES];
        put(&mut bytes, 0, &(31 * 4096_u64).to_le_bytes());
        bytes[25] = 2;
        bytes[26] = 2;
        put(&mut bytes, 128, &[0, 0, 9, 0, 0, 0, 12, 0, 64, 0, 12, 0]);
        put(&mut bytes, 120, &[1, 2, 3, 4, 5, 6, 7, 8]);
        bytes
    }

    fn zones() -> [u8; IDENTIFY_BYTES] {
        let mut bytes = [0; IDENTIFY_BYTES];
        put(&mut bytes, 2, &[1, 0]);
        put(&mut bytes, 4, &13_u32.to_le_bytes());
        put(&mut bytes, 8, &u32::MAX.to_le_bytes());
        put(&mut bytes, 2816 + 32, &4096_u64.to_le_bytes());
        bytes
    }

    fn controller(transfer: u8) -> Controller {
        let mut bytes = [0; IDENTIFY_BYTES];
        put(&mut bytes, 4, b"zns1                ");
        put(&mut bytes, 24, b"QEMU\x07NVMe");
        bytes[77] = transfer;
        bytes[525] = 7;
        Controller::parse(&bytes)
    }

    #[test]
    fn a_drive_is_read_as_it_is_specified() {
        let found = Namespace::parse(&namespace()).unwrap();
        assert!(found.format.fits() && !found.interleaved && !found.protected);
        assert_eq!((found.format_index, found.fitting_format()), (2, Some(2)));
        assert_eq!(found.id, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let controller = controller(5);
        assert_eq!((&*controller.serial, &*controller.model), ("zns1", "QEMU NVMe"));
        let zones = Zones::parse(&zones(), found.format_index);
        let shape = geometry(&found, &controller, &zones, 3).unwrap();
        assert_eq!((shape.zones, shape.zone_size), (31, BlockCount(4096)));
        assert_eq!((shape.max_active, shape.max_open), (Some(14), None));
        assert_eq!((shape.max_transfer, shape.append_limit), (BlockCount(32), BlockCount(8)));
        assert!(shape.volatile_cache && shape.reads_across_zones && shape.zrwa.is_none());
    }

    #[test]
    fn limits_are_the_smallest_that_anyone_has() {
        assert_eq!(transfer_blocks(0), TRANSFER_BLOCKS);
        assert_eq!(transfer_blocks(1), 2);
        assert_eq!(transfer_blocks(20), TRANSFER_BLOCKS);
        assert_eq!(transfer_blocks(255), TRANSFER_BLOCKS);
        let namespace = Namespace::parse(&namespace()).unwrap();
        let zones = Zones::parse(&zones(), 2);
        let shape = geometry(&namespace, &controller(2), &zones, 0).unwrap();
        assert_eq!((shape.max_transfer, shape.append_limit), (BlockCount(4), BlockCount(4)));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut bytes = namespace();
        bytes[26] = 9;
        let error = Namespace::parse(&bytes).unwrap_err();
        assert_eq!(error, NonsenseError::Format { index: 9, formats: 3 });
        let namespace = Namespace::parse(&namespace()).unwrap();
        let refused = |size: u64, blocks: u64| {
            let zones = Zones { size, ..Zones::parse(&zones(), 2) };
            geometry(&Namespace { blocks, ..namespace.clone() }, &controller(0), &zones, 0)
                .unwrap_err()
        };
        assert_eq!(refused(0, 100), NonsenseError::Zones { blocks: 100, size: 0 });
        assert!(matches!(refused(1 << 32, 1 << 40), NonsenseError::Zones { .. }));
        assert!(matches!(refused(1, u64::MAX), NonsenseError::Zones { .. }));
        assert!(matches!(refused(4096, 4095), NonsenseError::Geometry(_)));
    }

    #[test]
    fn any_bytes_are_read_without_panicking() {
        for byte in 0..=255 {
            let bytes = [byte; IDENTIFY_BYTES];
            let controller = Controller::parse(&bytes);
            let Ok(namespace) = Namespace::parse(&bytes) else { continue };
            let zones = Zones::parse(&bytes, namespace.format_index);
            drop(geometry(&namespace, &controller, &zones, byte));
        }
    }
}
