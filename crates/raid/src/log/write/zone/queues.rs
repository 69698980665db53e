//! The queues of all zones of the segments that this start has opened.
//!
//! A segment's queues go with its seal, or with its zones if it is never sealed: a chunk in flight
//! keeps it from both.

use std::collections::BTreeMap;

use crate::log::engine::address::SegmentSlot;
use crate::log::write::in_flight::ChunkUnderWay;
use crate::log::write::zone::queue::ZoneQueue;
use crate::scheme::Column;

/// Pending chunks of a segment's zones.
struct SegmentQueues {
    zones: Vec<ZoneQueue<ChunkUnderWay>>,
    coalesces: bool,
}

/// Pending chunks of all zones, by segment.
#[derive(Default)]
pub(in crate::log) struct ZoneQueues {
    segments: BTreeMap<SegmentSlot, SegmentQueues>,
}

impl ZoneQueues {
    /// Memory of a segment's queues, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes_of(columns: usize) -> u64 {
        (size_of::<SegmentQueues>() + columns * size_of::<ZoneQueue<ChunkUnderWay>>()) as u64
    }

    /// How many segments have queues.
    #[must_use]
    pub(in crate::log) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Adds the empty queues of a new segment. `coalesces`: whether the pending chunks of a zone
    /// are written together.
    pub(in crate::log) fn open(&mut self, slot: SegmentSlot, columns: usize, coalesces: bool) {
        let zones = (0..columns).map(|_| ZoneQueue::default()).collect();
        let before = self.segments.insert(slot, SegmentQueues { zones, coalesces });
        assert!(before.is_none(), "slot {} has queues", slot.0);
    }

    /// Drops the queues of a segment that is written no more; nothing if it has none.
    pub(in crate::log) fn close(&mut self, slot: SegmentSlot) {
        self.segments.remove(&slot);
    }

    /// Whether the pending chunks of a zone of a segment are written together.
    #[must_use]
    pub(in crate::log) fn coalesces(&self, slot: SegmentSlot) -> bool {
        self.segments.get(&slot).is_some_and(|queues| queues.coalesces)
    }

    /// The queue of a column's zone, in a segment that this start has opened.
    #[must_use]
    pub(super) fn zone(&self, slot: SegmentSlot, column: Column) -> &ZoneQueue<ChunkUnderWay> {
        let queues = self.segments.get(&slot).expect("a segment that is being written");
        &queues.zones[column.index()]
    }

    /// The same for changes.
    pub(super) fn zone_mut(
        &mut self,
        slot: SegmentSlot,
        column: Column,
    ) -> &mut ZoneQueue<ChunkUnderWay> {
        let queues = self.segments.get_mut(&slot).expect("a segment that is being written");
        &mut queues.zones[column.index()]
    }

    /// The queues of all zones of a drive.
    pub(in crate::log::write) fn of_column(
        &mut self,
        column: Column,
    ) -> impl Iterator<Item = &mut ZoneQueue<ChunkUnderWay>> {
        self.segments.values_mut().map(move |queues| &mut queues.zones[column.index()])
    }
}
