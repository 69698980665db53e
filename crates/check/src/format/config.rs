//! The configuration of an array in its superblock records: docs/format.md section 4.

use crate::format::blocks::{shape_within_limits, unit_of};
use crate::format::fields::{Array, Fields};
use crate::format::limits::{VOLUME_BLOCKS_MAX, ZONE_CAPACITY_MAX};
use crate::format::shape::{Scheme, Shape};
use crate::format::zoned::ZonedConfig;

/// The configuration of an array, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) shape: Shape,
    pub(crate) tabled: bool,
    pub(crate) entry_bytes: u8,
    pub(crate) durability: u8,
    pub(crate) name: String,
    pub(crate) zone_capacity: u32,
    pub(crate) zones: u32,
    pub(crate) volume_blocks: u64,
    /// Of a zoned volume.
    pub(crate) zoned: Option<ZonedConfig>,
}

/// The configuration in the array part and the volume part of a record, if each field is in its
/// range.
pub(crate) fn parse_config(owner: Array, array: Fields<'_>, volume: Fields<'_>) -> Option<Config> {
    let scheme = Scheme::parse(array.u8(0), array.u8(1), array.u8(2))?;
    let unit = unit_of(array.u8(3))?;
    let (capacity, zones) = (array.u32(40), array.u32(44));
    let (chunk, group) = (volume.u16(24).into(), volume.u16(26).into());
    let volume_blocks = volume.u64(0);
    let most = u128::from(zones) * u128::from(capacity) * u128::from(scheme.data_chunks);
    let name_bytes = usize::from(array.u8(7));
    let legal = matches!(volume.u8(29), 4 | 5 | 8)
        && volume.u8(28) <= 1
        && volume.u8(30) <= 2
        && name_bytes <= 32
        && volume_blocks <= VOLUME_BLOCKS_MAX
        && u128::from(volume_blocks) <= most
        && is_shard(owner, array.u8(4), array.u8(5));
    if !legal {
        return None;
    }
    let name = array.bytes::<32>(8);
    Some(Config {
        shape: shape_within_limits(scheme, unit, capacity, chunk, group)?,
        tabled: volume.u8(28) == 1,
        entry_bytes: volume.u8(29),
        durability: volume.u8(30),
        name: str::from_utf8(&name[..name_bytes]).ok()?.to_owned(),
        zone_capacity: capacity,
        zones,
        volume_blocks,
        zoned: None,
    })
}

/// As [`parse_config`], of an array with a zoned volume. Ranges that depend on each other are
/// checked where the volume is.
pub(crate) fn parse_zoned(owner: Array, array: Fields<'_>, volume: Fields<'_>) -> Option<Config> {
    let scheme = Scheme::parse(array.u8(0), array.u8(1), array.u8(2))?;
    let (capacity, name_bytes) = (array.u32(40), usize::from(array.u8(7)));
    let legal = array.u8(3) == 0
        && array.u8(2) == 0
        && (1..=2).contains(&scheme.parity_chunks)
        && capacity <= ZONE_CAPACITY_MAX
        && name_bytes <= 32
        && is_shard(owner, array.u8(4), array.u8(5));
    if !legal {
        return None;
    }
    let name = array.bytes::<32>(8);
    Some(Config {
        shape: Shape::without_segments(scheme),
        tabled: false,
        entry_bytes: 0,
        durability: 0,
        name: str::from_utf8(&name[..name_bytes]).ok()?.to_owned(),
        zone_capacity: capacity,
        zones: array.u32(44),
        volume_blocks: 0,
        zoned: Some(ZonedConfig::parse(volume)?),
    })
}

/// Whether an array can be shard `number` of `others` + 1.
fn is_shard(array: Array, number: u8, others: u8) -> bool {
    number <= others && (others == 0 || array.0[15] == number)
}
