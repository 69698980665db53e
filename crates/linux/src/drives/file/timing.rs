//! The timing of a drive: that of the preset that its file names.

use std::path::Path;

use zoneweave_emulator::media_format::PresetName;
use zoneweave_emulator::{Pace, Preset};
use zoneweave_runtime::Handle;
use zoneweave_zoned::Geometry;

use super::error::FileDriveError;
use super::open::OpenFile;

/// The preset with the name in a drive's file. An unknown name is an error: with another timing, it
/// would be a different drive.
pub(super) fn known(name: &PresetName, path: &Path) -> Result<Preset, FileDriveError> {
    Preset::by_name(name.as_str()).map_err(|_| FileDriveError::UnknownPreset {
        path: path.to_owned(),
        name: name.as_str().to_owned(),
    })
}

/// The pace that a drive remembers; nothing if it was made as no preset, or as one without latency.
pub(super) fn remembered(
    opened: &OpenFile,
    handle: &Handle,
) -> Result<Option<Pace>, FileDriveError> {
    let Some(name) = opened.layout.preset() else { return Ok(None) };
    let preset = known(name, &opened.path)?;
    if preset.is_instant() {
        return Ok(None);
    }
    // The page cache is volatile; a flush takes as long as that of the preset's cache.
    let volatile_cache = preset.geometry().volatile_cache;
    let geometry = Geometry { volatile_cache, ..opened.zones.geometry().clone() };
    // The drive's identity seeds the variation of durations.
    let uuid = opened.layout.uuid();
    let seed = uuid.iter().fold(0, |seed: u64, byte| seed.rotate_left(8) ^ u64::from(*byte));
    let timing = preset.timing_of(&geometry, seed);
    Ok(Some(Pace::new(timing, &geometry, &opened.zones, handle)))
}
