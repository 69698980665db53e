//! The zone state machine of a drive, synchronous and without media.
//!
//! It decides as a ZNS drive does: the status of a command, the address of an append, the zone to
//! close so that another can open. Emulated drives run on it, and host code that mirrors a drive
//! can too. Statuses and the order of checks follow the NVMe Zoned Namespace command set. If it
//! leaves the order open, they follow QEMU's `hw/nvme`: transfer size, LBA range, append size,
//! random write area, zone state, write pointer, zone boundary, active limit, open limit, free
//! random write areas.
//!
//! Invariants: a refused command changes nothing. The open and active limits hold after every
//! step, as does that of random write areas. `Empty` means a write pointer of zero and nothing
//! else; a zone that is open or closed has room left.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    BlockCount, Geometry, GeometryError, Status, ZoneAddress, ZoneAttributes, ZoneId, ZoneInfo,
    ZoneOffset, ZoneState,
};

mod area;
mod events;
mod manage;
mod record;

pub use events::{CHANGED_ZONES_MAX, ChangedZones};
pub use record::{ImportError, ZoneRecord};

use record::after_restart;

#[derive(Clone, Debug)]
struct Zone {
    record: ZoneRecord,
    /// The key in `ZoneSet::implicit`, valid while the zone is implicitly open.
    opened: u64,
    /// The blocks about which the write pointer misleads: written ones ahead of it, in a random
    /// write area, and unwritten ones that it passed there.
    scattered: BTreeSet<u32>,
}

/// Every zone of one drive.
#[derive(Clone, Debug)]
pub struct ZoneSet {
    geometry: Geometry,
    zones: Vec<Zone>,
    /// Implicitly opened zones, the oldest first.
    implicit: BTreeMap<u64, ZoneId>,
    openings: u64,
    open: u32,
    active: u32,
    /// Random write areas in use.
    areas: u32,
    /// Descriptor extensions, of those zones that have one.
    extensions: BTreeMap<ZoneId, Bytes>,
    /// Zones that changed without a command since the list was last read.
    changed: BTreeSet<ZoneId>,
}

