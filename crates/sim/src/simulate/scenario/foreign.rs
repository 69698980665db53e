//! Foreign drives, and starts by force.

use serde::{Deserialize, Serialize};

use super::Life;

/// A drive with a false identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Impostor {
    /// A copy of a drive is offered together with it.
    Twin {
        /// The slot of the drive.
        slot: usize,
    },
    /// A drive has fewer zones than when it joined the array.
    Shrunk {
        /// Its slot.
        slot: usize,
    },
}

/// Drives left behind are started by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitBrain {
    /// Number of starts, each by force.
    pub starts: u32,
    /// Blocks written after each start.
    pub blocks: u32,
}

/// The amount of this in a life.
pub(super) fn size(life: &Life) -> usize {
    let flags = usize::from(life.forced) + usize::from(life.split_brain.is_some());
    life.impostors.len() + flags + life.foreign_drives as usize
}
