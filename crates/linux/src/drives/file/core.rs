//! The state of an open drive: its file, the controller, and a queue of changes for each zone.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::media_format::DriveLayout;
use zoneweave_emulator::{Admission, Controller, Due, Pace, Request};
use zoneweave_runtime::{Gate, Handle};
use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneAddress, ZoneId, ZoneRecord};

use super::error::DriveFailure;
use super::open::{self, OpenFile};
use super::sync::Syncs;
use super::tickets::Tickets;
use super::zone_queue::{Change, EntryId, Kind, Queued, Ticket, ZoneQueue};
use crate::drives::access::Access;
use crate::drives::media::Repeats;
use crate::ring::{Descriptor, Ring};

/// An open drive.
pub(super) struct Drive {
    pub(super) ring: Ring,
    pub(super) handle: Handle,
    pub(super) file: Descriptor,
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) layout: DriveLayout,
    pub(super) geometry: Geometry,
    pub(super) controller: RefCell<Controller>,
    /// Absent for drives that are as fast as they can be.
    pub(super) pace: Option<Pace>,
    zones: Vec<Zone>,
    pub(super) tickets: Tickets,
    pub(super) syncs: Syncs,
    pub(super) repeats: Repeats,
    /// The first bytes of the file when it was opened.
    pub(super) header: Bytes,
    /// Whether the file has another header now.
    pub(super) header_lost: Cell<bool>,
    /// The last error of a write to the file, in words; except that it has no room.
    pub(super) write_error: RefCell<Option<String>>,
    failure: RefCell<Option<Rc<DriveFailure>>>,
}

pub(super) struct Zone {
    pub(super) queue: RefCell<ZoneQueue>,
    /// Opened when an entry is done with.
    pub(super) changed: Gate,
}

/// A zone's record before and after an admitted command.
#[derive(Clone, Copy)]
pub(super) struct Admitted {
    before: ZoneRecord,
    after: ZoneRecord,
}

/// Zone records as they were before a command: of its zone, or of all if it is for all.
pub(super) enum Before {
    One(Option<ZoneRecord>),
    All(Vec<ZoneRecord>),
}

impl Admitted {
    /// Whether the zone's record is another one now.
    pub(super) fn is_change(self) -> bool {
        self.before != self.after
    }
}

impl Drive {
    pub(super) fn new(ring: &Ring, handle: &Handle, opened: OpenFile, pace: Option<Pace>) -> Self {
        let zone_count = opened.zones.geometry().zones as usize;
        assert_eq!(opened.records.len(), zone_count, "a file has one record a zone");
        let controller = RefCell::new(controller(&opened));
        let zone = |stored: &zoneweave_emulator::media_format::StoredRecord| Zone {
            queue: RefCell::new(ZoneQueue::new(stored.record, stored.sequence)),
            changed: Gate::new(),
        };
        Self {
            ring: ring.clone(),
            handle: handle.clone(),
            file: Rc::new(opened.file.into()),
            path: opened.path,
            access: opened.access,
            geometry: opened.zones.geometry().clone(),
            layout: opened.layout,
            controller,
            pace,
            zones: opened.records.iter().map(zone).collect(),
            tickets: Tickets::default(),
            syncs: Syncs::default(),
            repeats: Repeats::default(),
            header: opened.header,
            header_lost: Cell::new(false),
            write_error: RefCell::default(),
            failure: RefCell::default(),
        }
    }

    pub(super) fn failure(&self) -> Option<Rc<DriveFailure>> {
        self.failure.borrow().clone()
    }

    /// Ends the drive: everything under way and everything later is answered
    /// [`Status::DeviceGone`].
    pub(super) fn die(&self, failure: DriveFailure) {
        if self.failure.borrow().is_some() {
            return;
        }
        self.failure.replace(Some(Rc::new(failure)));
        self.controller.borrow_mut().set_gone(true);
        self.tickets.abandon();
        for zone in &self.zones {
            zone.queue.borrow_mut().abandon(Status::DeviceGone);
            zone.changed.open();
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Ends the drive if its file is not there in full; says whether it lives.
    pub(super) fn examine(&self) -> bool {
        match open::check(&self.file, self.layout.file_bytes()) {
            Ok(()) => {}
            Err(failure) => self.die(failure),
        }
        !self.is_dead()
    }

    /// When a command that is about to be admitted may complete, if that is anybody's business.
    pub(super) fn due(&self, request: &Request) -> Option<Due> {
        let pace = self.pace.as_ref()?;
        Some(pace.begin(request, self.controller.borrow().zones()))
    }

    /// Lets the controller decide about a command.
    pub(super) fn admit(&self, request: &Request) -> (Admission, Before) {
        let mut controller = self.controller.borrow_mut();
        let zones = controller.zones();
        let zone = request.zone().filter(|zone| zone.0 < self.geometry.zones);
        let before = match request {
            Request::ManageAll { .. } => Before::All(zones.export().collect()),
            _ => Before::One(zone.map(|zone| zones.record(zone))),
        };
        (controller.admit(request), before)
    }

    /// The change that the command just admitted made to a zone.
    pub(super) fn admitted(&self, zone: ZoneId, before: &Before) -> Admitted {
        let before = match before {
            Before::One(record) => *record,
            Before::All(records) => records.get(zone.index()).copied(),
        };
        let before = before.expect("the controller admits changes of existing zones only");
        Admitted { before, after: self.controller.borrow().zones().record(zone) }
    }

    pub(super) fn keep_extension(&self, zone: ZoneId, extension: Bytes) {
        self.controller.borrow_mut().zones_mut().store_extension(zone, extension);
    }

    /// Queues the change that an admitted command makes.
    pub(super) fn enqueue(&self, zone: ZoneId, kind: Kind, admitted: Admitted) -> Queued {
        assert!(self.access == Access::Exclusive, "a drive opened read-only queues no change");
        let Admitted { before, after: record } = admitted;
        let (was_active, is_active) = (before.state.is_active(), record.state.is_active());
        // Only a zone that becomes active waits: a zone that waited for its own ticket would wait
        // for ever.
        let after = if is_active && !was_active { self.tickets.latest() } else { Ticket::NONE };
        let frees = was_active && !is_active;
        let tickets = if frees { vec![self.tickets.draw()] } else { Vec::new() };
        let change = Change { kind, record, after, tickets };
        self.zone(zone).queue.borrow_mut().push(change)
    }

    pub(super) fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.index()]
    }

    /// The entry that must be over before the file holds all blocks of this read, if any.
    pub(super) fn in_the_way_of_read(
        &self,
        at: ZoneAddress,
        written: BlockCount,
    ) -> Option<EntryId> {
        let queue = self.zone(at.zone).queue.borrow();
        let end = at.offset.plus(written);
        if end > queue.published().write_pointer { queue.latest() } else { None }
    }
}

/// A controller with the zones, defects and wear of an opened file.
fn controller(opened: &OpenFile) -> Controller {
    let mut controller = Controller::with_zones(opened.zones.clone());
    for at in &opened.unreadable {
        controller.set_unreadable(*at, BlockCount(1));
    }
    if let Some(wear) = opened.wear.clone() {
        controller.restore_wear(wear);
    }
    controller
}