impl ZoneSet {
    /// A drive whose zones are all empty.
    ///
    /// # Errors
    /// If the geometry is impossible.
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        geometry.validate()?;
        let zone = Zone { record: ZoneRecord::NEW, opened: 0, scattered: BTreeSet::new() };
        Ok(Self {
            zones: vec![zone; geometry.zones as usize],
            geometry,
            implicit: BTreeMap::new(),
            openings: 0,
            open: 0,
            active: 0,
            areas: 0,
            extensions: BTreeMap::new(),
            changed: BTreeSet::new(),
        })
    }

    /// The record of one zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn record(&self, zone: ZoneId) -> ZoneRecord {
        self.zones[zone.index()].record
    }

    /// The drive's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Zones that count against the open-zone limit.
    #[must_use]
    pub fn open_zones(&self) -> u32 {
        self.open
    }

    /// Zones that count against the active-zone limit.
    #[must_use]
    pub fn active_zones(&self) -> u32 {
        self.active
    }

    /// Zones with a random write area.
    #[must_use]
    pub fn random_write_areas(&self) -> u32 {
        self.areas
    }

    /// The report entry of one zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn info(&self, zone: ZoneId) -> ZoneInfo {
        let ZoneRecord { state, write_pointer, resets, attributes } = self.record(zone);
        let capacity = self.geometry.zone_capacity;
        ZoneInfo { zone, state, write_pointer, capacity, resets, attributes }
    }

    /// Whether a block was written since the last reset of its zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn is_written(&self, at: ZoneAddress) -> bool {
        let zone = &self.zones[at.zone.index()];
        (at.offset < zone.record.write_pointer) != zone.scattered.contains(&at.offset.0)
    }

    /// How many blocks, from the first on, it takes to have all those of a range that are written.
    /// Those behind them read as zeros; without a random write area there are none among them.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn written_of(&self, at: ZoneAddress, blocks: BlockCount) -> BlockCount {
        let zone = &self.zones[at.zone.index()];
        if zone.scattered.is_empty() {
            let below = zone.record.write_pointer.0.saturating_sub(at.offset.0);
            return BlockCount(below.min(blocks.0));
        }
        let end = at.offset.0 + blocks.0;
        let is_written = |offset: &u32| self.is_written(ZoneAddress::new(at.zone, *offset));
        let last = (at.offset.0..end).rev().find(is_written);
        BlockCount(last.map_or(0, |last| last + 1 - at.offset.0))
    }

    /// Checks a read.
    ///
    /// # Errors
    /// The status of the command.
    pub fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
        self.check_transfer(at, blocks)?;
        if self.record(at.zone).state == ZoneState::Offline {
            return Err(Status::ZoneOffline);
        }
        let size = self.geometry.zone_size.0;
        if end_of(at.offset, blocks) > u64::from(size) && !self.geometry.reads_across_zones {
            return Err(Status::ZoneBoundary);
        }
        for (part, _) in self.parts(at, blocks) {
            if self.record(part.zone).state == ZoneState::Offline {
                return Err(Status::ZoneOffline);
            }
        }
        let written = |(part, blocks)| self.all_written(part, blocks);
        if self.geometry.unwritten_read_error && !self.parts(at, blocks).all(written) {
            return Err(Status::Deallocated);
        }
        Ok(())
    }

    /// The pieces of a range of blocks that may cross from zone to zone.
    pub fn parts(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> impl Iterator<Item = (ZoneAddress, BlockCount)> + use<> {
        let size = self.geometry.zone_size.0;
        let (mut at, mut left) = (at, blocks.0);
        std::iter::from_fn(move || {
            let part = (at, BlockCount(left.min(size - at.offset.0)));
            at = ZoneAddress::new(ZoneId(at.zone.0 + 1), 0);
            left -= part.1.0;
            (part.1.0 > 0).then_some(part)
        })
    }

    fn all_written(&self, at: ZoneAddress, blocks: BlockCount) -> bool {
        let zone = &self.zones[at.zone.index()];
        let end = at.offset.0 + blocks.0;
        if zone.scattered.is_empty() {
            return end <= zone.record.write_pointer.0;
        }
        (at.offset.0..end).all(|offset| self.is_written(ZoneAddress::new(at.zone, offset)))
    }

    /// Writes at the write pointer, or anywhere in the zone's random write area.
    ///
    /// # Errors
    /// The status of the command.
    pub fn write(&mut self, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
        self.check_transfer(at, blocks)?;
        self.check_writable(at.zone)?;
        if let Some(zrwa) = self.area(at.zone) {
            return self.write_to_area(at, blocks, zrwa);
        }
        if at.offset != self.record(at.zone).write_pointer {
            return Err(Status::ZoneInvalidWrite);
        }
        self.advance(at.zone, blocks)
    }

    /// Appends to a zone; returns where the blocks begin.
    ///
    /// # Errors
    /// The status of the command.
    pub fn append(&mut self, zone: ZoneId, blocks: BlockCount) -> Result<ZoneOffset, Status> {
        self.check_transfer(ZoneAddress::new(zone, 0), blocks)?;
        if blocks > self.geometry.append_limit {
            return Err(Status::InvalidField);
        }
        if self.area(zone).is_some() {
            return Err(Status::InvalidZoneOperation);
        }
        self.check_writable(zone)?;
        let start = self.record(zone).write_pointer;
        self.advance(zone, blocks)?;
        Ok(start)
    }

    fn check_zone(&self, zone: ZoneId) -> Result<(), Status> {
        if zone.0 < self.geometry.zones { Ok(()) } else { Err(Status::LbaOutOfRange) }
    }

    fn check_transfer(&self, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
        if blocks.0 == 0 || blocks > self.geometry.max_transfer {
            return Err(Status::InvalidField);
        }
        self.check_zone(at.zone)?;
        let size = u64::from(self.geometry.zone_size.0);
        let end = u64::from(at.zone.0) * size + end_of(at.offset, blocks);
        let in_zone = u64::from(at.offset.0) < size;
        if in_zone && end <= u64::from(self.geometry.zones) * size {
            Ok(())
        } else {
            Err(Status::LbaOutOfRange)
        }
    }

    fn check_writable(&self, zone: ZoneId) -> Result<(), Status> {
        match self.record(zone).state {
            ZoneState::Full => Err(Status::ZoneFull),
            ZoneState::ReadOnly => Err(Status::ZoneReadOnly),
            ZoneState::Offline => Err(Status::ZoneOffline),
            _ => Ok(()),
        }
    }

    /// Opens the zone if need be and moves its write pointer.
    fn advance(&mut self, zone: ZoneId, blocks: BlockCount) -> Result<(), Status> {
        let record = self.record(zone);
        let capacity = self.geometry.zone_capacity.0;
        if end_of(record.write_pointer, blocks) > u64::from(capacity) {
            return Err(Status::ZoneBoundary);
        }
        if !record.state.is_open() {
            self.open(zone, ZoneState::ImplicitlyOpen, false)?;
        }
        let write_pointer = record.write_pointer.plus(blocks);
        self.zones[zone.index()].record.write_pointer = write_pointer;
        if write_pointer.0 == capacity {
            self.set_state(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Opens an empty, open or closed zone, with a random write area if `area`, closing the oldest
    /// implicitly opened one for it where the open limit demands.
    fn open(&mut self, zone: ZoneId, target: ZoneState, area: bool) -> Result<(), Status> {
        let ZoneRecord { state, attributes, .. } = self.record(zone);
        if !state.is_active() && at_limit(self.active, self.geometry.max_active) {
            return Err(Status::TooManyActive);
        }
        let mut closing = None;
        if !state.is_open() && at_limit(self.open, self.geometry.max_open) {
            let (_, oldest) = self.implicit.first_key_value().ok_or(Status::TooManyOpen)?;
            closing = Some(*oldest);
        }
        let area = area && !attributes.contains(ZoneAttributes::RANDOM_WRITES);
        let resources = self.geometry.zrwa.map(|zrwa| zrwa.resources);
        if area && at_limit(self.areas, resources) {
            return Err(Status::ZrwaUnavailable);
        }
        if let Some(oldest) = closing {
            self.set_state(oldest, ZoneState::Closed);
        }
        self.set_state(zone, target);
        assert!(!is_above(self.open, self.geometry.max_open), "{} zones are open", self.open);
        assert!(!is_above(self.active, self.geometry.max_active), "{} are active", self.active);
        if area {
            self.areas += 1;
            let attributes = attributes.with(ZoneAttributes::RANDOM_WRITES);
            self.zones[zone.index()].record.attributes = attributes;
        }
        Ok(())
    }

    /// The only place where states change, so that the counts cannot go astray.
    fn set_state(&mut self, zone: ZoneId, next: ZoneState) {
        let entry = &mut self.zones[zone.index()];
        let before = std::mem::replace(&mut entry.record.state, next);
        if before == next {
            return;
        }
        if before == ZoneState::ImplicitlyOpen {
            self.implicit.remove(&entry.opened);
        }
        if next == ZoneState::ImplicitlyOpen {
            entry.opened = self.openings;
            self.openings += 1;
            self.implicit.insert(entry.opened, zone);
        }
        self.open = self.open + u32::from(next.is_open()) - u32::from(before.is_open());
        self.active = self.active + u32::from(next.is_active()) - u32::from(before.is_active());
        assert!(self.open <= self.active, "{} open and {} active zones", self.open, self.active);
        let attributes = entry.record.attributes.without(ZoneAttributes::FINISHED_BY_DRIVE);
        entry.record.attributes = attributes;
        if next.is_active() {
            return;
        }
        self.areas -= u32::from(attributes.contains(ZoneAttributes::RANDOM_WRITES));
        let gone = ZoneAttributes::RANDOM_WRITES.with(ZoneAttributes::FINISH_RECOMMENDED);
        entry.record.attributes = attributes.without(gone);
        if matches!(next, ZoneState::Empty | ZoneState::Offline) {
            entry.record.attributes = ZoneAttributes::NONE;
            self.extensions.remove(&zone);
        }
    }
}

fn is_above(count: u32, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| count > limit)
}

fn at_limit(count: u32, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| count >= limit)
}

fn end_of(offset: ZoneOffset, blocks: BlockCount) -> u64 {
    u64::from(offset.0) + u64::from(blocks.0)
}

#[cfg(test)]
mod tests;
