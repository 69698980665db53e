//! What a look at a drive tells, without opening it for commands.

use std::fs;
use std::path::{Path, PathBuf};

use crate::drives::drive::{AnyDrive, Drive, waiting_for};
use crate::drives::error::DriveError;
use crate::drives::file::FileDrive;
use crate::drives::info::DriveInfo;
use crate::drives::kind::{Kind, kind_of};
use crate::drives::nvme::NvmeDrive;
use crate::drives::zoned_block::ZonedBlock;
use crate::ring::Ring;

impl Drive {
    /// Reads a drive's identity and zones, even while another process uses it.
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

    /// As [`Drive::inspect`], for an engine in service.
    ///
    /// # Errors
    /// As [`Drive::inspect`], or if there are no threads left.
    pub async fn inspect_in_thread(ring: &Ring, path: &Path) -> Result<DriveInfo, DriveError> {
        waiting_for(ring, path, Self::inspect).await
    }

    /// A better path to the same drive: the character device of an NVMe namespace that was named by
    /// its block device. It has metadata and appends.
    #[must_use]
    pub fn better_path(&self) -> Option<PathBuf> {
        let AnyDrive::Block(drive) = self.any() else { return None };
        crate::drives::nvme::sibling(&fs::metadata(drive.path()).ok()?)
    }
}
