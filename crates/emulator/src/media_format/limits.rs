//! The version of the format, and the largest drive it can hold.

use zoneweave_zoned::BLOCK_BYTES;

/// The latest version that this program reads. Drives that need nothing of it are version 1.
pub const FORMAT_VERSION: u32 = 2;

/// The most zones a drive file can have: record tables stay at 64 MiB each.
pub const ZONES_MAX: u32 = 1 << 20;

/// The most erase blocks that a drive file can count, over all zones: 64 MiB of counts.
pub const ERASE_BLOCKS_MAX: u64 = 1 << 24;

/// The most bytes of zone descriptor extensions: they are kept in memory.
pub const EXTENSIONS_BYTES_MAX: u64 = 64 << 20;

/// Bytes rounded up to whole blocks of 4096.
pub(super) fn whole_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}
