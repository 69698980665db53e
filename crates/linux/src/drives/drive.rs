//! A drive by its path: emulated in a file, or a real one by its character or its block device.

use std::path::Path;
use std::rc::Rc;

use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{
    Command, Completion, Geometry, Histogram, Latencies, Operation, Timed, ZonedDevice,
};

use crate::drives::access::Access;
use crate::drives::error::DriveError;
use crate::drives::file::{FileDrive, OpenFile};
use crate::drives::kind::{Kind, kind_of};
use crate::drives::nvme::NvmeDrive;
use crate::drives::zoned_block::ZonedBlock;
use crate::host::spawn_blocking::spawn_blocking;
use crate::ring::Ring;

/// A drive of any kind, with the times of its commands.
pub struct Drive {
    any: AnyDrive,
    handle: Handle,
    latencies: Rc<Latencies>,
}

/// A drive by its kind.
pub enum AnyDrive {
    /// Emulated, in a file.
    File(FileDrive),
    /// A real one, by its own commands.
    Nvme(NvmeDrive),
    /// A zoned block device of the kernel.
    Block(ZonedBlock),
}

/// A drive that was opened and examined, and has no ring yet: threads can hand it over.
enum Opened {
    File(Box<OpenFile>),
    Nvme(crate::drives::nvme::Opened),
    Block(crate::drives::zoned_block::Opened),
}

impl Opened {
    fn at(path: &Path, access: Access) -> Result<Self, DriveError> {
        Ok(match kind_of(path) {
            Kind::File => Self::File(Box::new(FileDrive::examine(path, access)?)),
            Kind::Character => Self::Nvme(NvmeDrive::examine(path, access)?),
            Kind::Block => Self::Block(ZonedBlock::examine(path, access)?),
        })
    }

    fn serve(self, ring: &Ring, handle: &Handle) -> Result<Drive, DriveError> {
        let any = match self {
            Self::File(opened) => AnyDrive::File(FileDrive::serve(ring, handle, *opened)?),
            Self::Nvme(opened) => AnyDrive::Nvme(NvmeDrive::serve(ring, handle, opened)?),
            Self::Block(opened) => AnyDrive::Block(ZonedBlock::serve(ring, handle, opened)?),
        };
        Ok(Drive { any, handle: handle.clone(), latencies: Rc::new(Latencies::new(handle)) })
    }
}

/// Runs in a thread of its own: opening may wait for the drive, or for its present owner.
pub(super) async fn waiting_for<T: Send + 'static>(
    ring: &Ring,
    path: &Path,
    work: impl FnOnce(&Path) -> Result<T, DriveError> + Send + 'static,
) -> Result<T, DriveError> {
    let place = path.to_owned();
    let done = spawn_blocking(ring, "drive", move || work(&place)).await;
    done.unwrap_or_else(|error| Err(DriveError::Thread { path: path.to_owned(), error }))
}

/// Does the same with a drive of any kind.
macro_rules! any {
    ($drive:expr, $any:ident => $work:expr) => {
        match &$drive.any {
            AnyDrive::File($any) => $work,
            AnyDrive::Nvme($any) => $work,
            AnyDrive::Block($any) => $work,
        }
    };
}

impl Drive {
    /// Opens a drive for this process alone.
    ///
    /// # Errors
    /// As [`FileDrive::open`], [`NvmeDrive::open`] and [`ZonedBlock::open`].
    pub fn open(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Opened::at(path, Access::Exclusive)?.serve(ring, handle)
    }

    /// As [`Drive::open`], for a running engine: opening may take up to a minute if the drive does
    /// not answer, and happens in another thread.
    ///
    /// # Errors
    /// As [`Drive::open`], or if no thread can be started.
    pub async fn open_in_thread(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
    ) -> Result<Self, DriveError> {
        let open = |path: &Path| Opened::at(path, Access::Exclusive);
        waiting_for(ring, path, open).await?.serve(ring, handle)
    }

    /// Opens a drive to look at it, also while another process is using it.
    ///
    /// # Errors
    /// As [`FileDrive::open_read_only`], [`NvmeDrive::open_read_only`] and
    /// [`ZonedBlock::open_read_only`].
    pub fn open_read_only(ring: &Ring, handle: &Handle, path: &Path) -> Result<Self, DriveError> {
        Opened::at(path, Access::ReadOnly)?.serve(ring, handle)
    }

    /// As [`Drive::open_read_only`], for an engine in service.
    ///
    /// # Errors
    /// As [`Drive::open_read_only`], or if there are no threads left.
    pub async fn open_read_only_in_thread(
        ring: &Ring,
        handle: &Handle,
        path: &Path,
    ) -> Result<Self, DriveError> {
        let open = |path: &Path| Opened::at(path, Access::ReadOnly);
        waiting_for(ring, path, open).await?.serve(ring, handle)
    }

