//! Serves block devices and zoned drives over NVMe/TCP, on the ring that also runs the drives.
//!
//! ```text
//!   listener ──► connection: reader ──► one task a request ──► device
//!                               │              │
//!                               ▼              ▼
//!                   answers ──► socket ◄── completions, in their order
//! ```
//!
//! `server` has the subsystem and watches keep-alive timers, `connection` runs one queue of a host,
//! `request` runs on the `device`, `link` is between these two. `shared` has limits and counters.
//! Hosts are accepted, and their bytes received and sent, by `crate::stream`. The protocol itself
//! is `zoneweave_nvmf`.
//!
//! Invariants:
//! - Memory is bounded by [`NvmeTcpLimits`]: the number of connections, and of those that have not
//!   connected a queue, which have a time limit; the rest wait in the kernel. A request takes its
//!   share of the connection's budget before its data is read from the device or asked for from the
//!   host, and returns it when its reply was handed to the kernel. A connection whose host does not
//!   take its answers is not read from.
//! - Requests get their shares in the order of their commands, so that data which the host was
//!   asked for never waits for a request behind it.
//! - A request of a connection that has ended, or whose controller was reset, starts nothing. The
//!   host may repeat it on another connection: a late write must not undo a newer one. One that
//!   has started is waited for, before any request of another connection starts.
//! - After [`NvmeTcpServer::shutdown`] every request whose data is here is answered, unless its
//!   host does not take the answers.
//!
//! Fault model: hosts are hostile. Access is limited to loopback addresses, or to the hosts in a
//! list, whose names are no proof: there is neither encryption nor authentication.

mod connection;
mod device;
mod link;
mod request;
mod server;
mod shared;
mod zoned;

pub use device::NvmeTcpDevice;
pub use server::{NvmeTcpServer, NvmeTcpVolume};
pub use shared::{NvmeTcpLimits, NvmeTcpStatus};
pub use zoneweave_nvmf::{Hosts, NqnError, check_nqn};
