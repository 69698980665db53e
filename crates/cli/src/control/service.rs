//! The requests to a server: status, fail, offline, online, replace, scrub, jobs, and spares.

mod online;
mod replace;
mod scrub;
mod spares;

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;
use zoneweave_linux::fuse::{FuseServer, FuseStatus};
use zoneweave_linux::nbd::{NbdServer, NbdStatus};
use zoneweave_linux::nvme_tcp::{NvmeTcpServer, NvmeTcpStatus};
use zoneweave_linux::ublk::{UblkServer, UblkStatus};
use zoneweave_linux::vhost_user::{VhostUserServer, VhostUserStatus};
use zoneweave_linux::{Ring, unix_seconds};
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::{ReplaceError, Volume};
use zoneweave_runtime::{Handle, Nanos, Semaphore};

use super::jobs::Jobs;
use super::pace::Pace;
use super::retries::{Rebuilds, Retries};
use super::schedule::ScheduledScrubs;
use super::slots::{OPENINGS, Slots, is_any_rebuilding};
use super::{Request, Responding, ServedArray, ServedDrive};
use crate::error::CliError;
use crate::events::log::EventLog;
use crate::events::{Event, Place, What};
use crate::job::Job;
use crate::session::NamedDrive;
use crate::status::served::{FrontEnds, SlotDrive};
use crate::status::{
    ArrayStatus, LatencyStatus, OtherDrive, ShardStatus, WaitingStatus, served_status,
};
use online::Returning;
use spares::KeptSpare;

/// A volume in service, with its drives and front ends.
pub(crate) struct Service {
    ring: Ring,
    handle: Handle,
    started: Nanos,
    config: ArrayConfig,
    volume: Volume,
    slots: Slots,
    /// Drives that were not members at the start.
    others: Vec<OtherDrive>,
    servers: RefCell<Servers>,
    exports: OnceCell<Vec<String>>,
    pace: RefCell<Pace>,
    /// Limits the drives that are being opened, which may block.
    openings: Semaphore,
    /// Current and former spares.
    spares: RefCell<Vec<KeptSpare>>,
    /// Former members that return at the start.
    former: RefCell<Vec<Returning>>,
    /// Paths of the drives that were taken out of service to be put back, by the UUIDs of their
    /// members: a slot may have got another drive since.
    offline: RefCell<Vec<(String, PathBuf)>>,
    /// Whether an interrupted rebuild is about to go on.
    resumes: Cell<bool>,
    /// Replacements and returns, with the UUIDs as members that their drives get when they begin.
    waiting: RefCell<Vec<(String, WaitingStatus)>>,
    /// Jobs that have ended.
    jobs: Jobs,
    retries: Retries,
    events: EventLog,
    scrubs: ScheduledScrubs,
}

/// The front ends of the volume.
#[derive(Default)]
pub(crate) struct Servers {
    pub nbd: Option<NbdServer>,
    pub ublk: Option<UblkServer>,
    pub vhost_user: Option<VhostUserServer>,
    pub fuse: Option<FuseServer>,
    pub nvme_tcp: Option<NvmeTcpServer>,
}

impl Servers {
    /// Clients connected, and requests answered since the start.
    fn counts(&self) -> (u64, u64) {
        let nbd = self.nbd.as_ref().map_or(NbdStatus::default(), NbdServer::status);
        let ublk = self.ublk.as_ref().map_or(UblkStatus::default(), UblkServer::status);
        let vhost_user = self.vhost_user.as_ref();
        let machine = vhost_user.map_or(VhostUserStatus::default(), VhostUserServer::status);
        let file = self.fuse.as_ref().map_or(FuseStatus::default(), FuseServer::status);
        let nvme_tcp = self.nvme_tcp.as_ref();
        let hosts = nvme_tcp.map_or(NvmeTcpStatus::default(), NvmeTcpServer::status);
        let remote = nbd.connections as u64 + hosts.controllers as u64;
        let clients = remote + u64::from(machine.connected) + file.handles as u64;
        let local = ublk.requests + machine.requests + file.requests;
        (clients, nbd.requests + hosts.requests + local)
    }
}

