//! A zoned block device of the kernel as a drive: a shingled disk, the block device of an NVMe namespace, or an
//! emulated one (zloop, null_blk, a zoned disk of ours).
//!
//! Reads and writes go through io_uring, past the page cache. Reports and changes of zones are system calls that wait for
//! the drive, and are made by a thread of their own, one at a time. The block layer has neither metadata beside blocks
//! nor Zone Append that tells where: a drive says so in its geometry ([`OobKind::None`], an append limit of zero).
//!
//! Conventional zones, which shingled disks have about 1 % of at their start, some one at the end, are left out: the
//! drive's zone 0 is the disk's first zone that is written from front to back. So is a last zone that is shorter.
//!
//! Invariants:
//! - One write or change of a zone is under way at a time, in the order of submission: the kernel promises an order to
//!   nobody who has several.
//! - A write is sent only where the zone is known to end. After an error that is looked up before another one is sent.
//! - Nothing the kernel tells is used before it is known to lie within the drive.
//!
//! Fault model: the drive may fail or refuse any command, and the kernel mostly says no more than that: why a zone
//! refused is told from its state afterwards. What takes too long the kernel ends; should it not, the drive is lost
//! after two minutes. A drive whose device is gone, or lost its size, is lost for good.
//!
//! [`OobKind::None`]: zoneweave_zoned::OobKind::None

mod check;
mod core;
mod error;
mod open;
mod pieces;
mod report;
mod status;
mod sysfs;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, Status, ZonedDevice};

use crate::drive::Access;
use crate::{DriveInfo, DriveLoss, Ring};
use core::Core;
pub use error::{DiskNonsense, ZonedBlockError};
pub(crate) use open::Opened;

/// Where the kernel tells of disks.
const SYSFS: &str = "/sys";

/// A zoned block device.
pub struct ZonedBlock {
    core: Rc<Core>,
    access: Access,
    path: PathBuf,
    id: [u8; 16],
    model: String,
}

impl ZonedBlock {
    /// Opens a disk for this process alone, as far as others ask: it is claimed as by a mount.
    ///
    /// # Errors
    /// If it is in use, has no zones, or they do not fit.
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, ZonedBlockError> {
        Self::serve(ring, handle, Self::examine(path, Access::Exclusive)?)
    }

    /// Opens a disk to look at it while another process may be writing to it: every command that changes
    /// something is refused with [`Status::ZoneReadOnly`].
    ///
    /// # Errors
    /// If it has no zones, or they do not fit.
    pub fn open_read_only(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
    ) -> Result<Self, ZonedBlockError> {
        Self::serve(ring, handle, Self::examine(path, Access::ReadOnly)?)
    }

    /// Opens a disk and asks for its zones. That waits for the disk, so it may be done in another thread.
    pub(crate) fn examine(path: &Path, access: Access) -> Result<Opened, ZonedBlockError> {
        open::open(path, access, Path::new(SYSFS))
    }

    /// A disk of what was opened.
    pub(crate) fn serve(
        ring: &Ring,
        handle: &Handle,
        opened: Opened,
    ) -> Result<Self, ZonedBlockError> {
        let (path, access) = (opened.path.clone(), opened.access);
        let (id, model) = (opened.id, opened.model.clone());
        let core = Core::start(ring, handle, opened).map_err(|error| ZonedBlockError::System {
            path: path.clone(),
            action: "start a thread for it",
            error,
        })?;
        Ok(Self { core, access, path, id, model })
    }

    /// What a disk holds, also while a process is using it.
    ///
    /// # Errors
    /// As [`ZonedBlock::open_read_only`].
    pub fn inspect(path: &Path) -> Result<DriveInfo, ZonedBlockError> {
        let opened = open::open(path, Access::ReadOnly, Path::new(SYSFS))?;
        let Opened { geometry, zones, id: uuid, .. } = opened;
        Ok(DriveInfo { geometry, uuid, zones, wear: None, preset: None })
    }

    /// The disk's World Wide Name, or the NGUID or EUI64 of a namespace; zeros if it has none.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.id
    }

    /// Where the device is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk's model; empty if it has none.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What the drive has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.core.counters()
    }

    /// Why the drive answers nothing but [`Status::DeviceGone`], if it does.
    #[must_use]
    pub fn failure(&self) -> Option<DriveLoss> {
        self.core.loss()
    }

    /// Takes the drive out of service.
    pub fn pull_out(&self) {
        self.core.pull_out();
    }
}

impl ZonedDevice for ZonedBlock {
    fn geometry(&self) -> &Geometry {
        self.core.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let looks = matches!(
            command,
            Command::Read { .. } | Command::Report { .. } | Command::ChangedZones | Command::Flush
        );
        if !looks && self.access == Access::ReadOnly {
            return Completion::ready(Err(Status::ZoneReadOnly));
        }
        self.core.clone().submit(command)
    }
}
