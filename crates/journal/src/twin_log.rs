//! The position in a log, and the operations that move it.

use zoneweave_zoned::{
    Geometry, Payload, ReportOptions, Status, ZoneAction, ZoneAddress, ZoneId, ZoneState,
    ZonedDevice, ZonedDeviceExt,
};

use crate::event::{Event, Observer};
use crate::write::{RECORD_TRIES, Written, write_record};

/// Most records of a zone, unless a log has a limit of its own
/// ([`TwinLog::with_zone_records`]): a scan has to read them all. Each takes a write unit.
pub const ZONE_RECORDS: u32 = 1024;

/// Position of a zone that takes no more records.
const NO_ROOM: u32 = u32::MAX;

/// A log in two zones of a drive. It does not hold the drive: each operation gets it, and gets the
/// same one.
///
/// Operations of one log must not overlap. An operation that fails or is cancelled leaves a log
/// that can be used: the current zone takes no more records, or it is the one from before the
/// switch.
#[derive(Clone, Debug)]
pub struct TwinLog {
    zones: [ZoneId; 2],
    /// Index of the zone being written.
    current: usize,
    /// The next block in it; [`NO_ROOM`] if it takes no more records.
    next: u32,
    /// Whether the other zone has to be reset before it can be written.
    twin_dirty: bool,
    /// Most records of a zone, its capacity apart.
    zone_records: u32,
    observe: Observer,
}

/// The outcome of [`TwinLog::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The record is durable.
    Written,
    /// The current zone takes no more records. Nothing was written, or a part that no scan takes
    /// for a record.
    NoRoom,
}

impl TwinLog {
    /// A log without any record, in two empty zones. Its first operation should be a switch, which
    /// goes to the first of them.
    ///
    /// # Panics
    /// If the zones are the same.
    #[must_use]
    pub fn begin(zones: [ZoneId; 2], observe: Observer) -> Self {
        assert!(zones[0] != zones[1], "two logs in one zone");
        let zone_records = ZONE_RECORDS;
        Self { zones, current: 1, next: 0, twin_dirty: false, zone_records, observe }
    }

    /// The same log with another limit of records in a zone. Each scan of it needs the same limit
    /// ([`Scan::read_long`](crate::Scan::read_long)).
    ///
    /// # Panics
    /// If the limit is zero.
    #[must_use]
    pub fn with_zone_records(mut self, zone_records: u32) -> Self {
        assert!(zone_records > 0, "a zone of no records");
        self.zone_records = zone_records;
        self
    }

    /// A log that goes on at the block `next` of one of its zones; `None` if that takes no more
    /// records.
    pub(crate) fn at(
        zones: [ZoneId; 2],
        current: usize,
        next: Option<u32>,
        twin_dirty: bool,
        observe: Observer,
    ) -> Self {
        assert!(zones[0] != zones[1], "two logs in one zone");
        assert!(current < 2, "a log has two zones");
        let (next, zone_records) = (next.unwrap_or(NO_ROOM), ZONE_RECORDS);
        Self { zones, current, next, twin_dirty, zone_records, observe }
    }

    /// Both zones.
    #[must_use]
    pub fn zones(&self) -> [ZoneId; 2] {
        self.zones
    }

    /// The zone being written.
    #[must_use]
    pub fn current(&self) -> ZoneId {
        self.zones[self.current]
    }

    /// Most records that a zone of a drive takes, and so most records of a snapshot.
    #[must_use]
    pub fn records_most(geometry: &Geometry) -> u32 {
        (geometry.zone_capacity.0 / geometry.write_unit.0).min(ZONE_RECORDS)
    }

    /// As [`TwinLog::records_most`], with the limit of this log.
    #[must_use]
    pub fn zone_records(&self, geometry: &Geometry) -> u32 {
        (geometry.zone_capacity.0 / geometry.write_unit.0).min(self.zone_records)
    }

    /// Whether the current zone takes another record, as far as is known.
    #[must_use]
    pub fn has_room(&self, geometry: &Geometry) -> bool {
        self.next / geometry.write_unit.0 < self.zone_records(geometry)
    }

