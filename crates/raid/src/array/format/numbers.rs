//! Numbers that a volume assigns and repeats on media.
//!
//! Invariant: each is assigned once. Superblock records hold the ceilings below which numbers may
//! be in use, so that a start never assigns one again.

use std::fmt;

use serde::Serialize;
use zerocopy::little_endian::U64;

/// The number of a segment, never used again in this array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// No segment.
    pub const NONE: Self = Self(0);

    /// The number of an array's first segment.
    pub const FIRST: Self = Self(1);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number so many further.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<SegmentId> for U64 {
    fn from(id: SegmentId) -> Self {
        Self::new(id.0)
    }
}
