//! The largest numbers that docs/format.md allows.

/// Blocks of a zone.
pub(crate) const ZONE_CAPACITY_MAX: u32 = 1 << 28;

/// Blocks of a volume.
pub(crate) const VOLUME_BLOCKS_MAX: u64 = 1 << 40;

pub(crate) const CHUNK_BLOCKS_MAX: u32 = 1024;

pub(crate) const GROUP_ROWS_MAX: u32 = 16_384;

pub(crate) const COLUMNS_MAX: u32 = 32;
