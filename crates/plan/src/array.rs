//! One array: the size of its volume, the reserve beside it, and its memory, by the engine's own
//! formulas.

use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::geometry::SegmentGeometry;
use zoneweave_raid::log::limits::{RESERVE_SEGMENTS, SUPERBLOCK_ZONES};
use zoneweave_raid::log::{
    CreateError, CreateOptions, Lanes, Memory, WritePolicy, create::plan_on, uniform_amplification,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_zoned::Geometry;

/// Segments that a server keeps open, for users and for relocation: they are partly empty. A small
/// array keeps fewer.
const OPEN_SEGMENTS: u32 = 6;

/// Blocks of a chunk of the arrays that are planned, as by default.
const CHUNK_BLOCKS: u32 = 4;

/// Rows of a group, as by default.
const GROUP_ROWS: u32 = 256;

/// Blocks of data that the segments of an array hold, except segments that it keeps free or open,
/// if every drive has so many usable zones.
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
#[must_use]
pub fn with_reserve(config: &ArrayConfig, usable_zones: u32, percent: u32) -> u64 {
    let reserved = room(config, usable_zones) * 100 / u64::from(100 + percent);
    config.log().volume_blocks.min(reserved)
}

/// Blocks of space for each block of a volume of which so large a share holds data.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn room_for_each(config: &ArrayConfig, share: f64) -> f64 {
    room(config, u32::MAX) as f64 / (config.log().volume_blocks.max(1) as f64 * share)
}

/// The reserve of an array in percent of its volume, and the blocks written for each block of a
/// user once the volume is full and overwritten at random.
#[must_use]
pub fn reserve_of(config: &ArrayConfig) -> (f64, Option<f64>) {
    let room = room_for_each(config, 1.0);
    ((room - 1.0) * 100.0, uniform_amplification(room))
}

/// Blocks written without parity for each block of a user that overwrites at random, while so large
/// a share of the volume holds data; `None` without space to spare.
#[must_use]
pub fn amplification(config: &ArrayConfig, share: f64) -> Option<f64> {
    uniform_amplification(room_for_each(config, share))
}

/// The configuration of an array of such drives with a reserve.
///
/// # Errors
/// If the engine refuses the drives or the shape.
pub fn configuration(
    drive: &Geometry,
    scheme: Scheme,
    reserve_percent: u32,
) -> Result<ArrayConfig, CreateError> {
    let drives = vec![("each drive", drive); scheme.columns()];
    let options = CreateOptions {
        name: "plan".to_owned(),
        scheme,
        volume_blocks: None,
        chunk_blocks: CHUNK_BLOCKS.next_multiple_of(drive.write_unit.0),
        group_rows: GROUP_ROWS,
        tabled: drive.append_limit.0 > 0,
        writethrough: None,
        array: ArrayUuid([0; 16]),
        members: vec![MemberUuid([0; 16]); scheme.columns()],
        lineage: Lineage(0),
        shard: Shard::WHOLE,
        wipe: false,
    };
    let largest = plan_on(&drives, &options)?;
    let volume_blocks = Some(with_reserve(&largest, u32::MAX, reserve_percent));
    plan_on(&drives, &CreateOptions { volume_blocks, ..options })
}

/// The most memory of a server of such an array, without its front ends, if nothing is left by
/// crashes and trimmed ranges are few.
#[must_use]
pub fn memory(config: &ArrayConfig) -> Memory {
    let lanes = Lanes { count: 1, chunk_blocks: config.log().chunk_blocks };
    let policy = WritePolicy::adaptive(lanes, Lanes::default());
    Memory::most(config, &policy, None, 0, 0)
}

#[cfg(test)]
mod tests {
    use zoneweave_raid::log::format::VolumeKind;
    use zoneweave_zoned::BlockCount;

    use super::*;

    fn with_volume_of(blocks: u64) -> ArrayConfig {
        let drive = Geometry::new(105, BlockCount(4096));
        let mut config = configuration(&drive, Scheme::new(3, 1).unwrap(), 20).unwrap();
        let VolumeKind::Log(log) = &mut config.volume else { panic!("a block volume") };
        log.volume_blocks = blocks;
        config
    }

    /// A volume as large as possible ran at nine times write amplification, once it was full.
    #[test]
    fn a_reserve_makes_the_volume_smaller_and_writes_cheaper() {
        let largest = with_volume_of(1_100_000);
        let room = room(&largest, u32::MAX);
        assert_eq!(with_reserve(&largest, u32::MAX, 20), room * 100 / 120);
        assert_eq!(with_reserve(&largest, u32::MAX, 0), 1_100_000, "the engine's least reserve");
        assert!(with_reserve(&largest, 60, 20) < room * 60 / 120, "lost zones hold nothing");
        let (percent, cost) = reserve_of(&with_volume_of(room * 100 / 120));
        assert!((19.9..20.1).contains(&percent), "{percent}");
        assert!(cost.is_some_and(|cost| (3.0..3.5).contains(&cost)), "{cost:?}");
        assert_eq!(amplification(&with_volume_of(room * 100 / 120), 1.0), cost);
        assert!(amplification(&largest, 0.5) < cost, "a volume half full has more space");
    }
}
