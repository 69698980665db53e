//! The requests to a server of a zoned volume: status, fail, replace, scrub, jobs, and commands to
//! its zones.

mod replace;
mod scrub;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;
use zoneweave_linux::Ring;
use zoneweave_linux::nvme_tcp::{NvmeTcpServer, NvmeTcpStatus};
use zoneweave_linux::ublk::{UblkServer, UblkStatus};
use zoneweave_linux::unix_seconds;
use zoneweave_raid::array::format::config::ArrayConfig;
use zoneweave_raid::log::{AdminError, MemberStatus};
use zoneweave_raid::raizn::Volume;
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Semaphore};
use zoneweave_zoned::ZonedDevice;

use super::jobs::Jobs;
use super::pace::Pace;
use super::retries::{Rebuilds, Retries};
use super::schedule::ScheduledScrubs;
use super::service::remote_result;
use super::slots::{OPENINGS, Slots, is_any_rebuilding};
use super::zones::{Shape, ZoneAnswer, ZoneCommand};
use super::{Answered, Request, Responding, ServedArray, ServedDrive};
use crate::error::{CliError, NewMemberError};
use crate::events::log::EventLog;
use crate::events::{Event, What};
use crate::job::Job;
use crate::session::NamedDrive;
use crate::status::served::{FrontEnds, SlotDrive};
use crate::status::{
    ArrayStatus, LatencyStatus, OtherDrive, ShardStatus, WaitingStatus, as_member,
    served_zoned_status,
};

/// The front ends of a zoned volume.
#[derive(Default)]
pub(crate) struct ZonedFronts {
    pub disk: Option<UblkServer>,
    pub nvme_tcp: Option<NvmeTcpServer>,
}

impl ZonedFronts {
    fn status(&self) -> (UblkStatus, NvmeTcpStatus) {
        let disk = self.disk.as_ref().map_or(UblkStatus::default(), UblkServer::status);
        let nvme_tcp = self.nvme_tcp.as_ref();
        (disk, nvme_tcp.map_or(NvmeTcpStatus::default(), NvmeTcpServer::status))
    }
}

/// A file store on the volume.
struct HeldStore {
    /// Where it is served.
    uris: Vec<String>,
    /// Counts its clients.
    clients: Box<dyn Fn() -> usize>,
}

/// A zoned volume in service, with its drives and its front ends.
pub(crate) struct ZonedService {
    ring: Ring,
    handle: Handle,
    started: Nanos,
    config: ArrayConfig,
    volume: Volume,
    slots: Slots,
    /// Drives that were not members at the start.
    others: Vec<OtherDrive>,
    fronts: RefCell<ZonedFronts>,
    /// The file store on the volume that is served, if there is one.
    store: OnceCell<HeldStore>,
    exports: OnceCell<Vec<String>>,
    pace: RefCell<Pace>,
    /// Limits the drives that are being opened, which may block.
    openings: Semaphore,
    /// Replacements, with the UUIDs as members that their drives get when they begin.
    waiting: RefCell<Vec<(String, WaitingStatus)>>,
    /// Jobs that have ended.
    jobs: Jobs,
    /// Whether an interrupted rebuild is about to go on.
    resumes: Cell<bool>,
    retries: Retries,
    events: EventLog,
    scrubs: ScheduledScrubs,
}

