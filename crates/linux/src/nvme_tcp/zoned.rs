//! Requests to a zoned drive.

use bytes::Bytes;
use zoneweave_nvmf::{Done, Operation, ZoneAction as Action};
use zoneweave_zoned::{
    BlockCount, DESCRIPTOR_BYTES, Geometry, Payload, ReportOptions, Status, ZoneAction,
    ZoneAddress, ZoneFilter, ZoneId, ZonedDevice, ZonedDeviceExt,
};

pub(super) async fn run(
    drive: &dyn ZonedDevice,
    operation: Operation,
    data: Bytes,
) -> Result<Done, Status> {
    let geometry = drive.geometry();
    let payload = |data| Payload::new(data, Bytes::new());
    match operation {
        Operation::Read { lba, blocks } => {
            let read = drive.read(place(geometry, lba)?, BlockCount(blocks)).await?;
            return Ok(Done::Data(read.data));
        }
        Operation::Write { lba, fua, .. } => {
            drive.write(place(geometry, lba)?, payload(data), fua).await?;
        }
        Operation::Append { zone_start, fua, .. } => {
            let zone = place(geometry, zone_start)?.zone;
            let at = drive.append(zone, payload(data), fua).await?;
            return Ok(Done::At(block(geometry, at)));
        }
        Operation::Flush => drive.flush().await?,
        Operation::ManageZone { zone_start: None, action } => {
            drive.manage_all(action_of(action)).await?;
        }
        Operation::ManageZone { zone_start: Some(start), action } => {
            drive.manage(place(geometry, start)?.zone, action_of(action)).await?;
        }
        Operation::ReportZones { lba, filter, partial, bytes } => {
            let filter = ZoneFilter::from_value(filter).ok_or(Status::InvalidField)?;
            let options = ReportOptions { filter, partial, extended: false };
            return report(drive, lba, options, bytes).await;
        }
        Operation::WriteZeroes { .. } | Operation::Deallocate { .. } => {
            unreachable!("a zoned namespace has no such commands");
        }
    }
    Ok(Done::Plain)
}

/// A report that is cut, or filled with zeros, to `bytes`.
async fn report(
    drive: &dyn ZonedDevice,
    lba: u64,
    options: ReportOptions,
    bytes: usize,
) -> Result<Done, Status> {
    let geometry = drive.geometry();
    let first = place(geometry, lba)?.zone;
    let room = u32::try_from((bytes / DESCRIPTOR_BYTES).saturating_sub(1)).unwrap_or(u32::MAX);
    let count = room.min(geometry.zones - first.0);
    let mut report = drive.report_by(first, count, options).await?.encode(geometry);
    report.resize(bytes, 0);
    Ok(Done::Data(vec![report.into()]))
}

fn action_of(action: Action) -> ZoneAction {
    match action {
        Action::Close => ZoneAction::Close,
        Action::Finish => ZoneAction::Finish,
        Action::Open => ZoneAction::Open,
        Action::Reset => ZoneAction::Reset,
        Action::Offline => ZoneAction::Offline,
    }
}

/// Where a block of the namespace is on the drive.
fn place(geometry: &Geometry, block: u64) -> Result<ZoneAddress, Status> {
    let size = u64::from(geometry.zone_size.0);
    let zone = u32::try_from(block / size).ok().filter(|zone| *zone < geometry.zones);
    let offset = u32::try_from(block % size).expect("below the size of a zone");
    Ok(ZoneAddress::new(ZoneId(zone.ok_or(Status::LbaOutOfRange)?), offset))
}

fn block(geometry: &Geometry, at: ZoneAddress) -> u64 {
    u64::from(at.zone.0) * u64::from(geometry.zone_size.0) + u64::from(at.offset.0)
}
