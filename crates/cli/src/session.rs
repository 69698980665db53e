//! The ring, the executor and drives on them.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_linux::{DeviceLink, Drive, DriveError, RemoteDevice, Ring};
use zoneweave_raid::inline::{FrameShape, InlineDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_runtime::{Executor, Handle, JoinHandle};
use zoneweave_zoned::{BlockDevice, OobKind, ZonedDevice};

use crate::drives::identity::DriveIdentity;
use crate::drives::paths::same_file;
use crate::error::{CliError, NewMemberError};

/// The ring and executor of a thread.
pub(crate) struct Session {
    // Before the ring, so that tasks are dropped while the ring of their operations exists.
    pub executor: Executor,
    pub handle: Handle,
    pub ring: Ring,
}

/// Access mode of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Exclusive use, with a lock.
    Exclusive,
    /// Read-only, without a lock, even while a server uses them.
    Look,
}

/// A drive and its label.
#[derive(Clone)]
pub(crate) struct NamedDrive {
    pub label: String,
    pub drive: Rc<Drive>,
    /// The drive as arrays use it: without per-block metadata, it is stored in data blocks.
    pub member: Rc<dyn ZonedDevice>,
    /// Absolute path.
    pub path: PathBuf,
    pub identity: DriveIdentity,
}

impl NamedDrive {
    pub(crate) fn new(label: String, drive: impl Into<Rc<Drive>>, handle: &Handle) -> Self {
        let drive: Rc<Drive> = drive.into();
        let member: Rc<dyn ZonedDevice> = drive.clone();
        let member = match drive.geometry().oob {
            // If zones are too small for frames, the engine reports what is missing.
            OobKind::None => {
                match InlineDrive::new(handle, member.clone(), FrameShape::default()) {
                    Ok(inline) => Rc::new(inline),
                    Err(_) => member,
                }
            }
            _ => member,
        };
        let path = std::path::absolute(drive.path());
        let path = path.unwrap_or_else(|_| drive.path().to_owned());
        Self { label, path, identity: DriveIdentity::of(&drive), drive, member }
    }
}

/// A drive that could not be opened.
pub(crate) struct Unopened {
    pub label: String,
    pub error: DriveError,
}

/// The result of opening drives.
#[derive(Default)]
pub(crate) struct Drives {
    pub opened: Vec<NamedDrive>,
    pub unopened: Vec<Unopened>,
}

impl Drives {
    /// Why the first of those could not be opened that were not.
    pub(crate) fn first_failure(&self) -> Option<String> {
        self.unopened.first().map(|unopened| unopened.error.to_string())
    }
}

impl Session {
    pub(crate) fn new() -> Result<Self, CliError> {
        let ring = Ring::new()?;
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        Ok(Self { executor, handle, ring })
    }

    /// Lets another thread use a device of this one, until the returned task ends.
    pub(crate) fn lend(
        &self,
        device: Rc<dyn BlockDevice>,
    ) -> Result<(DeviceLink, JoinHandle<()>), CliError> {
        DeviceLink::new(&self.ring, &self.handle, device)
            .map_err(|error| CliError::System { action: "set up the link to a shard", error })
    }

    /// Connects to the device of another thread.
    pub(crate) fn reach(&self, link: DeviceLink) -> Result<Rc<RemoteDevice>, CliError> {
        link.connect(&self.ring, &self.handle)
            .map(Rc::new)
            .map_err(|error| CliError::System { action: "connect to a shard", error })
    }

    pub(crate) fn open(&self, path: &Path, access: Access) -> Result<NamedDrive, DriveError> {
        let drive = match access {
            Access::Exclusive => Drive::open(&self.ring, &self.handle, path),
            Access::Look => Drive::open_read_only(&self.ring, &self.handle, path),
        };
        Ok(NamedDrive::new(path.display().to_string(), drive?, &self.handle))
    }

    /// Opens the drives that can be opened.
    ///
    /// # Errors
    /// If none can be opened, if one is in use, since a drive in use is not a lost one, or if one
    /// is named twice.
    pub(crate) fn open_some(&self, paths: &[PathBuf], access: Access) -> Result<Drives, CliError> {
        open_some(paths, |path| self.open(path, access))
    }

    /// Opens the drives that can be opened, for exclusive use. Drives that this user may not write
    /// are opened to be read. Returns the paths of these too: they are not locked.
    ///
    /// # Errors
    /// As [`Session::open_some`].
    pub(crate) fn open_some_to_read(
        &self,
        paths: &[PathBuf],
    ) -> Result<(Drives, Vec<PathBuf>), CliError> {
        let mut unlocked = Vec::new();
        let drives = open_some(paths, |path| match self.open(path, Access::Exclusive) {
            Err(error) if is_for_writing(&error) => {
                let opened = self.open(path, Access::Look).map_err(|_| error)?;
                unlocked.push(path.to_owned());
                Ok(opened)
            }
            opened => opened,
        })?;
        Ok((drives, unlocked))
    }

