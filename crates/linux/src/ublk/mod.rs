//! Serves a device as a disk of this machine's kernel, `/dev/ublkbN`, through the ublk driver.
//!
//! ```text
//!   file system ─► /dev/ublkb0 ─► driver ─► one task a request ─► BlockDevice or ZonedDevice
//!                                   ▲                │
//!                                   └── answer, and ─┘
//!                                       the next one
//! ```
//!
//! `server` creates the device through `control`, or takes over one that a dead server left.
//! `queue` fetches requests. `request` copies their data, and `block` or `zoned` runs them. `abi`
//! is the kernel's interface.
//!
//! The implementation is our own, over `linux/ublk_cmd.h`: existing libraries wrap a C library or
//! bring a runtime, and we need little of them. Requests travel on the engine's ring, so one thread
//! does everything. Control commands have a small second ring, because the kernel answers some of
//! them only when the queue is served.
//!
//! Data stays in the kernel until it is copied by reading or writing the character device
//! (`UBLK_F_USER_COPY`), at the cost of a system call a request. The alternative is a buffer for
//! each queue slot, which the driver fills before it hands the request over. It also copies once.
//! But the engine keeps written data, so each request would take a buffer of the largest size; and
//! read data, which is in several pieces, would have to be gathered first.
//!
//! Invariants:
//! - At most [`QUEUE_DEPTH`] requests of at most 512 KiB are in flight: 64 MiB, as much as one NBD
//!   connection may have. Each is a task, so the executor shares time fairly.
//! - Requests start in the order of their arrival, and each is answered once.
//! - A server that dies leaves the device behind (`UBLK_F_USER_RECOVERY`), and requests wait for
//!   the next server, which finds the device by its identity. Requests in flight are issued again
//!   for block volumes, where repetition is harmless. For zoned drives they fail, because a
//!   repeated append would store its data twice.
//! - After [`UblkServer::shutdown`] the device is gone, unless it is still in use.
//!
//! Fault model: all data from the kernel is checked before use, like data from media.

mod abi;
mod block;
mod control;
mod error;
mod queue;
mod request;
mod server;
mod zoned;

pub use error::UblkError;
pub use server::{QUEUE_DEPTH, UblkDisk, UblkOptions, UblkServer, UblkStatus};
