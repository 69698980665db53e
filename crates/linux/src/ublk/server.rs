//! The server of a ublk disk: created, taken over after a crash, removed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BlockDevice, Geometry, ZonedDevice};

use super::abi::{
    Control, DATA_BYTES_MAX, DeviceInfo, FEATURE_IOCTL_NUMBERS, FEATURE_RECOVERY_REISSUE,
    FEATURE_USER_COPY, FEATURE_USER_RECOVERY, FEATURE_ZONED, Parameters, STATE_DEAD, STATE_LIVE,
    STATE_QUIESCED,
};
use super::block::BlockDisk;
use super::control::Driver;
use super::error::UblkError;
use super::queue::Queue;
use super::request::{Disk, SECTORS_MAX};
use super::zoned::{self, ZonedDisk, check_geometry};
use crate::host::timeout::{timeout, unless};
use crate::ring::Ring;
use crate::sys::blkzoned::SECTOR_BYTES;

/// Requests in flight.
pub const QUEUE_DEPTH: u16 = 128;

/// The time in which a dying server must release its device.
const LETTING_GO: Nanos = Nanos::from_secs(20);
/// The interval at which its state is polled.
const ASKING: Nanos = Nanos::from_millis(50);
/// How long the users of a disk may keep it from being deleted.
const SHUTDOWN_TIME: Nanos = Nanos::from_secs(10);

/// A device to serve.
#[derive(Clone)]
pub enum UblkDisk {
    /// A disk that can be written in any order.
    Block(Rc<dyn BlockDevice>),
    /// A zoned disk.
    Zoned(Rc<dyn ZonedDevice>),
}

/// How it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UblkOptions {
    /// The number in `/dev/ublkbN`; any that is free if none is given.
    pub number: Option<u32>,
    /// The identity of the device: a server takes over the device that a dead server with the same
    /// identity left.
    pub identity: u64,
    /// The preferred write size, such as a stripe; zero if there is none.
    pub optimal_bytes: u64,
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UblkStatus {
    /// Requests answered since the start.
    pub requests: u64,
    /// Those of them answered with an error.
    pub failed: u64,
}

/// A disk of the kernel that is being served. Dropping this handle lets it run on.
pub struct UblkServer {
    handle: Handle,
    driver: Driver,
    queue: Rc<Queue>,
    number: u32,
    taken_over: bool,
}

impl UblkServer {
    /// Checks, without starting it, whether a disk of blocks can be created or taken over.
    ///
    /// # Errors
    /// [`UblkError`] says how to fix it.
    pub async fn check(
        ring: &Ring,
        handle: &Handle,
        options: &UblkOptions,
    ) -> Result<(), UblkError> {
        let mut driver = Driver::open(ring)?;
        check_features(driver.features().await?, BLOCK_FEATURES)?;
        find(&mut driver, handle, options).await.map(drop)
    }

    /// As [`UblkServer::check`], for a zoned disk of this geometry. A disk to be taken over must be
    /// like it.
    ///
    /// # Errors
    /// [`UblkError`] says how to fix it.
    pub async fn check_zoned(
        ring: &Ring,
        handle: &Handle,
        geometry: &Geometry,
        options: &UblkOptions,
    ) -> Result<(), UblkError> {
        check_geometry(geometry)?;
        let mut driver = Driver::open(ring)?;
        check_features(driver.features().await?, ZONED_FEATURES)?;
        match find(&mut driver, handle, options).await? {
            Some(info) => {
                let ours = zoned::parameters(geometry);
                check_taken_over(&mut driver, &info, &ours, ZONED_FEATURES).await
            }
            None => Ok(()),
        }
    }

