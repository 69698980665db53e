//! An emulated zoned drive whose media are one sparse file.
//!
//! [`Controller`] decides, as for every emulated drive; this module moves the bytes. What is where
//! in the file is defined by [`zoneweave_emulator::media_format`].
//!
//! Invariants:
//! - A command that writes completes when its data and metadata are in the file and after that
//!   the zone's record, with the new write pointer, is too. "In the file" means the page cache:
//!   killing the process at any point loses nothing that completed, and the write pointer always
//!   covers a hole-free prefix of what was submitted.
//! - Reset, finish and offline are durable when they complete, as on flash; flush and FUA are
//!   `fdatasync`. Until then the file system may lose or reorder what it holds if the machine
//!   itself fails, so the drive reports a volatile cache. (Flash loses only tails; here a block
//!   below the write pointer that was not flushed may read as zeros after a power failure.)
//! - One process at a time writes to a drive, by a lock on the file.
//!
//! Fault model: the file may be removed or cut off under us, which pulls the drive out; the file
//! system may fail a read (unrecovered read), a write (write fault, and the zone becomes
//! read-only), have no room (capacity exceeded, and the write pointer stays where it was) or fail
//! to write a record or to sync, after which nothing is certain and the drive answers no more.

mod error;
mod file;
mod sync;
mod tasks;
#[cfg(test)]
mod tests;
mod tickets;
mod zone_queue;

use std::path::Path;
use std::rc::Rc;

use zoneweave_emulator::{Controller, DriveCounters, Request, WearReport, WearSettings, Work};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{
    BlockCount, Command, Completion, Geometry, Reply, Status, ZoneAction, ZoneInfo, ZonedDevice,
    completion,
};

use crate::Ring;
pub use error::{DriveFailure, FileDriveError};
use file::{Access, OpenFile};
use tasks::Drive;
use zone_queue::Kind;

/// A drive in a file.
pub struct FileDrive {
    drive: Rc<Drive>,
}

/// What a drive file holds, read without opening the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDriveInfo {
    /// The drive's shape.
    pub geometry: Geometry,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its zones.
    pub zones: Vec<ZoneInfo>,
}

impl FileDrive {
    /// Makes a drive of empty zones in a new file. It always has a volatile cache, whatever the
    /// geometry says.
    ///
    /// # Errors
    /// If there is a file already, the geometry is impossible, or the file system refuses. No file
    /// is left behind then.
    pub fn create(path: &Path, geometry: Geometry, uuid: [u8; 16]) -> Result<(), FileDriveError> {
        file::create(path, geometry, None, uuid)
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
        file::create(path, geometry, Some(wear), uuid)
    }

    /// Opens a drive for this process alone.
    ///
    /// # Errors
    /// If another process has it open, or the file is no drive or damaged.
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, FileDriveError> {
        Ok(Self::start(ring, handle, file::open(path, Access::Exclusive)?))
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
        Ok(Self::start(ring, handle, file::open(path, Access::ReadOnly)?))
    }

    /// Reads what a drive file holds, also while a process is using the drive.
    ///
    /// # Errors
    /// As [`FileDrive::open_read_only`].
    pub fn inspect(path: &Path) -> Result<FileDriveInfo, FileDriveError> {
        let opened = file::open(path, Access::ReadOnly)?;
        let (layout, zones) = (&opened.layout, &opened.zones);
        Ok(FileDriveInfo {
            geometry: zones.geometry().clone(),
            uuid: layout.uuid(),
            zones: zones
                .report(zoneweave_zoned::ZoneId(0), zones.geometry().zones)
                .unwrap_or_default(),
        })
    }

    fn start(ring: &Ring, handle: &Handle, opened: OpenFile) -> Self {
        let drive = Rc::new(Drive::new(ring, handle, opened));
        handle.spawn("drive watch", tasks::watch(handle.clone(), Rc::downgrade(&drive)));
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

    /// What the drive has done since it was opened.
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

    /// Pulls the drive out, as an operator or a test may.
    pub fn pull_out(&self) {
        self.drive.die(DriveFailure::PulledOut);
    }

    /// Starts a command that the controller admitted.
    fn perform(&self, work: Work, command: Command, admitted: tasks::Admitted) -> Completion {
        let drive = self.drive.clone();
        match (work, command) {
            (Work::Report(report), _) => Completion::ready(Ok(Reply::Zones(report))),
            (Work::Read { at, blocks, written, .. }, _) => {
                let latest = drive.in_the_way_of_read(at, written);
                self.spawn("drive read", drive.read(at, blocks, written, latest))
            }
            (
                Work::Write { at, reply, fua, .. },
                Command::Write { payload, .. } | Command::Append { payload, .. },
            ) => {
                let queued = drive.enqueue(at.zone, Kind::Write, admitted);
                self.spawn("drive write", async move {
                    drive.write(at, payload, fua, queued).await.map(|()| Reply::Written(reply))
                })
            }
            (Work::Reset(zone), _) => {
                let queued = drive.enqueue(zone, Kind::Reset, admitted);
                self.spawn("drive reset", drive.reset(zone, queued))
            }
            (Work::ZoneChanged(zone), command) => {
                let queued = drive.enqueue(zone, Kind::State, admitted);
                let durable = !matches!(
                    command,
                    Command::Manage { action: ZoneAction::Open | ZoneAction::Close, .. }
                );
                self.spawn("drive zone change", drive.change(zone, durable, queued))
            }
            (Work::Flush { .. }, _) => self.spawn("drive flush", drive.flush()),
            (Work::Nothing | Work::Write { .. }, _) => {
                Completion::ready(Err(Status::InternalError))
            }
        }
    }

    /// Answers a command that was refused; a zone that wore out over it is published as such.
    fn refuse(&self, status: Status, request: &Request, admitted: tasks::Admitted) -> Completion {
        let Some(zone) = request.zone().filter(|_| admitted.is_change()) else {
            return Completion::ready(Err(status));
        };
        let queued = self.drive.enqueue(zone, Kind::State, admitted);
        let change = self.drive.clone().change(zone, true, queued);
        self.spawn("drive zone wears out", async move { change.await.and(Err(status)) })
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
            // What completed while the drive was lost is as uncertain as the rest.
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
        let changes =
            !matches!(request, Request::Read { .. } | Request::Report { .. } | Request::Flush);
        if changes && self.drive.access == Access::ReadOnly {
            return Completion::ready(Err(Status::ZoneReadOnly));
        }
        let (admission, admitted) = self.drive.admit(&request);
        match admission.outcome {
            Ok(()) => self.perform(admission.work, command, admitted),
            Err(status) => self.refuse(status, &request, admitted),
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
