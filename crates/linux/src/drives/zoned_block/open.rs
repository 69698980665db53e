//! Opening a disk: exclusive access, its description, and its usable zones.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{SeekFrom, major, minor, seek};
use zoneweave_zoned::{Geometry, ZoneId, ZoneInfo};

use super::error::{DiskNonsense, ZonedBlockError};
use super::report::{Layout, Unsuitable, common_capacity, usable};
use super::sysfs::{DeviceNumber, Disk};
use crate::drives::access::Access;
use crate::host::busy;
use crate::sys::blkzoned::{ReportedZone, SECTOR_BYTES};
use crate::sys::block::report_zones;

/// Zones in one report.
pub(super) const REPORTED_AT_ONCE: u32 = 1024;

/// A disk that was opened and can be used.
pub(crate) struct Opened {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) access: Access,
    /// The disk's size.
    pub(super) bytes: u64,
    pub(super) layout: Layout,
    pub(super) geometry: Geometry,
    pub(super) zones: Vec<ZoneInfo>,
    pub(super) id: [u8; 16],
    pub(super) model: String,
}

/// Opens a block device, which `sysfs` describes.
pub(super) fn open(path: &Path, access: Access, sysfs: &Path) -> Result<Opened, ZonedBlockError> {
    let kind = fs::metadata(path).map_err(failed(path, "examine it"))?;
    let number = DeviceNumber { major: major(kind.rdev()), minor: minor(kind.rdev()) };
    let disk = Disk::read(sysfs, number, path)?;
    let file = match access {
        Access::Exclusive => claim(path)?,
        Access::ReadOnly => open_as(path, access).map_err(failed(path, "open it"))?,
    };
    let bytes = seek(&file, SeekFrom::End(0)).map_err(|error| {
        let error = io::Error::from(error);
        failed(path, "find its size")(error)
    })?;
    let nonsense = |error| ZonedBlockError::Nonsense { path: path.to_owned(), error };
    // Before anything is divided by the size of zones.
    disk.geometry(1).map_err(nonsense)?;
    let reported = report_all(&file, &disk, path)?;
    let part = usable(&reported, disk.zone_sectors).map_err(|problem| match problem {
        Unsuitable::Nonsense(error) => nonsense(error),
        Unsuitable::Between(zone) => {
            ZonedBlockError::ConventionalBetween { path: path.to_owned(), zone }
        }
    })?;
    let layout = Layout { left_out: part.left_out, zone_sectors: disk.zone_sectors };
    if layout.first_sector(ZoneId(part.zones)) > bytes / SECTOR_BYTES {
        return Err(nonsense(DiskNonsense::Zones {
            sectors: bytes / SECTOR_BYTES,
            size: disk.zone_sectors,
        }));
    }
    let geometry = disk.geometry(part.zones).map_err(nonsense)?;
    let reported = &reported[part.left_out as usize..];
    let zones = layout.decode(reported, &geometry, ZoneId(0)).map_err(nonsense)?;
    let zone_capacity = common_capacity(&zones).map_err(nonsense)?;
    let geometry = Geometry { zone_capacity, ..geometry };
    geometry.validate().map_err(|error| nonsense(error.into()))?;
    let path = path.to_owned();
    Ok(Opened {
        file,
        path,
        access,
        bytes,
        layout,
        geometry,
        zones,
        id: disk.id,
        model: disk.model,
    })
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ZonedBlockError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => ZonedBlockError::Forbidden { path },
        _ => ZonedBlockError::System { path, action, error },
    }
}

/// Opens the disk with direct I/O, because writes from the page cache come in any order.
fn open_as(path: &Path, access: Access) -> io::Result<File> {
    let exclusive = access == Access::Exclusive;
    let flags = libc::O_DIRECT | if exclusive { libc::O_EXCL } else { 0 };
    OpenOptions::new().read(true).write(exclusive).custom_flags(flags).open(path)
}

/// Opens the disk exclusively, as a mount does.
fn claim(path: &Path) -> Result<File, ZonedBlockError> {
    let opened = busy::retry(|| open_as(path, Access::Exclusive));
    let opened = opened.map_err(failed(path, "open it"))?;
    opened.ok_or_else(|| ZonedBlockError::InUse { path: path.to_owned() })
}

/// Whether another process, or a mount, keeps the disk for itself.
pub(crate) fn is_claimed(path: &Path, patience: Duration) -> bool {
    let open = || {
        let flags = libc::O_EXCL | libc::O_NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    matches!(busy::retry_for(patience, open), Ok(None))
}

/// Every zone of the disk.
fn report_all(file: &File, disk: &Disk, path: &Path) -> Result<Vec<ReportedZone>, ZonedBlockError> {
    let mut zones: Vec<ReportedZone> = Vec::new();
    loop {
        let next = zones.len() as u64 * disk.zone_sectors;
        if next >= disk.sectors {
            return Ok(zones);
        }
        let told = report_zones(file.as_fd(), next, REPORTED_AT_ONCE)
            .map_err(failed(path, "report its zones"))?;
        // Each answer brings at least one zone, so this ends.
        if told.is_empty() {
            let error = DiskNonsense::Report { zone: zones.len() };
            return Err(ZonedBlockError::Nonsense { path: path.to_owned(), error });
        }
        zones.extend(told);
    }
}
