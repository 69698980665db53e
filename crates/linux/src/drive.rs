//! A drive by its path: emulated in a file, or a real one by its character or its block device.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zoneweave_emulator::{DriveCounters, Wear};
use zoneweave_runtime::Handle;
use zoneweave_zoned::{Command, Completion, Geometry, ZoneInfo, ZonedDevice};

use crate::{
    FileDrive, FileDriveError, NvmeDrive, NvmeDriveError, Ring, ZonedBlock, ZonedBlockError,
};

/// A drive of any kind.
pub enum Drive {
    /// Emulated, in a file.
    File(FileDrive),
    /// A real one, by its own commands.
    Nvme(NvmeDrive),
    /// One that the kernel has a driver for, by its block device.
    Block(ZonedBlock),
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
    /// An NVMe drive.
    #[error(transparent)]
    Nvme(#[from] NvmeDriveError),
    /// A block device.
    #[error(transparent)]
    Block(#[from] ZonedBlockError),
}

impl DriveError {
    /// Whether another process has the drive.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::File(FileDriveError::InUse { .. })
                | Self::Nvme(NvmeDriveError::InUse { .. })
                | Self::Block(ZonedBlockError::InUse { .. })
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

/// What is at a path.
enum Kind {
    /// A file with an emulated drive, or nothing.
    File,
    Character,
    Block,
}

fn kind_of(path: &Path) -> Kind {
    match fs::metadata(path).map(|found| found.file_type()) {
        Ok(found) if found.is_char_device() => Kind::Character,
        Ok(found) if found.is_block_device() => Kind::Block,
        _ => Kind::File,
    }
}

/// Does the same with a drive of any kind.
macro_rules! any {
    ($drive:expr, $any:ident => $work:expr) => {
        match $drive {
            Drive::File($any) => $work,
            Drive::Nvme($any) => $work,
            Drive::Block($any) => $work,
        }
    };
}

impl Drive {
    /// Opens a drive for this process alone.
    ///
    /// # Errors
    /// As [`FileDrive::open`], [`NvmeDrive::open`] and [`ZonedBlock::open`].
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Ok(match kind_of(path) {
            Kind::File => Self::File(FileDrive::open(ring, handle, path)?),
            Kind::Character => Self::Nvme(NvmeDrive::open(ring, handle, path)?),
            Kind::Block => Self::Block(ZonedBlock::open(ring, handle, path)?),
        })
    }

    /// Opens a drive to look at it, also while another process is using it.
    ///
    /// # Errors
    /// As [`FileDrive::open_read_only`], [`NvmeDrive::open_read_only`] and [`ZonedBlock::open_read_only`].
    pub fn open_read_only(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Ok(match kind_of(path) {
            Kind::File => Self::File(FileDrive::open_read_only(ring, handle, path)?),
            Kind::Character => Self::Nvme(NvmeDrive::open_read_only(ring, handle, path)?),
            Kind::Block => Self::Block(ZonedBlock::open_read_only(ring, handle, path)?),
        })
    }

    /// What a drive holds, also while a process is using it.
    ///
    /// # Errors
    /// As [`Drive::open_read_only`].
    pub fn inspect(path: &Path) -> Result<DriveInfo, DriveError> {
        Ok(match kind_of(path) {
            Kind::File => FileDrive::inspect(path)?,
            Kind::Character => NvmeDrive::inspect(path)?,
            Kind::Block => ZonedBlock::inspect(path)?,
        })
    }

    /// Its identity: what an emulated drive got when it was made, and a real one in the factory.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        any!(self, drive => drive.uuid())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        any!(self, drive => drive.path())
    }

    /// What it has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        any!(self, drive => drive.counters())
    }

    /// Why it answers no more, if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        any!(self, drive => drive.failure().map(|failure| failure.to_string()))
    }

    /// Whether it is a real one.
    #[must_use]
    pub const fn is_real(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// A better way to the same drive, if there is one: of an NVMe namespace that was named by its block device the
    /// character device, which has metadata and appends.
    #[must_use]
    pub fn better_path(&self) -> Option<PathBuf> {
        let Self::Block(drive) = self else { return None };
        crate::nvme_drive::sibling(&fs::metadata(drive.path()).ok()?)
    }
}

impl ZonedDevice for Drive {
    fn geometry(&self) -> &Geometry {
        any!(self, drive => drive.geometry())
    }

    fn submit(&self, command: Command) -> Completion {
        any!(self, drive => drive.submit(command))
    }
}
