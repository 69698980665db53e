//! Serves a block device to a virtual machine as its virtio disk, by vhost-user.
//!
//! ```text
//!   guest ─► virtqueues in its memory ─► one task a queue ─► one task a request ─► ByteDevice
//!                        ▲                                          │
//!                        └────────── used, and an interrupt ◄───────┘
//!   QEMU  ─► unix socket: where the memory and the queues are, when they start and stop
//! ```
//!
//! The protocol is rust-vmm's (`vhost`, `virtio-queue`, `vm-memory`), which checks messages, rings and addresses; their
//! own daemon is not used, because it brings threads. Here everything runs on the engine's ring: it waits for
//! the socket and for the queues' event counters, and one thread does the rest.
//!
//! Invariants:
//! - One virtual machine is served at a time; when it has gone, the next may come. Whoever comes meanwhile is
//!   hung up on, and notices it at once.
//! - Of the requests of all its queues at most `IN_FLIGHT_BYTES` are under way, counted before a request is taken out of
//!   its queue. A request of any length is worked off in pieces of `PIECE_BYTES`.
//! - No queue is changed or read out while a request of it is under way: such a message waits until all are
//!   answered. So a virtual machine that is stopped in order, or whose server is, has lost and repeated nothing.
//! - What is under way is marked in memory that outlives a server that is killed: the next one carries out what has no
//!   answer, in the order in which it was taken, and nothing else (`inflight.rs`).
//! - The control socket cannot make the engine's thread wait: a message is read when all of it is there, and answered when
//!   there is room.
//!
//! Fault model: guests are hostile. What they put into queues is checked, and answered with an error where it
//! can be; a queue that makes no sense is given up until it is set up again. The process at the other end of the socket belongs to
//! our user or to root, and holds the memory: should it cut that off, this process would die of it, so memory that
//! can be sealed against it is.

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
