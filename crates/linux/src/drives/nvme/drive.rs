//! An NVMe drive, as a zoned device.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, Status, ZonedDevice};

use super::core::Core;
use super::error::NvmeDriveError;
use super::open::{self, Opened};
use crate::drives::access::Access;
use crate::drives::inflight::DriveLoss;
use crate::drives::info::DriveInfo;
use crate::ring::Ring;

/// An NVMe drive.
pub struct NvmeDrive {
    core: Rc<Core>,
    access: Access,
    path: PathBuf,
    id: [u8; 16],
    name: String,
}

impl NvmeDrive {
    /// Opens a drive for this process alone, as far as others ask: it is locked, and not mounted by
    /// the kernel.
    ///
    /// # Errors
    /// If it is in use, no zoned namespace, or its format does not fit.
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, NvmeDriveError> {
        Self::serve(ring, handle, Self::examine(path, Access::Exclusive)?)
    }

    /// Opens a drive to look at it while another process may be writing to it: every command that
    /// changes something is refused with [`Status::ZoneReadOnly`].
    ///
    /// # Errors
    /// If it is no zoned namespace, or its format does not fit.
    pub fn open_read_only(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
    ) -> Result<Self, NvmeDriveError> {
        Self::serve(ring, handle, Self::examine(path, Access::ReadOnly)?)
    }

    /// Opens a drive and identifies it. This waits for the drive, so it may run in another thread.
    pub(crate) fn examine(path: &Path, access: Access) -> Result<Opened, NvmeDriveError> {
        open::open(path, access)
    }

    /// Makes a drive of an opened device.
    pub(crate) fn serve(
        ring: &Ring,
        handle: &Handle,
        opened: Opened,
    ) -> Result<Self, NvmeDriveError> {
        ring.take_commands()?;
        let name = format!("{} {}", opened.model, opened.serial);
        let (access, path, id) = (opened.access, opened.path.clone(), opened.id);
        let core = Core::start(ring, handle, opened);
        Ok(Self { core, access, path, id, name })
    }

    /// Reads a drive's identity and zones, even while another process uses it.
    ///
    /// # Errors
    /// As [`NvmeDrive::open_read_only`].
    pub fn inspect(path: &Path) -> Result<DriveInfo, NvmeDriveError> {
        let opened = open::open(path, Access::ReadOnly)?;
        Ok(DriveInfo {
            geometry: opened.geometry,
            uuid: opened.id,
            zones: opened.zones,
            wear: None,
            preset: None,
        })
    }

    /// The namespace's NGUID, or its EUI64 behind eight zeros; zeros if it has neither.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.id
    }

    /// Where the device is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The drive's model and serial number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
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

impl ZonedDevice for NvmeDrive {
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
