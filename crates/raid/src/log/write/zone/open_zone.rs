//! A zone of an open segment, with its drive, and the queue of its writes.

use std::rc::Rc;

use zoneweave_zoned::{ZoneId, ZonedDevice};

use crate::log::engine::address::SegmentSlot;
use crate::log::engine::state::State;
use crate::log::write::in_flight::ChunkUnderWay;
use crate::log::write::zone::queue::ZoneQueue;
use crate::scheme::Column;

/// A zone of an open segment, with its drive: a replacement attached to the same slot must not
/// receive writes meant for the former drive.
pub(in crate::log) struct OpenZone {
    /// The segment that is being filled.
    pub slot: SegmentSlot,
    /// The column that the zone is of.
    pub column: Column,
    /// The column's zone in the segment.
    pub zone: ZoneId,
    /// Handle of the drive as it was when the segment was opened.
    pub device: Rc<dyn ZonedDevice>,
}

/// The queue of a zone of a segment that is being filled.
pub(super) fn queue_of<'a>(
    state: &'a mut State,
    open: &OpenZone,
) -> &'a mut ZoneQueue<ChunkUnderWay> {
    state.writes.queues.zone_mut(open.slot, open.column)
}
