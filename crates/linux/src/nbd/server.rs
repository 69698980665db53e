//! The server: listeners, connections, and their end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::Shutdown;
use zoneweave_nbd::{BlockSizes, ExportDescription, ExportError, ExportList, TransmissionFlags};
use zoneweave_runtime::{Gate, Handle, JoinHandle, Nanos, Semaphore};
use zoneweave_zoned::{BlockDevice, ByteDevice};

use super::connection;
use super::shared::{NbdLimits, NbdStatus, Shared};
use crate::host::timeout::{timeout, unless};
use crate::ring::Ring;
use crate::socket::{Endpoint, Listener};

/// How long accepting rests after the kernel refused it, usually for lack of descriptors.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// A device under the name by which clients ask for it.
pub struct NbdExport {
    /// The name; the first export is also found by the empty name.
    pub name: String,
    /// A description for the list of exports; may be empty.
    pub description: String,
    /// The served device.
    pub device: Rc<dyn BlockDevice>,
}

/// A running NBD server. Dropping this handle lets it run on.
pub struct NbdServer {
    shared: Rc<Shared>,
    endpoints: Vec<Endpoint>,
    listeners: Vec<JoinHandle<()>>,
}

impl NbdServer {
    /// Serves the clients of these listeners until [`NbdServer::shutdown`].
    ///
    /// # Errors
    /// If the exports cannot be offered; nothing is left listening then.
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        exports: Vec<NbdExport>,
        listeners: Vec<Listener>,
        limits: NbdLimits,
    ) -> Result<Self, ExportError> {
        let devices: Vec<_> =
            exports.iter().map(|export| Rc::new(ByteDevice::new(export.device.clone()))).collect();
        let described = exports.into_iter().map(describe).collect();
        let shared = Rc::new(Shared {
            ring: ring.clone(),
            handle: handle.clone(),
            limits,
            exports: Arc::new(ExportList::new(described)?),
            devices,
            connections: Semaphore::new(limits.connections),
            handshakes: Semaphore::new(limits.handshakes),
            open: RefCell::default(),
            closing: Cell::new(false),
            changed: Gate::new(),
            requests: Cell::new(0),
            misbehaved: Cell::new(0),
        });
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let listen = |listener| handle.spawn("NBD listener", shared.clone().listen(listener));
        let listeners = listeners.into_iter().map(listen).collect();
        Ok(Self { shared, endpoints, listeners })
    }

    /// Where the server listens; a TCP port of 0 has become the port the kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Counters of the server.
    #[must_use]
    pub fn status(&self) -> NbdStatus {
        NbdStatus {
            connections: self.shared.open.borrow().len(),
            requests: self.shared.requests.get(),
            misbehaved: self.shared.misbehaved.get(),
        }
    }

    /// Stops accepting, answers all requests that were read, and closes every connection.
    pub async fn shutdown(self) {
        let shared = &self.shared;
        shared.closing.set(true);
        shared.changed.open();
        for listener in self.listeners {
            listener.await;
        }
        // Readers see the end of their stream and wait for the requests in flight.
        shared.shut_all(Shutdown::Read);
        for _ in 0..2 {
            let closed = timeout(&shared.handle, shared.limits.shutdown_time, shared.all_closed());
            if closed.await.is_some() {
                return;
            }
            // Clients that do not listen lose their replies. A connection that is still there
            // after that waits for a device that does not answer: it is left behind.
            shared.shut_all(Shutdown::Both);
        }
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
            if listener.prepare(&socket).is_err() {
                self.count_misbehaviour();
                continue;
            }
            let permits =
                async { (self.connections.acquire().await, self.handshakes.acquire().await) };
            let Some((connection, handshake)) = unless(self.closed(), permits).await else {
                return;
            };
            if self.closing.get() {
                return;
            }
            let socket = Rc::new(socket);
            let key = self.open.borrow_mut().insert(socket.clone());
            let shared = self.clone();
            self.handle.spawn("NBD connection", async move {
                connection::run(&shared, &socket, handshake).await;
                shared.open.borrow_mut().remove(key);
                drop(connection);
                shared.changed.open();
            });
        }
    }

    async fn closed(&self) {
        while !self.closing.get() {
            self.changed.wait().await;
        }
    }

    async fn all_closed(&self) {
        while !self.open.borrow().is_empty() {
            self.changed.wait().await;
        }
    }

    fn shut_all(&self, how: Shutdown) {
        for (_, socket) in self.open.borrow().iter() {
            // Shutting a socket fails if its peer is gone; that is harmless.
            let _ = rustix::net::shutdown(socket, how);
        }
    }
}

fn describe(export: NbdExport) -> ExportDescription {
    type Flags = TransmissionFlags;
    let info = export.device.info();
    let always = Flags::SEND_FLUSH | Flags::SEND_FUA | Flags::SEND_DF | Flags::CAN_MULTI_CONN;
    let flags = if info.read_only {
        always | Flags::READ_ONLY
    } else {
        always | Flags::SEND_TRIM | Flags::SEND_WRITE_ZEROES | Flags::SEND_FAST_ZERO
    };
    ExportDescription {
        name: export.name,
        description: export.description,
        size_bytes: info.blocks * zoneweave_zoned::BLOCK_BYTES as u64,
        flags,
        block_sizes: BlockSizes::default(),
    }
}

#[cfg(test)]
mod tests;
