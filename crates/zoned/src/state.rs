//! The zone state machine of a drive, synchronous and without media.
//!
//! It decides what a ZNS drive decides: which status a command gets, where an append lands, which
//! zone is closed to make room for another. Emulated drives run on it, and host code that mirrors
//! a drive can too. Statuses and the order of checks are those of the NVMe Zoned Namespace command
//! set; where it leaves the order open, those of QEMU's `hw/nvme` (transfer size, LBA range, append
//! size, zone state, write pointer, zone boundary, active limit, open limit).
//!
//! Invariants: a refused command changes nothing. The open and active limits hold after every
//! step. `Empty` means a write pointer of zero; a zone that is open or closed has room left.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    BlockCount, Geometry, GeometryError, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo,
    ZoneOffset, ZoneState,
};

/// What of a zone survives a restart of its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The state when the record was made.
    pub state: ZoneState,
    /// The next block to be written; for full zones the capacity, or where a finish cut it off.
    pub write_pointer: ZoneOffset,
    /// How often a reset emptied the zone.
    pub resets: u64,
}

impl ZoneRecord {
    /// A zone as it leaves the factory.
    pub const NEW: Self = Self { state: ZoneState::Empty, write_pointer: ZoneOffset(0), resets: 0 };
}

/// Zone records that no drive of the geometry can have.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImportError {
    /// The geometry itself is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A record too few or too many.
    #[error("{found} zone records for {expected} zones: the records are of another drive")]
    WrongCount {
        /// Records given.
        found: usize,
        /// Zones of the geometry.
        expected: u32,
    },
    /// A write pointer that does not go with the zone's state or capacity.
    #[error("{zone} is {state:?} with its write pointer at block {} of {capacity}: \
             the record is damaged, restore it or reset the zone", .write_pointer.0)]
    WritePointer {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        state: ZoneState,
        /// Its write pointer.
        write_pointer: ZoneOffset,
        /// What it could hold.
        capacity: BlockCount,
    },
    /// More zones are partly written than the drive can hold.
    #[error("{found} partly written zones, the drive's limit is {limit}: the records are damaged")]
    TooManyActive {
        /// Partly written zones.
        found: u32,
        /// The active-zone limit.
        limit: u32,
    },
}

#[derive(Clone, Debug)]
struct Zone {
    record: ZoneRecord,
    /// The key in `ZoneSet::implicit`, valid while the zone is implicitly open.
    opened: u64,
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
}

