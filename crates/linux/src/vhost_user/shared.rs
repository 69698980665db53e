//! Limits, the device and counters that the server shares with its connection and queues.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_runtime::{Gate, Handle, Semaphore};
use zoneweave_zoned::ByteDevice;

use crate::ring::Ring;

/// Data of requests under way.
pub(super) const IN_FLIGHT_BYTES: u64 = 64 << 20;
/// The least that a request counts for, so that at most 1,024 are under way.
pub(super) const REQUEST_BYTES_MIN: u64 = 64 << 10;
/// The largest read or write on the device.
pub(super) const PIECE_BYTES: u32 = 1 << 20;

/// The disk's properties for the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostUserOptions {
    /// Its serial number; 20 bytes of it are told.
    pub serial: String,
    /// The preferred write size, such as a stripe; zero if there is none.
    pub optimal_bytes: u64,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostUserStatus {
    /// Whether a virtual machine is connected.
    pub connected: bool,
    /// Requests answered since the start.
    pub requests: u64,
    /// Those of them answered with an error.
    pub failed: u64,
    /// Connections ended or queues given up because of invalid input, and connections refused.
    pub misbehaved: u64,
}

/// State that connections and requests share.
pub(super) struct Shared {
    pub(super) ring: Ring,
    pub(super) handle: Handle,
    pub(super) device: Rc<ByteDevice>,
    pub(super) options: VhostUserOptions,
    pub(super) budget: Semaphore,
    pub(super) connected: Cell<bool>,
    pub(super) closing: Cell<bool>,
    /// Opened when a connection ends and when the server closes.
    pub(super) changed: Gate,
    pub(super) requests: Cell<u64>,
    pub(super) failed: Cell<u64>,
    pub(super) misbehaved: Cell<u64>,
}

impl Shared {
    pub(super) async fn closed(&self) {
        while !self.closing.get() {
            self.changed.wait().await;
        }
    }

    pub(super) fn count_misbehaviour(&self) {
        self.misbehaved.set(self.misbehaved.get() + 1);
    }

    pub(super) fn count_request(&self, failed: bool) {
        self.requests.set(self.requests.get() + 1);
        self.failed.set(self.failed.get() + u64::from(failed));
    }
}
