//! The requests to a server: status, fail, offline, online, replace, scrub, jobs, and spares.

mod online;
mod replace;
mod scrub;
mod spares;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;
use zoneweave_linux::Ring;
use zoneweave_linux::fuse::{FuseServer, FuseStatus};
use zoneweave_linux::nbd::{NbdServer, NbdStatus};
use zoneweave_linux::nvme_tcp::{NvmeTcpServer, NvmeTcpStatus};
use zoneweave_linux::ublk::{UblkServer, UblkStatus};
use zoneweave_linux::vhost_user::{VhostUserServer, VhostUserStatus};
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::{MemberHealth, Volume};
use zoneweave_runtime::{Handle, Nanos, Semaphore};
use zoneweave_zoned::ZonedDeviceExt;

use super::jobs::Jobs;
use super::slots::Slots;
use super::watch::{Checked, Pace};
use super::{Request, Responding, ServedArray, ServedDrive};
use crate::error::CliError;
use crate::job::{Job, JobKind};
use crate::session::NamedDrive;
use crate::status::served::{FrontEnds, SlotDrive};
use crate::status::{ArrayStatus, OtherDrive, WaitingStatus, served_status};
use crate::wait::until;
use online::Returning;
use spares::KeptSpare;

/// Time limit for a drive to report its zones to the status, which is shown without them then.
const REPORT_TIME: Nanos = Nanos::from_secs(1);

/// Drives opened at once, each in a thread; more requests wait.
const OPENINGS: u64 = 4;

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
    checked: RefCell<Checked>,
    /// Former members that return at the start.
    former: RefCell<Vec<Returning>>,
    /// Paths of the drives that were taken out of service to be put back, by slot.
    offline: RefCell<Vec<(usize, PathBuf)>>,
    /// Whether an interrupted rebuild is about to go on.
    resumes: Cell<bool>,
    /// Replacements and returns, with the UUIDs as members that their drives get when they begin.
    waiting: RefCell<Vec<(String, WaitingStatus)>>,
    /// Jobs that have ended.
    jobs: Jobs,
    /// Events to report.
    news: RefCell<Vec<String>>,
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
        let clients = remote + u64::from(machine.connected);
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
        Self {
            ring: ring.clone(),
            handle: handle.clone(),
            started: handle.now(),
            config,
            slots: Slots::new(&volume.status().members, drives),
            volume,
            others,
            servers: RefCell::default(),
            exports: OnceCell::new(),
            pace: RefCell::default(),
            openings: Semaphore::new(OPENINGS),
            spares: RefCell::default(),
            checked: RefCell::default(),
            former: RefCell::default(),
            offline: RefCell::default(),
            resumes: Cell::default(),
            waiting: RefCell::default(),
            jobs: Jobs::default(),
            news: RefCell::default(),
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

    /// Adds an event to report.
    fn note(&self, text: impl Display) {
        self.news.borrow_mut().push(text.to_string());
    }

    /// Answers a request.
    async fn answer(&self, request: Request) -> Result<Value, CliError> {
        match request {
            Request::Status => remote_result(&self.status().await),
            Request::Segments => remote_result(&self.volume.segments()),
            Request::Fail { slot } => {
                self.volume.fail(slot).await?;
                remote_result(&self.status().await)
            }
            Request::Offline { slot } => {
                self.take_offline(slot).await?;
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
            Request::Scrub => remote_result(&self.scrub().await?),
            Request::OrderScrub { order } => {
                self.order_scrub(order.into())?;
                remote_result(&self.status().await)
            }
            Request::Shape | Request::Zones { .. } => Err(CliError::NotZoned),
        }
    }

    /// The array's status.
    pub(crate) async fn status(&self) -> ArrayStatus {
        let status = self.volume.status();
        let mut slots = Vec::new();
        for member in &status.members {
            let Some(NamedDrive { label, path, drive, .. }) = self.slots.of(member) else {
                slots.push(None);
                continue;
            };
            // A drive that hangs must not hide the state of the others.
            let zones = until(self.handle.sleep(REPORT_TIME), drive.report()).await;
            let zones = zones.and_then(Result::ok);
            slots.push(Some(SlotDrive { label, path, drive, zones }));
        }
        let (clients, requests) = self.servers.borrow().counts();
        let front_ends = FrontEnds {
            uptime_ns: self.handle.now().since(self.started).0,
            exports: self.exports.get().cloned().unwrap_or_default(),
            clients,
            requests,
            rebuild_left_ns: self.pace.borrow().left_ns(),
            resumes: self.resumes.get(),
            waiting: self.waiting(),
            jobs: self.jobs(),
            spares: self.spares(),
        };
        served_status(&self.config, status, &slots, self.others(), front_ends)
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
                self.resume_rebuild(&places.join(", ")).await;
            }
            self.return_former().await;
        }
    }

    async fn resume_rebuild(&self, places: &str) {
        self.note(format_args!("{places}: the interrupted rebuild goes on"));
        let mut rebuilding = self.volume.status().members;
        rebuilding.retain(|member| member.state == MemberHealth::Rebuilding);
        let resumed = self.volume.resume_rebuild().await.map_err(CliError::from);
        self.resumes.set(false);
        for member in &rebuilding {
            let (kind, label) = (JobKind::Rebuild, self.slots.label_of(member));
            let slot = usize::from(member.slot);
            self.jobs.slot_ended(self.handle.now(), kind, slot, &label, &resumed);
        }
        match resumed {
            Ok(()) => self.note(format_args!("{places}: the interrupted rebuild is complete")),
            Err(error) => {
                self.note(format_args!("{places}: the interrupted rebuild failed: {error}"));
            }
        }
    }

    /// Checks spares, drives and members; returns the events to report.
    pub(crate) fn look_around(self: &Rc<Self>) -> Vec<String> {
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
        let status = self.volume.status();
        self.slots.keep(&status.members);
        let mut news = self.news.take();
        news.extend(self.checked.borrow_mut().news(&status.members, &self.slots));
        news
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
