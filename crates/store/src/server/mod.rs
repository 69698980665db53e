//! Serves a file store to the processes of this user, over a unix socket.
//!
//! ```text
//!   Clients ──► connection: greeting ──► reader ──► a task a request ──► FileStore
//!                                                        │
//!                               socket ◄── Output ◄──────┘ replies, in order of completion
//! ```
//!
//! Invariants:
//! - The open files of a connection end with it. A writer's bytes that were neither flushed nor
//!   synced are lost then, as with a process that has the store open itself.
//! - Requests on one file begin in the order in which they arrive.
//! - Memory is bounded: [`CONNECTIONS`] clients, each with 16 MiB of requests and
//!   replies, and [`FILES_MAX`] open files. A client that takes no replies is not read from.
//!
//! Fault model: clients are hostile. A message that does not parse ends the connection; a file
//! number that is not the connection's own is an error. The socket is its owner's and root's.

mod connection;
mod request;

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_filestore::FileStore;
use zoneweave_linux::Ring;
use zoneweave_linux::nbd::Listener;
use zoneweave_linux::stream::{ClientLimits, Clients};
use zoneweave_runtime::{Handle, JoinHandle, Nanos};

use crate::wire::{Greeting, VERSION, Volume, encode};

/// Clients at once; more wait in the kernel.
const CONNECTIONS: u64 = 32;

/// Open files of a connection: RocksDB keeps its tables open.
const FILES_MAX: usize = 1 << 16;

/// How long a client may take for its greeting.
const GREETING_TIME: Nanos = Nanos::from_secs(10);

/// A served store.
pub struct StoreServer {
    shared: Rc<Shared>,
    listeners: Vec<JoinHandle<()>>,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreServerStatus {
    /// Clients connected.
    pub connections: usize,
    /// Requests begun.
    pub requests: u64,
    /// Connections that ended because a client broke a rule.
    pub misbehaved: u64,
}

struct Shared {
    clients: Rc<Clients>,
    store: FileStore,
    volume: Volume,
    requests: Cell<u64>,
}

impl StoreServer {
    /// Serves a store until [`StoreServer::shutdown`]. Clients are told the paths of its drives,
    /// and the damage that its start has found.
    #[must_use]
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        store: FileStore,
        drives: Vec<String>,
        warning: String,
        listeners: Vec<Listener>,
    ) -> Self {
        let limits = ClientLimits {
            connections: CONNECTIONS,
            handshakes: CONNECTIONS,
            shutdown_time: Nanos::from_secs(10),
        };
        let clients = Clients::new(ring, handle, limits);
        let volume = Volume { label: store.label(), drives, warning };
        // Paths and the warning are this machine's, and short.
        let greeting = Greeting { version: VERSION, volume: volume.clone() };
        assert!(encode(&greeting).is_ok(), "the greeting fits a frame");
        let shared =
            Rc::new(Shared { clients: clients.clone(), store, volume, requests: Cell::new(0) });
        let listen = |listener| {
            let serving = shared.clone();
            clients.listen(listener, move |socket, handshake| {
                let shared = serving.clone();
                async move { connection::run(&shared, &socket, handshake).await }
            })
        };
        let listeners = listeners.into_iter().map(listen).collect();
        Self { shared, listeners }
    }

    /// Counters.
    #[must_use]
    pub fn status(&self) -> StoreServerStatus {
        StoreServerStatus {
            connections: self.shared.clients.count(),
            requests: self.shared.requests.get(),
            misbehaved: self.shared.clients.misbehaved(),
        }
    }

    /// The number of connected clients, for as long as the server lives; none afterwards.
    pub fn connections(&self) -> impl Fn() -> usize + 'static {
        let clients = Rc::downgrade(&self.shared.clients);
        move || clients.upgrade().map_or(0, |clients| clients.count())
    }

    /// Stops accepting, answers all requests that were read, and closes every connection.
    pub async fn shutdown(self) {
        self.shared.clients.shutdown(self.listeners).await;
    }
}

#[cfg(test)]
mod tests;
