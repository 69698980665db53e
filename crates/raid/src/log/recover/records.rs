//! Superblock records of drives with a log-structured volume.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::repair::destroy::{self, DestroyError};
use crate::array::start::drive_records;
use crate::log::format::{ArrayUuid, RecordBody};

/// Contents of a drive's superblock zones.
pub type DriveRecords = drive_records::DriveRecords<RecordBody>;

/// Reads the superblock records of a drive, of any array.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn read_records(device: &dyn ZonedDevice) -> Result<DriveRecords, Status> {
    drive_records::read_records(device).await
}

/// Checks that a member of an array can be marked, as far as that is known without a write. Check
/// all members before the first is marked.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn check_markable(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::check_markable::<RecordBody>(device, array).await
}

/// Marks a member of an array that is being destroyed, durably. Mark all members before one of them
/// is erased.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn mark_destroyed(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::mark_destroyed::<RecordBody>(device, array).await
}

/// Erases a marked member.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn erase_destroyed(
    device: &Rc<dyn ZonedDevice>,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::erase_destroyed::<RecordBody>(device, array).await
}

/// Erases a drive that its array, if it has one, then misses.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn erase_alone(device: &Rc<dyn ZonedDevice>) -> Result<(), DestroyError> {
    destroy::erase_alone::<RecordBody>(device).await
}
