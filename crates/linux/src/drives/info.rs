//! The contents of a drive, as far as they can be read beside its owner.

use zoneweave_emulator::Wear;
use zoneweave_zoned::{Geometry, ZoneInfo};

/// What a drive holds, read without taking it.
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
    /// The preset whose timing it has, if it has any.
    pub preset: Option<String>,
}
