//! A real drive: the generic character device of an NVMe zoned namespace (`/dev/ng0n1`).
//!
//! Commands go to the drive as they are, through io_uring, beside those of files and sockets; the block layer sees
//! nothing of them. Only so does the host have the metadata beside each block, and Zone Append.
//!
//! Invariants:
//! - Drives may carry out commands that they hold at the same time in any order. A write is sent when no other
//!   write, append or change of its zone is under way, a change likewise, an append when nothing but
//!   appends is. What is for all zones is not ordered with the rest.
//! - Nothing the drive answers is used before it is known to lie within the drive.
//! - Memory of a command is the ring's until the kernel gives the command back, even if nobody waits any more.
//!
//! Fault model: the drive may fail or refuse any command, answer nonsense, or not answer. The kernel ends what takes
//! longer than [`COMMAND_TIMEOUT_MS`]; should it not either, the drive is lost after two minutes. A drive whose
//! device is gone is lost for good: one that comes back is another one, which has to be opened anew.

mod core;
mod encode;
mod error;
mod identify;
mod low_memory;
mod open;
mod report;
mod retry;
mod status;
#[cfg(test)]
mod tests;
mod ways;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, Status, ZonedDevice};

use crate::drive::Access;
use crate::{DriveInfo, DriveLoss, Ring};
use core::Core;
pub use error::NvmeDriveError;
pub use identify::NonsenseError;
pub(crate) use open::{Opened, sibling};

/// An NVMe drive.
pub struct NvmeDrive {
    core: Rc<Core>,
    access: Access,
    path: PathBuf,
    id: [u8; 16],
    name: String,
}

impl NvmeDrive {
    /// Opens a drive for this process alone, as far as others ask: it is locked, and not mounted by the kernel.
    ///
    /// # Errors
    /// If it is in use, no zoned namespace, or its format does not fit.
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, NvmeDriveError> {
        Self::serve(ring, handle, Self::examine(path, Access::Exclusive)?)
    }

    /// Opens a drive to look at it while another process may be writing to it: every command that changes
    /// something is refused with [`Status::ZoneReadOnly`].
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

    /// Opens a drive and asks it what it is. That waits for the drive, so it may be done in another thread.
    pub(crate) fn examine(path: &Path, access: Access) -> Result<Opened, NvmeDriveError> {
        open::open(path, access)
    }

    /// A drive of what was opened.
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

    /// What a drive holds, also while a process is using it.
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
