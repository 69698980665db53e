//! Limits, devices, connections and counters of a server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustix::net::Shutdown;
use slab::Slab;
use zoneweave_nvmf::Target;
use zoneweave_runtime::{Gate, Nanos};

use super::device::NvmeTcpDevice;
use super::link::Link;
use crate::ring::Descriptor;
use crate::stream::{ClientLimits, Clients};

/// Limits for hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmeTcpLimits {
    /// Connections; a host has one for its admin queue and one for each I/O queue.
    pub connections: u64,
    /// Connections without a queue.
    pub handshakes: u64,
    /// How long a connection may take to connect its queue.
    pub handshake_time: Nanos,
    /// Controllers.
    pub controllers: usize,
    /// Data of one connection's requests under way.
    pub in_flight_bytes: u64,
    /// How long hosts may take to accept their last replies at shutdown.
    pub shutdown_time: Nanos,
}

impl Default for NvmeTcpLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshakes: 16,
            handshake_time: Nanos::from_secs(10),
            controllers: 64,
            in_flight_bytes: 16 << 20,
            shutdown_time: Nanos::from_secs(10),
        }
    }
}

impl NvmeTcpLimits {
    pub(super) fn of_clients(self) -> ClientLimits {
        let Self { connections, handshakes, shutdown_time, .. } = self;
        ClientLimits { connections, handshakes, shutdown_time }
    }
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmeTcpStatus {
    /// Controllers, of which each host has one.
    pub controllers: usize,
    /// I/O commands since the start, also those that failed.
    pub requests: u64,
    /// Connections ended because the host broke a rule or a limit.
    pub misbehaved: u64,
}

/// An open connection.
pub(super) struct Open {
    pub(super) socket: Descriptor,
    pub(super) link: Rc<Link>,
}

/// State that connections share.
pub(super) struct Shared {
    pub(super) clients: Rc<Clients>,
    pub(super) limits: NvmeTcpLimits,
    pub(super) target: RefCell<Target>,
    /// By namespace.
    pub(super) devices: Vec<NvmeTcpDevice>,
    pub(super) open: RefCell<Slab<Open>>,
    /// The connections of requests that change a device now.
    pub(super) changing: RefCell<Slab<Rc<Link>>>,
    /// Opened when such a request ends.
    pub(super) changed: Gate,
    pub(super) requests: Cell<u64>,
}

/// A request that changes a device, while it runs.
pub(super) struct Change {
    shared: Rc<Shared>,
    key: usize,
}

impl Drop for Change {
    fn drop(&mut self) {
        self.shared.changing.borrow_mut().remove(self.key);
        self.shared.changed.open();
    }
}

impl Shared {
    pub(super) fn now_ms(&self) -> u64 {
        self.clients.handle().now().0 / Nanos::from_millis(1).0
    }

    pub(super) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Registers a request that changes a device.
    pub(super) fn change(self: &Rc<Self>, link: &Rc<Link>) -> Change {
        let key = self.changing.borrow_mut().insert(link.clone());
        Change { shared: self.clone(), key }
    }

    /// Whether the requests of a connection are its host's no more: it may repeat them elsewhere.
    pub(super) fn is_left(&self, link: &Link) -> bool {
        link.is_over() || link.connection.borrow().is_stale(&self.target.borrow())
    }

    /// Waits for changes that their hosts may have repeated already. The volume orders requests
    /// when it begins to place them, not when they arrive, so a late one could undo a newer one.
    pub(super) async fn settled(&self) {
        while self.changing.borrow().iter().any(|(_, link)| self.is_left(link)) {
            self.changed.wait().await;
        }
    }

    /// Ends the connections whose controllers are gone, but for one that is ending: their readers
    /// see the end of their streams.
    pub(super) fn end_stale(&self, but: Option<&Rc<Link>>) {
        let target = self.target.borrow();
        for (_, Open { socket, link }) in self.open.borrow().iter() {
            let is_ending = but.is_some_and(|but| Rc::ptr_eq(but, link));
            if !is_ending && link.connection.borrow().is_stale(&target) {
                // Shutting a socket fails if its peer is gone; that is harmless.
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
        }
    }

    /// Makes everything written durable, and ends the shutdowns of a connection's controller, one
    /// after the other. If a device fails, the shutdown stays unfinished, and the host reports
    /// that.
    pub(super) async fn shut_down(self: Rc<Self>, link: Rc<Link>) {
        while let Some(shutdown) = link.next_shutdown() {
            let mut is_durable = true;
            for device in &self.devices {
                is_durable &= device.flush().await.is_ok();
            }
            if is_durable {
                self.target.borrow_mut().shut_down(shutdown);
            }
        }
    }
}
