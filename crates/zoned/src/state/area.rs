//! Random write areas: the blocks from a zone's write pointer on that may be written in any order
//! and more than once, until the write pointer passes them.
//!
//! A write may reach as far ahead of the area as the area is long. The write pointer then moves, in
//! steps of the flush granularity, until the write ends in the area. Blocks that it passes
//! unwritten read as zeros. An area stays with its zone when the zone is closed. It is released
//! when the zone becomes full, read-only or offline or is reset. A finish first commits all written
//! blocks, so that the write pointer of a full zone is above every written block.

use super::{ZoneSet, end_of};
use crate::{
    BlockCount, Status, ZoneAddress, ZoneAttributes, ZoneId, ZoneOffset, ZoneState, ZrwaGeometry,
};

impl ZoneSet {
    /// The random write area of a zone, if it has one.
    pub(super) fn area(&self, zone: ZoneId) -> Option<ZrwaGeometry> {
        let attributes = self.record(zone).attributes;
        self.geometry.zrwa.filter(|_| attributes.contains(ZoneAttributes::RANDOM_WRITES))
    }

    pub(super) fn write_to_area(
        &mut self,
        at: ZoneAddress,
        blocks: BlockCount,
        zrwa: ZrwaGeometry,
    ) -> Result<(), Status> {
        let pointer = self.record(at.zone).write_pointer;
        let area_end = u64::from(pointer.0) + u64::from(zrwa.size.0);
        let end = end_of(at.offset, blocks);
        if at.offset < pointer || end > area_end + u64::from(zrwa.size.0) {
            return Err(Status::ZoneInvalidWrite);
        }
        if end > u64::from(self.geometry.zone_capacity.0) {
            return Err(Status::ZoneBoundary);
        }
        if !self.record(at.zone).state.is_open() {
            self.open(at.zone, ZoneState::ImplicitlyOpen, false)?;
        }
        let end = at.offset.plus(blocks);
        self.zones[at.zone.index()].scattered.extend(at.offset.0..end.0);
        if u64::from(end.0) > area_end {
            // At least one block of the write is ahead of the new write pointer: the area is no
            // shorter than a step. So the zone does not become full by this.
            let beyond = end.0 - zrwa.size.0 - pointer.0;
            let step = beyond.next_multiple_of(zrwa.flush_granularity.0);
            self.pass(at.zone, pointer.plus(BlockCount(step)));
        }
        Ok(())
    }

    /// Moves the write pointer behind `last`, on the host's request.
    pub(super) fn flush_area(&mut self, zone: ZoneId, last: ZoneOffset) -> Result<(), Status> {
        if self.geometry.zrwa.is_none() {
            return Err(Status::InvalidZoneOperation);
        }
        let zrwa = self.area(zone).ok_or(Status::InvalidField)?;
        let record = self.record(zone);
        let end = u64::from(last.0) + 1;
        let area_end = u64::from(record.write_pointer.0) + u64::from(zrwa.size.0);
        let area_end = area_end.min(u64::from(self.geometry.zone_capacity.0));
        if last < record.write_pointer || end > area_end {
            return Err(Status::ZoneBoundary);
        }
        let end = last.plus(BlockCount(1));
        if !(end.0 - record.write_pointer.0).is_multiple_of(zrwa.flush_granularity.0) {
            return Err(Status::InvalidField);
        }
        if !record.state.is_open() {
            self.open(zone, ZoneState::ImplicitlyOpen, false)?;
        }
        self.pass(zone, end);
        if end.0 == self.geometry.zone_capacity.0 {
            self.set_state(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Moves the write pointer behind every written block.
    pub(super) fn pass_written(&mut self, zone: ZoneId) {
        let pointer = self.record(zone).write_pointer;
        let last = self.zones[zone.index()].scattered.last();
        if let Some(end) = last.map(|last| last + 1).filter(|end| *end > pointer.0) {
            self.pass(zone, ZoneOffset(end));
        }
    }

    fn pass(&mut self, zone: ZoneId, to: ZoneOffset) {
        let entry = &mut self.zones[zone.index()];
        for offset in entry.record.write_pointer.0..to.0 {
            if !entry.scattered.remove(&offset) {
                entry.scattered.insert(offset);
            }
        }
        entry.record.write_pointer = to;
    }

    /// Written blocks ahead of the write pointer.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn written_ahead(&self, zone: ZoneId) -> impl Iterator<Item = ZoneOffset> + '_ {
        let entry = &self.zones[zone.index()];
        entry.scattered.range(entry.record.write_pointer.0..).copied().map(ZoneOffset)
    }

    /// A power failure lost a block ahead of the write pointer.
    ///
    /// # Panics
    /// If no such block is written.
    pub fn lose_ahead(&mut self, at: ZoneAddress) {
        assert!(at.offset >= self.record(at.zone).write_pointer, "{at} is committed");
        assert!(self.zones[at.zone.index()].scattered.remove(&at.offset.0), "{at} is written");
    }
}
