//! The tasks of a drive in a file: one for each command, one for each record being published.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use futures_util::future::join;
use zoneweave_emulator::media_format::DriveLayout;
use zoneweave_emulator::{Admission, Controller, Due, Pace, Request, ZonePart};
use zoneweave_runtime::{Gate, Handle, Nanos};
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Geometry, Payload, Reply, Status, ZoneAction,
    ZoneAddress, ZoneId, ZoneOffset, ZoneRecord, ZoneSet, zero_blocks,
};

use super::error::DriveFailure;
use super::open::{self, OpenFile};
use super::sync::Syncs;
use super::tickets::Tickets;
use super::zone_queue::{Change, EntryId, Epoch, Kind, Publication, Queued, Ticket, ZoneQueue};
use crate::drives::access::Access;
use crate::ring::{Descriptor, Ring};

/// How often a drive looks whether its file is still there.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

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
    tickets: Tickets,
    pub(super) syncs: Syncs,
    failure: RefCell<Option<Rc<DriveFailure>>>,
}

struct Zone {
    queue: RefCell<ZoneQueue>,
    /// Opened when an entry is done with.
    changed: Gate,
}

/// What an admitted command did to the record of a zone.
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

    fn is_dead(&self) -> bool {
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

    /// What the command just admitted did to a zone.
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
        let Admitted { before, after: record } = admitted;
        let (was_active, is_active) = (before.state.is_active(), record.state.is_active());
        // Only a zone that becomes active waits: one that waited for its own ticket would wait
        // for ever.
        let after = if is_active && !was_active { self.tickets.latest() } else { Ticket::NONE };
        let frees = was_active && !is_active;
        let tickets = if frees { vec![self.tickets.draw()] } else { Vec::new() };
        let change = Change { kind, record, after, tickets };
        self.zone(zone).queue.borrow_mut().push(change)
    }

    fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.index()]
    }

    /// What must be over before a read of blocks below the controller's write pointer can find
    /// them in the file.
    pub(super) fn in_the_way_of_read(
        &self,
        at: ZoneAddress,
        written: BlockCount,
    ) -> Option<EntryId> {
        let queue = self.zone(at.zone).queue.borrow();
        let end = at.offset.plus(written);
        if end > queue.published().write_pointer { queue.latest() } else { None }
    }

    pub(super) async fn read(
        self: Rc<Self>,
        at: ZoneAddress,
        blocks: BlockCount,
        written: BlockCount,
        after: Option<EntryId>,
    ) -> Result<Reply, Status> {
        if let Some(after) = after {
            let zone = self.zone(at.zone);
            while !zone.queue.borrow().is_past(after) && !self.is_dead() {
                zone.changed.wait().await;
            }
        }
        match self.load(at, blocks, written).await {
            Ok(payload) => Ok(Reply::Read(payload)),
            Err(_) if !self.examine() => Err(Status::DeviceGone),
            Err(_) => Err(Status::UnrecoveredRead),
        }
    }

    /// Reads parts of several zones, each with what is in its way.
    pub(super) async fn read_across(
        self: Rc<Self>,
        parts: Vec<(ZonePart, Option<EntryId>)>,
    ) -> Result<Reply, Status> {
        let mut payloads = Vec::with_capacity(parts.len());
        for (part, after) in parts {
            let read = self.clone().read(part.at, part.blocks, part.written, after);
            if let Reply::Read(payload) = read.await? {
                payloads.push(payload);
            }
        }
        Ok(Reply::Read(Payload::joined(payloads)))
    }

    /// Blocks from the file, zeros from the write pointer on.
    async fn load(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
        written: BlockCount,
    ) -> io::Result<Payload> {
        let oob_bytes = match self.geometry.oob {
            zoneweave_zoned::OobKind::None => 0,
            _ => blocks.oob_bytes(),
        };
        let data = AlignedBuffer::zeroed(blocks);
        let oob_memory = BlockCount::of_data_bytes(oob_bytes.next_multiple_of(BLOCK_BYTES));
        let oob = AlignedBuffer::zeroed(oob_memory);
        if written.0 == 0 {
            return Ok(Payload::new(data.freeze(), oob.freeze().slice(..oob_bytes)));
        }
        let data_from = self.layout.data_position(at);
        let data = self.ring.read_exact_at(&self.file, data, written.data_bytes(), data_from);
        let oob_from = self.layout.oob_position(at);
        let oob_length = if oob_from.is_some() { written.oob_bytes() } else { 0 };
        let oob = self.ring.read_exact_at(&self.file, oob, oob_length, oob_from.unwrap_or(0));
        let (data, oob) = join(data, oob).await;
        Ok(Payload::new(data?.freeze(), oob?.freeze().slice(..oob_bytes)))
    }

    pub(super) async fn write(
        self: Rc<Self>,
        at: ZoneAddress,
        payload: Payload,
        fua: bool,
        queued: Queued,
    ) -> Result<(), Status> {
        let zone = self.zone(at.zone);
        self.turn(zone, queued.epoch).await;
        let given_up = self.is_dead() || zone.queue.borrow().has_failed(queued.id);
        let stored = if given_up { Ok(()) } else { self.store(at, payload).await };
        match stored {
            Ok(()) => zone.queue.borrow_mut().finished(queued.id),
            Err(error) => self.write_failed(at.zone, queued.id, &error),
        }
        zone.changed.open();
        self.publish(at.zone);
        queued.answer.await.unwrap_or(Err(Status::Aborted))?;
        if fua { self.sync().await } else { Ok(()) }
    }

    /// Waits until everything of earlier epochs has left the file.
    async fn turn(&self, zone: &Zone, epoch: Epoch) {
        while !zone.queue.borrow().may_start(epoch) && !self.is_dead() {
            zone.changed.wait().await;
        }
    }

    async fn store(&self, at: ZoneAddress, payload: Payload) -> io::Result<()> {
        let blocks = payload.blocks();
        let data_at = self.layout.data_position(at);
        let data = self.ring.write_all_at(&self.file, payload.data, data_at);
        let Some(oob_at) = self.layout.oob_position(at) else { return data.await };
        let oob = if payload.oob.is_empty() { zero_oob(blocks) } else { payload.oob };
        let oob = self.ring.write_all_at(&self.file, vec![oob], oob_at);
        let (data, oob) = join(data, oob).await;
        data.and(oob)
    }

    /// Takes back what the controller granted: the write pointer returns to the end of what is
    /// stored. A zone that ran into a media error is written no more.
    fn write_failed(&self, zone: ZoneId, id: EntryId, error: &io::Error) {
        if !self.examine() {
            return;
        }
        let full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
        let status = if full { Status::CapacityExceeded } else { Status::WriteFault };
        let rollback = self.zone(zone).queue.borrow_mut().failed(id, status);
        let Some(mut rollback) = rollback else { return };
        let mut controller = self.controller.borrow_mut();
        let zones = controller.zones_mut();
        let before = zones.record(zone);
        roll_back(zones, zone, rollback.record.write_pointer, !full);
        let record = zones.record(zone);
        if before.state.is_active() && !record.state.is_active() {
            rollback.tickets.push(self.tickets.draw());
        }
        let tickets = rollback.tickets;
        let change = Change { kind: Kind::State, record, after: Ticket::NONE, tickets };
        drop(self.zone(zone).queue.borrow_mut().push(change));
    }

    /// Stores the extension of a zone's descriptor, then publishes that the zone has one.
    pub(super) async fn extend(
        self: Rc<Self>,
        zone: ZoneId,
        extension: Bytes,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.turn(self.zone(zone), queued.epoch).await;
        let position = self.layout.descriptor_extension(zone).start;
        match self.ring.write_all_at(&self.file, vec![extension], position).await {
            // A file system that remembered only the record would show, after a power failure, an
            // extension that nobody set. An error ends the drive, which answers for it.
            Ok(()) => {
                let _ = self.sync().await;
            }
            Err(error) => self.die(DriveFailure::RecordLost(error)),
        }
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.zone(zone).changed.open();
        self.change(zone, true, queued).await
    }

    /// Publishes a change of state; one that cannot be undone is durable when it completes.
    pub(super) async fn change(
        self: Rc<Self>,
        zone: ZoneId,
        durable: bool,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.publish(zone);
        queued.answer.await.unwrap_or(Err(Status::Aborted))?;
        if durable {
            self.sync().await?;
        }
        Ok(Reply::Done)
    }

    pub(super) async fn reset(
        self: Rc<Self>,
        zone: ZoneId,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.turn(self.zone(zone), queued.epoch).await;
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.publish(zone);
        let mut answer = queued.answer.await.unwrap_or(Err(Status::Aborted));
        if answer.is_ok() {
            self.store_wear(zone).await;
            // The record has to be durable before the blocks are freed: a file system that
            // remembered only the hole would show a zone full of zeros after a power failure.
            answer = self.sync().await;
        }
        if answer.is_ok() {
            // A file system that cannot free blocks keeps them until they are overwritten; they
            // lie above the write pointer, where nothing is read from the file.
            let _ = self.ring.punch_hole(&self.file, self.layout.zone(zone)).await;
        }
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.zone(zone).changed.open();
        self.publish(zone);
        answer.map(|()| Reply::Done)
    }

    /// Brings the erase counts of a zone into the file, where the drive keeps any.
    async fn store_wear(&self, zone: ZoneId) {
        let encoded = match self.controller.borrow().wear() {
            Some(wear) => self.layout.encode_wear(zone, wear.zone(zone)),
            None => None,
        };
        let Some((position, bytes)) = encoded else { return };
        let bytes = vec![Bytes::from(bytes)];
        if let Err(error) = self.ring.write_all_at(&self.file, bytes, position).await {
            self.die(DriveFailure::RecordLost(error));
        }
    }

    /// Starts to publish the zone's record if there is something new to say.
    fn publish(self: &Rc<Self>, zone: ZoneId) {
        if self.is_dead() {
            return;
        }
        let next = self.zone(zone).queue.borrow_mut().next_publication();
        if let Some(publication) = next {
            self.handle.spawn("drive record", self.clone().run_publisher(zone, publication));
        }
    }

    /// Publishes until nothing is left to be said.
    async fn run_publisher(self: Rc<Self>, zone: ZoneId, first: Publication) {
        let mut next = Some(first);
        while let Some(publication) = next {
            self.tickets.redeemed(publication.after).await;
            if self.is_dead() {
                return;
            }
            let Publication { record, sequence, .. } = publication;
            let bytes = self.layout.encode_record(zone, sequence, record);
            let position = self.layout.record_position(zone, sequence);
            let record = vec![Bytes::from_owner(bytes)];
            if let Err(error) = self.ring.write_all_at(&self.file, record, position).await {
                self.die(DriveFailure::RecordLost(error));
            }
            if self.is_dead() {
                return;
            }
            let mut queue = self.zone(zone).queue.borrow_mut();
            self.tickets.redeem(&queue.is_published(publication));
            next = queue.next_publication();
            drop(queue);
            self.zone(zone).changed.open();
        }
    }
}

/// A controller over what an opened file tells.
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

/// Looks after the drive's file for as long as the drive is open.
pub(super) async fn watch(handle: Handle, drive: Weak<Drive>) {
    loop {
        handle.sleep(WATCH_PERIOD).await;
        match drive.upgrade() {
            Some(drive) if drive.examine() => {}
            _ => return,
        }
    }
}

/// Cuts a zone back to `to`; it is never written again if it is `worn`.
fn roll_back(zones: &mut ZoneSet, zone: ZoneId, to: ZoneOffset, worn: bool) {
    if zones.record(zone).state.is_open() {
        zones.manage(zone, ZoneAction::Close).expect("an open zone can be closed");
    }
    if worn {
        zones.set_read_only(zone);
    }
    if zones.truncate(zone, to).is_err() {
        // It was full, and another zone has taken its place among the active ones.
        zones.set_read_only(zone);
        zones.truncate(zone, to).expect("a read-only zone is not active");
    }
}

fn zero_oob(blocks: BlockCount) -> Bytes {
    let memory = blocks.oob_bytes().next_multiple_of(BLOCK_BYTES);
    zero_blocks(BlockCount::of_data_bytes(memory)).slice(..blocks.oob_bytes())
}