    /// Creates the disk, or takes over the disk that a dead server left behind.
    ///
    /// # Errors
    /// [`UblkError`] says how to fix it.
    pub async fn start(
        ring: &Ring,
        handle: &Handle,
        disk: UblkDisk,
        options: UblkOptions,
    ) -> Result<Self, UblkError> {
        let Plan { disk, features, parameters } = plan(disk, &options)?;
        let mut driver = Driver::open(ring)?;
        check_features(driver.features().await?, features)?;
        let found = find(&mut driver, handle, &options).await?;
        let info = match found {
            Some(info) => {
                assert_eq!(info.state, STATE_QUIESCED, "a device with a server is not taken over");
                check_taken_over(&mut driver, &info, &parameters, features).await?;
                take_over(&mut driver, handle, info.device).await?;
                info
            }
            None => add(&mut driver, &options, features, parameters).await?,
        };
        assert!(suits(&info, features), "only a device of our features is served");
        let number = info.device;
        let queue = match Queue::start(ring, handle, disk, &info) {
            Ok(queue) => queue,
            Err(error) if found.is_none() => {
                // The error that led here is the one to tell.
                let _ = driver.command(Control::DeleteDevice, number, 0).await;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let end = if found.is_some() { Control::EndRecovery } else { Control::StartDevice };
        let mut refusal = None;
        let refused = async { refusal = Some(queue.refusal().await) };
        let starting = driver.command(end, number, u64::from(std::process::id()));
        let started = unless(refused, starting).await;
        if let Some(error) = refusal {
            return Err(UblkError::Refused { id: number, error });
        }
        let mut server =
            Self { handle: handle.clone(), driver, queue, number, taken_over: found.is_some() };
        match started {
            Some(Err(error)) if found.is_none() => {
                server.remove().await;
                Err(error)
            }
            Some(Err(error)) => Err(error),
            Some(Ok(())) | None => Ok(server),
        }
    }

    /// Where the disk is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// Whether another server left the device behind.
    #[must_use]
    pub fn was_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Counters since the start.
    #[must_use]
    pub fn status(&self) -> UblkStatus {
        let (requests, failed) = self.queue.counts();
        UblkStatus { requests, failed }
    }

    /// Answers all started requests, and removes the disk. Unmount it first: remaining users get
    /// errors. Returns whether the disk is gone; if not, it goes with its last user.
    pub async fn shutdown(mut self) -> bool {
        self.remove().await
    }

    async fn remove(&mut self) -> bool {
        let Self { handle, driver, queue, number, .. } = self;
        let removing = async {
            // Refused where it is stopped already.
            let _ = driver.command(Control::StopDevice, *number, 0).await;
            queue.all_ended().await;
            driver.command(Control::DeleteDevice, *number, 0).await.is_ok()
        };
        timeout(handle, SHUTDOWN_TIME, removing).await.unwrap_or(false)
    }
}

/// Features of the driver that every disk needs.
const COMMON_FEATURES: u64 = FEATURE_USER_COPY | FEATURE_USER_RECOVERY | FEATURE_IOCTL_NUMBERS;

/// Features that a disk of blocks needs.
const BLOCK_FEATURES: u64 = COMMON_FEATURES | FEATURE_RECOVERY_REISSUE;

/// Features that a zoned disk needs.
const ZONED_FEATURES: u64 = COMMON_FEATURES | FEATURE_ZONED;

/// The driver's parameters of a disk.
struct Plan {
    disk: Rc<dyn Disk>,
    features: u64,
    parameters: Parameters,
}

fn plan(disk: UblkDisk, options: &UblkOptions) -> Result<Plan, UblkError> {
    let mut plan = match disk {
        UblkDisk::Block(device) => {
            let disk = BlockDisk { device };
            let parameters = disk.parameters(options.optimal_bytes);
            Plan { disk: Rc::new(disk), features: BLOCK_FEATURES, parameters }
        }
        UblkDisk::Zoned(drive) => {
            let disk = ZonedDisk::new(drive)?;
            let parameters = disk.parameters();
            Plan { disk: Rc::new(disk), features: ZONED_FEATURES, parameters }
        }
    };
    plan.parameters.length = u32::try_from(size_of::<Parameters>()).expect("112 bytes");
    Ok(plan)
}

fn check_features(there: u64, needed: u64) -> Result<(), UblkError> {
    let known = [
        (FEATURE_USER_COPY, "copying by read and write (UBLK_F_USER_COPY)", "6.5"),
        (FEATURE_USER_RECOVERY, "recovery (UBLK_F_USER_RECOVERY)", "6.5"),
        (FEATURE_RECOVERY_REISSUE, "recovery (UBLK_F_USER_RECOVERY_REISSUE)", "6.5"),
        (FEATURE_IOCTL_NUMBERS, "the numbers of commands (UBLK_F_CMD_IOCTL_ENCODE)", "6.5"),
        (FEATURE_ZONED, "zoned disks (UBLK_F_ZONED)", "6.6"),
    ];
    let missing = known.into_iter().find(|(bit, ..)| needed & bit != 0 && there & bit == 0);
    missing.map_or(Ok(()), |(_, feature, since)| Err(UblkError::TooOld { feature, since }))
}

/// Looks for the device that a server which died has left behind.
async fn find(
    driver: &mut Driver,
    handle: &Handle,
    options: &UblkOptions,
) -> Result<Option<DeviceInfo>, UblkError> {
    let numbers = match options.number {
        Some(number) => vec![number],
        None => numbers_in_use(),
    };
    for number in numbers {
        let Some(info) = driver.info(number).await? else { continue };
        // Zero is the identity of servers that set none.
        if info.server_flags != options.identity || options.identity == 0 {
            match options.number {
                Some(id) => return Err(UblkError::Foreign { id }),
                None => continue,
            }
        }
        match let_go(driver, handle, info).await? {
            Some(info) if info.state == STATE_QUIESCED => return Ok(Some(info)),
            // Never started, or stopped and not deleted: the driver waits for its remaining users,
            // if any.
            Some(info) if info.state == STATE_DEAD => {
                let deleting = driver.command(Control::DeleteDevice, number, 0);
                match timeout(handle, LETTING_GO, deleting).await {
                    Some(deleted) => drop(deleted?),
                    None => {
                        let process = info.server_process;
                        return Err(UblkError::InUse { id: number, process });
                    }
                }
            }
            Some(info) => {
                return Err(UblkError::InUse { id: number, process: info.server_process });
            }
            None => {}
        }
    }
    Ok(None)
}

/// The numbers of all devices there are.
fn numbers_in_use() -> Vec<u32> {
    let entries = fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        entry.file_name().to_str().and_then(|name| name.strip_prefix("ublkc")?.parse().ok())
    };
    let mut numbers: Vec<_> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Waits while the server of a device is ending: one of the same identity as ours.
async fn let_go(
    driver: &mut Driver,
    handle: &Handle,
    mut info: DeviceInfo,
) -> Result<Option<DeviceInfo>, UblkError> {
    let until = handle.now() + LETTING_GO;
    while info.state == STATE_LIVE && handle.now() < until {
        handle.sleep(ASKING).await;
        match driver.info(info.device).await? {
            Some(now) => info = now,
            None => return Ok(None),
        }
    }
    Ok(Some(info))
}

/// Prepares the driver for a new server. The dead one may still be closing its descriptors.
async fn take_over(driver: &mut Driver, handle: &Handle, id: u32) -> Result<(), UblkError> {
    let until = handle.now() + LETTING_GO;
    loop {
        match driver.command(Control::StartRecovery, id, 0).await {
            Err(UblkError::Control { error, .. })
                if error.raw_os_error() == Some(libc::EBUSY) && handle.now() < until =>
            {
                handle.sleep(ASKING).await;
            }
            other => return other,
        }
    }
}

/// Checks that a device which a server left behind can go on as ours.
async fn check_taken_over(
    driver: &mut Driver,
    info: &DeviceInfo,
    ours: &Parameters,
    features: u64,
) -> Result<(), UblkError> {
    let known = driver.parameters(info.device).await?;
    match is_same(&known, ours) && suits(info, features) {
        true => Ok(()),
        false => Err(UblkError::Changed { id: info.device }),
    }
}

/// Whether users of the disk would notice no difference: the kernel keeps to the limits that it
/// knows, and ours may be higher since a member that had lower ones is out of service.
fn is_same(known: &Parameters, ours: &Parameters) -> bool {
    // Zero is no limit.
    let allows = |ours: u32, known: u32| ours == 0 || known != 0 && known <= ours;

    known.basic.device_sectors == ours.basic.device_sectors
        && known.basic.chunk_sectors == ours.basic.chunk_sectors
        && known.basic.logical_block_shift == ours.basic.logical_block_shift
        && known.basic.attributes == ours.basic.attributes
        && allows(ours.zoned.open_max, known.zoned.open_max)
        && allows(ours.zoned.active_max, known.zoned.active_max)
        && known.zoned.append_sectors_max <= ours.zoned.append_sectors_max
}

/// Whether a device can be served as it is.
fn suits(info: &DeviceInfo, features: u64) -> bool {
    let relevant = features | FEATURE_ZONED | FEATURE_RECOVERY_REISSUE;
    info.features & relevant == features
        && info.queues == 1
        && (1..=4096).contains(&info.queue_depth)
        && info.io_bytes_max <= DATA_BYTES_MAX
}

async fn add(
    driver: &mut Driver,
    options: &UblkOptions,
    features: u64,
    parameters: Parameters,
) -> Result<DeviceInfo, UblkError> {
    let io_bytes_max = u32::try_from(u64::from(SECTORS_MAX) * SECTOR_BYTES).expect("512 KiB");
    let asked = DeviceInfo {
        queues: 1,
        queue_depth: QUEUE_DEPTH,
        io_bytes_max,
        device: options.number.unwrap_or(u32::MAX),
        features,
        server_flags: options.identity,
        ..DeviceInfo::default()
    };
    let info = driver.add(asked).await?;
    let id = info.device;
    let set = match suits(&info, features) {
        true => driver.set_parameters(id, parameters).await,
        false => Err(UblkError::Control {
            id: id.to_string(),
            purpose: Control::AddDevice.purpose(),
            error: io::Error::other("the driver created it with other parameters"),
        }),
    };
    if let Err(error) = set {
        // The error that led here is the one to tell.
        let _ = driver.command(Control::DeleteDevice, id, 0).await;
        return Err(error);
    }
    Ok(info)
}

#[cfg(test)]
mod tests;
