//! Serves a block device to a virtual machine as its virtio disk, by vhost-user.
//!
//! ```text
//!   guest ─► virtqueues in its memory ─► one task a queue ─► one task a request ─► ByteDevice
//!                        ▲                                          │
//!                        └────────── used, and an interrupt ◄───────┘
//!   QEMU  ─► unix socket: where the memory and the queues are, when they start and stop
//! ```
//!
//! The protocol is rust-vmm's (`vhost`, `virtio-queue`, `vm-memory`), which checks messages, rings and addresses; their
//! own daemon is not used, because it brings threads. Here everything runs on the engine's ring: it waits for
//! the socket and for the queues' event counters, and one thread does the rest.
//!
//! Invariants:
//! - One virtual machine is served at a time; when it has gone, the next may come. Whoever comes meanwhile is
//!   hung up on, and notices it at once.
//! - Of the requests of all its queues at most `IN_FLIGHT_BYTES` are under way, counted before a request is taken out of
//!   its queue. A request of any length is worked off in pieces of `PIECE_BYTES`.
//! - No queue is changed or read out while a request of it is under way: such a message waits until all are
//!   answered. So a virtual machine that is stopped in order, or whose server is, has lost and repeated nothing.
//! - What is under way is marked in memory that outlives a server that is killed: the next one carries out what has no
//!   answer, in the order in which it was taken, and nothing else (`inflight.rs`).
//! - The control socket cannot make the engine's thread wait: a message is read when all of it is there, and answered when
//!   there is room.
//!
//! Fault model: guests are hostile. What they put into queues is checked, and answered with an error where it
//! can be; a queue that makes no sense is given up until it is set up again. The process at the other end of the socket belongs to
//! our user or to root, and holds the memory: should it cut that off, this process would die of it, so memory that
//! can be sealed against it is.

mod config;
mod connection;
mod frontend;
mod inflight;
mod memory;
mod request;
#[cfg(test)]
mod tests;
mod vring;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_runtime::{Gate, Handle, JoinHandle, Nanos, Semaphore};
use zoneweave_zoned::{BlockDevice, ByteDevice};

use crate::Ring;
use crate::nbd_server::{Endpoint, EndpointError, Listener};
use crate::within::{unless, within};
pub use config::QUEUES_MAX;

/// Data of requests under way.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
/// The least that a request counts for, so that at most 1,024 are under way.
const REQUEST_BYTES_MIN: u64 = 64 << 10;
/// The most that is read or written at once.
const PIECE_BYTES: u32 = 1 << 20;
/// How long requests under way may keep the server from stopping.
const SHUTDOWN_TIME: Nanos = Nanos::from_secs(10);
/// How long accepting rests after the kernel refused it.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// What the guest is told of the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostUserOptions {
    /// Its serial number; 20 bytes of it are told.
    pub serial: String,
    /// What had better be written at once, such as a stripe; zero if it does not matter.
    pub optimal_bytes: u64,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostUserStatus {
    /// Whether a virtual machine is connected.
    pub connected: bool,
    /// Requests answered since the start.
    pub requests: u64,
    /// Those of them answered with an error.
    pub failed: u64,
    /// Connections ended and queues given up because what came made no sense, and connections refused.
    pub misbehaved: u64,
}

/// A running server. Dropping this handle lets it run on.
pub struct VhostUserServer {
    shared: Rc<Shared>,
    path: PathBuf,
    listener: JoinHandle<()>,
}

/// What connections and requests share.
struct Shared {
    ring: Ring,
    handle: Handle,
    device: Rc<ByteDevice>,
    options: VhostUserOptions,
    budget: Semaphore,
    connected: Cell<bool>,
    closing: Cell<bool>,
    /// Opened when a connection ends and when the server closes.
    changed: Gate,
    requests: Cell<u64>,
    failed: Cell<u64>,
    misbehaved: Cell<u64>,
}

impl VhostUserServer {
    /// Listens at a unix socket and serves until [`VhostUserServer::shutdown`].
    ///
    /// # Errors
    /// [`EndpointError`] tells why there is no socket.
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        path: &Path,
        options: VhostUserOptions,
    ) -> Result<Self, EndpointError> {
        let listener = Listener::start(&Endpoint::Unix(path.to_owned()))?;
        let shared = Rc::new(Shared {
            ring: ring.clone(),
            handle: handle.clone(),
            device: Rc::new(ByteDevice::new(device)),
            options,
            budget: Semaphore::new(IN_FLIGHT_BYTES),
            connected: Cell::new(false),
            closing: Cell::new(false),
            changed: Gate::new(),
            requests: Cell::new(0),
            failed: Cell::new(0),
            misbehaved: Cell::new(0),
        });
        let listener = handle.spawn("vhost-user listener", shared.clone().listen(listener));
        Ok(Self { shared, path: path.to_owned(), listener })
    }

    /// Where virtual machines connect.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the server is doing.
    #[must_use]
    pub fn status(&self) -> VhostUserStatus {
        VhostUserStatus {
            connected: self.shared.connected.get(),
            requests: self.shared.requests.get(),
            failed: self.shared.failed.get(),
            misbehaved: self.shared.misbehaved.get(),
        }
    }

    /// Takes no more requests, answers those under way, and hangs up. A virtual machine that is told to connect again
    /// goes on with the next server.
    pub async fn shutdown(self) {
        let shared = &self.shared;
        shared.closing.set(true);
        shared.changed.open();
        self.listener.await;
        // What is still there after that waits for a device that does not answer: it is left behind.
        let _ = within(&shared.handle, SHUTDOWN_TIME, shared.disconnected()).await;
    }
}

impl Shared {
    async fn listen(self: Rc<Self>, listener: Listener) {
        while !self.closing.get() {
            let accepting = self.ring.accept(listener.socket());
            let Some(accepted) = unless(self.closed(), accepting).await else { return };
            let Ok(socket) = accepted else {
                self.handle.sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if self.connected.get() || listener.prepare(&socket).is_err() {
                self.count_misbehaviour();
                continue;
            }
            self.connected.set(true);
            let shared = self.clone();
            self.handle.spawn("vhost-user connection", async move {
                connection::run(&shared, socket).await;
                shared.connected.set(false);
                shared.changed.open();
            });
        }
    }

    async fn closed(&self) {
        while !self.closing.get() {
            self.changed.wait().await;
        }
    }

    async fn disconnected(&self) {
        while self.connected.get() {
            self.changed.wait().await;
        }
    }

    fn count_misbehaviour(&self) {
        self.misbehaved.set(self.misbehaved.get() + 1);
    }

    fn count_request(&self, failed: bool) {
        self.requests.set(self.requests.get() + 1);
        self.failed.set(self.failed.get() + u64::from(failed));
    }
}
