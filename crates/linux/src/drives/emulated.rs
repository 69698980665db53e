//! What is known of drives in files alone.

use crate::drives::drive::{AnyDrive, Drive};

impl Drive {
    /// The last error of a write to the file of an emulated drive, except that it has no room.
    #[must_use]
    pub fn write_error(&self) -> Option<String> {
        match self.any() {
            AnyDrive::File(drive) => drive.write_error(),
            AnyDrive::Nvme(_) | AnyDrive::Block(_) => None,
        }
    }

    /// Whether the header of an emulated drive's file was overwritten since it was opened: it does
    /// not open again.
    #[must_use]
    pub fn header_lost(&self) -> bool {
        match self.any() {
            AnyDrive::File(drive) => drive.header_lost(),
            AnyDrive::Nvme(_) | AnyDrive::Block(_) => false,
        }
    }

    /// Looks now whether the header of an emulated drive's file is still there, for
    /// [`Self::header_lost`].
    pub async fn look_at_header(&self) {
        if let AnyDrive::File(drive) = self.any() {
            drive.look_at_header().await;
        }
    }
}
