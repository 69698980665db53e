//! The lists of segments that superblock records carry, beside the segments themselves.
//!
//! Seals, dead segments and narrow segments are on media in superblock records, and so is the
//! ceiling of segment numbers. Recovery adds what it found and could not attribute.
//!
//! Invariant: a segment number below `next_segment` is never used again; `next_segment` stays below
//! the ceiling on media.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::ZoneId;

use crate::log::format::{SealRecord, SegmentId};
use crate::log::segment::dead::Deaths;
use crate::log::segment::narrow_list::NarrowList;
use crate::scheme::{Column, ColumnSet};

/// Valid blocks of unknown addresses that are lost: older contents could be read in their place.
#[derive(Debug, Default)]
pub(in crate::log) struct Unaccounted {
    /// Segments with some.
    pub(in crate::log) segments: BTreeSet<SegmentId>,
    /// User blocks that columns do not return, as far as they are known.
    pub(in crate::log) blocks: BTreeMap<Column, u64>,
}

/// Segments listed in superblock records.
pub(in crate::log) struct Registry {
    /// Decisions about leftover segments, by segment number.
    pub(in crate::log) seals: BTreeMap<SegmentId, SealRecord>,
    /// Segments recorded dead whose zones may not all be reset.
    pub(in crate::log) dead: Deaths,
    /// The narrow segments that are alive.
    pub(in crate::log) narrow: NarrowList,
    /// Members with unclear zones, or with copies of columns that could not be reset: these may
    /// hold blocks of segments older than their membership.
    pub(in crate::log) unclear: ColumnSet,
    /// Zones that recovery found useless, with their reset counts.
    pub(in crate::log) zones_to_reset: Vec<(Column, ZoneId, u64)>,
    /// The next segment number.
    pub(in crate::log) next_segment: SegmentId,
    /// The ceiling on media.
    pub(in crate::log) segment_ceiling: SegmentId,
    /// Valid blocks of unknown addresses that are lost. Found by recovery.
    pub(in crate::log) unaccounted: Unaccounted,
    /// Possible segments without a readable header. Found by recovery.
    pub(in crate::log) hidden_segments: usize,
    /// Segments with blocks of which a member in full service lacked some, by slot. Found by
    /// recovery.
    pub(in crate::log) absent_at_start: Vec<u32>,
}

impl Registry {
    /// The lists that the records of the members contain. Numbers below the ceiling may be taken.
    pub(in crate::log) fn recovered(
        seals: BTreeMap<SegmentId, SealRecord>,
        dead: Deaths,
        narrow: NarrowList,
        segment_ceiling: SegmentId,
    ) -> Self {
        Self {
            seals,
            dead,
            narrow,
            unclear: ColumnSet::default(),
            zones_to_reset: Vec::new(),
            next_segment: segment_ceiling,
            segment_ceiling,
            unaccounted: Unaccounted::default(),
            hidden_segments: 0,
            absent_at_start: Vec::new(),
        }
    }
}

impl Registry {
    /// Records that a drive has a zone that may belong to any segment older than its membership.
    pub(in crate::log) fn mark_unclear(&mut self, column: Column) {
        self.unclear = self.unclear.with(column);
    }
}
