//! Numbers and layouts of the kernel's `linux/blkzoned.h`. All addresses and sizes are in sectors
//! of 512 bytes, independent of the drive's block size.

use zerocopy::{FromBytes, Immutable, IntoBytes};
use zoneweave_zoned::BLOCK_BYTES;

pub(crate) const SECTOR_BYTES: u64 = 512;

/// Sectors of one of our blocks.
pub(crate) const BLOCK_SECTORS: u64 = BLOCK_BYTES as u64 / SECTOR_BYTES;

/// Written anywhere, as on an ordinary disk.
pub(crate) const ZONE_CONVENTIONAL: u8 = 1;
/// Written from front to back.
pub(crate) const ZONE_SEQUENTIAL: u8 = 2;

/// The report has the zones' capacity; before Linux 5.9 it does not.
pub(crate) const REPORTS_CAPACITY: u32 = 1 << 0;

/// `struct blk_zone`.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ReportedZone {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) write_pointer: u64,
    pub(crate) kind: u8,
    /// The value of a [`zoneweave_zoned::ZoneState`], or zero for conventional zones.
    pub(crate) condition: u8,
    /// Whether sectors were written out of order, where that is possible.
    pub(crate) out_of_order: u8,
    /// Whether the drive recommends a reset.
    pub(crate) reset_recommended: u8,
    pub(crate) reserved: [u8; 4],
    pub(crate) capacity: u64,
    pub(crate) reserved_2: [u64; 3],
}

/// `struct blk_zone_report`, which the zones follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct ReportHeader {
    pub(crate) first_sector: u64,
    /// The number requested, and then the number returned.
    pub(crate) zones: u32,
    pub(crate) flags: u32,
}

/// `struct blk_zone_range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ZoneRange {
    pub(crate) first_sector: u64,
    pub(crate) sectors: u64,
}

const _: () = {
    assert!(size_of::<ReportedZone>() == 64);
    assert!(std::mem::offset_of!(ReportedZone, capacity) == 32);
    assert!(size_of::<ReportHeader>() == 16);
    assert!(size_of::<ZoneRange>() == 16);
};
