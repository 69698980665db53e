//! Limits, devices and counters that the server shares with its connections.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use zoneweave_nbd::{ExportIndex, ExportList};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::ByteDevice;

use crate::stream::{ClientLimits, Clients};

/// Limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdLimits {
    /// Connected clients.
    pub connections: u64,
    /// Clients in their handshake.
    pub handshakes: u64,
    /// How long a handshake may take.
    pub handshake_time: Nanos,
    /// Payload of one connection's requests under way.
    pub in_flight_bytes: u64,
    /// How long clients may take to accept their last replies at shutdown.
    pub shutdown_time: Nanos,
}

impl Default for NbdLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            handshakes: 16,
            handshake_time: Nanos::from_secs(10),
            in_flight_bytes: 64 << 20,
            shutdown_time: Nanos::from_secs(10),
        }
    }
}

impl NbdLimits {
    pub(super) fn of_clients(self) -> ClientLimits {
        let Self { connections, handshakes, shutdown_time, .. } = self;
        ClientLimits { connections, handshakes, shutdown_time }
    }
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NbdStatus {
    /// Clients connected, including those in their handshake.
    pub connections: usize,
    /// Requests answered since the start, also those answered with an error.
    pub requests: u64,
    /// Connections refused or ended because the client broke a rule or a limit.
    pub misbehaved: u64,
}

/// State that connections share.
pub(super) struct Shared {
    pub(super) clients: Rc<Clients>,
    pub(super) limits: NbdLimits,
    pub(super) exports: Arc<ExportList>,
    pub(super) devices: Vec<Rc<ByteDevice>>,
    pub(super) requests: Cell<u64>,
}

impl Shared {
    pub(super) fn device(&self, index: ExportIndex) -> Rc<ByteDevice> {
        self.devices[index.0].clone()
    }
}
