//! What is known of drives in files alone.

use crate::drives::drive::Drive;

impl Drive {
    /// The last error of a write to the file of an emulated drive, except that it has no room.
    #[must_use]
    pub fn write_error(&self) -> Option<String> {
        match self {
            Self::File(drive) => drive.write_error(),
            Self::Nvme(_) | Self::Block(_) => None,
        }
    }

    /// Whether the header of an emulated drive's file was overwritten since it was opened: it does
    /// not open again.
    #[must_use]
    pub fn header_lost(&self) -> bool {
        match self {
            Self::File(drive) => drive.header_lost(),
            Self::Nvme(_) | Self::Block(_) => false,
        }
    }
}
