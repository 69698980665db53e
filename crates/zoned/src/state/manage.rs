//! Zone management: one zone, all zones, descriptor extensions.

use bytes::Bytes;

use super::{ZoneSet, at_limit};
use crate::{Status, ZoneAction, ZoneAttributes, ZoneId, ZoneOffset, ZoneState};

impl ZoneSet {
    /// Changes the state of a zone.
    ///
    /// # Errors
    /// The status of the command.
    pub fn manage(&mut self, zone: ZoneId, action: ZoneAction) -> Result<(), Status> {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
        self.check_zone(zone)?;
        match (action, self.record(zone).state) {
            (ZoneAction::FlushZrwa { last }, _) => self.flush_area(zone, last),
            (ZoneAction::OpenWithZrwa, state) => self.open_with_area(zone, state),
            (ZoneAction::Close, Closed)
            | (ZoneAction::Finish, Full)
            | (ZoneAction::Reset, Empty)
            | (ZoneAction::Offline, Offline) => Ok(()),
            (ZoneAction::Open, Empty | ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                self.open(zone, ExplicitlyOpen, false)
            }
            (ZoneAction::Close, ImplicitlyOpen | ExplicitlyOpen) => {
                self.set_state(zone, Closed);
                Ok(())
            }
            (ZoneAction::Finish, Empty | ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                self.pass_written(zone);
                self.set_state(zone, Full);
                Ok(())
            }
            (ZoneAction::Reset, ImplicitlyOpen | ExplicitlyOpen | Closed | Full) => {
                self.set_state(zone, Empty);
                let entry = &mut self.zones[zone.index()];
                entry.scattered.clear();
                entry.record.write_pointer = ZoneOffset(0);
                entry.record.resets += 1;
                Ok(())
            }
            (ZoneAction::Offline, ReadOnly) => {
                self.set_state(zone, Offline);
                Ok(())
            }
            _ => Err(Status::InvalidTransition),
        }
    }

    /// Opens a zone explicitly, with a random write area. The write pointer has to be where a
    /// flush of the area could have left it. (QEMU reports a wrong one as a lack of areas.)
    fn open_with_area(&mut self, zone: ZoneId, state: ZoneState) -> Result<(), Status> {
        let zrwa = self.geometry.zrwa.ok_or(Status::InvalidZoneOperation)?;
        if !(state.is_active() || state == ZoneState::Empty) {
            return Err(Status::InvalidTransition);
        }
        let pointer = self.record(zone).write_pointer;
        if !pointer.0.is_multiple_of(zrwa.flush_granularity.0) {
            return Err(Status::InvalidField);
        }
        self.open(zone, ZoneState::ExplicitlyOpen, true)
    }

    /// Applies the action to every zone that it selects (NVMe Select All). These are fewer than the
    /// zones that allow it: open selects closed zones; close selects open ones; finish selects open
    /// and closed ones; reset selects these and full ones; offline selects read-only ones. Returns
    /// the zones changed.
    ///
    /// To open all closed zones is done for all of them or none. Implicitly opened zones are closed
    /// to make room; they are not opened again.
    ///
    /// # Errors
    /// The status of the command.
    pub fn manage_all(&mut self, action: ZoneAction) -> Result<Vec<ZoneId>, Status> {
        let chosen: fn(ZoneState) -> bool = match action {
            ZoneAction::Open => |state| state == ZoneState::Closed,
            ZoneAction::Close => ZoneState::is_open,
            ZoneAction::Finish => ZoneState::is_active,
            ZoneAction::Reset => |state| state.is_active() || state == ZoneState::Full,
            ZoneAction::Offline => |state| state == ZoneState::ReadOnly,
            ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => {
                return Err(Status::InvalidField);
            }
        };
        let zones: Vec<_> = (0..self.geometry.zones)
            .map(ZoneId)
            .filter(|zone| chosen(self.record(*zone).state))
            .collect();
        if action == ZoneAction::Open {
            self.make_room(zones.len())?;
        }
        for zone in &zones {
            self.manage(*zone, action).expect("the action is allowed for zones chosen by state");
        }
        Ok(zones)
    }

    /// Closes implicitly opened zones until `more` zones can be opened.
    fn make_room(&mut self, more: usize) -> Result<(), Status> {
        let Some(limit) = self.geometry.max_open else { return Ok(()) };
        let explicit = self.open as usize - self.implicit.len();
        if explicit + more > limit as usize {
            return Err(Status::TooManyOpen);
        }
        while self.open as usize + more > limit as usize {
            let (_, oldest) = self.implicit.first_key_value().expect("the others have room");
            self.set_state(*oldest, ZoneState::Closed);
        }
        Ok(())
    }

    /// Sets the extension of an empty zone's descriptor, which makes the zone closed. The
    /// extension, of `bytes` bytes, is zeros until it is [stored](ZoneSet::store_extension).
    ///
    /// # Errors
    /// The status of the command.
    pub fn extend(&mut self, zone: ZoneId, bytes: usize) -> Result<(), Status> {
        let expected = self.geometry.descriptor_extension_bytes as usize;
        if expected == 0 || bytes != expected {
            return Err(Status::InvalidField);
        }
        self.check_zone(zone)?;
        if self.record(zone).state != ZoneState::Empty {
            return Err(Status::InvalidTransition);
        }
        if at_limit(self.active, self.geometry.max_active) {
            return Err(Status::TooManyActive);
        }
        self.set_state(zone, ZoneState::Closed);
        self.zones[zone.index()].record.attributes = ZoneAttributes::EXTENDED;
        Ok(())
    }

    /// Keeps the bytes of a zone's extension, just set or of an imported zone.
    ///
    /// # Panics
    /// If the zone has no extension, or the length is another.
    pub fn store_extension(&mut self, zone: ZoneId, extension: Bytes) {
        let attributes = self.record(zone).attributes;
        assert!(attributes.contains(ZoneAttributes::EXTENDED), "{zone} has no extension");
        assert_eq!(extension.len(), self.geometry.descriptor_extension_bytes as usize);
        self.extensions.insert(zone, extension);
    }

    /// The extension of a zone's descriptor: zeros if it has none.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn extension(&self, zone: ZoneId) -> Bytes {
        assert!(zone.0 < self.geometry.zones, "{zone} of {}", self.geometry.zones);
        let none = || vec![0; self.geometry.descriptor_extension_bytes as usize].into();
        self.extensions.get(&zone).cloned().unwrap_or_else(none)
    }
}
