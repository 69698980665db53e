//! How a life of the engine writes.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{
    AppendCost, Auto, Lanes, WriteChoice, WriteCost, WritePolicy, WriteProfile,
};

/// Which segments a life keeps open, and how it writes to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writing {
    /// By which commands.
    pub mode: Mode,
    /// Segments with small chunks; where the engine decides, none for those that suit the drives.
    pub small: u32,
    /// Blocks of those chunks.
    pub small_chunk: u32,
    /// Segments with large chunks.
    pub large: u32,
    /// Blocks of those chunks.
    pub large_chunk: u32,
    /// Rows of a group, where groups can be chosen.
    pub group_rows: u32,
    /// Segments to spare from which on what is moved goes to two, unless it is as the engine has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<u32>,
}

/// By which commands segments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Zone Write.
    ZoneWrite,
    /// Zone Append.
    ZoneAppend,
    /// Zone Append for one segment with small chunks, Zone Write for the others.
    Zapraid,
    /// Zone Write of everything that waits.
    Adaptive,
    /// As the engine decides by what drives allow.
    Auto,
    /// The same where it is told that Zone Append pays.
    AutoAppends,
    /// The same where it is told that drives are faster than it is.
    AutoFast,
    /// The same where it is told that drives are as fast with small writes as with large ones.
    AutoEven,
}

impl Writing {
    /// The same, for the engine.
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

    /// Whether nothing of it can be refused.
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

/// Of drives on which an append takes no time that others would have to wait for.
fn of_drives_that_append_well() -> WriteProfile {
    WriteProfile {
        writes: vec![WriteCost { blocks: 1, nanos: 100_000 }],
        appends: vec![AppendCost { depth: 16, nanos: 1000 }],
    }
}

/// Of drives that take a small chunk in no time, and one of four blocks in about what the engine takes for a stripe.
fn of_fast_drives() -> WriteProfile {
    let write = |blocks: u32| WriteCost { blocks, nanos: 1000 * u64::from(blocks) };
    WriteProfile { writes: [1, 2, 4, 8].map(write).into(), appends: Vec::new() }
}

/// Of drives that take a block in a time, however many come together.
fn of_even_drives() -> WriteProfile {
    let write = |blocks: u32| WriteCost { blocks, nanos: 100_000 * u64::from(blocks) };
    WriteProfile { writes: [1, 2].map(write).into(), appends: Vec::new() }
}
