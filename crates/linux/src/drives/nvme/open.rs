//! Opening a drive: whose it is, what it is, and whether it can be used.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{major, minor};
use zoneweave_zoned::{
    BlockCount, Geometry, OOB_BYTES, ReportOptions, Status, ZoneId, ZoneInfo, ZoneState,
};

use super::encode::{ZONE_RECEIVE, report_dwords};
use super::error::NvmeDriveError;
use super::identify::{self, Controller, IDENTIFY_BYTES, Namespace, NonsenseError, Zones};
use super::low_memory;
use super::report;
use super::retry::may_pass_asked;
use super::ways;
use crate::drives::access::Access;
use crate::drives::nonblock_open::open_nonblocking;
use crate::host::busy;
use crate::sys::nvme::{self, Query, Set};

/// Identify, of the admin commands.
const IDENTIFY: u8 = 0x06;
/// The Zoned Namespace command set, as Identify selects it.
const ZONED: u32 = 2 << 24;

/// How long questions at the start may take.
const QUERY_TIMEOUT_MS: u32 = 30_000;

/// The pause before a failed query is sent again.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Bytes of a report at the start.
const REPORT_BYTES: usize = 64 << 10;

/// A drive that was opened and can be used.
pub(crate) struct Opened {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) access: Access,
    /// Held open so that the namespace cannot be mounted.
    pub(super) block_device: Option<File>,
    pub(super) namespace: u32,
    pub(super) geometry: Geometry,
    pub(super) zones: Vec<ZoneInfo>,
    pub(super) id: [u8; 16],
    pub(super) model: String,
    pub(super) serial: String,
    /// More than one controller on the bus leads to it: see [`ways::has_ways`].
    pub(super) has_ways: bool,
}

struct Asked<'a> {
    path: &'a Path,
    file: &'a File,
    namespace: u32,
}

pub(super) fn open(path: &Path, access: Access) -> Result<Opened, NvmeDriveError> {
    let failed = |action| failed(path, action);
    let kind = fs::metadata(path).map_err(failed("examine it"))?;
    if kind.file_type().is_block_device() {
        return Err(NvmeDriveError::BlockDevice { path: path.to_owned(), instead: sibling(&kind) });
    }
    let file = open_nonblocking(path, access == Access::Exclusive).map_err(failed("open it"))?;
    if !low_memory::is_empty().map_err(failed("read this process's memory map"))? {
        return Err(NvmeDriveError::LowMemory { path: path.to_owned() });
    }
    let namespace = number_of(&file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => failed("reach it through any of its controllers")(error),
        _ => NvmeDriveError::NotNvme { path: path.to_owned() },
    })?;
    let block_device = match access {
        Access::Exclusive => {
            lock(&file, path)?;
            claim_block_device(&kind, path)?
        }
        Access::ReadOnly => None,
    };
    let asked = Asked { path, file: &file, namespace };
    let namespace = asked.namespace(&kind)?;
    let controller = asked.controller()?;
    let geometry = asked.geometry(&namespace, &controller)?;
    let block_name = sibling(&kind).and_then(|block| Some(block.file_name()?.to_owned()));
    let geometry = match block_name {
        Some(name) => within_kernel(geometry, &Path::new("/sys/class/block").join(name)),
        None => geometry,
    };
    let (geometry, zones) = asked.zones(geometry)?;
    let Controller { model, serial, .. } = controller;
    let (id, namespace) = (namespace.id, asked.namespace);
    let path = path.to_owned();
    let has_ways = ways::has_ways(&kind);
    Ok(Opened {
        file,
        path,
        access,
        block_device,
        namespace,
        geometry,
        zones,
        id,
        model,
        serial,
        has_ways,
    })
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> NvmeDriveError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => NvmeDriveError::Forbidden { path },
        _ => NvmeDriveError::System { path, action, error },
    }
}

/// The number of a namespace, as soon as a way leads to it: a controller may be starting, or being
/// reset.
fn number_of(file: &File) -> io::Result<u32> {
    let mut pauses = PAUSES.iter();
    loop {
        match nvme::namespace_of(file.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match pauses.next() {
                Some(pause) => thread::sleep(*pause),
                None => return Err(error),
            },
            number => return number,
        }
    }
}

/// Excludes other processes that lock the device.
fn lock(file: &File, path: &Path) -> Result<(), NvmeDriveError> {
    let locked = busy::lock(file).map_err(failed(path, "lock it"))?;
    locked.ok_or_else(|| NvmeDriveError::InUse { path: path.to_owned() })
}

