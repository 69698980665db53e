//! The requests to a server: status, fail, replace, scrub, and spares.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;
use zoneweave_linux::fuse::{FuseServer, FuseStatus};
use zoneweave_linux::nbd::{NbdServer, NbdStatus};
use zoneweave_linux::ublk::{UblkServer, UblkStatus};
use zoneweave_linux::vhost_user::{VhostUserServer, VhostUserStatus};
use zoneweave_linux::{Drive, Ring};
use zoneweave_raid::log::format::{ArrayConfig, MemberUuid};
use zoneweave_raid::log::{AdminError, MemberHealth, MemberStatus, Volume, VolumeStatus};
use zoneweave_runtime::{Handle, Nanos, Semaphore};
use zoneweave_zoned::ZonedDeviceExt;

use super::Request;
use super::slots::Slots;
use super::watch::{Pace, changes, place};
use crate::drives::consent::{Consent, holdings, not_empty};
use crate::drives::paths::absolute;
use crate::error::CliError;
use crate::job::Job;
use crate::session::{NamedDrive, random_uuid, refuse_worse_way_in_thread};
use crate::status::served::{FrontEnds, SlotDrive};
use crate::status::{ArrayStatus, OtherDrive, SpareState, SpareStatus, served_status};

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
    /// State of each member at the last check.
    states: RefCell<Vec<MemberHealth>>,
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
}

/// A current or former spare.
struct KeptSpare {
    /// UUID as a member.
    uuid: String,
    label: String,
    /// Absolute path.
    path: PathBuf,
    /// The drive, until it is a member or given up.
    waiting: Option<NamedDrive>,
}

