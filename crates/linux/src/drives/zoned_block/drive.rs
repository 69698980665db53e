//! A zoned block device of the kernel, as a zoned device.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, Status, ZonedDevice};

use super::core::Core;
use super::error::ZonedBlockError;
use super::open::{self, Opened};
use crate::drives::access::Access;
use crate::drives::inflight::DriveLoss;
use crate::drives::info::DriveInfo;
use crate::ring::Ring;

/// The root of sysfs.
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

    /// Opens a disk to look at it while another process may be writing to it: every command that
    /// changes something is refused with [`Status::ZoneReadOnly`].
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

    /// Opens a disk and reports its zones. This waits for the disk, so it may run in another
    /// thread.
    pub(crate) fn examine(path: &Path, access: Access) -> Result<Opened, ZonedBlockError> {
        open::open(path, access, Path::new(SYSFS))
    }

    /// Makes a drive of an opened disk.
    pub(crate) fn serve(
        ring: &Ring,
        handle: &Handle,
        opened: Opened,
    ) -> Result<Self, ZonedBlockError> {
        let (path, access) = (opened.path.clone(), opened.access);
        let (id, model) = (opened.id, opened.model.clone());
        let core = Core::start(ring, handle, opened).map_err(|error| ZonedBlockError::System {
            path: path.clone(),
            action: "start its worker thread",
            error,
        })?;
        Ok(Self { core, access, path, id, model })
    }

    /// Reads a disk's identity and zones, even while another process uses it.
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

    /// Counters since the drive was opened.
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

#[cfg(test)]
mod tests;
