//! The contents of a drive, as far as they can be read beside its owner.

use zoneweave_emulator::Wear;
use zoneweave_zoned::{Geometry, ZoneInfo};

/// The identity and the zones of a drive, read without exclusive access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInfo {
    /// The drive's shape.
    pub geometry: Geometry,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its zones.
    pub zones: Vec<ZoneInfo>,
    /// The erases so far, if the drive counts them.
    pub wear: Option<Wear>,
    /// The preset that gives it its timing, if any.
    pub preset: Option<String>,
}