    /// Appends a record to the current zone, durably. If a write fails and the drive then reports
    /// that nothing was written, it is tried again.
    ///
    /// # Errors
    /// The drive's status. The record may be on media nevertheless, and the current zone takes no
    /// more records.
    ///
    /// # Panics
    /// If the record is not one block.
    pub async fn append(
        &mut self,
        device: &dyn ZonedDevice,
        record: Payload,
    ) -> Result<Appended, Status> {
        if !self.has_room(device.geometry()) {
            return Ok(Appended::NoRoom);
        }
        let at = ZoneAddress::new(self.current(), self.next);
        // Not known until the drive has answered.
        self.next = NO_ROOM;
        match write_record(device, at, record, self.observe).await? {
            Written::InPart => Ok(Appended::NoRoom),
            Written::Whole => {
                self.next = at.offset.0 + device.geometry().write_unit.0;
                Ok(Appended::Written)
            }
        }
    }

    /// Writes a snapshot of `records` records to the other zone, durably, and makes that the
    /// current one. `record` encodes record `i` of the snapshot directly before it is written, the
    /// last of them closing the snapshot; a snapshot of which a record was written in part is
    /// encoded and written once more.
    ///
    /// Returns the zone from before. It is needed until the snapshot is durable on every drive that
    /// shares the decision, and is to be reset then ([`TwinLog::reset_old`]).
    ///
    /// # Errors
    /// The drive's status. The current zone remains the one from before.
    ///
    /// # Panics
    /// If a zone does not take as many records ([`TwinLog::zone_records`]), or none were given.
    pub async fn switch(
        &mut self,
        device: &dyn ZonedDevice,
        records: u32,
        mut record: impl FnMut(u32) -> Payload,
    ) -> Result<ZoneId, Status> {
        assert!(records > 0, "a snapshot of no records");
        let most = self.zone_records(device.geometry());
        assert!(records <= most, "a snapshot of {records} records for a zone of {most}");
        let (old, twin) = (self.current(), self.zones[1 - self.current]);
        if self.twin_dirty {
            (self.observe)(Event::ResetLate);
            // Records that were scanned in the current zone may be in the drive's cache only.
            device.flush().await?;
            device.manage(twin, ZoneAction::Reset).await?;
        }
        self.twin_dirty = true;
        let mut tries = 1..RECORD_TRIES;
        let next = loop {
            if let Some(next) = self.write_snapshot(device, twin, records, &mut record).await? {
                break next;
            }
            tries.next().ok_or(Status::WriteFault)?;
            // Nothing in it is valid yet.
            device.manage(twin, ZoneAction::Reset).await?;
        };
        self.current = 1 - self.current;
        self.next = next;
        assert!(self.current() != old, "the log has switched zones");
        Ok(old)
    }

    /// Writes the records of a snapshot; returns the block behind them, or `None` if one was
    /// written in part.
    async fn write_snapshot(
        &self,
        device: &dyn ZonedDevice,
        zone: ZoneId,
        records: u32,
        record: &mut impl FnMut(u32) -> Payload,
    ) -> Result<Option<u32>, Status> {
        let unit = device.geometry().write_unit.0;
        for index in 0..records {
            let at = ZoneAddress::new(zone, index * unit);
            if write_record(device, at, record(index), self.observe).await? == Written::InPart {
                return Ok(None);
            }
        }
        Ok(Some(records * unit))
    }

    /// Records that the old zone was reset after the last switch, by a caller that resets zones
    /// itself.
    pub fn old_is_reset(&mut self) {
        self.twin_dirty = false;
    }

    /// Resets the old zone after a switch, and checks that it is empty. It must not be called
    /// before the snapshot is durable wherever it is needed: the records in the old zone are gone
    /// then.
    ///
    /// # Errors
    /// The drive's status; [`Status::InternalError`] if it reports a reset that did not happen. The
    /// next switch tries again.
    pub async fn reset_old(&mut self, device: &dyn ZonedDevice) -> Result<(), Status> {
        let old = self.zones[1 - self.current];
        device.manage(old, ZoneAction::Reset).await?;
        let report = device.report_by(old, 1, ReportOptions::default()).await?;
        let is_empty = |zone: ZoneId, state| zone == old && state == ZoneState::Empty;
        if !report.zones.iter().any(|info| is_empty(info.zone, info.state)) {
            return Err(Status::InternalError);
        }
        self.old_is_reset();
        Ok(())
    }
}
