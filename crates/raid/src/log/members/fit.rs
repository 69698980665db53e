//! Whether a drive is large enough for an array. The checks need the array's configuration only, so
//! that they can be made before a volume runs.

use zoneweave_zoned::{Geometry, ZoneInfo};

use crate::array::repair::fit::is_usable;
use crate::log::format::ArrayConfig;
use crate::log::members::error::ReplaceError;

/// Checks that a drive has as many zones as the array uses, and as large ones.
///
/// # Errors
/// [`ReplaceError::TooSmall`].
pub fn check_size(config: &ArrayConfig, drive: &Geometry) -> Result<(), ReplaceError> {
    if drive.zones >= config.zones && drive.zone_capacity >= config.zone_capacity {
        return Ok(());
    }
    Err(too_small(config, drive, drive.zones, config.zones))
}

/// Checks that enough zones of a drive are usable: failed ones do not count.
///
/// # Errors
/// [`ReplaceError::TooSmall`].
pub fn check_usable_zones(
    config: &ArrayConfig,
    drive: &Geometry,
    zones: &[ZoneInfo],
    needed: u32,
) -> Result<(), ReplaceError> {
    let usable = zones.iter().filter(|info| is_usable(info)).count();
    let usable = u32::try_from(usable).unwrap_or(u32::MAX);
    if usable >= needed {
        return Ok(());
    }
    Err(too_small(config, drive, usable, needed))
}

fn too_small(config: &ArrayConfig, drive: &Geometry, zones: u32, needed: u32) -> ReplaceError {
    ReplaceError::TooSmall {
        zones,
        capacity: drive.zone_capacity,
        needed_zones: needed,
        needed_capacity: config.zone_capacity,
    }
}
