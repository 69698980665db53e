//! A zoned drive as a zoned disk of the kernel.

use std::rc::Rc;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::IntoBytes;
use zoneweave_zoned::{
    BlockCount, Geometry, Payload, ReportOptions, Status, ZoneAction, ZoneAddress, ZoneDescriptor,
    ZoneId, ZonedDevice, ZonedDeviceExt,
};

use super::abi::{
    ATTRIBUTE_FUA, ATTRIBUTE_VOLATILE_CACHE, BasicParameters, DATA_BYTES_MAX, IoDescriptor,
    Operation, PARAMETERS_BASIC, PARAMETERS_ZONED, Parameters, ZonedParameters,
};
use super::error::UblkError;
use super::request::{
    Answer, Answering, BLOCK_SHIFT, Data, Disk, SECTORS_MAX, blocks_of, done, errno_of,
};
use crate::sys::blkzoned::{BLOCK_SECTORS, ReportedZone, ZONE_SEQUENTIAL};

/// Serves a zoned drive; the metadata of its blocks stays empty.
pub(super) struct ZonedDisk {
    drive: Rc<dyn ZonedDevice>,
}

impl ZonedDisk {
    /// Checks that the kernel can have such a disk.
    pub(super) fn new(drive: Rc<dyn ZonedDevice>) -> Result<Self, UblkError> {
        check_geometry(drive.geometry())?;
        Ok(Self { drive })
    }

    /// The disk's parameters for the driver.
    pub(super) fn parameters(&self) -> Parameters {
        parameters(self.drive.geometry())
    }
}

/// The parameters of a zoned disk of this geometry.
pub(super) fn parameters(geometry: &Geometry) -> Parameters {
    let zone_sectors = u64::from(geometry.zone_size.0) * BLOCK_SECTORS;
    assert!(zone_sectors > 0, "a geometry has zones");
    // Whether a drive has a cache or not, a flush does no harm.
    let attributes = ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA;
    let basic = BasicParameters {
        attributes,
        logical_block_shift: BLOCK_SHIFT,
        physical_block_shift: BLOCK_SHIFT,
        optimal_io_shift: BLOCK_SHIFT,
        least_io_shift: BLOCK_SHIFT,
        sectors_max: sectors(geometry.max_transfer).min(SECTORS_MAX),
        chunk_sectors: sectors(geometry.zone_size),
        device_sectors: zone_sectors * u64::from(geometry.zones),
        virtual_boundary_mask: 0,
    };
    // A limit that no drive can reach is none.
    let limit = |zones: Option<u32>| zones.filter(|zones| *zones < geometry.zones).unwrap_or(0);
    let zoned = ZonedParameters {
        open_max: limit(geometry.max_open),
        active_max: limit(geometry.max_active),
        append_sectors_max: sectors(geometry.append_limit).min(basic.sectors_max),
        reserved: [0; 5],
    };
    let types = PARAMETERS_BASIC | PARAMETERS_ZONED;
    Parameters { types, basic, zoned, ..Parameters::default() }
}

/// Checks that the kernel can have a zoned disk of this geometry.
pub(super) fn check_geometry(geometry: &Geometry) -> Result<(), UblkError> {
    let unsuitable = |problem: String| Err(UblkError::Unsuitable { problem });
    if !geometry.zone_size.0.is_power_of_two() {
        let size = geometry.zone_size;
        return unsuitable(format!("its zone size of {size} is not a power of two"));
    }
    if geometry.append_limit.0 == 0 {
        return unsuitable("it has no Zone Append".to_owned());
    }
    Ok(())
}

/// The driver counts in 32 bits of sectors, up to 2 TiB, far above any command or zone.
fn sectors(blocks: BlockCount) -> u32 {
    u32::try_from(u64::from(blocks.0) * BLOCK_SECTORS).unwrap_or(u32::MAX)
}

impl Disk for ZonedDisk {
    fn take_up(&self, request: IoDescriptor, data: Data) -> Answering {
        let drive = self.drive.clone();
        Box::pin(async move { answer(&*drive, request, data).await })
    }
}

async fn answer(
    drive: &dyn ZonedDevice,
    request: IoDescriptor,
    data: Data,
) -> Result<Answer, Errno> {
    let fua = request.is_fua();
    let manage = async |action| {
        let (start, _) = blocks_of(&request)?;
        let zone = place(drive.geometry(), start)?.zone;
        drive.manage(zone, action).await.map_err(errno_of)?;
        Ok(Answer::default())
    };
    match request.operation().ok_or(Errno::OPNOTSUPP)? {
        Operation::Read => {
            let (start, blocks) = data.range(&request)?;
            let at = place(drive.geometry(), start)?;
            let payload = drive.read(at, BlockCount(blocks)).await.map_err(errno_of)?;
            data.give(&payload.data)?;
            Ok(done(blocks))
        }
        Operation::Write => {
            let (start, blocks) = data.range(&request)?;
            let at = place(drive.geometry(), start)?;
            let payload = Payload::new(data.take(blocks)?, Bytes::new());
            drive.write(at, payload, fua).await.map_err(errno_of)?;
            Ok(done(blocks))
        }
        Operation::ZoneAppend => {
            let (start, blocks) = data.range(&request)?;
            let zone = place(drive.geometry(), start)?.zone;
            let payload = Payload::new(data.take(blocks)?, Bytes::new());
            let at = drive.append(zone, payload, fua).await.map_err(errno_of)?;
            Ok(Answer { append_sector: sector(drive.geometry(), at), ..done(blocks) })
        }
        Operation::Flush => {
            drive.flush().await.map_err(errno_of)?;
            Ok(Answer::default())
        }
        Operation::ReportZones => report(drive, &request, &data).await,
        Operation::ZoneOpen => manage(ZoneAction::Open).await,
        Operation::ZoneClose => manage(ZoneAction::Close).await,
        Operation::ZoneFinish => manage(ZoneAction::Finish).await,
        Operation::ZoneReset => manage(ZoneAction::Reset).await,
        Operation::ZoneResetAll => {
            drive.manage_all(ZoneAction::Reset).await.map_err(errno_of)?;
            Ok(Answer::default())
        }
        Operation::Discard | Operation::WriteZeroes => Err(Errno::OPNOTSUPP),
    }
}

