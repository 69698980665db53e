//! The server: one virtual machine at a time.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zoneweave_runtime::{Gate, Handle, JoinHandle, Nanos, Semaphore};
use zoneweave_zoned::{BlockDevice, ByteDevice};

use super::connection;
use super::shared::{IN_FLIGHT_BYTES, Shared, VhostUserOptions, VhostUserStatus};
use crate::host::timeout::{timeout, unless};
use crate::ring::Ring;
use crate::socket::{Endpoint, Listener};

/// How long requests under way may keep the server from stopping.
const SHUTDOWN_TIME: Nanos = Nanos::from_secs(10);
/// How long accepting rests after the kernel refused it.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// A running server. Dropping this handle lets it run on.
pub struct VhostUserServer {
    shared: Rc<Shared>,
    path: PathBuf,
    listener: JoinHandle<()>,
}

impl VhostUserServer {
    /// Serves the virtual machines of a unix socket until [`VhostUserServer::shutdown`].
    ///
    /// # Panics
    /// If the listener is not that of a unix socket.
    #[must_use]
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        listener: Listener,
        options: VhostUserOptions,
    ) -> Self {
        let Endpoint::Unix(path) = listener.endpoint().clone() else {
            panic!("memory is shared over unix sockets only");
        };
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
        Self { shared, path, listener }
    }

    /// Where virtual machines connect.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Counters of the server.
    #[must_use]
    pub fn status(&self) -> VhostUserStatus {
        VhostUserStatus {
            connected: self.shared.connected.get(),
            requests: self.shared.requests.get(),
            failed: self.shared.failed.get(),
            misbehaved: self.shared.misbehaved.get(),
        }
    }

    /// Takes no more requests, answers those in flight, and disconnects. A virtual machine
    /// configured to reconnect continues with the next server.
    pub async fn shutdown(self) {
        let shared = &self.shared;
        shared.closing.set(true);
        shared.changed.open();
        self.listener.await;
        // Requests still running wait for a device that does not answer: they are abandoned.
        let _ = timeout(&shared.handle, SHUTDOWN_TIME, shared.disconnected()).await;
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

    async fn disconnected(&self) {
        while self.connected.get() {
            self.changed.wait().await;
        }
    }
}

#[cfg(test)]
mod tests;
