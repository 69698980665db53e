//! The configuration of an array in its superblock records: docs/format.md section 4.

use crate::format::blocks::{shape_within_limits, unit_of};
use crate::format::fields::{Array, Fields};
use crate::format::limits::VOLUME_BLOCKS_MAX;
use crate::format::shape::{Scheme, Shape};

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
}

/// The configuration in the body of a record, if each field is in its range.
pub(crate) fn parse_config(array: Array, fields: Fields<'_>) -> Option<Config> {
    let layout = fields.u8(51);
    let scheme = Scheme::parse(fields.u8(49), fields.u8(50), layout >> 1 & 7)?;
    let unit = unit_of(layout >> 4)?;
    let (chunk, group) = (fields.u32(88), fields.u32(92));
    let (capacity, zones) = (fields.u32(96), fields.u32(100));
    let volume_blocks = fields.u64(104);
    let most = u128::from(zones) * u128::from(capacity) * u128::from(scheme.data_chunks);
    let name_bytes = usize::from(fields.u8(55));
    let legal = matches!(fields.u8(52), 4 | 5 | 8)
        && fields.u8(53) <= 2
        && name_bytes <= 32
        && volume_blocks <= VOLUME_BLOCKS_MAX
        && u128::from(volume_blocks) <= most
        && is_shard(array, fields.u8(130), fields.u8(131));
    if !legal {
        return None;
    }
    let name = fields.bytes::<32>(56);
    Some(Config {
        shape: shape_within_limits(scheme, unit, capacity, chunk, group)?,
        tabled: layout & 1 == 1,
        entry_bytes: fields.u8(52),
        durability: fields.u8(53),
        name: str::from_utf8(&name[..name_bytes]).ok()?.to_owned(),
        zone_capacity: capacity,
        zones,
        volume_blocks,
    })
}

/// Whether an array can be shard `number` of `others` + 1.
fn is_shard(array: Array, number: u8, others: u8) -> bool {
    number <= others && (others == 0 || array.0[15] == number)
}
