//! The configuration of an array, as superblock records carry it: the array's own part, and that of
//! the volume on it.

use zoneweave_zoned::BlockCount;

use crate::array::format::envelope::ArrayUuid;
use crate::scheme::Scheme;
use crate::shards::Shard;

/// Zones of each member that hold superblock records.
pub const SUPERBLOCK_ZONES: u32 = 2;

/// Zones used of each member. Larger drives work but are not filled.
const MAX_ZONES: u32 = 1 << 20;

/// Configuration of an array, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// UUID of the array.
    pub array: ArrayUuid,
    /// Name of the array, at most 32 bytes.
    pub name: String,
    /// Numbers of data and parity chunks, and their columns.
    pub scheme: Scheme,
    /// The write unit of every member's zones.
    pub write_unit: BlockCount,
    /// The usable blocks of every zone: the minimum over all members.
    pub zone_capacity: BlockCount,
    /// The zones of every member: the minimum over all members.
    pub zones: u32,
    /// The part of a volume that it holds.
    pub shard: Shard,
    /// The volume on it.
    pub volume: VolumeKind,
}

/// The volume on an array, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A log-structured block volume.
    Log(LogConfig),
    /// A zoned volume.
    Zoned(ZonedConfig),
}

/// Configuration of a zoned volume, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedConfig {
    /// Blocks of a stripe unit.
    pub unit_blocks: u32,
    /// Where checksums of blocks are.
    pub checksums: Checksums,
}

/// Where a zoned volume keeps the checksums of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Checksums {
    /// Nowhere: reads are not verified.
    None = 0,
    /// In the metadata beside each block.
    Metadata = 1,
}

/// Configuration of a log-structured volume, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Rows of a group.
    pub group_rows: u32,
    /// Whether groups are tabled (Zone Append) or aligned (Zone Write).
    pub tabled: bool,
    /// Blocks of the volume.
    pub volume_blocks: u64,
    /// Bytes of an index entry.
    pub entry_bytes: u8,
    /// Whether writes are acknowledged only when durable: `None` decides by the drives' caches.
    pub writethrough: Option<bool>,
}

impl ArrayConfig {
    /// Whether both are of one array. Records from before a change of the name have the former one.
    #[must_use]
    pub(crate) fn is_same_but_for_name(&self, other: &Self) -> bool {
        Self { name: other.name.clone(), ..self.clone() } == *other
    }

    /// The configuration of the log-structured volume on the array.
    ///
    /// # Panics
    /// If another kind of volume is on it: records of another kind do not decode.
    #[must_use]
    pub const fn log(&self) -> &LogConfig {
        match &self.volume {
            VolumeKind::Log(log) => log,
            VolumeKind::Zoned(_) => panic!("a zoned volume has no log"),
        }
    }

    /// The same, to be changed before the array is created.
    ///
    /// # Panics
    /// As [`Self::log`].
    pub const fn log_mut(&mut self) -> &mut LogConfig {
        match &mut self.volume {
            VolumeKind::Log(log) => log,
            VolumeKind::Zoned(_) => panic!("a zoned volume has no log"),
        }
    }

    /// The configuration of the zoned volume on the array.
    ///
    /// # Panics
    /// If another kind of volume is on it: records of another kind do not decode.
    #[must_use]
    pub const fn zoned(&self) -> &ZonedConfig {
        match &self.volume {
            VolumeKind::Zoned(zoned) => zoned,
            VolumeKind::Log(_) => panic!("a log-structured volume has no logical zones"),
        }
    }

    /// Number of segments of the array.
    #[must_use]
    pub fn segment_slots(&self) -> u32 {
        segments_of(self.zones)
    }
}

/// Number of segments of an array whose members have so many zones.
#[must_use]
pub(crate) fn segments_of(zones: u32) -> u32 {
    zones.min(MAX_ZONES).saturating_sub(SUPERBLOCK_ZONES)
}

/// The exponent of the frame size, of which one block is the header; zero for drives with a write
/// unit of one block.
pub(crate) fn encode_unit(unit: BlockCount) -> Option<u8> {
    let frame = unit.0 + 1;
    let exponent = u8::try_from(frame.trailing_zeros()).ok()?;
    match unit.0 {
        1 => Some(0),
        2..=63 if frame.is_power_of_two() => Some(exponent),
        _ => None,
    }
}

pub(crate) fn decode_unit(exponent: u8) -> Option<BlockCount> {
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
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(4096),
            zones: 64,
            shard: Shard::WHOLE,
            volume: VolumeKind::Log(LogConfig {
                chunk_blocks: 1,
                group_rows: 256,
                tabled: true,
                volume_blocks: 300_000,
                entry_bytes: 4,
                writethrough: None,
            }),
        }
    }

    /// The same with a changed volume.
    pub(crate) fn with_log(mut self, change: impl FnOnce(&mut LogConfig)) -> Self {
        change(self.log_mut());
        self
    }
}