impl ZonedService {
    /// `drives` is by slot; `others` are no members.
    pub(crate) fn new(
        ring: &Ring,
        handle: &Handle,
        config: ArrayConfig,
        volume: Volume,
        drives: Vec<Option<NamedDrive>>,
        others: Vec<OtherDrive>,
    ) -> Self {
        let events = EventLog::new(ShardStatus::name(&config.name, ShardStatus::of(config.shard)));
        let service = Self {
            ring: ring.clone(),
            handle: handle.clone(),
            started: handle.now(),
            config,
            volume,
            slots: Slots::default(),
            others,
            fronts: RefCell::default(),
            store: OnceCell::new(),
            exports: OnceCell::new(),
            pace: RefCell::default(),
            openings: Semaphore::new(OPENINGS),
            waiting: RefCell::default(),
            jobs: Jobs::default(),
            resumes: Cell::default(),
            retries: Retries::default(),
            events,
            scrubs: ScheduledScrubs::new(),
        };
        let members = service.members();
        assert_eq!(members.len(), drives.len(), "a place for each member's drive");
        // Until `resume` has looked: the first event must not say that the rebuild has stopped.
        service.resumes.set(is_any_rebuilding(&members));
        Self { slots: Slots::new(&members, drives), ..service }
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The volume holds a file store that is served: only that changes its zones.
    pub(crate) fn holds_store(&self, uris: Vec<String>, clients: impl Fn() -> usize + 'static) {
        assert!(!uris.is_empty(), "a served store has a socket");
        let store = HeldStore { uris, clients: Box::new(clients) };
        assert!(self.store.set(store).is_ok(), "a server starts once");
    }

    /// Registers the front ends and their addresses.
    pub(crate) fn adopt(&self, fronts: ZonedFronts, exports: Vec<String>) {
        self.fronts.replace(fronts);
        let store = self.store.get().into_iter().flat_map(|store| store.uris.iter().cloned());
        let first = self.exports.set(exports.into_iter().chain(store).collect());
        assert!(first.is_ok(), "a server starts once");
    }

    /// Hands over the front ends, for their shutdown.
    pub(crate) fn release(&self) -> ZonedFronts {
        self.fronts.take()
    }

    fn members(&self) -> Vec<MemberStatus> {
        self.volume.status().members.iter().map(as_member).collect()
    }

    /// Adds an event, after those that led to it.
    pub(crate) fn note(&self, what: What) {
        self.look();
        self.events.note(what);
    }

    async fn answer(&self, request: Request) -> Result<Value, CliError> {
        match request {
            Request::Status => remote_result(&self.status().await),
            Request::LostOnMedia => {
                let (array, members) = (self.config.array, self.members());
                remote_result(&self.slots.lost_on_media(&self.handle, array, &members).await)
            }
            Request::Events { after } => {
                self.look();
                remote_result(&self.events.page(after))
            }
            Request::Fail { slot, force } => {
                let column = self.column(slot)?;
                if !force {
                    let members = self.members();
                    self.slots.refuse_lost(&self.handle, &self.config, &members, slot).await?;
                }
                self.volume.fail(column).await?;
                self.look();
                remote_result(&self.status().await)
            }
            Request::Replace { slot, drive, destroy, by_name } => {
                self.replace(slot, &drive, destroy, by_name).await?;
                remote_result(&self.status().await)
            }
            Request::TryReplace { slot, drive, destroy } => {
                remote_result(&self.try_replace(slot, &drive, destroy).await?)
            }
            Request::Scrub => remote_result(&self.scrub().await?),
            Request::Clear => {
                self.volume.clear_faults().await?;
                self.note(What::FaultsCleared);
                remote_result(&self.status().await)
            }
            Request::OrderScrub { order } => {
                self.order_scrub(order.into())?;
                remote_result(&self.status().await)
            }
            Request::Shape => remote_result(&Shape::from(self.volume.geometry())),
            Request::Offline { .. } | Request::Online { .. } => {
                Err(NewMemberError::NoReturn { name: self.config.name.clone() }.into())
            }
            Request::Segments
            | Request::AddSpare { .. }
            | Request::RemoveSpare { .. }
            | Request::Zones { .. } => Err(CliError::IsZoned { name: self.config.name.clone() }),
            Request::Stop => unreachable!("the connection answers it"),
        }
    }

    /// Runs a command to the zones.
    async fn command(&self, command: ZoneCommand, data: Bytes) -> Result<Answered, CliError> {
        if command.changes() {
            self.refuse_used()?;
        }
        if let Some(socket) = self.store.get().and_then(|store| store.uris.first())
            && command.changes()
        {
            return Err(CliError::HoldsStore { socket: socket.clone() });
        }
        let outcome = match command.command(data) {
            Ok(command) => self.volume.submit(command).await,
            Err(status) => Err(status),
        };
        let (answer, data) = ZoneAnswer::of(outcome);
        Ok(Answered { result: remote_result(&answer)?, data })
    }

    /// Refuses a change beside a disk of the kernel, here or at a host.
    fn refuse_used(&self) -> Result<(), CliError> {
        let fronts = self.fronts.borrow();
        if let Some(disk) = &fronts.disk {
            return Err(CliError::IsDisk { disk: disk.path().display().to_string() });
        }
        match &fronts.nvme_tcp {
            Some(server) if server.status().controllers > 0 => {
                let hosts = server.status().controllers;
                Err(CliError::IsConnected { hosts })
            }
            _ => Ok(()),
        }
    }

    fn column(&self, slot: usize) -> Result<Column, CliError> {
        let columns = self.config.scheme.columns();
        match slot < columns {
            true => Ok(Column::of(slot)),
            false => Err(AdminError::NoSuchSlot { slot, columns }.into()),
        }
    }

    /// The array's status.
    pub(crate) async fn status(&self) -> ArrayStatus {
        let slots = self.slots.reported(&self.handle, &self.members()).await;
        self.status_with(&slots)
    }

    /// The array's status, with these drives.
    fn status_with(&self, slots: &[Option<SlotDrive>]) -> ArrayStatus {
        let (disk, hosts) = self.fronts.borrow().status();
        let of_store = self.store.get().map_or(0, |store| (store.clients)());
        let front_ends = FrontEnds {
            uptime_ns: self.handle.now().since(self.started).0,
            exports: self.exports.get().cloned().unwrap_or_default(),
            clients: (hosts.controllers + of_store) as u64,
            requests: disk.requests + hosts.requests,
            latencies: LatencyStatus::list(self.volume.latencies()),
            rebuild_left_ns: self.pace.borrow().left_ns(),
            resumes: self.resumes.get(),
            waiting: self.waiting(),
            offline: Vec::new(),
            jobs: self.jobs(),
            spares: Vec::new(),
            next_scrub_s: self.next_scrub_s(unix_seconds()),
        };
        let (config, geometry) = (&self.config, self.volume.geometry());
        let status = self.volume.status();
        served_zoned_status(config, geometry, status, slots, self.others(), front_ends)
    }

    /// Replacements that have not begun.
    fn waiting(&self) -> Vec<WaitingStatus> {
        let members = self.members();
        let waits = |uuid: &String| members.iter().all(|member| member.uuid != *uuid);
        let waiting = self.waiting.borrow();
        waiting.iter().filter(|(uuid, _)| waits(uuid)).map(|(_, told)| told.clone()).collect()
    }

    /// Drives that are not members, without those that have got a slot since the start.
    fn others(&self) -> Vec<OtherDrive> {
        let is_left_out =
            |other: &&OtherDrive| other.path.as_ref().is_none_or(|path| !self.slots.has(path));
        self.others.iter().filter(is_left_out).cloned().collect()
    }

    /// Resumes rebuilds that a restart interrupted. The status shows that at once, before the
    /// returned task has run.
    pub(crate) fn resume(self: Rc<Self>) -> impl Future<Output = ()> {
        let places = self.slots.rebuilding(&self.members());
        self.resumes.set(!places.is_empty());
        async move {
            if places.is_empty() {
                return;
            }
            let slots: Vec<_> = places.iter().map(|place| usize::from(place.slot)).collect();
            let resuming = async {
                let resumed = self.volume.resume_rebuilds().await;
                self.resumes.set(false);
                resumed.map_err(|error| self.explained_rebuild(error, &slots))
            };
            self.jobs.resume(&self.handle, places, resuming, |what| self.note(what)).await;
        }
    }

    /// Has a rebuild that has stopped go on, once that is due.
    pub(crate) fn retry_rebuild(self: &Rc<Self>) {
        let status = self.volume.status();
        let is_busy =
            status.rebuild.is_some() || self.resumes.get() || !self.waiting.borrow().is_empty();
        let rebuilds = match (is_any_rebuilding(&self.members()), is_busy) {
            (false, _) => Rebuilds::None,
            // A volume that has stopped rebuilds nothing.
            (true, busy) if busy || status.stopped.is_some() => Rebuilds::Run,
            (true, _) => Rebuilds::Stopped,
        };
        if self.retries.is_due(self.handle.now(), rebuilds) {
            self.handle.spawn("retry of a rebuild", self.clone().resume());
        }
    }

    /// Checks drives and members; returns the events to report.
    pub(crate) fn look_around(&self) -> Vec<Event> {
        self.look();
        self.events.news()
    }

    /// Checks drives and members, and notes what has changed.
    fn look(&self) {
        let rebuild = self.volume.status().rebuild;
        self.pace.borrow_mut().sample(self.handle.now(), rebuild.map(Into::into));
        for (slot, member) in self.members().iter().enumerate() {
            let in_service = member.state.is_in_service();
            if let Some(failure) = self.slots.failure_of(member).filter(|_| in_service) {
                self.volume.drive_lost(Column::of(slot), &failure);
            }
        }
        let members = self.members();
        self.slots.keep(&members);
        let status = || self.status_with(&self.slots.drives(&members));
        self.events.look(self.handle.now(), status);
    }
}

impl ServedArray for ZonedService {
    fn drives(&self) -> Vec<ServedDrive> {
        self.slots.served(&self.members(), [])
    }

    fn progress(&self, rebuild: bool) -> Option<Job> {
        let status = self.volume.status();
        let job = if rebuild { status.rebuild } else { status.scrub };
        job.map(Into::into)
    }

    fn respond(self: Rc<Self>, request: Request, data: Bytes) -> Responding {
        Box::pin(async move {
            match request {
                Request::Zones { command } => self.command(command, data).await,
                other => self.answer(other).await.map(Into::into),
            }
        })
    }
}
