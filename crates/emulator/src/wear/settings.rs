//! The structure of a zone's flash, and how it wears.

use serde::Deserialize;
use thiserror::Error;
use zoneweave_zoned::{BlockCount, Geometry};

/// The erase blocks that a reset erases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraseMode {
    /// Every erase block of the zone.
    #[default]
    Full,
    /// The erase blocks that were programmed since the last reset (WA-Zone §4.2.1).
    Partial,
}

/// Where the blocks of a zone lie in its flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockMapping {
    /// A zone begins at its first erase block.
    #[default]
    Fixed,
    /// A zone begins where it ended before its last reset, and wraps around (WA-Zone Eq. 3–5).
    Circular,
}

/// The fate of a zone whose reset needs an erase block without a cycle left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WornZone {
    /// The drive notices before it erases: the blocks can still be read, the zone is read-only
    /// until the host takes it offline.
    #[default]
    ReadOnly,
    /// The erase fails: the zone is offline.
    Offline,
}

/// The flash of a drive's zones; in presets the section `wear`, where only `erase_blocks` is
/// required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearSettings {
    /// Erase blocks of each zone.
    pub erase_blocks: u32,
    /// Erase blocks that are programmed in turns, block by block: 1 fills one after the other, as
    /// WA-Zone assumes; a zone that is striped over all its dies has all of them abreast.
    #[serde(default = "one")]
    pub abreast: u32,
    /// Erases that an erase block survives; `None` for any number.
    pub endurance_cycles: Option<u32>,
    /// The erase blocks that a reset erases.
    #[serde(default)]
    pub reset: EraseMode,
    /// Where the blocks of a zone lie.
    #[serde(default)]
    pub mapping: BlockMapping,
    /// Whether finishing a zone programs the rest of it.
    #[serde(default)]
    pub finish_programs: bool,
    /// The fate of worn zones.
    #[serde(default)]
    pub worn: WornZone,
}

fn one() -> u32 {
    1
}

/// Settings that no drive can have.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WearError {
    /// A zone has to consist of something.
    #[error("a zone of {capacity} cannot have {erase_blocks} erase blocks: use 1 to {}",
        capacity.0
    )]
    EraseBlocks {
        /// The number of erase blocks.
        erase_blocks: u32,
        /// The zone's capacity.
        capacity: BlockCount,
    },
    /// Rows of erase blocks have to be whole.
    #[error(
        "{erase_blocks} erase blocks cannot be written {abreast} abreast: use a divisor of their number"
    )]
    Abreast {
        /// Erase blocks of a zone.
        erase_blocks: u32,
        /// How many abreast.
        abreast: u32,
    },
    /// A drive that survives no reset is no drive.
    #[error("an endurance of 0 cycles leaves nothing to reset: use at least 1")]
    NoEndurance,
}

impl WearSettings {
    /// Zones of `erase_blocks` erase blocks without an endurance limit, erased as a whole.
    #[must_use]
    pub fn new(erase_blocks: u32) -> Self {
        Self {
            erase_blocks,
            abreast: 1,
            endurance_cycles: None,
            reset: EraseMode::Full,
            mapping: BlockMapping::Fixed,
            finish_programs: false,
            worn: WornZone::ReadOnly,
        }
    }

    /// Checks that the settings fit a drive.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn validate(&self, geometry: &Geometry) -> Result<(), WearError> {
        let (erase_blocks, capacity) = (self.erase_blocks, geometry.zone_capacity);
        if erase_blocks == 0 || erase_blocks > capacity.0 {
            return Err(WearError::EraseBlocks { erase_blocks, capacity });
        }
        if self.abreast == 0 || !erase_blocks.is_multiple_of(self.abreast) {
            return Err(WearError::Abreast { erase_blocks, abreast: self.abreast });
        }
        match self.endurance_cycles {
            Some(0) => Err(WearError::NoEndurance),
            _ => Ok(()),
        }
    }

    /// Blocks of one row of erase blocks that are abreast. The last row may be shorter: a zone's
    /// capacity need not be a multiple.
    #[must_use]
    pub fn row_blocks(&self, capacity: BlockCount) -> u32 {
        capacity.0.div_ceil(self.erase_blocks / self.abreast)
    }
}