impl ZoneSet {
    /// A drive whose zones are all empty.
    ///
    /// # Errors
    /// If the geometry is impossible.
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        geometry.validate()?;
        let zone = Zone { record: ZoneRecord::NEW, opened: 0 };
        let zones = vec![zone; geometry.zones as usize];
        let implicit = BTreeMap::new();
        Ok(Self { geometry, zones, implicit, openings: 0, open: 0, active: 0 })
    }

    /// A drive that starts again with the records of its last life: open zones are closed, and
    /// active zones without a written block are empty, as after a controller shutdown.
    ///
    /// # Errors
    /// If the records contradict the geometry or themselves.
    pub fn import(geometry: Geometry, records: &[ZoneRecord]) -> Result<Self, ImportError> {
        let mut set = Self::new(geometry)?;
        if records.len() != set.zones.len() {
            let (found, expected) = (records.len(), set.geometry.zones);
            return Err(ImportError::WrongCount { found, expected });
        }
        for (zone, record) in (0..).map(ZoneId).zip(records) {
            set.check_record(zone, *record)?;
            set.zones[zone.index()].record = ZoneRecord { state: ZoneState::Empty, ..*record };
            set.set_state(zone, after_restart(*record));
        }
        match set.geometry.max_active {
            Some(limit) if set.active > limit => {
                Err(ImportError::TooManyActive { found: set.active, limit })
            }
            _ => Ok(set),
        }
    }

    /// The records of all zones, in order.
    pub fn export(&self) -> impl ExactSizeIterator<Item = ZoneRecord> + '_ {
        self.zones.iter().map(|zone| zone.record)
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

    /// The report entry of one zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn info(&self, zone: ZoneId) -> ZoneInfo {
        let ZoneRecord { state, write_pointer, resets } = self.record(zone);
        ZoneInfo { zone, state, write_pointer, capacity: self.geometry.zone_capacity, resets }
    }

    /// At most `count` report entries from `first` on.
    ///
    /// # Errors
    /// [`Status::LbaOutOfRange`] if `first` is no zone of the drive.
    pub fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneInfo>, Status> {
        self.check_zone(first)?;
        let end = first.0.saturating_add(count).min(self.geometry.zones);
        Ok((first.0..end).map(|zone| self.info(ZoneId(zone))).collect())
    }

    /// Checks a read; returns how many of its blocks, from the first on, lie below the write
    /// pointer. The others read as zeros.
    ///
    /// # Errors
    /// The status the drive answers.
    pub fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Result<BlockCount, Status> {
        self.check_transfer(at, blocks)?;
        let ZoneRecord { state, write_pointer, .. } = self.record(at.zone);
        if state == ZoneState::Offline {
            return Err(Status::ZoneOffline);
        }
        if end_of(at.offset, blocks) > u64::from(self.geometry.zone_size.0) {
            return Err(Status::ZoneBoundary);
        }
        Ok(BlockCount(write_pointer.0.saturating_sub(at.offset.0).min(blocks.0)))
    }

    /// Writes at the write pointer.
    ///
    /// # Errors
    /// The status the drive answers.
    pub fn write(&mut self, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
        self.check_transfer(at, blocks)?;
        self.check_writable(at.zone)?;
        if at.offset != self.record(at.zone).write_pointer {
            return Err(Status::ZoneInvalidWrite);
        }
        self.advance(at.zone, blocks)
    }

    /// Appends to a zone; returns where the blocks begin.
    ///
    /// # Errors
    /// The status the drive answers.
    pub fn append(&mut self, zone: ZoneId, blocks: BlockCount) -> Result<ZoneOffset, Status> {
        self.check_transfer(ZoneAddress::new(zone, 0), blocks)?;
        if blocks > self.geometry.append_limit {
            return Err(Status::InvalidField);
        }
        self.check_writable(zone)?;
        let start = self.record(zone).write_pointer;
        self.advance(zone, blocks)?;
        Ok(start)
    }

    /// Changes the state of a zone.
    ///
    /// # Errors
    /// The status the drive answers.
    pub fn manage(&mut self, zone: ZoneId, action: ZoneAction) -> Result<(), Status> {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
        self.check_zone(zone)?;
        match (action, self.record(zone).state) {
            (ZoneAction::Close, Closed)
            | (ZoneAction::Finish, Full)
            | (ZoneAction::Reset, Empty)
            | (ZoneAction::Offline, Offline) => Ok(()),
            (ZoneAction::Open, Empty | ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                self.open(zone, ExplicitlyOpen)
            }
            (ZoneAction::Close, ImplicitlyOpen | ExplicitlyOpen) => {
                self.set_state(zone, Closed);
                Ok(())
            }
            (ZoneAction::Finish, Empty | ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                self.set_state(zone, Full);
                Ok(())
            }
            (ZoneAction::Reset, ImplicitlyOpen | ExplicitlyOpen | Closed | Full) => {
                self.set_state(zone, Empty);
                let record = &mut self.zones[zone.index()].record;
                record.write_pointer = ZoneOffset(0);
                record.resets += 1;
                Ok(())
            }
            (ZoneAction::Offline, ReadOnly) => {
                self.set_state(zone, Offline);
                Ok(())
            }
            _ => Err(Status::InvalidTransition),
        }
    }

    /// The drive finds the zone worn: it can be read, never written again. An offline zone stays
    /// offline.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn set_read_only(&mut self, zone: ZoneId) {
        if self.record(zone).state != ZoneState::Offline {
            self.set_state(zone, ZoneState::ReadOnly);
        }
    }

    /// The drive loses the zone.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn set_offline(&mut self, zone: ZoneId) {
        self.set_state(zone, ZoneState::Offline);
    }

    /// The controller starts again: open zones become closed, and active zones without a written
    /// block empty.
    pub fn restart(&mut self) {
        for zone in (0..self.geometry.zones).map(ZoneId) {
            self.set_state(zone, after_restart(self.record(zone)));
        }
    }

    /// A power failure lost the blocks from `to` on. A zone that was full because its last block
    /// was written is closed again; a finished zone stays full.
    ///
    /// # Errors
    /// [`Status::TooManyActive`], without any change, if the zone cannot become active again: a
    /// drive with limits must not lose the tail of such a zone.
    ///
    /// # Panics
    /// If the zone is open, or `to` lies above its write pointer.
    pub fn truncate(&mut self, zone: ZoneId, to: ZoneOffset) -> Result<(), Status> {
        let ZoneRecord { state, write_pointer, .. } = self.record(zone);
        assert!(!state.is_open(), "{zone} is open: restart before truncating");
        assert!(to <= write_pointer, "{zone} ends at {write_pointer:?}, before {to:?}");
        if to == write_pointer {
            return Ok(());
        }
        let filled = write_pointer.0 == self.geometry.zone_capacity.0;
        let next = match state {
            ZoneState::Closed if to.0 == 0 => ZoneState::Empty,
            ZoneState::Full if filled && to.0 == 0 => ZoneState::Empty,
            ZoneState::Full if filled => ZoneState::Closed,
            other => other,
        };
        if next.is_active() && !state.is_active() && at_limit(self.active, self.geometry.max_active)
        {
            return Err(Status::TooManyActive);
        }
        self.set_state(zone, next);
        self.zones[zone.index()].record.write_pointer = to;
        Ok(())
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
            self.open(zone, ZoneState::ImplicitlyOpen)?;
        }
        let write_pointer = record.write_pointer.plus(blocks);
        self.zones[zone.index()].record.write_pointer = write_pointer;
        if write_pointer.0 == capacity {
            self.set_state(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Opens an empty, open or closed zone, closing the oldest implicitly opened one for it where
    /// the open limit demands.
    fn open(&mut self, zone: ZoneId, target: ZoneState) -> Result<(), Status> {
        let state = self.record(zone).state;
        if !state.is_active() && at_limit(self.active, self.geometry.max_active) {
            return Err(Status::TooManyActive);
        }
        if !state.is_open() && at_limit(self.open, self.geometry.max_open) {
            let Some((_, &oldest)) = self.implicit.first_key_value() else {
                return Err(Status::TooManyOpen);
            };
            self.set_state(oldest, ZoneState::Closed);
        }
        self.set_state(zone, target);
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
    }

    fn check_record(&self, zone: ZoneId, record: ZoneRecord) -> Result<(), ImportError> {
        let ZoneRecord { state, write_pointer, .. } = record;
        let capacity = self.geometry.zone_capacity;
        let possible = match state {
            ZoneState::Empty => write_pointer.0 == 0,
            state if state.is_active() => write_pointer.0 < capacity.0,
            _ => write_pointer.0 <= capacity.0,
        };
        if possible {
            Ok(())
        } else {
            Err(ImportError::WritePointer { zone, state, write_pointer, capacity })
        }
    }
}

fn after_restart(record: ZoneRecord) -> ZoneState {
    match record.state {
        state if state.is_active() && record.write_pointer.0 == 0 => ZoneState::Empty,
        state if state.is_active() => ZoneState::Closed,
        state => state,
    }
}

fn at_limit(count: u32, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| count >= limit)
}

fn end_of(offset: ZoneOffset, blocks: BlockCount) -> u64 {
    u64::from(offset.0) + u64::from(blocks.0)
}

#[cfg(test)]
mod tests;
