//! The write mode of a life.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{
    AppendCost, Auto, Lanes, WriteChoice, WriteCost, WritePolicy, WriteProfile,
};

/// Open segments of a life, and their write mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writing {
    /// The commands.
    pub mode: Mode,
    /// Segments with small chunks; in automatic modes, zero for the default number.
    pub small: u32,
    /// Blocks of those chunks.
    pub small_chunk: u32,
    /// Segments with large chunks.
    pub large: u32,
    /// Blocks of those chunks.
    pub large_chunk: u32,
    /// Rows of a group, for modes with groups.
    pub group_rows: u32,
    /// Number of free segments from which relocation uses two segments; the engine's default if
    /// `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<u32>,
}

/// The commands that write segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Zone Write.
    ZoneWrite,
    /// Zone Append.
    ZoneAppend,
    /// Zone Append for one segment with small chunks, Zone Write for the others.
    Zapraid,
    /// Zone Write of a zone's whole backlog.
    Adaptive,
    /// The engine's choice for the drives.
    Auto,
    /// The engine's choice for a profile in which Zone Append pays.
    AutoAppends,
    /// The engine's choice for a profile of drives faster than the engine.
    AutoFast,
    /// The engine's choice for a profile without a penalty for small writes.
    AutoEven,
}

impl Writing {
    /// The engine's write choice.
    #[must_use]
    pub fn choice(&self) -> WriteChoice {
        let small = Lanes { count: self.small, chunk_blocks: self.small_chunk };
        let large = Lanes { count: self.large, chunk_blocks: self.large_chunk };
        let policy = match self.mode {
            Mode::Auto => return self.auto(None),
            Mode::AutoAppends => return self.auto(Some(of_drives_that_append_well())),
            Mode::AutoFast => return self.auto(Some(of_fast_drives())),
            Mode::AutoEven => return self.auto(Some(of_even_drives())),
            Mode::ZoneWrite => WritePolicy::zone_write(small, large),
            Mode::ZoneAppend => WritePolicy::zone_append(small, large),
            Mode::Zapraid => WritePolicy::zapraid(small, large, self.group_rows),
            Mode::Adaptive => WritePolicy::adaptive(small, large),
        };
        let spare_for_lifetimes = self.spare.unwrap_or(policy.spare_for_lifetimes);
        WriteChoice::Policy(WritePolicy { spare_for_lifetimes, ..policy })
    }

    /// Whether the engine may not reject any part of it.
    #[must_use]
    pub fn is_up_to_the_engine(&self) -> bool {
        matches!(self.mode, Mode::Auto | Mode::AutoAppends | Mode::AutoFast | Mode::AutoEven)
            && (self.small, self.large) == (0, 0)
    }

    fn auto(&self, profile: Option<WriteProfile>) -> WriteChoice {
        let pinned = |count, chunk_blocks| (count > 0).then_some(Lanes { count, chunk_blocks });
        WriteChoice::Auto(Auto {
            small: pinned(self.small, self.small_chunk),
            large: pinned(self.large, self.large_chunk),
            profile,
            spares: Vec::new(),
        })
    }
}

/// A profile of drives on which concurrent appends cost nothing.
fn of_drives_that_append_well() -> WriteProfile {
    WriteProfile {
        writes: vec![WriteCost { blocks: 1, nanos: 100_000 }],
        appends: vec![AppendCost { depth: 16, nanos: 1000 }],
    }
}

/// A profile of drives that write a small chunk at once, and four blocks in the engine's time for a
/// stripe.
fn of_fast_drives() -> WriteProfile {
    let write = |blocks: u32| WriteCost { blocks, nanos: 1000 * u64::from(blocks) };
    WriteProfile { writes: [1, 2, 4, 8].map(write).into(), appends: Vec::new() }
}

/// A profile of drives whose writes cost the same per block at any size.
fn of_even_drives() -> WriteProfile {
    let write = |blocks: u32| WriteCost { blocks, nanos: 100_000 * u64::from(blocks) };
    WriteProfile { writes: [1, 2].map(write).into(), appends: Vec::new() }
}