/// The device that the kernel knows under another name: /dev/nvme0n1 for /dev/ng0n1, and the other
/// way round.
pub(crate) fn sibling(device: &fs::Metadata) -> Option<PathBuf> {
    let block = device.file_type().is_block_device();
    let (kind, from, to) = if block { ("block", "nvme", "ng") } else { ("char", "ng", "nvme") };
    let (major, minor) = (major(device.rdev()), minor(device.rdev()));
    let link = fs::read_link(format!("/sys/dev/{kind}/{major}:{minor}")).ok()?;
    let rest = link.file_name()?.to_str()?.strip_prefix(from)?;
    let other = PathBuf::from(format!("/dev/{to}{rest}"));
    other.exists().then_some(other)
}

/// Opens the block device of the namespace exclusively, as a mount does: it fails if the namespace
/// is mounted, and prevents mounting.
fn claim_block_device(device: &fs::Metadata, path: &Path) -> Result<Option<File>, NvmeDriveError> {
    let Some(block) = sibling(device) else { return Ok(None) };
    let exclusive = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(block);
    match exclusive {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(NvmeDriveError::InUse { path: path.to_owned() })
        }
        // Some kernels offer a block device that nothing can be done with.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENXIO | libc::ENODEV | libc::ENOENT | libc::ENOMEDIUM)
            ) =>
        {
            Ok(None)
        }
        // Without the block device, a mount cannot be noticed.
        Err(error) => Err(failed(path, "claim its block device")(error)),
    }
}

impl Asked<'_> {
    fn query(
        &self,
        query: Query,
        what: &'static str,
        buffer: &mut [u8],
    ) -> Result<(), NvmeDriveError> {
        let mut pauses = PAUSES.iter();
        loop {
            let answer = nvme::query(self.file.as_fd(), query, buffer);
            // Queries change nothing, so they can be repeated; a member that fails to open would be
            // put out of service.
            match pauses.next().filter(|_| may_pass_asked(&answer)) {
                Some(pause) => thread::sleep(*pause),
                None => return self.answered(answer, what),
            }
        }
    }

    fn answered(&self, answer: io::Result<u16>, what: &'static str) -> Result<(), NvmeDriveError> {
        match answer {
            Ok(0) => Ok(()),
            Ok(status) => Err(NvmeDriveError::Refused { path: self.path.to_owned(), what, status }),
            Err(error) => Err(failed(self.path, "query the drive")(error)),
        }
    }

    /// Identify: `selector` is dword 10, and `set` the command set.
    fn identify(
        &self,
        selector: u32,
        set: u32,
        what: &'static str,
    ) -> Result<Box<[u8; IDENTIFY_BYTES]>, NvmeDriveError> {
        let mut bytes = Box::new([0; IDENTIFY_BYTES]);
        // The controller is not a namespace's.
        let namespace = if matches!(selector, 1 | 6) { 0 } else { self.namespace };
        let query = Query {
            set: Set::Admin,
            opcode: IDENTIFY,
            namespace,
            dwords: [selector, set, 0, 0, 0, 0],
            timeout_ms: QUERY_TIMEOUT_MS,
        };
        self.query(query, what, &mut bytes[..])?;
        Ok(bytes)
    }

    fn nonsense(&self) -> impl Fn(NonsenseError) -> NvmeDriveError {
        let path = self.path.to_owned();
        move |error| NvmeDriveError::Nonsense { path: path.clone(), error }
    }

    fn controller(&self) -> Result<Controller, NvmeDriveError> {
        Ok(Controller::parse(&*self.identify(1, 0, "the description of its controller")?))
    }

    /// The namespace, if its blocks are such as are needed.
    fn namespace(&self, device: &fs::Metadata) -> Result<Namespace, NvmeDriveError> {
        let bytes = self.identify(0, 0, "the description of its namespace")?;
        let namespace = Namespace::parse(&bytes).map_err(self.nonsense())?;
        if namespace.format.fits() && !namespace.interleaved && !namespace.protected {
            return Ok(namespace);
        }
        let how = match (namespace.interleaved, namespace.protected) {
            _ if namespace.format.metadata_bytes == 0 => "",
            (true, _) => " interleaved with the blocks",
            (_, true) => " with protection information",
            (false, false) => "",
        };
        let block = sibling(device).unwrap_or_else(|| self.path.to_owned());
        let remedy = match namespace.fitting_format() {
            Some(format) => format!(
                "`nvme format {} --lbaf={format} --ms=0 --pi=0` does that, and destroys all data on it",
                block.display()
            ),
            None => "the drive has no such format, so it cannot be used".to_owned(),
        };
        Err(NvmeDriveError::Format {
            path: self.path.to_owned(),
            block_bytes: namespace.format.block_bytes,
            metadata_bytes: namespace.format.metadata_bytes,
            how,
            remedy,
        })
    }

    /// The drive's shape, apart from how much its zones hold.
    fn geometry(
        &self,
        namespace: &Namespace,
        controller: &Controller,
    ) -> Result<Geometry, NvmeDriveError> {
        let not_zoned = |error| match error {
            // Invalid opcode, field or namespace for that command set.
            NvmeDriveError::Refused { path, status: 0x001 | 0x002 | 0x00B, .. } => {
                NvmeDriveError::NotZoned { path }
            }
            other => other,
        };
        let zones = self.identify(5, ZONED, "the description of its zones").map_err(not_zoned)?;
        let zones = Zones::parse(&zones, namespace.format_index);
        if zones.size == 0 {
            return Err(NvmeDriveError::NotZoned { path: self.path.to_owned() });
        }
        let appends = self.identify(6, ZONED, "its append limit")?;
        identify::geometry(namespace, controller, &zones, appends[0]).map_err(self.nonsense())
    }

    /// All zones, and the geometry with their capacity.
    fn zones(&self, geometry: Geometry) -> Result<(Geometry, Vec<ZoneInfo>), NvmeDriveError> {
        let mut zones = Vec::new();
        let mut buffer = vec![0; REPORT_BYTES.min(geometry.max_transfer.data_bytes())];
        while zones.len() < geometry.zones as usize {
            let first = ZoneId(u32::try_from(zones.len()).expect("fewer than 2^32 zones"));
            let options = ReportOptions { partial: true, ..ReportOptions::default() };
            let query = Query {
                set: Set::Io,
                opcode: ZONE_RECEIVE.0,
                namespace: self.namespace,
                dwords: report_dwords(&geometry, first, options, buffer.len()),
                timeout_ms: QUERY_TIMEOUT_MS,
            };
            self.query(query, "its zone report", &mut buffer)?;
            let nonsense = |_: Status| self.nonsense()(NonsenseError::Report);
            let part = report::decode(&buffer, &geometry, first, 0).map_err(nonsense)?;
            let consecutive = part.zones.first().is_some_and(|info| info.zone == first);
            if !consecutive {
                return Err(nonsense(Status::InternalError));
            }
            zones.extend(part.zones);
        }
        let capacity = common_capacity(&zones).map_err(self.nonsense())?;
        let geometry = Geometry { zone_capacity: capacity, ..geometry };
        // With the capacity known, other parts of the geometry may not fit any more.
        let geometry = match geometry.validate() {
            Ok(()) => geometry,
            Err(_) => Geometry { zrwa: None, ..geometry },
        };
        geometry.validate().map_err(|error| self.nonsense()(error.into()))?;
        Ok((geometry, zones))
    }
}

