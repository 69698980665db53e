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

    /// The name of a volume, and of its shard if it has several.
    pub(crate) fn name(volume: &str, shard: Option<Self>) -> String {
        match shard {
            None => volume.to_owned(),
            Some(shard) => format!("{volume} {shard}"),
        }
    }
}

impl fmt::Display for ShardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.number, self.of)
    }
}
