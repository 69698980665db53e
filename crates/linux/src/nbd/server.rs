//! The server: its exports, its listeners, and its end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use zoneweave_nbd::{BlockSizes, ExportDescription, ExportError, ExportList, TransmissionFlags};
use zoneweave_runtime::{Handle, JoinHandle};
use zoneweave_zoned::{BlockDevice, ByteDevice};

use super::connection;
use super::shared::{NbdLimits, NbdStatus, Shared};
use crate::ring::Ring;
use crate::socket::{Endpoint, Listener};
use crate::stream::Clients;

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
            clients: Clients::new(ring, handle, limits.of_clients()),
            limits,
            exports: Arc::new(ExportList::new(described)?),
            devices,
            requests: Cell::new(0),
        });
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let listen = |listener| {
            let serving = shared.clone();
            shared.clients.listen(listener, move |socket, handshake| {
                let shared = serving.clone();
                async move { connection::run(&shared, &socket, handshake).await }
            })
        };
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
            connections: self.shared.clients.count(),
            requests: self.shared.requests.get(),
            misbehaved: self.shared.clients.misbehaved(),
        }
    }

    /// Stops accepting, answers all requests that were read, and closes every connection.
    pub async fn shutdown(self) {
        self.shared.clients.shutdown(self.listeners).await;
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
