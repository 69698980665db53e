//! Which part of a volume an array is.

use std::fmt;

use serde::{Deserialize, Serialize};
use zoneweave_raid::shards::Shard;

/// An array that holds a part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    /// From zero.
    pub number: u8,
    /// How many there are.
    pub of: usize,
}

impl ShardStatus {
    /// `None` for an array that is a volume by itself.
    pub(crate) fn of(shard: Shard) -> Option<Self> {
        (shard != Shard::WHOLE).then(|| Self { number: shard.number(), of: shard.of() })
    }
}

impl fmt::Display for ShardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.number, self.of)
    }
}
