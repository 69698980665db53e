//! Hints for the placement of files.

use zoneweave_filestore::{Hints, Lifetime};

use zoneweave_store::Failure;

/// Hints for placement: `zw_fs_hints`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CHints {
    lifetime: u8,
    level: u8,
}

/// `ZW_FS_NO_LEVEL`.
const NO_LEVEL: u8 = 255;

impl CHints {
    /// The hints, if the lifetime is one.
    pub(super) fn checked(self) -> Result<Hints, Failure> {
        let unknown = || Failure::invalid(format!("{} is no lifetime: use 0 to 5", self.lifetime));
        let lifetime = Lifetime::from_number(self.lifetime).ok_or_else(unknown)?;
        let level = (self.level != NO_LEVEL).then_some(self.level);
        Ok(Hints { lifetime, level, expected_bytes: 0 })
    }
}
