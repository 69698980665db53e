//! A drive in a file, as a zoned device: commands after the controller's decision.

use std::path::Path;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use zoneweave_emulator::media_format::{Extension, PresetName};
use zoneweave_emulator::{
    DriveCounters, Due, Pace, Request, Timing, WearReport, WearSettings, Work, ZonePart,
};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{
    Command, Completion, Geometry, Reply, ReportOptions, Status, ZoneAction, ZoneId, ZonedDevice,
    completion,
};

use super::core::{Before, Drive};
use super::error::{DriveFailure, FileDriveError};
use super::open::{self, OpenFile};
use super::zone_queue::Kind;
use super::{timing, watch};
use crate::drives::access::Access;
use crate::drives::info::DriveInfo;
use crate::ring::Ring;

/// A drive in a file.
pub struct FileDrive {
    drive: Rc<Drive>,
}

impl FileDrive {
    /// Creates a drive of empty zones in a new file. It always has a volatile cache, whether or not
    /// the geometry has one.
    ///
    /// # Errors
    /// If the file exists, the geometry is impossible, or the file system refuses. No file is left
    /// behind then.
    pub fn create(path: &Path, geometry: Geometry, uuid: [u8; 16]) -> Result<(), FileDriveError> {
        open::create(path, geometry, None, uuid)
    }

    /// As [`FileDrive::create`], for a drive that counts its erases and may wear out.
    ///
    /// # Errors
    /// Also if the settings do not fit the geometry.
    pub fn create_with_wear(
        path: &Path,
        geometry: Geometry,
        wear: WearSettings,
        uuid: [u8; 16],
    ) -> Result<(), FileDriveError> {
        let extension = Extension { wear: Some(wear), preset: None };
        open::create(path, geometry, Some(extension), uuid)
    }

    /// As [`FileDrive::create`], for a drive that behaves like a preset: its zones wear as the
    /// preset says, and it [opens](FileDrive::open) with the preset's timing.
    ///
    /// # Errors
    /// Also if the preset does not fit the geometry.
    pub fn create_as(
        path: &Path,
        geometry: Geometry,
        preset: PresetName,
        uuid: [u8; 16],
    ) -> Result<(), FileDriveError> {
        let wear = timing::known(&preset, path)?.wear().copied();
        let extension = Extension { wear, preset: Some(preset) };
        open::create(path, geometry, Some(extension), uuid)
    }

    /// Opens a drive for this process alone, with the timing of the preset it was made as.
    ///
    /// # Errors
    /// If another process has it open, the file is no drive or damaged, or its preset is not known.
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, FileDriveError> {
        Self::serve(ring, handle, Self::examine(path, Access::Exclusive)?)
    }

    /// As [`FileDrive::open`], with another timing, such as that of a preset of one's own.
    /// `volatile_cache` is whether a flush takes as long as writing the cache back.
    ///
    /// # Errors
    /// As [`FileDrive::open`].
    pub fn open_with_timing(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
        timing: Box<dyn Timing>,
        volatile_cache: bool,
    ) -> Result<Self, FileDriveError> {
        let opened = open::open(path, Access::Exclusive)?;
        let geometry = Geometry { volatile_cache, ..opened.zones.geometry().clone() };
        let pace = Pace::new(timing, &geometry, &opened.zones, handle);
        Ok(Self::start(ring, handle, opened, Some(pace)))
    }

    /// Opens a drive for reading while another process may be writing to it: zones are seen as
    /// they were at this moment, and every command that changes something is refused with
    /// [`Status::ZoneReadOnly`].
    ///
    /// # Errors
    /// If the file is no drive or damaged.
    pub fn open_read_only(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
    ) -> Result<Self, FileDriveError> {
        Self::serve(ring, handle, Self::examine(path, Access::ReadOnly)?)
    }

    /// Opens the file at a path and reads it. This may block, so it may run in another thread.
    pub(crate) fn examine(path: &Path, access: Access) -> Result<OpenFile, FileDriveError> {
        open::open(path, access)
    }

    /// Makes a drive of an opened file.
    pub(crate) fn serve(
        ring: &Ring,
        handle: &Handle,
        opened: OpenFile,
    ) -> Result<Self, FileDriveError> {
        let pace = match opened.access {
            Access::Exclusive => timing::remembered(&opened, handle)?,
            Access::ReadOnly => None,
        };
        Ok(Self::start(ring, handle, opened, pace))
    }

