//! The size of a volume: the reserve for relocation, and the space of unequal drives that is lost.

use zoneweave_plan::array::reserve_of;
use zoneweave_raid::log::format::{ArrayConfig, VolumeKind};
use zoneweave_zoned::{BLOCK_BYTES, ZonedDevice};

use crate::format::bytes;
use crate::session::NamedDrive;

/// Reserve of a volume as large as possible, in percent of the volume. By theory, uniformly random
/// writes to a full volume then cost three blocks for each; with 5 % they cost about ten.
pub(crate) const RESERVE_PERCENT: u32 = 20;

/// Reserve below which the cost of a size that was chosen is told.
const FEW_PERCENT: f64 = 15.0;

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
        let geometry = match config.volume {
            VolumeKind::Log(_) => named.member.geometry(),
            VolumeKind::Zoned(_) => named.drive.geometry(),
        };
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
    use zoneweave_raid::log::format::{ArrayUuid, LogConfig};
    use zoneweave_raid::scheme::Scheme;
    use zoneweave_raid::shards::Shard;
    use zoneweave_zoned::BlockCount;

    use zoneweave_plan::array::with_reserve;

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

    #[test]
    fn a_little_reserve_is_told_with_its_cost() {
        let of = |percent| with_reserve(&config(1_100_000), u32::MAX, percent);
        assert_eq!(little_reserve(&config(of(20))), None);
        let told = little_reserve(&config(of(5))).unwrap();
        assert!(
            told.contains("5 % of its size") && told.contains("cost about 11 blocks"),
            "{told}"
        );
    }
}
