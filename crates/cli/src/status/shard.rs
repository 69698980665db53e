//! The shard of a volume that an array is.

use std::fmt;

use serde::{Deserialize, Serialize};
use zoneweave_raid::shards::Shard;

/// A shard of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    /// From zero.
    pub number: u8,
    /// Number of shards.
    pub of: usize,
}

impl ShardStatus {
    /// `None` for a volume without shards.
    pub(crate) fn of(shard: Shard) -> Option<Self> {
        (shard != Shard::WHOLE).then(|| Self { number: shard.number(), of: shard.of() })
    }
}

impl fmt::Display for ShardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.number, self.of)
    }
}
