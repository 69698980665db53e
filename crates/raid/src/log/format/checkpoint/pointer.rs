//! The payload of the superblock record that makes a checkpoint the newest one.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{BlockLocation, Coverage, FormatError, RawLocation, RawShard, ShardId, field};
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{SegmentId, Sequence};

/// Address of the first root block. The other fields repeat fields of the chain's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPointer {
    /// Volume and shard of the checkpoint.
    pub shard: ShardId,
    /// Number of the checkpoint within the shard.
    pub number: Sequence,
    /// Sequences that it reflects.
    pub coverage: Coverage,
    /// The oldest segment to be replayed.
    pub replay_from: SegmentId,
    /// The first root block.
    pub root: BlockLocation,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    shard: RawShard,
    reserved: [u8; 4],
    number: U64,
    covered: U64,
    sequence: U64,
    replay_from: U64,
    root: RawLocation,
}

impl CheckpointPointer {
    /// Bytes of the payload.
    const BYTES: usize = size_of::<Raw>();

    pub(in crate::log) fn encode(&self) -> [u8; Self::BYTES] {
        let raw = Raw {
            shard: self.shard.into(),
            reserved: [0; 4],
            number: self.number.into(),
            covered: self.coverage.covered.into(),
            sequence: self.coverage.sequence.into(),
            replay_from: self.replay_from.into(),
            root: self.root.raw(),
        };
        zerocopy::transmute!(raw)
    }

    pub(in crate::log) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = Raw::ref_from_bytes(bytes).or_else(|_| field("body"))?;
        if raw.number.get() >= NUMBER_LIMIT || raw.replay_from.get() >= NUMBER_LIMIT {
            return field("number");
        }
        Ok(Self {
            shard: raw.shard.into(),
            number: raw.number.into(),
            coverage: Coverage::of(raw.covered, raw.sequence)?,
            replay_from: SegmentId(raw.replay_from.get()),
            root: BlockLocation::of(&raw.root)?,
        })
    }
}

const _: () = assert!(CheckpointPointer::BYTES == 64);
