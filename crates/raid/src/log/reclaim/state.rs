//! The collector's part of the state: relocations in progress and the GC throttle.
//!
//! Invariant: a relocation can be undone until the segment that it left is dead, and is forgotten
//! then.

use crate::log::engine::address::SegmentSlot;
use crate::log::format::StreamKind;
use crate::log::index::remap::Move;
use crate::log::reclaim::lifetime::Lifespans;
use crate::log::reclaim::share::Throttle;

/// Relocations and the GC throttle.
pub(in crate::log) struct Reclaim {
    /// Relocations out of segments that are not dead yet, so that they can be undone.
    pub(in crate::log) moves: Vec<Move>,
    /// Segments that are being relocated.
    pub(in crate::log) moving: Vec<SegmentSlot>,
    /// Tasks that are about to queue relocated blocks.
    pub(in crate::log) about_to_queue: u32,
    /// The GC throttle.
    pub(in crate::log) throttle: Throttle,
    /// Lifetimes of blocks.
    pub(in crate::log) lifespans: Lifespans,
}

impl Reclaim {
    /// Nothing relocated yet; the throttle acts within a window of so many segments.
    pub(in crate::log) fn new(window_segments: u32, volume_blocks: u64) -> Self {
        Self {
            moves: Vec::new(),
            moving: Vec::new(),
            about_to_queue: 0,
            throttle: Throttle::new(window_segments),
            lifespans: Lifespans::new(volume_blocks),
        }
    }

    /// Whether lanes for requests of a size take blocks of every lifetime.
    pub(in crate::log) fn shares_lanes(&self, kind: StreamKind) -> bool {
        kind == StreamKind::User && !self.lifespans.have_bound()
    }
}
