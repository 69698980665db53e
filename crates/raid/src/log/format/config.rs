//! The configuration of an array, as superblock records carry it.

use zoneweave_zoned::BlockCount;

use crate::log::format::envelope::ArrayUuid;
use crate::scheme::Scheme;
use crate::shards::Shard;

/// Configuration of an array, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// UUID of the array.
    pub array: ArrayUuid,
    /// Name of the array, at most 32 bytes.
    pub name: String,
    /// Numbers of data and parity chunks, and their columns.
    pub scheme: Scheme,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Rows of a group.
    pub group_rows: u32,
    /// Whether groups are tabled (Zone Append) or aligned (Zone Write).
    pub tabled: bool,
    /// The write unit of every member's zones.
    pub write_unit: BlockCount,
    /// The usable blocks of every zone: the minimum over all members.
    pub zone_capacity: BlockCount,
    /// The zones of every member: the minimum over all members.
    pub zones: u32,
    /// Blocks of the volume.
    pub volume_blocks: u64,
    /// Bytes of an index entry.
    pub entry_bytes: u8,
    /// Whether writes are acknowledged only when durable: `None` decides by the drives' caches.
    pub writethrough: Option<bool>,
    /// The part of a volume that it holds.
    pub shard: Shard,
}

/// Position of the write unit in the layout field; the bits below are for the rotation.
pub(super) const UNIT_SHIFT: u32 = 4;

pub(super) const ROTATION_MASK: u8 = 7;

/// The exponent of the frame size, of which one block is the header; zero for drives with a write
/// unit of one block.
pub(super) fn encode_unit(unit: BlockCount) -> Option<u8> {
    let frame = unit.0 + 1;
    let exponent = u8::try_from(frame.trailing_zeros()).ok()?;
    match unit.0 {
        1 => Some(0),
        2..=63 if frame.is_power_of_two() => Some(exponent),
        _ => None,
    }
}

pub(super) fn decode_unit(exponent: u8) -> Option<BlockCount> {
    match exponent {
        0 => Some(BlockCount(1)),
        2..=6 => Some(BlockCount((1 << exponent) - 1)),
        _ => None,
    }
}

#[cfg(test)]
impl ArrayConfig {
    /// An array for unit tests, to be modified.
    pub(crate) fn sample() -> Self {
        Self {
            array: ArrayUuid([0xA7; 16]),
            name: "vol0".to_owned(),
            scheme: Scheme::new(3, 1).unwrap(),
            chunk_blocks: 1,
            group_rows: 256,
            tabled: true,
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(4096),
            zones: 64,
            volume_blocks: 300_000,
            entry_bytes: 4,
            writethrough: None,
            shard: Shard::WHOLE,
        }
    }
}
