//! The size of a volume: the reserve for relocation, and the space of unequal drives that is lost.

use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::geometry::SegmentGeometry;
use zoneweave_raid::log::limits::{RESERVE_SEGMENTS, SUPERBLOCK_ZONES};
use zoneweave_raid::log::uniform_amplification;
use zoneweave_zoned::BLOCK_BYTES;

use crate::format::bytes;
use crate::session::NamedDrive;

/// Reserve of a volume as large as possible, in percent of the volume. By theory, uniformly random
/// writes to a full volume then cost three blocks for each; with 5 % they cost about ten.
pub(crate) const RESERVE_PERCENT: u32 = 20;

/// Reserve below which the cost of a size that was chosen is told.
const FEW_PERCENT: f64 = 15.0;

/// Segments that a server keeps open, for users and for relocation: they are partly empty. A small
/// array keeps fewer.
const OPEN_SEGMENTS: u32 = 6;

/// Blocks of data that the segments of an array hold beside those that it keeps free or open, if
/// every drive has so many usable zones.
fn room(config: &ArrayConfig, usable_zones: u32) -> u64 {
    let shape = SegmentGeometry::in_units(
        config.scheme,
        config.write_unit,
        config.zone_capacity,
        config.log().chunk_blocks,
        config.log().group_rows,
    );
    // One more is open for users.
    let segments = config.zones.min(usable_zones).saturating_sub(SUPERBLOCK_ZONES);
    let segments = segments.saturating_sub(RESERVE_SEGMENTS + 1);
    let segments = segments - OPEN_SEGMENTS.min(segments / 16);
    u64::from(segments) * shape.map_or(0, |shape| shape.data_blocks())
}

/// Blocks of the largest volume with a reserve; `config` is planned with the largest volume of the
/// engine.
pub(super) fn with_reserve(config: &ArrayConfig, usable_zones: u32, percent: u32) -> u64 {
    let reserved = room(config, usable_zones) * 100 / u64::from(100 + percent);
    config.log().volume_blocks.min(reserved)
}

/// The reserve of an array in percent of its volume, and the blocks written for each block of a
/// user once the volume is full and overwritten at random.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn reserve_of(config: &ArrayConfig) -> (f64, Option<f64>) {
    let room = room(config, u32::MAX) as f64 / config.log().volume_blocks.max(1) as f64;
    ((room - 1.0) * 100.0, uniform_amplification(room))
}

/// A warning about a volume with little reserve.
pub(super) fn little_reserve(config: &ArrayConfig) -> Option<String> {
    let (percent, amplification) = reserve_of(config);
    if percent >= FEW_PERCENT {
        return None;
    }
    let amplification = amplification
        .map_or_else(|| "many".to_owned(), |amplification| format!("about {amplification:.0}"));
    Some(format!(
        "the volume leaves {:.0} % of its size in reserve: once it is full, random writes cost \
         {amplification} blocks for each; --size max leaves {RESERVE_PERCENT} %",
        percent.max(0.0)
    ))
}

/// Bytes of each drive that an array of these drives does not use, as it uses the smallest number
/// of zones, and the smallest zone capacity.
pub(super) fn unused_bytes(config: &ArrayConfig, drives: &[NamedDrive]) -> Vec<u64> {
    let used = u64::from(config.zones) * u64::from(config.zone_capacity.0);
    let unused = |named: &NamedDrive| {
        let geometry = named.member.geometry();
        let all = u64::from(geometry.zones) * u64::from(geometry.zone_capacity.0);
        all.saturating_sub(used) * BLOCK_BYTES as u64
    };
    drives.iter().map(unused).collect()
}

/// A warning about drives that differ.
pub(super) fn unequal(config: &ArrayConfig, drives: &[NamedDrive]) -> Option<String> {
    let unused = unused_bytes(config, drives);
    let lost = drives.iter().zip(&unused).filter(|(_, bytes)| **bytes > 0);
    let lost: Vec<_> =
        lost.map(|(named, unused)| format!("{} of {}", bytes(*unused), named.label)).collect();
    if lost.is_empty() {
        return None;
    }
    Some(format!(
        "the drives differ, and {} zones of {} are used of each: {} stay unused",
        config.zones,
        config.zone_capacity,
        lost.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use zoneweave_raid::log::format::{ArrayUuid, LogConfig, VolumeKind};
    use zoneweave_raid::scheme::Scheme;
    use zoneweave_raid::shards::Shard;
    use zoneweave_zoned::BlockCount;

    use super::*;

    fn config(volume_blocks: u64) -> ArrayConfig {
        ArrayConfig {
            array: ArrayUuid([1; 16]),
            name: "vol0".to_owned(),
            scheme: Scheme::arranged(zoneweave_raid::scheme::Arrangement::Rotated, 3, 1).unwrap(),
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(4096),
            zones: 105,
            shard: Shard::WHOLE,
            volume: VolumeKind::Log(LogConfig {
                chunk_blocks: 4,
                group_rows: 256,
                tabled: true,
                volume_blocks,
                entry_bytes: 4,
                writethrough: None,
            }),
        }
    }

    /// A volume as large as possible ran at nine times write amplification, once it was full.
    #[test]
    fn a_reserve_makes_the_volume_smaller_and_writes_cheaper() {
        let largest = config(1_100_000);
        let room = room(&largest, u32::MAX);
        assert_eq!(with_reserve(&largest, u32::MAX, 20), room * 100 / 120);
        assert_eq!(with_reserve(&largest, u32::MAX, 0), 1_100_000, "the engine's least reserve");
        assert!(with_reserve(&largest, 60, 20) < room * 60 / 120, "lost zones hold nothing");
        let (percent, cost) = reserve_of(&config(room * 100 / 120));
        assert!((19.9..20.1).contains(&percent), "{percent}");
        assert!(cost.is_some_and(|cost| (3.0..3.5).contains(&cost)), "{cost:?}");
        assert_eq!(little_reserve(&config(room * 100 / 120)), None);
        let told = little_reserve(&config(room * 100 / 105)).unwrap();
        assert!(
            told.contains("5 % of its size") && told.contains("cost about 11 blocks"),
            "{told}"
        );
    }
}
