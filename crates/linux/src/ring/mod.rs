//! The io_uring reactor: one ring for drives, sockets, signals and time.
//!
//! Invariants:
//! - Memory lent to the kernel (a buffer, an iovec array, the descriptor itself) belongs to the
//!   ring's slab from submission to completion. Dropping the future of an operation abandons its
//!   result, never its memory. Operations that may wait for ever (accept, receive, poll) are
//!   cancelled when dropped, so that shutdown does not wait for a silent peer.
//! - A user-data value names one operation for ever: a slab index and a serial number, so a late
//!   cancellation cannot hit the operation that took the place over.
//! - At most `in_flight` operations are in the kernel; further ones wait in order in a backlog.
//! - Dropping the last handle cancels what can be cancelled and waits for the rest. Should the
//!   kernel not give an operation back, its memory is leaked rather than freed under it.
#![allow(unsafe_code, reason = "submission hands raw pointers to the kernel")]

mod command;
mod control;
mod doorbell;
mod driver_command;
mod file;
mod held;
mod no_operation;
mod options;
mod queues;
mod reactor;
mod socket;

pub(crate) use command::{CommandDone, DeviceCommand, Lent, Opcode};
pub(crate) use control::ControlRing;
pub(crate) use doorbell::Doorbell;
pub use no_operation::NoOperations;
pub use options::{RingError, RingOptions};
pub use reactor::{Descriptor, Ring};