    /// Reads a drive file's identity and zones, even while another process uses it.
    ///
    /// # Errors
    /// As [`FileDrive::open_read_only`].
    pub fn inspect(path: &Path) -> Result<DriveInfo, FileDriveError> {
        let opened = open::open(path, Access::ReadOnly)?;
        let (layout, zones) = (&opened.layout, &opened.zones);
        Ok(DriveInfo {
            geometry: zones.geometry().clone(),
            uuid: layout.uuid(),
            zones: zones
                .report(ZoneId(0), zones.geometry().zones, ReportOptions::default())
                .unwrap_or_default()
                .zones,
            preset: layout.preset().map(|name| name.as_str().to_owned()),
            wear: opened.wear,
        })
    }

    fn start(ring: &Ring, handle: &Handle, opened: OpenFile, pace: Option<Pace>) -> Self {
        let writes = opened.access == Access::Exclusive;
        assert!(writes || pace.is_none(), "a drive opened read-only has no timing");
        let drive = Rc::new(Drive::new(ring, handle, opened, pace));
        handle.spawn("drive watch", watch::watch(handle.clone(), Rc::downgrade(&drive)));
        Self { drive }
    }

    /// The identity given when the drive was made.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.drive.layout.uuid()
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.drive.path
    }

    /// Counters since the drive was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.drive.controller.borrow().counters()
    }

    /// The erases so far, if the drive counts them.
    #[must_use]
    pub fn wear(&self) -> Option<WearReport> {
        let controller = self.drive.controller.borrow();
        let written_blocks = controller.counters().written_blocks;
        controller.wear().map(|wear| wear.report(written_blocks))
    }

    /// Why the drive answers nothing but [`Status::DeviceGone`], if it does.
    #[must_use]
    pub fn failure(&self) -> Option<Rc<DriveFailure>> {
        self.drive.failure()
    }

    /// Whether the file's header was overwritten since the drive was opened: it does not open
    /// again.
    #[must_use]
    pub fn header_lost(&self) -> bool {
        self.drive.header_lost.get()
    }

    /// Looks now whether the file's header is still there, for [`Self::header_lost`].
    pub async fn look_at_header(&self) {
        self.drive.look_at_header().await;
    }

    /// The last error of a write to the file, except that it has no room: commands fail with less
    /// than the system says.
    #[must_use]
    pub fn write_error(&self) -> Option<String> {
        self.drive.write_error.borrow().clone()
    }

    /// Pulls the drive out, as an operator or a test may.
    pub fn pull_out(&self) {
        self.drive.die(DriveFailure::PulledOut);
    }

    /// Starts a command that the controller admitted.
    fn perform(&self, work: Work, command: Command, before: &Before) -> Completion {
        let drive = self.drive.clone();
        let durable = !is_passing(&command);
        match (work, command) {
            (Work::Report(report), _) => Completion::ready(Ok(Reply::Zones(report))),
            (Work::Changed(zones), _) => Completion::ready(Ok(Reply::Changed(zones))),
            (Work::Read { at, blocks, written, .. }, _) => {
                let latest = drive.in_the_way_of_read(at, written);
                self.spawn("drive read", drive.read(at, blocks, written, latest))
            }
            (Work::ReadAcross { parts, .. }, _) => {
                let in_the_way = |part: &ZonePart| drive.in_the_way_of_read(part.at, part.written);
                let parts = parts.into_iter().map(|part| (part, in_the_way(&part))).collect();
                self.spawn("drive read", drive.read_across(parts))
            }
            (
                Work::Write { at, reply, fua, .. },
                Command::Write { payload, .. } | Command::Append { payload, .. },
            ) => {
                assert_eq!(reply.zone, at.zone, "a write is answered with an address of its zone");
                let queued = drive.enqueue(at.zone, Kind::Write, drive.admitted(at.zone, before));
                self.spawn("drive write", async move {
                    drive.write(at, payload, fua, queued).await.map(|()| Reply::Written(reply))
                })
            }
            (Work::Reset(zone), _) => {
                let queued = drive.enqueue(zone, Kind::Reset, drive.admitted(zone, before));
                self.spawn("drive reset", drive.reset(zone, queued))
            }
            (Work::ResetAll(zones), _) => {
                let enqueue =
                    |zone, kind| (zone, drive.enqueue(zone, kind, drive.admitted(zone, before)));
                // Zones that wore out over it are published as such.
                let worn = |zone: &ZoneId| {
                    !zones.contains(zone) && drive.admitted(*zone, before).is_change()
                };
                let every = (0..drive.geometry.zones).map(ZoneId);
                let worn: Vec<_> =
                    every.filter(worn).map(|zone| enqueue(zone, Kind::State)).collect();
                let reset: Vec<_> = zones.iter().map(|zone| enqueue(*zone, Kind::Reset)).collect();
                let worn =
                    worn.into_iter().map(|(zone, one)| drive.clone().change(zone, true, one));
                let worn = all(worn.collect());
                let reset = reset.into_iter().map(|(zone, one)| drive.clone().reset(zone, one));
                let reset = all(reset.collect());
                self.spawn("drive resets", async move {
                    let (worn, reset) = join(worn, reset).await;
                    worn.and(reset)
                })
            }
            (Work::ZoneChanged(zone), _) => {
                let queued = drive.enqueue(zone, Kind::State, drive.admitted(zone, before));
                self.spawn("drive zone change", drive.change(zone, durable, queued))
            }
            (Work::ZonesChanged(zones), _) => {
                let change = |zone| {
                    let queued = drive.enqueue(zone, Kind::State, drive.admitted(zone, before));
                    drive.clone().change(zone, durable, queued)
                };
                self.spawn("drive zone changes", all(zones.into_iter().map(change).collect()))
            }
            (Work::Extended(zone), Command::SetExtension { extension, .. }) => {
                drive.keep_extension(zone, extension.clone());
                let queued = drive.enqueue(zone, Kind::Write, drive.admitted(zone, before));
                self.spawn("drive extension", drive.extend(zone, extension, queued))
            }
            (Work::Flush { .. }, _) => self.spawn("drive flush", drive.flush()),
            (Work::Nothing | Work::Write { .. } | Work::Extended(_), _) => {
                Completion::ready(Err(Status::InternalError))
            }
        }
    }

    /// Answers a command that was refused; a zone that wore out over it is published as such.
    fn refuse(&self, status: Status, request: &Request, before: &Before) -> Completion {
        let zone = request.zone().filter(|zone| zone.0 < self.drive.geometry.zones);
        let changed = zone.map(|zone| (zone, self.drive.admitted(zone, before)));
        let Some((zone, admitted)) = changed.filter(|(_, admitted)| admitted.is_change()) else {
            return Completion::ready(Err(status));
        };
        let queued = self.drive.enqueue(zone, Kind::State, admitted);
        let change = self.drive.clone().change(zone, true, queued);
        self.spawn("drive zone wears out", async move { change.await.and(Err(status)) })
    }

    /// Holds an answer back until it is due.
    fn delayed(&self, answer: Completion, due: Due) -> Completion {
        let handle = self.drive.handle.clone();
        self.spawn("drive delay", async move {
            let outcome = answer.await;
            due.wait(&handle).await;
            outcome
        })
    }

    fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<Reply, Status>> + 'static,
    ) -> Completion {
        let (responder, completion) = completion();
        let drive = self.drive.clone();
        self.drive.handle.spawn(name, async move {
            let outcome = work.await;
            // A command that completed while the drive was lost is as uncertain as all others.
            let lost = drive.failure().is_some();
            responder.complete(if lost { Err(Status::DeviceGone) } else { outcome });
        });
        completion
    }
}

