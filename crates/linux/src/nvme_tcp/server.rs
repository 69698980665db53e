//! The server: listener, connections, keep-alive timers, and their end.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use slab::Slab;
use zoneweave_nvmf::{Hosts, Namespace, Subsystem, Target};
use zoneweave_runtime::{Gate, Handle, JoinHandle, Nanos};

use super::connection;
use super::device::NvmeTcpDevice;
use super::shared::{NvmeTcpLimits, NvmeTcpStatus, Shared};
use crate::ring::Ring;
use crate::socket::{Endpoint, Listener};
use crate::stream::Clients;

/// Period of the check of keep-alive timers, whose unit is a second.
const TIMER_PERIOD: Nanos = Nanos::from_secs(1);

/// A volume to serve: a subsystem with one namespace.
pub struct NvmeTcpVolume {
    /// NVMe qualified name of the subsystem, checked by [`super::check_nqn`].
    pub nqn: String,
    /// Identity of the namespace; the serial number of the subsystem is derived from it.
    pub uuid: [u8; 16],
    /// Writes of a multiple of this many blocks are the cheapest.
    pub optimal_blocks: u16,
    /// The served device.
    pub device: NvmeTcpDevice,
    /// The hosts that may connect.
    pub hosts: Hosts,
}

/// A running NVMe/TCP server. Dropping this handle lets it run on.
pub struct NvmeTcpServer {
    shared: Rc<Shared>,
    address: SocketAddr,
    listening: JoinHandle<()>,
}

impl NvmeTcpServer {
    /// Serves the hosts of this listener until [`NvmeTcpServer::shutdown`].
    ///
    /// # Panics
    /// If the name of the subsystem was not checked, or the listener is not of a TCP port.
    #[must_use]
    pub fn start(
        ring: &Ring,
        handle: &Handle,
        volume: NvmeTcpVolume,
        listener: Listener,
        limits: NvmeTcpLimits,
    ) -> Self {
        let &Endpoint::Tcp(address) = listener.endpoint() else {
            unreachable!("NVMe/TCP has no unix sockets");
        };
        let NvmeTcpVolume { nqn, uuid, optimal_blocks, device, hosts } = volume;
        let subsystem = describe(nqn, uuid, device.namespace(uuid, optimal_blocks));
        let shared = Rc::new(Shared {
            clients: Clients::new(ring, handle, limits.of_clients()),
            limits,
            target: RefCell::new(Target::new(subsystem, hosts, limits.controllers)),
            devices: vec![device],
            open: RefCell::new(Slab::new()),
            changing: RefCell::default(),
            changed: Gate::new(),
            requests: Cell::new(0),
        });
        let serving = shared.clone();
        let listening = shared.clients.listen(listener, move |socket, handshake| {
            connection::run(serving.clone(), socket, handshake)
        });
        // Ends with the server's other tasks: nothing waits for it.
        handle.spawn_alone("NVMe/TCP timers", watch(Rc::downgrade(&shared)));
        Self { shared, address, listening }
    }

    /// Where the server listens; a port of 0 has become the port the kernel chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counters of the server.
    #[must_use]
    pub fn status(&self) -> NvmeTcpStatus {
        NvmeTcpStatus {
            controllers: self.shared.target.borrow().controllers(),
            requests: self.shared.requests.get(),
            misbehaved: self.shared.clients.misbehaved(),
        }
    }

    /// Stops accepting, answers all requests whose data is here, and closes every connection.
    pub async fn shutdown(self) {
        self.shared.clients.shutdown(vec![self.listening]).await;
    }
}

/// Ends the connections of hosts that were silent for longer than they had promised to be, until
/// the server closes.
async fn watch(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade().filter(|shared| !shared.clients.is_closing()) {
        let now_ms = shared.now_ms();
        shared.target.borrow_mut().expire(now_ms);
        shared.end_stale(None);
        let rest = shared.clients.handle().sleep(TIMER_PERIOD);
        drop(shared);
        rest.await;
    }
}

fn describe(nqn: String, uuid: [u8; 16], namespace: Namespace) -> Subsystem {
    Subsystem {
        nqn,
        serial: uuid[..10].iter().map(|byte| format!("{byte:02x}")).collect(),
        model: "Zoneweave volume".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        namespaces: vec![namespace],
    }
}

#[cfg(test)]
mod tests;
