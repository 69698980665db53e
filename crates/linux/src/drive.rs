//! A drive by its path: emulated in a file, or a real one.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use thiserror::Error;
use zoneweave_emulator::{DriveCounters, Wear};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, ZoneInfo, ZonedDevice};

use crate::{FileDrive, FileDriveError, NvmeDrive, NvmeDriveError, Ring};

/// A drive of either kind.
pub enum Drive {
    /// Emulated, in a file.
    File(FileDrive),
    /// Real.
    Nvme(NvmeDrive),
}

/// What a drive holds, read without taking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInfo {
    /// The drive's shape.
    pub geometry: Geometry,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its zones.
    pub zones: Vec<ZoneInfo>,
    /// The erases so far, if the drive counts them.
    pub wear: Option<Wear>,
    /// The preset whose timing it has, if it has any.
    pub preset: Option<String>,
}

/// Why a drive cannot be opened.
#[derive(Debug, Error)]
pub enum DriveError {
    /// An emulated one.
    #[error(transparent)]
    File(#[from] FileDriveError),
    /// A real one.
    #[error(transparent)]
    Nvme(#[from] NvmeDriveError),
}

impl DriveError {
    /// Whether another process has the drive.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::File(FileDriveError::InUse { .. }) | Self::Nvme(NvmeDriveError::InUse { .. })
        )
    }

    /// Whether there is no such drive.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::File(FileDriveError::NotFound { .. }))
    }

    /// Whether it was refused so that nothing is destroyed.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        self.is_in_use() || matches!(self, Self::File(FileDriveError::Exists { .. }))
    }
}

/// Whether a path is a device, rather than a file with an emulated drive.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        found.file_type().is_char_device() || found.file_type().is_block_device()
    })
}

impl Drive {
    /// Opens a drive for this process alone.
    ///
    /// # Errors
    /// As [`FileDrive::open`] and [`NvmeDrive::open`].
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Ok(match is_device(path) {
            true => Self::Nvme(NvmeDrive::open(ring, handle, path)?),
            false => Self::File(FileDrive::open(ring, handle, path)?),
        })
    }

    /// Opens a drive to look at it, also while another process is using it.
    ///
    /// # Errors
    /// As [`FileDrive::open_read_only`] and [`NvmeDrive::open_read_only`].
    pub fn open_read_only(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Ok(match is_device(path) {
            true => Self::Nvme(NvmeDrive::open_read_only(ring, handle, path)?),
            false => Self::File(FileDrive::open_read_only(ring, handle, path)?),
        })
    }

    /// What a drive holds, also while a process is using it.
    ///
    /// # Errors
    /// As [`Drive::open_read_only`].
    pub fn inspect(path: &Path) -> Result<DriveInfo, DriveError> {
        Ok(match is_device(path) {
            true => NvmeDrive::inspect(path)?,
            false => FileDrive::inspect(path)?,
        })
    }

    /// Its identity: what an emulated drive got when it was made, and a real one in the factory.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match self {
            Self::File(drive) => drive.uuid(),
            Self::Nvme(drive) => drive.uuid(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File(drive) => drive.path(),
            Self::Nvme(drive) => drive.path(),
        }
    }

    /// What it has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        match self {
            Self::File(drive) => drive.counters(),
            Self::Nvme(drive) => drive.counters(),
        }
    }

    /// Why it answers no more, if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::File(drive) => drive.failure().map(|failure| failure.to_string()),
            Self::Nvme(drive) => drive.failure().map(|failure| failure.to_string()),
        }
    }

    /// Whether it is a real one.
    #[must_use]
    pub const fn is_real(&self) -> bool {
        matches!(self, Self::Nvme(_))
    }
}

impl ZonedDevice for Drive {
    fn geometry(&self) -> &Geometry {
        match self {
            Self::File(drive) => drive.geometry(),
            Self::Nvme(drive) => drive.geometry(),
        }
    }

    fn submit(&self, command: Command) -> Completion {
        match self {
            Self::File(drive) => drive.submit(command),
            Self::Nvme(drive) => drive.submit(command),
        }
    }
}
