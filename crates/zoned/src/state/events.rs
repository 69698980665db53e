//! Changes of zones without a command, and the list by which the host learns of them.
//!
//! A drive keeps a list of zones that changed of its own accord (NVMe log page BFh): they became
//! read-only, offline or full, or the drive asks for a finish or a reset. Reading the list clears
//! it. A zone that was closed to let another one open is not on it.

use super::{ZoneSet, after_restart, at_limit};
use crate::{Geometry, Status, ZoneAttributes, ZoneId, ZoneOffset, ZoneRecord, ZoneState};

/// Most zones in the list.
pub const CHANGED_ZONES_MAX: usize = 511;

/// The zones that changed without a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedZones {
    /// The zones in order, at most [`CHANGED_ZONES_MAX`].
    pub zones: Vec<ZoneId>,
    /// More zones changed than the list holds: the host needs a report of all zones.
    pub overflow: bool,
}

impl ChangedZones {
    /// The 4096 bytes of the log page.
    #[must_use]
    pub fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let mut page = vec![0; 8 * (CHANGED_ZONES_MAX + 1)];
        let count = match self.overflow {
            true => u16::MAX,
            false => u16::try_from(self.zones.len()).expect("at most 511 zones are listed"),
        };
        page[..2].copy_from_slice(&count.to_le_bytes());
        for (place, zone) in page[8..].chunks_exact_mut(8).zip(&self.zones) {
            let start = u64::from(zone.0) * u64::from(geometry.zone_size.0);
            place.copy_from_slice(&start.to_le_bytes());
        }
        page
    }
}

impl ZoneSet {
    /// Whether zones changed without a command since the list was last read.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The zones that changed without a command.
    pub fn take_changed(&mut self) -> ChangedZones {
        let changed = std::mem::take(&mut self.changed);
        let overflow = changed.len() > CHANGED_ZONES_MAX;
        // As in the log page, a list that does not hold all of them holds none.
        let zones = if overflow { Vec::new() } else { changed.into_iter().collect() };
        ChangedZones { zones, overflow }
    }

    /// The drive finds the zone worn: it can be read, never written again. An offline zone stays
    /// offline.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn set_read_only(&mut self, zone: ZoneId) {
        if !matches!(self.record(zone).state, ZoneState::ReadOnly | ZoneState::Offline) {
            self.set_state(zone, ZoneState::ReadOnly);
            self.changed.insert(zone);
        }
    }

    /// The drive loses the zone.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn set_offline(&mut self, zone: ZoneId) {
        if self.record(zone).state != ZoneState::Offline {
            self.set_state(zone, ZoneState::Offline);
            self.changed.insert(zone);
        }
    }

    /// The drive makes an active zone full of its own accord, as after a zone active excursion.
    /// Other zones stay as they are.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn finish_by_drive(&mut self, zone: ZoneId) {
        if self.record(zone).state.is_active() {
            self.pass_written(zone);
            self.set_state(zone, ZoneState::Full);
            self.attribute(zone, ZoneAttributes::FINISHED_BY_DRIVE);
        }
    }

    /// The drive asks the host to finish an active zone. Nothing happens to others.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn recommend_finish(&mut self, zone: ZoneId) {
        if self.record(zone).state.is_active() {
            self.attribute(zone, ZoneAttributes::FINISH_RECOMMENDED);
        }
    }

    /// The drive asks the host to reset a zone, if it is one that can be.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn recommend_reset(&mut self, zone: ZoneId) {
        let state = self.record(zone).state;
        if state.is_active() || state == ZoneState::Full {
            self.attribute(zone, ZoneAttributes::RESET_RECOMMENDED);
        }
    }

    fn attribute(&mut self, zone: ZoneId, attribute: ZoneAttributes) {
        let record = &mut self.zones[zone.index()].record;
        if !record.attributes.contains(attribute) {
            record.attributes = record.attributes.with(attribute);
            self.changed.insert(zone);
        }
    }

    /// The controller starts again: open zones become closed, and active zones without a written
    /// block or a descriptor extension empty. Closed zones keep their random write areas. The list
    /// of changed zones is empty: a host that starts with the drive reads a report.
    pub fn restart(&mut self) {
        self.changed.clear();
        for zone in (0..self.geometry.zones).map(ZoneId) {
            let ahead = self.written_ahead(zone).next().is_some();
            self.set_state(zone, after_restart(self.record(zone), ahead));
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
    /// If the zone is open or has a random write area, or `to` lies above its write pointer.
    pub fn truncate(&mut self, zone: ZoneId, to: ZoneOffset) -> Result<(), Status> {
        let ZoneRecord { state, write_pointer, attributes, .. } = self.record(zone);
        assert!(!state.is_open(), "{zone} is open: restart before truncating");
        assert!(self.area(zone).is_none(), "{zone} has a random write area: it lost no tail");
        assert!(to <= write_pointer, "{zone} ends at {write_pointer:?}, before {to:?}");
        if to == write_pointer {
            return Ok(());
        }
        let filled = write_pointer.0 == self.geometry.zone_capacity.0;
        let nothing = to.0 == 0 && !attributes.contains(ZoneAttributes::EXTENDED);
        let next = match state {
            ZoneState::Closed if nothing => ZoneState::Empty,
            ZoneState::Full if filled && nothing => ZoneState::Empty,
            ZoneState::Full if filled => ZoneState::Closed,
            other => other,
        };
        if next.is_active() && !state.is_active() && at_limit(self.active, self.geometry.max_active)
        {
            return Err(Status::TooManyActive);
        }
        self.set_state(zone, next);
        let entry = &mut self.zones[zone.index()];
        entry.record.write_pointer = to;
        entry.scattered.split_off(&to.0);
        Ok(())
    }
}
