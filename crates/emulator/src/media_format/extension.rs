//! The additions of version 2 of the format: unreadable blocks, wear, and the name of a preset.

use zoneweave_zoned::Geometry;

use super::error::FormatError;
use super::limits::{ERASE_BLOCKS_MAX, whole_blocks};
use super::preset_name::PresetName;
use super::wear_record;
use crate::WearSettings;

/// A drive's features beyond version 1 of the format: a list of unreadable blocks, and optionally
/// wear and the timing of a preset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The structure of its zones, if it counts erases.
    pub wear: Option<WearSettings>,
    /// The preset that gives it its timing, if any.
    pub preset: Option<PresetName>,
}

pub(super) fn wear_table_bytes(
    wear: &WearSettings,
    geometry: &Geometry,
) -> Result<u64, FormatError> {
    wear.validate(geometry)?;
    let found = u64::from(wear.erase_blocks) * u64::from(geometry.zones);
    if found > ERASE_BLOCKS_MAX {
        return Err(FormatError::TooManyEraseBlocks { found });
    }
    let records = wear_record::record_bytes(wear.erase_blocks) * u64::from(geometry.zones);
    Ok(whole_blocks(records))
}
