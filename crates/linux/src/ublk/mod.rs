//! Serves a device as a disk of this machine's kernel, `/dev/ublkbN`, through the ublk driver.
//!
//! ```text
//!   file system ─► /dev/ublkb0 ─► driver ─► one task a request ─► BlockDevice or ZonedDevice
//!                                   ▲                │
//!                                   └── answer, and ─┘
//!                                       the next one
//! ```
//!
//! The code is our own, over the kernel's interface (`linux/ublk_cmd.h`): the libraries there are
//! wrap a C library or bring a runtime of their own, and what is needed of them is small. Requests travel on
//! the engine's ring, so one thread does everything; control commands have a small ring beside it,
//! because the kernel answers some of them only when the queue is served.
//!
//! Data stays in the kernel until it is copied by reading or writing the character device
//! (`UBLK_F_USER_COPY`). The alternative, a buffer for each place in the queue that the driver fills
//! before it hands the request over, costs the same one copy; but the engine keeps what was
//! written, so each request would take a buffer of the largest size, and what was read, which is in
//! several pieces, would have to be gathered first. It costs one more system call a request.
//!
//! Invariants:
//! - At most [`QUEUE_DEPTH`] requests of at most 512 KiB are under way, 64 MiB, as much as one
//!   connection of the NBD server may have. Each is a task, so the executor shares time out evenly.
//! - A request is taken up in the order in which it came, and answered once.
//! - A server that dies leaves the device behind (`UBLK_F_USER_RECOVERY`): requests wait for the next one, which finds
//!   the device by what it serves, and only that. What the dead one was working on is issued again for
//!   block volumes, where doing it twice is doing it once; for zoned drives it fails, because an append that is repeated
//!   would be there twice.
//! - After [`UblkServer::shutdown`] there is no device, unless somebody still uses it.
//!
//! Fault model: what the kernel hands over is checked before it is used, as if it came from media.

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