impl Service {
    pub(crate) fn new(
        ring: &Ring,
        handle: &Handle,
        config: ArrayConfig,
        volume: Volume,
        drives: Vec<Option<NamedDrive>>,
        others: Vec<OtherDrive>,
    ) -> Self {
        let events = EventLog::new(ShardStatus::name(&config.name, ShardStatus::of(config.shard)));
        let members = volume.status().members;
        Self {
            ring: ring.clone(),
            handle: handle.clone(),
            started: handle.now(),
            config,
            slots: Slots::new(&members, drives),
            // Until `resume` has looked: the first event must not say that the rebuild has stopped.
            resumes: Cell::new(is_any_rebuilding(&members)),
            volume,
            others,
            servers: RefCell::default(),
            exports: OnceCell::new(),
            pace: RefCell::default(),
            openings: Semaphore::new(OPENINGS),
            spares: RefCell::default(),
            former: RefCell::default(),
            offline: RefCell::default(),
            waiting: RefCell::default(),
            jobs: Jobs::default(),
            retries: Retries::default(),
            events,
            scrubs: ScheduledScrubs::new(),
        }
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Registers the front ends and their addresses.
    pub(crate) fn adopt(&self, servers: Servers, exports: Vec<String>) {
        self.servers.replace(servers);
        // Set once: exports do not change while the server runs.
        let _ = self.exports.set(exports);
    }

    /// Waits until the FUSE file is unmounted; forever without one.
    pub(crate) fn unmounted(&self) -> impl Future<Output = ()> + use<> {
        let ended = self.servers.borrow().fuse.as_ref().map(FuseServer::ended);
        async move {
            match ended {
                Some(ended) => ended.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Hands over the front ends, for their shutdown.
    pub(crate) fn release(&self) -> Servers {
        self.servers.take()
    }

    /// Replacements that have not begun.
    fn waiting(&self) -> Vec<WaitingStatus> {
        let members = self.volume.status().members;
        let waits = |uuid: &String| members.iter().all(|member| member.uuid != *uuid);
        let waiting = self.waiting.borrow();
        waiting.iter().filter(|(uuid, _)| waits(uuid)).map(|(_, told)| told.clone()).collect()
    }

    /// Adds an event, after those that led to it.
    pub(crate) fn note(&self, what: What) {
        self.look();
        self.events.note(what);
    }

    /// Answers a request.
    async fn answer(&self, request: Request) -> Result<Value, CliError> {
        match request {
            Request::Status => remote_result(&self.status().await),
            Request::LostOnMedia => {
                let members = self.volume.status().members;
                let array = self.config.array;
                remote_result(&self.slots.lost_on_media(&self.handle, array, &members).await)
            }
            Request::Segments => remote_result(&self.volume.segments()),
            Request::Events { after } => {
                self.look();
                remote_result(&self.events.page(after))
            }
            Request::Fail { slot, force } => {
                self.refuse_lost_on_media(slot, force).await?;
                self.volume.fail(slot).await?;
                self.look();
                remote_result(&self.status().await)
            }
            Request::Offline { slot, force } => {
                self.refuse_lost_on_media(slot, force).await?;
                self.take_offline(slot, force).await?;
                remote_result(&self.status().await)
            }
            Request::Online { slot, drive } => {
                self.bring_online(slot, drive.as_deref()).await?;
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
            Request::AddSpare { drive } => {
                self.add_spare(&drive).await?;
                remote_result(&self.status().await)
            }
            Request::RemoveSpare { drive } => {
                self.remove_spare(&drive)?;
                remote_result(&self.status().await)
            }
            Request::OrderScrub { order } => {
                self.order_scrub(order.into())?;
                remote_result(&self.status().await)
            }
            Request::Shape | Request::Zones { .. } => Err(CliError::NotZoned),
            Request::Stop => unreachable!("the connection answers it"),
        }
    }

    /// The array's status.
    pub(crate) async fn status(&self) -> ArrayStatus {
        let slots = self.slots.reported(&self.handle, &self.volume.status().members).await;
        self.status_with(&slots)
    }

    /// The array's status, with these drives.
    fn status_with(&self, slots: &[Option<SlotDrive>]) -> ArrayStatus {
        let (clients, requests) = self.servers.borrow().counts();
        let front_ends = FrontEnds {
            uptime_ns: self.handle.now().since(self.started).0,
            exports: self.exports.get().cloned().unwrap_or_default(),
            clients,
            requests,
            latencies: LatencyStatus::list(self.volume.latencies()),
            rebuild_left_ns: self.pace.borrow().left_ns(),
            resumes: self.resumes.get(),
            waiting: self.waiting(),
            offline: self.offline_slots(),
            jobs: self.jobs(),
            spares: self.spares(),
            next_scrub_s: self.next_scrub_s(unix_seconds()),
        };
        let status = self.volume.status();
        served_status(&self.config, status, slots, self.others(), front_ends)
    }

    /// Drives that are not members, without those that have got a slot since the start.
    fn others(&self) -> Vec<OtherDrive> {
        let is_left_out =
            |other: &&OtherDrive| other.path.as_ref().is_none_or(|path| !self.slots.has(path));
        self.others.iter().filter(is_left_out).cloned().collect()
    }

    /// Resumes a rebuild that a restart interrupted, and re-adds former members. The status shows
    /// that at once, before the returned task has run.
    pub(crate) fn resume(self: Rc<Self>) -> impl Future<Output = ()> {
        let places = self.slots.rebuilding(&self.volume.status().members);
        self.resumes.set(!places.is_empty());
        async move {
            if !places.is_empty() {
                self.resume_rebuild(places).await;
            }
            self.return_former().await;
        }
    }

    /// Has a rebuild that has stopped go on, once that is due.
    pub(crate) fn retry_rebuild(self: &Rc<Self>) {
        let status = self.volume.status();
        let is_busy =
            status.rebuild.is_some() || self.resumes.get() || !self.waiting.borrow().is_empty();
        let rebuilds = match (is_any_rebuilding(&status.members), is_busy) {
            (false, _) => Rebuilds::None,
            // A volume that has stopped rebuilds nothing.
            (true, busy) if busy || status.stopped.is_some() => Rebuilds::Run,
            (true, _) => Rebuilds::Stopped,
        };
        if self.retries.is_due(self.handle.now(), rebuilds) {
            self.handle.spawn("retry of a rebuild", self.clone().resume());
        }
    }

    async fn resume_rebuild(&self, places: Vec<Place>) {
        let slots: Vec<_> = places.iter().map(|place| usize::from(place.slot)).collect();
        let resuming = async {
            let resumed = self.volume.resume_rebuild().await;
            self.resumes.set(false);
            resumed.map_err(|error| self.explained(error, &slots))
        };
        self.jobs.resume(&self.handle, places, resuming, |what| self.note(what)).await;
    }

    /// The error of a rebuild of these slots that went on, with the reason that the drive knows.
    fn explained(&self, error: ReplaceError, slots: &[usize]) -> CliError {
        match self.slots.of_failed(&self.volume.status().members, slots) {
            Some((slot, named)) => self.explained_of(error, slot, &named),
            None => error.into(),
        }
    }

    /// Checks spares, drives and members; returns the events to report.
    pub(crate) fn look_around(&self) -> Vec<Event> {
        self.look();
        self.events.news()
    }

    /// Checks spares, drives and members, and notes what has changed.
    fn look(&self) {
        self.look_at_spares();
        let status = self.volume.status();
        self.pace.borrow_mut().sample(self.handle.now(), status.rebuild.map(Into::into));
        for (slot, member) in status.members.iter().enumerate() {
            let in_service = member.state.is_in_service();
            if let Some(failure) = self.slots.failure_of(member).filter(|_| in_service) {
                // The slot exists: the status lists it.
                let _lost = self.volume.drive_lost(slot, &failure);
            }
        }
        let members = self.volume.status().members;
        self.slots.keep(&members);
        let status = || self.status_with(&self.slots.drives(&members));
        self.events.look(self.handle.now(), status);
    }
}

impl ServedArray for Service {
    fn drives(&self) -> Vec<ServedDrive> {
        let spares = self.spares.borrow();
        let spares = spares.iter().filter_map(KeptSpare::waiting);
        self.slots.served(&self.volume.status().members, spares)
    }

    fn progress(&self, rebuild: bool) -> Option<Job> {
        let status = self.volume.status();
        let job = if rebuild { status.rebuild } else { status.scrub };
        job.map(Into::into)
    }

    fn respond(self: Rc<Self>, request: Request, _data: Bytes) -> Responding {
        Box::pin(async move { self.answer(request).await.map(Into::into) })
    }
}

/// A result as JSON.
pub(super) fn remote_result<T: serde::Serialize>(value: &T) -> Result<serde_json::Value, CliError> {
    serde_json::to_value(value)
        .map_err(|error| CliError::System { action: "encode the result", error: error.into() })
}
