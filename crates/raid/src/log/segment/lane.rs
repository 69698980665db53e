//! Lanes: the open segments of a stream, one per class of data and chunk size.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::{ChunkClass, Class, Lifetime};
use crate::log::engine::geometry::SegmentGeometry;

/// A lane's number in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct LaneId(pub usize);

/// A segment that a stream keeps open, and the shape of its successor.
#[derive(Debug)]
pub(in crate::log) struct Lane {
    /// Its purpose; the lifetime may differ for its next segment.
    pub class: Class,
    /// The shape of its segments; lanes of one class have chunks of one size.
    pub geometry: SegmentGeometry,
    /// How its segments are written.
    pub mode: LaneMode,
    /// The segment being filled.
    pub open: Option<SegmentSlot>,
    /// A segment is being opened for it, or a group or span of it is being ended.
    pub busy: bool,
}

impl Lane {
    /// A lane without a segment.
    #[must_use]
    pub(in crate::log) fn new(
        chunk: ChunkClass,
        geometry: SegmentGeometry,
        mode: LaneMode,
    ) -> Self {
        let class = Class { chunk, lifetime: Lifetime::default() };
        Self { class, geometry, mode, open: None, busy: false }
    }

    /// Whether it has a segment, or is about to get one.
    #[must_use]
    pub(in crate::log) fn is_taken(&self) -> bool {
        self.open.is_some() || self.busy
    }
}

/// The writes that a lane takes, as the status reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneRequests {
    /// Small requests of users, or all of them.
    Small,
    /// Large requests of users.
    Large,
    /// Lone small requests of users, in narrow segments.
    Narrow,
    /// Relocated blocks.
    Moved,
}

impl fmt::Display for LaneRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The commands that write the chunks of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneMode {
    /// Zone Append: many in flight in each zone.
    Append,
    /// Zone Write of one chunk, one in flight in each zone.
    Write,
    /// Zone Write of all pending chunks of a zone, one in flight in each zone.
    #[serde(rename = "gathered")]
    Gather,
}

impl fmt::Display for LaneMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl LaneMode {
    /// Whether its segments have a stripe table: the drive picks the rows of chunks.
    #[must_use]
    pub(in crate::log) fn is_tabled(self) -> bool {
        self == Self::Append
    }
}
