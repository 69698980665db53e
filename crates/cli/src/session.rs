//! The ring, the executor and drives on them.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_linux::{DeviceLink, Drive, DriveError, RemoteDevice, Ring};
use zoneweave_raid::inline::{FrameShape, InlineDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_runtime::{Executor, Handle, JoinHandle};
use zoneweave_zoned::{BlockDevice, OobKind, ZonedDevice};

use crate::drives::paths::same_file;
use crate::error::CliError;

/// One thread's engine room.
pub(crate) struct Session {
    // Before the ring, so that tasks are dropped while their operations still have one.
    pub executor: Executor,
    pub handle: Handle,
    pub ring: Ring,
}

/// What drives are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// To use them; nobody else may meanwhile.
    Exclusive,
    /// To look at them, also while a server uses them. Nothing is changed.
    Look,
}

/// A drive and what people call it.
#[derive(Clone)]
pub(crate) struct NamedDrive {
    pub label: String,
    pub drive: Rc<Drive>,
    /// The drive as a member of an array uses it: one without metadata has it among its blocks.
    pub member: Rc<dyn ZonedDevice>,
}

impl NamedDrive {
    pub(crate) fn new(label: String, drive: Drive, handle: &Handle) -> Self {
        let drive = Rc::new(drive);
        let member: Rc<dyn ZonedDevice> = drive.clone();
        let member = match drive.geometry().oob {
            // Where zones are too small for frames the engine says what is missing.
            OobKind::None => {
                match InlineDrive::new(handle, member.clone(), FrameShape::default()) {
                    Ok(inline) => Rc::new(inline),
                    Err(_) => member,
                }
            }
            _ => member,
        };
        Self { label, drive, member }
    }
}

/// A drive that could not be opened.
pub(crate) struct Unopened {
    pub label: String,
    pub error: DriveError,
}

/// What opening drives brought.
#[derive(Default)]
pub(crate) struct Drives {
    pub opened: Vec<NamedDrive>,
    pub unopened: Vec<Unopened>,
}

impl Session {
    pub(crate) fn new() -> Result<Self, CliError> {
        let ring = Ring::new()?;
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        Ok(Self { executor, handle, ring })
    }

    /// Lets another thread use a device of this one, until what is returned beside the link is done.
    pub(crate) fn lend(
        &self,
        device: Rc<dyn BlockDevice>,
    ) -> Result<(DeviceLink, JoinHandle<()>), CliError> {
        DeviceLink::new(&self.ring, &self.handle, device)
            .map_err(|error| CliError::System { action: "link a shard", error })
    }

    /// The device that another thread has lent.
    pub(crate) fn reach(&self, link: DeviceLink) -> Result<Rc<RemoteDevice>, CliError> {
        link.connect(&self.ring, &self.handle)
            .map(Rc::new)
            .map_err(|error| CliError::System { action: "reach a shard", error })
    }

    pub(crate) fn open(&self, path: &Path, access: Access) -> Result<NamedDrive, DriveError> {
        let drive = match access {
            Access::Exclusive => Drive::open(&self.ring, &self.handle, path),
            Access::Look => Drive::open_read_only(&self.ring, &self.handle, path),
        };
        Ok(NamedDrive::new(path.display().to_string(), drive?, &self.handle))
    }

    /// Opens what can be opened.
    ///
    /// # Errors
    /// If that is none, or somebody else is using one: then it is not a matter of doing without.
    /// If one is named twice.
    pub(crate) fn open_some(&self, paths: &[PathBuf], access: Access) -> Result<Drives, CliError> {
        refuse_twice(paths)?;
        let mut drives = Drives::default();
        for path in paths {
            match self.open(path, access) {
                Ok(drive) => drives.opened.push(drive),
                Err(error) if error.is_in_use() => return Err(error.into()),
                Err(error) => {
                    drives.unopened.push(Unopened { label: path.display().to_string(), error });
                }
            }
        }
        if drives.opened.is_empty() && !drives.unopened.is_empty() {
            return Err(CliError::NoDrives { first: drives.unopened.swap_remove(0).error });
        }
        Ok(drives)
    }

    /// Opens every drive.
    ///
    /// # Errors
    /// If one cannot be opened, or is named twice.
    pub(crate) fn open_all(
        &self,
        paths: &[PathBuf],
        access: Access,
    ) -> Result<Vec<NamedDrive>, CliError> {
        refuse_twice(paths)?;
        let drives = paths.iter().map(|path| Ok(self.open(path, access)?));
        let drives: Vec<NamedDrive> = drives.collect::<Result<_, CliError>>()?;
        refuse_two_ways(&drives, paths)?;
        Ok(drives)
    }
}

/// Names the drive that is given more than once, whose lock this process would find taken.
fn refuse_twice(paths: &[PathBuf]) -> Result<(), CliError> {
    let twice = (1..paths.len()).find(|at| paths[..*at].iter().any(|p| same_file(p, &paths[*at])));
    twice.map_or(Ok(()), |at| Err(CliError::GivenTwice { path: paths[at].clone() }))
}

/// Names the drive that is reached twice, over two controllers.
fn refuse_two_ways(drives: &[NamedDrive], paths: &[PathBuf]) -> Result<(), CliError> {
    // Files may be copies of each other.
    let real = |at: usize| Some(&drives[at].drive).filter(|drive| drive.is_real());
    let uuid = |at: usize| real(at).map(|drive| drive.uuid()).filter(|uuid| *uuid != [0; 16]);
    let same =
        |at: usize| uuid(at).is_some_and(|own| (0..at).any(|other| uuid(other) == Some(own)));
    let twice = (1..drives.len()).find(|at| same(*at));
    twice.map_or(Ok(()), |at| Err(CliError::GivenTwice { path: paths[at].clone() }))
}

/// Refuses a block device that hides the metadata which the same drive's character device gives.
pub(crate) fn refuse_worse_way(
    named: &NamedDrive,
    ring: &Ring,
    handle: &Handle,
) -> Result<(), CliError> {
    let usable = |path: &PathBuf| Drive::open_read_only(ring, handle, path).is_ok();
    refuse_for(named, named.drive.better_path().filter(usable))
}

/// As [`refuse_worse_way`], for an engine in service.
pub(crate) async fn refuse_worse_way_elsewhere(
    named: &NamedDrive,
    ring: &Ring,
    handle: &Handle,
) -> Result<(), CliError> {
    let Some(better) = named.drive.better_path() else { return Ok(()) };
    let usable = Drive::open_read_only_in_thread(ring, handle, &better).await.is_ok();
    refuse_for(named, usable.then_some(better))
}

fn refuse_for(named: &NamedDrive, better: Option<PathBuf>) -> Result<(), CliError> {
    match better {
        None => Ok(()),
        Some(instead) => Err(CliError::HidesMetadata { label: named.label.clone(), instead }),
    }
}

/// Drives as the engine takes them.
pub(crate) fn offer(drives: &[NamedDrive]) -> Vec<OfferedDrive> {
    let offered = |named: &NamedDrive| OfferedDrive {
        device: named.member.clone(),
        label: named.label.clone(),
    };
    drives.iter().map(offered).collect()
}

/// 16 random bytes.
pub(crate) fn random_uuid() -> Result<[u8; 16], CliError> {
    zoneweave_linux::entropy()
        .map_err(|error| CliError::System { action: "draw random numbers", error })
}

/// A random number.
pub(crate) fn random_number() -> Result<u64, CliError> {
    let bytes = random_uuid()?;
    Ok(bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
