//! The server of a mounted file: mounting, running requests, unmounting.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, Session};
use zoneweave_runtime::{Gate, Handle, Nanos, Semaphore};
use zoneweave_zoned::{BlockDevice, ByteDevice};

use super::error::FuseError;
use super::filesystem::{OneFile, TRANSFER_BYTES_MAX};
use super::mailbox::Mailbox;
use super::mountpoint::{self, Found};
use crate::host::spawn_blocking::spawn_blocking;
use crate::host::timeout::timeout;
use crate::ring::{Descriptor, Ring};

/// Data of requests under way.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
const _: () = assert!(TRANSFER_BYTES_MAX as u64 <= IN_FLIGHT_BYTES, "one request fits the budget");
/// How long unmounting may take, and then requests under way.
const SHUTDOWN_TIME: Nanos = Nanos::from_secs(10);

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FuseStatus {
    /// Open handles of the file.
    pub handles: usize,
    /// Requests for data answered since the start.
    pub requests: u64,
    /// Those of them answered with an error.
    pub failed: u64,
}

/// A mounted file whose requests wait for a server. Dropping it unmounts the file, and answers the
/// requests with errors.
pub struct FuseMount {
    // Before the session, whose end waits for requests.
    unserved: Unserved,
    event: OwnedFd,
    session: BackgroundSession,
    cleared: bool,
    size_bytes: u64,
}

/// A mount until it has a server.
struct Unserved {
    path: PathBuf,
    /// Whether the file was created for the mount.
    created: bool,
    mailbox: Arc<Mailbox>,
    is_served: bool,
}

impl Drop for Unserved {
    fn drop(&mut self) {
        if self.is_served {
            return;
        }
        self.mailbox.close();
        // Dropping a request answers it.
        while self.mailbox.take().is_some() {}
        mountpoint::detach(&self.path);
        if self.created {
            mountpoint::remove(&self.path);
        }
    }
}

/// A file that is being served. Dropping this handle unmounts it, and does not wait.
pub struct FuseServer {
    shared: Rc<Shared>,
    session: BackgroundSession,
    path: PathBuf,
    cleared: bool,
}

/// State that requests share.
struct Shared {
    ring: Ring,
    handle: Handle,
    device: Rc<ByteDevice>,
    mailbox: Arc<Mailbox>,
    budget: Semaphore,
    /// Requests under way.
    tasks: Cell<usize>,
    /// Nothing more will come.
    ended: Cell<bool>,
    /// Opened when a request ends, and at the end.
    changed: Gate,
    requests: Cell<u64>,
    failed: Cell<u64>,
}

fn has_driver() -> Result<(), FuseError> {
    if Path::new("/dev/fuse").exists() { Ok(()) } else { Err(FuseError::NoDriver) }
}

impl FuseMount {
    /// Mounts a file of this size, which is created if it does not exist. `name` becomes the
    /// mount's source.
    ///
    /// # Errors
    /// [`FuseError`] says how to fix it.
    pub fn new(
        path: &Path,
        name: &str,
        size_bytes: u64,
        read_only: bool,
    ) -> Result<Self, FuseError> {
        has_driver()?;
        let Found { path, cleared, created } = mountpoint::prepare(path)?;
        let failed = |error| {
            if created {
                mountpoint::remove(&path);
            }
            FuseError::Mount { path: path.clone(), error }
        };
        let (mailbox, event) = Mailbox::new().map_err(failed)?;
        let mailbox = Arc::new(mailbox);
        let file = OneFile::new(mailbox.clone(), size_bytes, read_only);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!("{}{name}", mountpoint::SOURCE)),
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        let session =
            Session::new(file, &path, &config).and_then(Session::spawn).map_err(failed)?;
        let unserved = Unserved { path, created, mailbox, is_served: false };
        Ok(Self { unserved, event, session, cleared, size_bytes })
    }
}

