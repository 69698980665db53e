//! Superblock records of drives with a log-structured volume.

use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::start::drive_records;
use crate::log::format::RecordBody;

/// Contents of a drive's superblock zones.
pub type DriveRecords = drive_records::DriveRecords<RecordBody>;

/// Reads the superblock records of a drive, of any array.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn read_records(device: &dyn ZonedDevice) -> Result<DriveRecords, Status> {
    drive_records::read_records(device).await
}
