//! The io_uring reactor: one ring for drives, sockets, signals and time.
//!
//! An operation passes through these files:
//! 1. `file`, `socket`, `command` and `driver_command` build it;
//! 2. `held` keeps its memory while the kernel uses it;
//! 3. `reactor` gives it a slot and completes its future;
//! 4. `queues` submits it and collects completions.
//!
//! `options` creates the ring. `doorbell` wakes it from other threads. `control` is a second, small
//! ring for the ublk driver. `no_operation` measures the cost of a ring.
//!
//! Invariants:
//! - Memory lent to the kernel (a buffer, an iovec array, the descriptor itself) belongs to the
//!   ring's slab from submission to completion. Dropping the future of an operation abandons its
//!   result, never its memory. Operations that may wait for ever (accept, receive, poll) are
//!   cancelled when dropped, so that shutdown does not wait for a silent peer.
//! - A user-data value names one operation for ever: a slab index and a serial number, so a late
//!   cancellation cannot hit the next operation in the slot.
//! - At most `in_flight` operations are in the kernel; others wait in order in a backlog.
//! - Dropping the last handle cancels all operations that can be cancelled, and waits for the rest.
//!   If the kernel does not complete an operation, its memory is leaked rather than freed under it.
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
