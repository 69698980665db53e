//! Serves block devices over NBD, on the ring that also runs the drives.
//!
//! ```text
//!   listeners ──► connection: handshake ──► reader ──► one task a request ──► ByteDevice
//!                                                          │
//!                                     socket ◄── writer ◄──┘ replies, in order of completion
//! ```
//!
//! Invariants:
//! - Whatever one client does, the others do not notice, other than by sharing the device: each
//!   has its own buffers, budget, reader and writer.
//! - Memory is bounded by [`NbdLimits`]: so many clients, so many of them in their handshake, which
//!   may take only so long; the rest wait in the kernel. A request takes its share of the
//!   connection's budget before its payload is read and gives it back when its reply was handed
//!   to the kernel; a connection without budget is not read from.
//! - A device is flushed as a whole, so a flush covers the writes of every connection.
//! - After [`NbdServer::shutdown`] every request that was read is answered, unless its client does
//!   not take the answers.
//!
//! Fault model: clients are hostile. Who may connect is decided by the file mode of a unix socket
//! and the peer's user; TCP is for this machine only, because there is no encryption.

mod connection;
mod input;
mod output;
mod request;
mod server;
mod shared;

pub use crate::socket::{Endpoint, EndpointError, Listener};
pub use server::{NbdExport, NbdServer, ServeError};
pub use shared::{NbdLimits, NbdStatus};
pub use zoneweave_nbd::NAME_BYTES_MAX;
