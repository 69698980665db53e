//! What is known of drives in files alone.

use crate::drives::drive::Drive;
use crate::drives::file::HeaderRepairs;

impl Drive {
    /// The last error of a write to the file of an emulated drive, except that it has no room.
    #[must_use]
    pub fn write_error(&self) -> Option<String> {
        match self {
            Self::File(drive) => drive.write_error(),
            Self::Nvme(_) | Self::Block(_) => None,
        }
    }

    /// What became of the header of an emulated drive's file since it was opened.
    #[must_use]
    pub fn header_repairs(&self) -> HeaderRepairs {
        match self {
            Self::File(drive) => drive.header_repairs(),
            Self::Nvme(_) | Self::Block(_) => HeaderRepairs::default(),
        }
    }
}