/// The geometry with transfers limited to the kernel's maximum, from the block device's folder in
/// sysfs. On some machines the kernel bounces transfers through little memory, and refuses larger
/// ones.
fn within_kernel(geometry: Geometry, block: &Path) -> Geometry {
    let told = fs::read_to_string(block.join("queue/max_hw_sectors_kb")).ok();
    let blocks = told.and_then(|kib| kib.trim().parse::<u32>().ok()).map(|kib| BlockCount(kib / 4));
    let Some(most) = blocks.filter(|blocks| blocks.0 > 0) else { return geometry };
    Geometry {
        max_transfer: geometry.max_transfer.min(most),
        append_limit: geometry.append_limit.min(most),
        ..geometry
    }
}

/// The capacity of zones, which must be the same for all zones in use.
fn common_capacity(zones: &[ZoneInfo]) -> Result<BlockCount, NonsenseError> {
    let usable = || zones.iter().filter(|info| info.state != ZoneState::Offline);
    let Some(first) = usable().next() else { return Err(NonsenseError::Report) };
    match usable().find(|info| info.capacity != first.capacity) {
        None => Ok(first.capacity),
        Some(other) => {
            Err(NonsenseError::Capacities { one: first.capacity.0, other: other.capacity.0 })
        }
    }
}

const _: () = assert!(OOB_BYTES == 64, "as the messages say");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_no_larger_than_the_kernel_maps() {
        let folder = tempfile::tempdir().expect("a folder");
        let geometry = Geometry {
            max_transfer: BlockCount(64),
            append_limit: BlockCount(32),
            ..Geometry::new(4, BlockCount(128))
        };
        let of = |geometry| {
            let Geometry { max_transfer, append_limit, .. } =
                within_kernel(geometry, folder.path());
            (max_transfer.0, append_limit.0)
        };
        assert_eq!(of(geometry.clone()), (64, 32));
        fs::create_dir(folder.path().join("queue")).expect("a folder");
        for (kib, expected) in [("248\n", (62, 32)), ("64\n", (16, 16)), ("0\n", (64, 32))] {
            fs::write(folder.path().join("queue/max_hw_sectors_kb"), kib).expect("a file");
            assert_eq!(of(geometry.clone()), expected);
        }
    }
}
