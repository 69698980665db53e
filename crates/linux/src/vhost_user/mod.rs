//! Serves a block device to a virtual machine as its virtio disk, by vhost-user.
//!
//! ```text
//!   guest ─► virtqueues in its memory ─► one task a queue ─► one task a request ─► ByteDevice
//!                        ▲                                          │
//!                        └────────── used, and an interrupt ◄───────┘
//!   QEMU  ─► unix socket: where the memory and the queues are, when they start and stop
//! ```
//!
//! `server` accepts one virtual machine, `connection` receives its messages, and `frontend` applies
//! them: features and configuration (`config`), memory (`memory`), queues (`vring`). A queue takes
//! requests, marks them (`inflight`), and runs them (`request`).
//!
//! The protocol is rust-vmm's (`vhost`, `virtio-queue`, `vm-memory`), which checks messages, rings
//! and addresses. Its daemon is not used, because it starts threads. Here the engine's ring waits
//! for the socket and for the queues' event counters, and one thread does the rest.
//!
//! Invariants:
//! - One virtual machine is served at a time; others are disconnected at once.
//! - At most `IN_FLIGHT_BYTES` of all queues are in flight, counted before a request is taken out
//!   of its queue. A long request is processed in pieces of `PIECE_BYTES`.
//! - A queue is changed or stopped only while it has no request in flight: such a message waits
//!   until all are answered. So stopping a virtual machine or its server in order loses and repeats
//!   nothing.
//! - Requests in flight are marked in memory that outlives a killed server. The next server runs
//!   exactly the unanswered ones, in the order in which they were taken (`inflight`).
//! - The control socket cannot block the engine's thread: a message is read when it is complete,
//!   and answered when there is room.
//!
//! Fault model: guests are hostile. Their requests are checked, and answered with an error where
//! possible; an invalid queue is given up until it is set up again. QEMU runs as our user or root,
//! and owns the memory. If it truncated the memory's file, this process would be killed, so the
//! file is sealed where that is possible.

mod config;
mod connection;
mod frontend;
mod inflight;
mod memory;
mod request;
mod server;
mod shared;
mod vring;

pub use config::QUEUES_MAX;
pub use server::VhostUserServer;
pub use shared::{VhostUserOptions, VhostUserStatus};