impl FuseServer {
    /// Serves a mounted file.
    ///
    /// # Panics
    /// If the device has another size than the file.
    #[must_use]
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        mount: FuseMount,
    ) -> Self {
        let FuseMount { mut unserved, event, session, cleared, size_bytes } = mount;
        unserved.is_served = true;
        let (mailbox, path) = (unserved.mailbox.clone(), unserved.path.clone());
        let device = Rc::new(ByteDevice::new(device));
        assert_eq!(device.size_bytes(), size_bytes, "the file has the size of the device");
        let shared = Rc::new(Shared {
            ring: ring.clone(),
            handle: handle.clone(),
            device,
            mailbox,
            budget: Semaphore::new(IN_FLIGHT_BYTES),
            tasks: Cell::new(0),
            ended: Cell::new(false),
            changed: Gate::new(),
            requests: Cell::new(0),
            failed: Cell::new(0),
        });
        handle.spawn("FUSE mailbox", shared.clone().take_requests(Rc::new(event)));
        Self { shared, session, path, cleared }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a mount was cleared away that a server which died had left behind.
    #[must_use]
    pub fn has_cleared(&self) -> bool {
        self.cleared
    }

    /// Counters since the start.
    #[must_use]
    pub fn status(&self) -> FuseStatus {
        FuseStatus {
            handles: self.shared.mailbox.handles(),
            requests: self.shared.requests.get(),
            failed: self.shared.failed.get(),
        }
    }

    /// Waits until somebody unmounts the file.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let shared = self.shared.clone();
        async move { shared.ended().await }
    }

    /// Unmounts the file and answers all requests sent before. Returns whether the file is gone; if
    /// it is still in use, its users get errors.
    pub async fn shutdown(self) -> bool {
        let Self { shared, session, path, .. } = self;
        // Already unmounted by another process: whatever is mounted there now is not ours.
        let was_unmounted = shared.ended.get();
        // The kernel may send requests before it unmounts, so another thread waits for it.
        let unmounting = spawn_blocking(&shared.ring, "unmount", move || session.umount_and_join());
        let unmounted = timeout(&shared.handle, SHUTDOWN_TIME, unmounting).await;
        let gone = was_unmounted || matches!(unmounted, Some(Ok(Ok(()))));
        // Requests from here on fail, so that no waiting process keeps the mount busy.
        shared.mailbox.close();
        if !gone {
            let detaching =
                spawn_blocking(&shared.ring, "unmount", move || mountpoint::detach(&path));
            let _ = timeout(&shared.handle, SHUTDOWN_TIME, detaching).await;
        }
        // Requests still running wait for a device that does not answer: they are abandoned.
        let _ = timeout(&shared.handle, SHUTDOWN_TIME, shared.idle()).await;
        gone
    }
}

impl Shared {
    async fn take_requests(self: Rc<Self>, event: Descriptor) {
        loop {
            while let Some(request) = self.mailbox.take() {
                let share = request.data_bytes().clamp(1 << 16, u64::from(TRANSFER_BYTES_MAX));
                let budget = self.budget.acquire_many(share).await;
                self.tasks.set(self.tasks.get() + 1);
                let shared = self.clone();
                self.handle.spawn("FUSE request", async move {
                    let failed = request.serve(&shared.device).await;
                    drop(budget);
                    shared.requests.set(shared.requests.get() + 1);
                    shared.failed.set(shared.failed.get() + u64::from(failed));
                    assert!(shared.tasks.get() > 0, "a request in flight is counted");
                    shared.tasks.set(shared.tasks.get() - 1);
                    shared.changed.open();
                });
            }
            if self.mailbox.is_closed() || self.ring.readable(&event).await.is_err() {
                self.ended.set(true);
                self.changed.open();
                return;
            }
            // How often it was told does not matter.
            let _ = rustix::io::read(&event, &mut [0; 8]);
        }
    }

    async fn ended(&self) {
        while !self.ended.get() {
            self.changed.wait().await;
        }
    }

    async fn idle(&self) {
        while !self.ended.get() || self.tasks.get() > 0 {
            self.changed.wait().await;
        }
    }
}

#[cfg(test)]
mod tests;
