//! Serves block devices over NBD, on the ring that also runs the drives.
//!
//! ```text
//!   listeners ──► connection: handshake ──► reader ──► one task a request ──► ByteDevice
//!                                                          │
//!                                     socket ◄── writer ◄──┘ replies, in order of completion
//! ```
//!
//! `server` has the exports, `connection` runs a client from handshake to end, `request` runs on
//! the device. `shared` has limits and counters. Clients are accepted, and their bytes received and
//! sent, by `crate::stream`. The protocol itself is `zoneweave_nbd`.
//!
//! Invariants:
//! - Clients affect each other only through the shared device: each has its own buffers, budget,
//!   reader and writer.
//! - Memory is bounded by [`NbdLimits`]: the number of clients, and of clients in their handshake,
//!   which has a time limit; the rest wait in the kernel. A request takes its share of the
//!   connection's budget before its payload is read, and returns it when its reply was handed to
//!   the kernel. A connection without budget is not read from.
//! - A flush covers the whole device, so it covers the writes of every connection.
//! - After [`NbdServer::shutdown`] every request that was read is answered, unless its client does
//!   not receive the answers.
//!
//! Fault model: clients are hostile. Access is controlled by the file mode of a unix socket and the
//! peer's user. TCP is limited to loopback addresses, because there is no encryption.

mod connection;
mod request;
mod server;
mod shared;

pub use crate::socket::{Endpoint, EndpointError, Listener};
pub use server::{NbdExport, NbdServer};
pub use shared::{NbdLimits, NbdStatus};
pub use zoneweave_nbd::{ExportError, NAME_BYTES_MAX};