impl Servers {
    /// Clients connected, and requests answered since the start.
    fn counts(&self) -> (u64, u64) {
        let nbd = self.nbd.as_ref().map_or(NbdStatus::default(), NbdServer::status);
        let ublk = self.ublk.as_ref().map_or(UblkStatus::default(), UblkServer::status);
        let vhost_user = self.vhost_user.as_ref();
        let machine = vhost_user.map_or(VhostUserStatus::default(), VhostUserServer::status);
        let file = self.fuse.as_ref().map_or(FuseStatus::default(), FuseServer::status);
        let clients = nbd.connections as u64 + u64::from(machine.connected);
        (clients, nbd.requests + ublk.requests + machine.requests + file.requests)
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
            states: RefCell::default(),
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

    /// Adds a hot spare.
    pub(crate) fn keep_spare(&self, named: NamedDrive) -> Result<(), CliError> {
        let uuid = MemberUuid(random_uuid()?);
        let path = absolute(named.drive.path())?;
        self.volume.add_spare(named.member.clone(), uuid)?;
        let (uuid, label) = (uuid.to_string(), named.label.clone());
        self.spares.borrow_mut().push(KeptSpare { uuid, label, path, waiting: Some(named) });
        Ok(())
    }

    /// Records spares that have become members, and drops spares that were given up.
    fn look_at_spares(&self) {
        let VolumeStatus { members, spares, .. } = self.volume.status();
        for spare in self.spares.borrow_mut().iter_mut().filter(|spare| spare.waiting.is_some()) {
            let drive = &spare.label;
            let slot = members.iter().position(|member| member.uuid == spare.uuid);
            let taken = spares.taken.iter().find(|taken| taken.uuid == spare.uuid);
            let reason = taken.and_then(|taken| taken.reason.as_ref());
            let text = match (slot, reason) {
                (Some(slot), _) => {
                    if let Some(named) = spare.waiting.take() {
                        self.slots.put(spare.uuid.clone(), named);
                    }
                    format!("slot {slot}: replaced by the spare {drive}")
                }
                (None, Some(reason)) => {
                    spare.waiting = None;
                    format!("the spare {drive} is unusable: {reason}")
                }
                (None, None) => continue,
            };
            self.news.borrow_mut().push(text);
        }
    }

    /// The status of each spare.
    fn spares(&self) -> Vec<SpareStatus> {
        let taken = self.volume.status().spares.taken;
        let tell = |spare: &KeptSpare| {
            let taken = taken.iter().find(|taken| taken.uuid == spare.uuid);
            SpareStatus {
                drive: spare.label.clone(),
                path: Some(spare.path.clone()),
                state: taken.map_or(SpareState::Waiting, |taken| taken.state.into()),
                slot: taken.map(|taken| taken.slot),
                reason: taken.and_then(|taken| taken.reason.clone()),
            }
        };
        self.spares.borrow().iter().map(tell).collect()
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

    /// Progress of the rebuild, or of the scrub.
    pub(crate) fn progress(&self, rebuild: bool) -> Option<Job> {
        let status = self.volume.status();
        let job = if rebuild { status.rebuild } else { status.scrub };
        job.map(Into::into)
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request) -> Result<Value, CliError> {
        match request {
            Request::Status => remote_result(&self.status().await),
            Request::Segments => remote_result(&self.volume.segments()),
            Request::Fail { slot } => {
                self.volume.fail(slot).await?;
                remote_result(&self.status().await)
            }
            Request::Replace { slot, drive, destroy, by_name } => {
                self.replace(slot, &drive, destroy, by_name).await?;
                remote_result(&self.status().await)
            }
            Request::Scrub => remote_result(&self.volume.scrub().await?),
        }
    }

    /// The array's status.
    pub(crate) async fn status(&self) -> ArrayStatus {
        let status = self.volume.status();
        let mut slots = Vec::new();
        for member in &status.members {
            let Some(NamedDrive { label, drive, .. }) = self.slots.of(member) else {
                slots.push(None);
                continue;
            };
            let zones = drive.report().await.ok();
            slots.push(Some(SlotDrive { label, drive, zones }));
        }
        let (clients, requests) = self.servers.borrow().counts();
        let front_ends = FrontEnds {
            uptime_ns: self.handle.now().since(self.started).0,
            exports: self.exports.get().cloned().unwrap_or_default(),
            clients,
            requests,
            rebuild_left_ns: self.pace.borrow().left_ns(),
            spares: self.spares(),
        };
        served_status(&self.config, status, &slots, self.others(), front_ends)
    }

    /// Drives that are not members, without those that have got a slot since the start.
    fn others(&self) -> Vec<OtherDrive> {
        let is_left_out = |other: &&OtherDrive| !self.slots.has(Path::new(&other.drive));
        self.others.iter().filter(is_left_out).cloned().collect()
    }

    async fn replace(
        &self,
        slot: usize,
        path: &Path,
        destroy: bool,
        by_name: bool,
    ) -> Result<(), CliError> {
        let label = path.display().to_string();
        self.refuse_in_service(slot, path)?;
        let place = self.openings.acquire().await;
        // Before advising to fail a member: the new drive may not exist.
        Drive::inspect_in_thread(&self.ring, path).await?;
        // Again, since another request may have used it meanwhile.
        self.refuse_in_service(slot, path)?;
        refuse_working(slot, self.working(slot), destroy)?;
        let forgotten = self.slots.forget(path);
        let drive = Drive::open_in_thread(&self.ring, &self.handle, path).await?;
        drop(place);
        let named = NamedDrive::new(label, drive, &self.handle);
        let path = path.to_owned();
        let consent = Consent { all: destroy, named: if by_name { &[path][..] } else { &[] } };
        let replaced = self.put(slot, &named, consent).await;
        if let Some(failed_member) = forgotten.filter(|_| replaced.is_err()) {
            self.slots.put(failed_member, named);
        }
        self.slots.keep(&self.volume.status().members);
        replaced
    }

    /// Refuses a slot that does not exist, and a drive that is in service.
    fn refuse_in_service(&self, slot: usize, path: &Path) -> Result<(), CliError> {
        let members = self.volume.status().members;
        if slot >= members.len() {
            return Err(AdminError::NoSuchSlot { slot, columns: members.len() }.into());
        }
        if self.slots.is_used(path, &members) {
            return Err(CliError::InService { label: path.display().to_string() });
        }
        Ok(())
    }

    /// The drive of a slot, if it is online and works.
    fn working(&self, slot: usize) -> Option<String> {
        let members = self.volume.status().members;
        let member = members.get(slot).filter(|member| member.state == MemberHealth::Online)?;
        self.slots.failure_of(member).is_none().then(|| self.slots.label_of(member))
    }

    /// Puts an open drive into a slot, with consent to overwrite its contents.
    async fn put(
        &self,
        slot: usize,
        named: &NamedDrive,
        consent: Consent<'_>,
    ) -> Result<(), CliError> {
        refuse_worse_way_in_thread(named, &self.ring, &self.handle).await?;
        if let Some(holds) = holdings(named).await?
            && !consent.covers(named, &holds)
        {
            return Err(not_empty(named, &holds));
        }
        // Again, since the slot may have come back meanwhile.
        refuse_working(slot, self.working(slot), consent.all)?;
        let uuid = MemberUuid(random_uuid()?);
        // Before it is a member, so that the status names the drive as soon as it is.
        self.slots.waits(uuid.to_string(), named.clone());
        let replaced = self.volume.replace(slot, named.member.clone(), uuid).await;
        self.slots.ends_waiting(&uuid.to_string());
        Ok(replaced?)
    }

    /// Resumes a rebuild that a restart interrupted.
    pub(crate) async fn resume(self: Rc<Self>) {
        let members = self.volume.status().members;
        let rebuilding = members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.state == MemberHealth::Rebuilding);
        let places: Vec<_> =
            rebuilding.map(|(slot, member)| place(slot, &self.slots.label_of(member))).collect();
        if places.is_empty() {
            return;
        }
        let places = places.join(", ");
        let text = match self.volume.resume_rebuild().await {
            Ok(()) => format!("{places}: the interrupted rebuild is complete"),
            Err(error) => format!("{places}: the interrupted rebuild failed: {error}"),
        };
        self.news.borrow_mut().push(text);
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
        let drive_of = |member: &MemberStatus| self.slots.label_of(member);
        news.extend(changes(&self.states.borrow(), &status.members, drive_of));
        let states = status.members.iter().map(|member| member.state);
        self.states.replace(states.collect());
        news
    }
}

/// Refuses to replace a working member without consent.
pub(crate) fn refuse_working(
    slot: usize,
    works: Option<String>,
    destroy: bool,
) -> Result<(), CliError> {
    match works {
        Some(drive) if !destroy => Err(CliError::SlotInService { slot, drive }),
        _ => Ok(()),
    }
}

/// A result as JSON.
fn remote_result<T: serde::Serialize>(value: &T) -> Result<serde_json::Value, CliError> {
    serde_json::to_value(value)
        .map_err(|error| CliError::System { action: "encode the result", error: error.into() })
}
