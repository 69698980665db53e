//! Shows a block device as a file, through FUSE. With `losetup` the file becomes a disk, on kernels
//! with drivers for neither network block devices nor ublk.
//!
//! ```text
//!   file system ─► loop ─► file ─► kernel ─► thread that reads requests ─► mailbox
//!                                    ▲                                        │
//!                                    └── answer ◄── one task a request ◄──────┘ engine's thread
//! ```
//!
//! The protocol is implemented by the crate `fuser`, which reads requests by a blocking system
//! call. A thread of its own does only that (`filesystem`). It hands requests over (`mailbox`) to
//! the engine's thread, which runs them (`request`). `mountpoint` prepares and cleans up the path;
//! `server` ties these together.
//!
//! Invariants:
//! - At most `IN_FLIGHT_BYTES` are in flight, and `mailbox::LETTERS_MAX` more requests wait; the
//!   rest wait in the kernel.
//! - The kernel caches none of the file (`FOPEN_DIRECT_IO`), so other clients of the volume see
//!   writes, and a completed write is acknowledged as over NBD. Loop devices and file systems above
//!   cache data, and flush it, as on any disk.
//! - A punched hole reads as zeros, also where it covers blocks in part.
//! - Requests between the mount and the server's start wait; they are never refused.
//! - After [`FuseServer::shutdown`] all answered requests have reached the device, and the file is
//!   gone; if it is still in use, its users get errors.
//! - A server that dies leaves a dead mount behind. The next server unmounts it, if its source is
//!   ours.
//!
//! Fault model: the library checks requests of the kernel, and the device checks ranges.

mod error;
mod filesystem;
mod mailbox;
mod mountpoint;
mod request;
mod server;

pub use error::FuseError;
pub use server::{FuseMount, FuseServer, FuseStatus};