impl ZonedDevice for FileDrive {
    fn geometry(&self) -> &Geometry {
        &self.drive.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        let request = Request::from(&command);
        let changes = !matches!(
            request,
            Request::Read { .. } | Request::Report { .. } | Request::ChangedZones | Request::Flush
        );
        if changes && self.drive.access == Access::ReadOnly {
            return Completion::ready(Err(Status::ZoneReadOnly));
        }
        let due = self.drive.due(&request);
        let (admission, before) = self.drive.admit(&request);
        let answer = match admission.outcome {
            Ok(()) => self.perform(admission.work, command, &before),
            Err(status) => self.refuse(status, &request, &before),
        };
        match due {
            Some(due) => self.delayed(answer, due),
            None => answer,
        }
    }
}

/// Whether a zone management command does nothing that outlives a restart.
fn is_passing(command: &Command) -> bool {
    match command {
        Command::Manage { action, .. } | Command::ManageAll { action } => {
            matches!(action, ZoneAction::Open | ZoneAction::Close)
        }
        _ => false,
    }
}

/// Waits for changes of several zones; the first that fails decides.
async fn all(changes: Vec<impl Future<Output = Result<Reply, Status>>>) -> Result<Reply, Status> {
    let outcomes = join_all(changes).await;
    outcomes.into_iter().find(Result::is_err).unwrap_or(Ok(Reply::Done))
}

#[cfg(test)]
mod tests;