    /// The drive's identity: assigned at creation to an emulated drive, in the factory to a real
    /// one.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        any!(self, drive => drive.uuid())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        any!(self, drive => drive.path())
    }

    /// Counters since the drive was opened.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        any!(self, drive => drive.counters())
    }

    /// Why it answers no more, if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        any!(self, drive => drive.failure().map(|failure| failure.to_string()))
    }

    /// The drive by its kind. Its commands are timed only if they are submitted here.
    #[must_use]
    pub const fn any(&self) -> &AnyDrive {
        &self.any
    }

    /// Commands that succeeded since the drive was opened, by operation, with their times.
    #[must_use]
    pub fn latencies(&self) -> Vec<(Operation, Histogram)> {
        self.latencies.counted()
    }

    /// Whether it is a real one.
    #[must_use]
    pub const fn is_real(&self) -> bool {
        !matches!(self.any, AnyDrive::File(_))
    }
}

impl ZonedDevice for Drive {
    fn geometry(&self) -> &Geometry {
        any!(self, drive => drive.geometry())
    }

    fn submit(&self, command: Command) -> Completion {
        let timed = Operation::of(&command).map(|operation| {
            // A task may run for long after a turn: the time of the turn would count that, too.
            Timed::new(&self.latencies, operation, self.handle.now())
        });
        let answer = any!(self, drive => drive.submit(command));
        match timed {
            Some(timed) => answer.timed(timed),
            None => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::FutureExt;
    use zoneweave_runtime::Executor;
    use zoneweave_zoned::{
        BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt, zero_blocks,
    };

    use super::*;

    #[test]
    fn a_drive_in_use_is_seen_without_taking_it() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        FileDrive::create(&path, Geometry::new(8, BlockCount(24)), [7; 16]).unwrap();
        let is_locked = || Drive::is_locked(&path, Duration::ZERO);
        assert!(!is_locked());
        let looking = Drive::open_read_only(&ring, &executor.handle(), &path).unwrap();
        assert!(!is_locked(), "readers take nothing");
        let holder = Drive::open(&ring, &executor.handle(), &path).unwrap();
        assert!(is_locked());
        drop((holder, looking));
        assert!(!is_locked() && !Drive::is_locked(&directory.path().join("gone"), Duration::ZERO));
    }

    #[test]
    fn an_engine_in_service_does_not_wait_for_who_has_a_drive() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        FileDrive::create(&path, Geometry::new(8, BlockCount(24)), [7; 16]).unwrap();
        let holder = Drive::open(&ring, &handle, &path).unwrap();
        executor.run(async {
            let mut opening = pin!(Drive::open_in_thread(&ring, &handle, &path));
            // Were it opened here, there would be an answer.
            assert!(opening.as_mut().now_or_never().is_none());
            assert!(opening.await.is_err_and(|error| error.is_in_use()));
            let info = Drive::inspect_in_thread(&ring, &path).await.unwrap();
            assert_eq!((info.uuid, info.zones.len()), ([7; 16], 8));
            drop(holder);
            let opened = Drive::open_in_thread(&ring, &handle, &path).await.unwrap();
            assert_eq!(opened.uuid(), [7; 16]);
            let gone = directory.path().join("gone");
            let missing = Drive::open_in_thread(&ring, &handle, &gone).await;
            assert!(missing.is_err_and(|error| error.is_not_found()));
        });
    }

    #[test]
    fn commands_that_succeed_are_counted_with_their_times() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        FileDrive::create(&path, Geometry::new(8, BlockCount(24)), [7; 16]).unwrap();
        let drive = Drive::open(&ring, &executor.handle(), &path).unwrap();
        let (zone, block) = (ZoneId(3), || Payload::new(zero_blocks(BlockCount(1)), Bytes::new()));
        let at = |offset| ZoneAddress::new(zone, offset);
        executor.run(async {
            drive.write(at(0), block(), false).await.unwrap();
            drive.append(zone, block(), false).await.unwrap();
            drive.append(zone, block(), false).await.unwrap();
            drive.read(at(1), BlockCount(2)).await.unwrap();
            drive.flush().await.unwrap();
            drive.manage(zone, ZoneAction::Finish).await.unwrap();
            drive.write(at(3), block(), false).await.unwrap_err();
            drive.manage(zone, ZoneAction::Reset).await.unwrap();
            drive.report().await.unwrap();
        });
        use Operation::{Append, Finish, Flush, Read, Reset, Write};
        let counts = drive.latencies().into_iter().map(|(one, times)| (one, times.count()));
        let counts: Vec<_> = counts.collect();
        assert_eq!(
            counts,
            [(Read, 1), (Write, 1), (Append, 2), (Flush, 1), (Reset, 1), (Finish, 1)]
        );
    }
}