    /// Opens every drive.
    ///
    /// # Errors
    /// All that cannot be opened; or one that is in use, or is named twice.
    pub(crate) fn open_all(
        &self,
        paths: &[PathBuf],
        access: Access,
    ) -> Result<Vec<NamedDrive>, CliError> {
        let mut drives = self.open_each(paths, access)?;
        if drives.unopened.is_empty() {
            return Ok(drives.opened);
        }
        let error: CliError = drives.unopened.remove(0).error.into();
        let others = drives.unopened.iter().map(|unopened| unopened.error.to_string());
        let others: Vec<_> = others.collect();
        match others.is_empty() {
            true => Err(error),
            false => Err(NewMemberError::Several { error: Box::new(error), others }.into()),
        }
    }

    /// Opens the drives that can be opened, each by one path.
    ///
    /// # Errors
    /// If one is in use, or is named twice.
    pub(crate) fn open_each(&self, paths: &[PathBuf], access: Access) -> Result<Drives, CliError> {
        let drives = try_open(paths, |path| self.open(path, access))?;
        refuse_two_ways(&drives.opened)?;
        Ok(drives)
    }
}

/// Opens the drives that can be opened; at least one.
fn open_some(
    paths: &[PathBuf],
    open: impl FnMut(&Path) -> Result<NamedDrive, DriveError>,
) -> Result<Drives, CliError> {
    let mut drives = try_open(paths, open)?;
    if drives.opened.is_empty() && !drives.unopened.is_empty() {
        return Err(CliError::NoDrives { first: drives.unopened.swap_remove(0).error });
    }
    Ok(drives)
}

/// Opens the drives that can be opened.
fn try_open(
    paths: &[PathBuf],
    mut open: impl FnMut(&Path) -> Result<NamedDrive, DriveError>,
) -> Result<Drives, CliError> {
    refuse_unprintable(paths)?;
    refuse_twice(paths)?;
    let mut drives = Drives::default();
    for path in paths {
        match open(path) {
            Ok(drive) => drives.opened.push(drive),
            Err(error) if error.is_in_use() => return Err(error.into()),
            Err(error) => {
                drives.unopened.push(Unopened { label: path.display().to_string(), error });
            }
        }
    }
    Ok(drives)
}

/// Whether a drive was not opened because this user may not write it.
fn is_for_writing(error: &DriveError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
            return kinds.contains(&error.kind());
        }
        cause = error.source();
    }
    false
}

/// Refuses paths that JSON cannot hold: a server could not tell its clients which drives it has.
fn refuse_unprintable(paths: &[PathBuf]) -> Result<(), CliError> {
    let is_unprintable = |path: &&PathBuf| {
        std::path::absolute(path).is_ok_and(|absolute| absolute.to_str().is_none())
    };
    match paths.iter().find(is_unprintable) {
        Some(path) => Err(CliError::Unprintable { path: path.clone() }),
        None => Ok(()),
    }
}

/// Refuses a drive given twice: this process would find its own lock.
pub(crate) fn refuse_twice(paths: &[PathBuf]) -> Result<(), CliError> {
    let twice = (1..paths.len()).find(|at| paths[..*at].iter().any(|p| same_file(p, &paths[*at])));
    twice.map_or(Ok(()), |at| Err(CliError::GivenTwice { path: paths[at].clone() }))
}

/// Refuses a real drive given by two paths, e.g. over two controllers.
fn refuse_two_ways(drives: &[NamedDrive]) -> Result<(), CliError> {
    // Drives in files may be copies with the same UUID.
    let real = |at: usize| Some(&drives[at].drive).filter(|drive| drive.is_real());
    let uuid = |at: usize| real(at).map(|drive| drive.uuid()).filter(|uuid| *uuid != [0; 16]);
    let same =
        |at: usize| uuid(at).is_some_and(|own| (0..at).any(|other| uuid(other) == Some(own)));
    let twice = (1..drives.len()).find(|at| same(*at));
    let given = |at: usize| CliError::GivenTwice { path: PathBuf::from(&drives[at].label) };
    twice.map_or(Ok(()), |at| Err(given(at)))
}

/// Refuses a block device if the character device of the drive gives access to metadata.
pub(crate) fn refuse_worse_way(
    named: &NamedDrive,
    ring: &Ring,
    handle: &Handle,
) -> Result<(), CliError> {
    let usable = |path: &PathBuf| Drive::open_read_only(ring, handle, path).is_ok();
    refuse_for(named, named.drive.better_path().filter(usable))
}

/// As [`refuse_worse_way`], without blocking an engine in service.
pub(crate) async fn refuse_worse_way_in_thread(
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

/// Converts drives for the engine.
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
