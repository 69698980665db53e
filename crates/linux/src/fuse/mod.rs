//! Shows a block device as a file, through FUSE: `losetup` makes a disk of it where the kernel has drivers for neither
//! network block devices nor ublk.
//!
//! ```text
//!   file system ─► loop ─► file ─► kernel ─► thread that reads requests ─► mailbox
//!                                    ▲                                        │
//!                                    └── answer ◄── one task a request ◄──────┘ the engine's thread
//! ```
//!
//! The protocol is that of the crate `fuser`, which reads requests by a system call that waits. So a thread of its own does
//! that, and nothing else: the engine's thread carries the requests out and answers them.
//!
//! Invariants:
//! - At most `IN_FLIGHT_BYTES` are under way, and `mailbox::LETTERS_MAX` more requests wait; the rest wait in the kernel.
//! - The kernel keeps nothing of the file (`FOPEN_DIRECT_IO`), so what is written here is seen elsewhere, and a write that
//!   has returned is acknowledged as one over NBD is. What is kept above it, by a loop device or a file system, comes with
//!   their flushes, as for any disk.
//! - A hole that is punched reads as zeros, also where it covers blocks in part.
//! - After [`FuseServer::shutdown`] everything that was answered is with the device, and the file is gone, unless somebody
//!   still uses it: they get errors.
//! - A server that dies leaves a dead mount behind. The next one clears it away, if it is one of ours.
//!
//! Fault model: what the kernel hands over is checked by the library and, ranges, by the device.

mod error;
mod filesystem;
mod mailbox;
mod mountpoint;
mod request;
mod server;

pub use error::FuseError;
pub use server::{FuseServer, FuseStatus};