/// Where a block of the disk is on the drive.
fn place(geometry: &Geometry, block: u64) -> Result<ZoneAddress, Errno> {
    let size = u64::from(geometry.zone_size.0);
    let zone = u32::try_from(block / size).ok().filter(|zone| *zone < geometry.zones);
    let offset = u32::try_from(block % size).expect("below the size of a zone");
    Ok(ZoneAddress::new(ZoneId(zone.ok_or(Errno::INVAL)?), offset))
}

/// The first sector of a block of the drive.
fn sector(geometry: &Geometry, at: ZoneAddress) -> u64 {
    let block = u64::from(at.zone.0) * u64::from(geometry.zone_size.0) + u64::from(at.offset.0);
    block * BLOCK_SECTORS
}

async fn report(
    drive: &dyn ZonedDevice,
    request: &IoDescriptor,
    data: &Data,
) -> Result<Answer, Errno> {
    let geometry = drive.geometry();
    let first = place(geometry, request.start_sector / BLOCK_SECTORS)?.zone;
    // Of a report this is the number of zones.
    let count = request.sectors.min(geometry.zones - first.0);
    let report = drive.report_by(first, count, ReportOptions::default()).await;
    let zones = report.map_err(errno_of)?.zones;
    let expected = (first.0..).take(count as usize);
    if !zones.iter().map(|info| info.zone.0).eq(expected) {
        return Err(errno_of(Status::InternalError));
    }
    let reported =
        zones.iter().map(|info| reported(&ZoneDescriptor::new(info, geometry), geometry));
    let reported: Vec<_> = reported.collect();
    data.give(&[Bytes::copy_from_slice(reported.as_bytes())])?;
    // The answer includes the memory behind the last zone, whose size only the kernel knows: the
    // kernel limits the copy.
    Ok(Answer { bytes: DATA_BYTES_MAX, append_sector: 0 })
}

/// A zone as the kernel reports it: NVMe's states, in sectors.
fn reported(zone: &ZoneDescriptor, geometry: &Geometry) -> ReportedZone {
    let length = u64::from(geometry.zone_size.0) * BLOCK_SECTORS;
    let start = zone.start * BLOCK_SECTORS;
    assert!(zone.capacity * BLOCK_SECTORS <= length, "zones are at least as long as they hold");
    let write_pointer = match zone.write_pointer {
        u64::MAX => start + length,
        block => block * BLOCK_SECTORS,
    };
    ReportedZone {
        start,
        length,
        write_pointer,
        kind: ZONE_SEQUENTIAL,
        condition: zone.state,
        capacity: zone.capacity * BLOCK_SECTORS,
        ..ReportedZone::default()
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::{ZoneAttributes, ZoneInfo, ZoneOffset, ZoneState};

    use super::*;

    fn zone(state: ZoneState, write_pointer: u32) -> ReportedZone {
        let geometry = Geometry::new(4, BlockCount(48));
        let info = ZoneInfo {
            zone: ZoneId(2),
            state,
            write_pointer: ZoneOffset(write_pointer),
            capacity: BlockCount(48),
            resets: 0,
            attributes: ZoneAttributes::NONE,
        };
        reported(&ZoneDescriptor::new(&info, &geometry), &geometry)
    }

    #[test]
    fn zones_are_reported_in_sectors() {
        let open = zone(ZoneState::ImplicitlyOpen, 5);
        assert_eq!((open.start, open.length, open.capacity), (1024, 512, 384));
        assert_eq!((open.write_pointer, open.condition, open.kind), (1064, 2, 2));
        let full = zone(ZoneState::Full, 48);
        assert_eq!((full.write_pointer, full.condition), (1536, 14));
    }

    #[test]
    fn places_beyond_the_drive_are_refused() {
        let geometry = Geometry::new(4, BlockCount(48));
        let last = place(&geometry, 4 * 64 - 1).unwrap();
        assert_eq!(last, ZoneAddress::new(ZoneId(3), 63));
        assert_eq!(sector(&geometry, last), (4 * 64 - 1) * 8);
        assert_eq!(place(&geometry, 4 * 64), Err(Errno::INVAL));
        assert_eq!(place(&geometry, u64::MAX), Err(Errno::INVAL));
    }
}
