//! The device of a store.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_linux::{Drive, Ring, entropy};
use zoneweave_raid::array::format::record::MemberState;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{DriveRole, DriveVerdict, OfferedDrive};
use zoneweave_raid::raizn::{self, OpenOptions, OpenReport, Volume};
use zoneweave_runtime::Handle;
use zoneweave_zoned::ZonedDevice;

use crate::error::PlaceError;

/// The device of a store, open for this process alone.
pub enum Place {
    /// A drive.
    Drive(Rc<Drive>),
    /// A zoned volume, started in this process.
    Volume {
        /// The volume.
        volume: Volume,
        /// Blocks in parity logs, because an interruption left something in their places.
        relocated_blocks: u64,
    },
}

impl Place {
    /// Opens a drive, or starts the zoned volume of several drives. Every member in service must be
    /// there. It blocks while drives are opened.
    ///
    /// # Errors
    /// A [`PlaceError`]; nothing was changed then.
    pub async fn open(ring: &Ring, handle: &Handle, paths: &[PathBuf]) -> Result<Self, PlaceError> {
        check_paths(paths)?;
        let open = |path: &PathBuf| Drive::open(ring, handle, path).map(Rc::new);
        let drives: Vec<Rc<Drive>> = paths.iter().map(open).collect::<Result<_, _>>()?;
        if has_member(&drives).await? {
            return start(handle, &drives).await;
        }
        match &drives[..] {
            [drive] => Ok(Self::Drive(drive.clone())),
            _ => Err(PlaceError::NoVolume),
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> Rc<dyn ZonedDevice> {
        match self {
            Self::Drive(drive) => drive.clone(),
            Self::Volume { volume, .. } => Rc::new(volume.clone()),
        }
    }

    /// Ends the volume's work. A drive has none.
    pub async fn close(self) {
        if let Self::Volume { volume, .. } = self {
            volume.close().await;
        }
    }
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// On a drive, or on the zoned volume of several.
    Drives(Vec<PathBuf>),
    /// With the server at a socket.
    Socket(PathBuf),
}

/// Before the path of a socket.
const SOCKET: &[u8] = b"unix:";

impl Target {
    /// The target of `DRIVE,DRIVE...` or `unix:SOCKET`.
    #[must_use]
    pub fn of(text: &OsStr) -> Self {
        match text.as_bytes().strip_prefix(SOCKET) {
            Some(path) => Self::Socket(PathBuf::from(OsStr::from_bytes(path))),
            None => Self::Drives(split_drives(text)),
        }
    }
}

/// The drives of `DRIVE,DRIVE...`.
fn split_drives(text: &OsStr) -> Vec<PathBuf> {
    let parts = text.as_bytes().split(|byte| *byte == b',');
    parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

/// Slots of members in service whose drives are not there. A start without such a member takes it
/// out of service.
#[must_use]
pub fn missing_slots(membership: &MembershipRecord, drives: &[DriveVerdict]) -> Vec<u8> {
    let is_there = |slot: u8| {
        let holds = |role: &DriveRole| matches!(role, DriveRole::Member { slot: at, .. } if at.index() == usize::from(slot));
        drives.iter().any(|verdict| holds(&verdict.role))
    };
    let members = (0_u8..).zip(&membership.members);
    let missing =
        members.filter(|(slot, member)| member.state != MemberState::Failed && !is_there(*slot));
    missing.map(|(slot, _)| slot).collect()
}

fn check_paths(paths: &[PathBuf]) -> Result<(), PlaceError> {
    if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(PlaceError::NoDrive);
    }
    // Two names of one file are found by its lock.
    match (1..paths.len()).find(|at| paths[..*at].contains(&paths[*at])) {
        Some(at) => Err(PlaceError::GivenTwice { path: paths[at].clone() }),
        None => Ok(()),
    }
}

/// Whether a drive is a member of an array with a zoned volume.
async fn has_member(drives: &[Rc<Drive>]) -> Result<bool, PlaceError> {
    for drive in drives {
        let found = raizn::membership_of(&**drive).await;
        let path = || drive.path().to_owned();
        if found.map_err(|status| PlaceError::DriveFailed { path: path(), status })?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Starts the volume of drives.
async fn start(handle: &Handle, drives: &[Rc<Drive>]) -> Result<Place, PlaceError> {
    let survey = raizn::survey(offer(drives)).await;
    if let Some(membership) = &survey.membership {
        let slots = missing_slots(membership, &survey.drives);
        if !slots.is_empty() {
            let name = membership.config.name.clone();
            let starts = survey.refusal.is_none();
            return Err(PlaceError::Missing { name, slots, starts });
        }
    }
    let random = entropy().map_err(PlaceError::Random)?;
    let [a, b, c, d, e, f, g, h, ..] = random;
    let lineage = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let options = OpenOptions { lineage: Lineage(lineage), ..OpenOptions::default() };
    let (volume, report) = raizn::open(handle, offer(drives), options).await?;
    let OpenReport { relocated_blocks, .. } = report;
    Ok(Place::Volume { volume, relocated_blocks })
}

fn offer(drives: &[Rc<Drive>]) -> Vec<OfferedDrive> {
    let offered = |drive: &Rc<Drive>| OfferedDrive {
        device: drive.clone(),
        label: drive.path().display().to_string(),
    };
    drives.iter().map(offered).collect()
}

#[cfg(test)]
mod tests {
    use zoneweave_linux::FileDrive;
    use zoneweave_runtime::Executor;
    use zoneweave_zoned::{BlockCount, Geometry};

    use super::*;

    #[test]
    fn drives_are_split_at_commas() {
        let split = |text: &str| split_drives(OsStr::new(text));
        assert_eq!(split("/a"), [PathBuf::from("/a")]);
        assert_eq!(split("/a,b"), [PathBuf::from("/a"), PathBuf::from("b")]);
        assert_eq!(Target::of(OsStr::new("unix:/s,t")), Target::Socket("/s,t".into()));
        assert_eq!(Target::of(OsStr::new("/s,t")), Target::Drives(split("/s,t")));
        assert!(matches!(check_paths(&split("/a,")), Err(PlaceError::NoDrive)));
        assert!(matches!(check_paths(&split("a,b,a")), Err(PlaceError::GivenTwice { .. })));
    }

    #[test]
    fn a_blank_drive_is_a_place_and_two_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        for path in &paths {
            FileDrive::create(path, Geometry::new(8, BlockCount(24)), [7; 16]).unwrap();
        }
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        let open = |paths: &[PathBuf]| executor.run(Place::open(&ring, &handle, paths));
        assert!(matches!(open(&paths), Err(PlaceError::NoVolume)));
        let place = open(&paths[..1]).unwrap();
        assert!(matches!(place, Place::Drive(_)));
        assert!(open(&paths[..1]).is_err_and(|error| error.is_in_use()));
        executor.run(place.close());
        open(&paths[..1]).unwrap();
    }
}
