//! Redundancy that written segments lack on members in full service, until they are relocated.
//!
//! A start may find that a drive has not all that was written to it: its contents are older than
//! the array, or it lost zones. Later, blocks are found damaged. Such segments are relocated at any
//! cost (`reclaim/victim`). Until then a further loss may cost data, although every member is
//! online.
//!
//! Invariant: only segments that are relocated at any cost are counted, so that each count ends.

use crate::log::engine::state::State;
use crate::log::segment::table::Segment;
use crate::scheme::{Column, ColumnSet};

/// What written segments lack on members in full service.
pub(super) struct Lacking {
    /// Number of such segments, by slot.
    pub(super) segments: Vec<u32>,
    /// Further drives that may be lost, whichever they are, while every segment can be read.
    pub(super) losses_left: usize,
    /// Whether nothing keeps relocation from writing them again.
    pub(super) is_relocated: bool,
}

impl State {
    /// What is lacking now.
    pub(super) fn lacking(&self) -> Lacking {
        let scheme = self.array.scheme();
        let full = self.in_full_service(ColumnSet::all(scheme.width()));
        let lost: ColumnSet = scheme.iter().filter(|column| !full.contains(*column)).collect();
        let mut losses_left = scheme.losses_left(lost);
        let mut segments = vec![0; self.array.members.len()];
        for (_, segment) in self.segments.iter().filter(|(_, one)| self.is_to_be_rewritten(one)) {
            let lacking = self.in_full_service(segment.absent().union(segment.damage.restored()));
            if lacking.is_empty() {
                continue;
            }
            lacking.iter().for_each(|column| segments[column.index()] += 1);
            let left = segment.geometry.scheme().reads_left(lost.union(lacking));
            losses_left = losses_left.min(left);
        }
        let has_room = self.free_segments() > 0
            || self.writes.relocation.is_open()
            || !self.reclaim.moving.is_empty();
        let is_relocated =
            has_room && self.array.stopped.is_none() && !self.mapping.has_lost_page();
        Lacking { segments, losses_left, is_relocated }
    }

    /// Remembers what the start has found missing on members in full service.
    pub(in crate::log) fn remember_absent(&mut self) {
        let mut found = vec![0; self.array.members.len()];
        for (_, segment) in self.segments.iter().filter(|(_, one)| self.is_to_be_rewritten(one)) {
            let absent = self.in_full_service(segment.absent());
            absent.iter().for_each(|column| found[column.index()] += 1);
        }
        self.registry.absent_at_start = found;
    }

    /// Whether a segment is relocated at any cost and has something to relocate.
    fn is_to_be_rewritten(&self, segment: &Segment) -> bool {
        // Blocks that absent pages map are not counted yet. What is not in the checkpoint was
        // replayed, and is counted.
        let may_hold = self.mapping.absent_pages() > 0 && segment.is_in_checkpoint();
        segment.is_to_go() && segment.is_closed() && (segment.valid() > 0 || may_hold)
    }

    fn in_full_service(&self, columns: ColumnSet) -> ColumnSet {
        let is_full = |column: &Column| self.array.members[column.index()].is_in_full_service();
        columns.iter().filter(is_full).collect()
    }
}
