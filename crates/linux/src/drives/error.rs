//! Why a drive of any kind cannot be opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::drives::file::FileDriveError;
use crate::drives::nvme::NvmeDriveError;
use crate::drives::zoned_block::ZonedBlockError;

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
    /// No thread could open it.
    #[error("{}: cannot start a thread to open it: {error}", .path.display())]
    Thread {
        /// Where it is.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
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

    /// Whether the file does not exist.
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
