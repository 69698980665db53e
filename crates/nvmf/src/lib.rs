//! NVMe over TCP, sans-I/O: the target, with its discovery service.
//!
//! Bytes go in, bytes and typed steps come out. There are no sockets, clocks, threads or futures
//! here: the front end that owns the connections moves the bytes, enforces deadlines, runs the
//! requests and says what time it is.
//!
//! ```text
//!   bytes ──► Connection ──► Step::Request ──► (the volume)
//!                 │    ▲                            │
//!                 ▼    └─────── complete ◄──────────┘
//!      Target: controllers, admin commands          bytes ◄── Connection::take_output
//! ```
//!
//! * [`Connection`] is one queue of a controller: it frames PDUs, answers fabrics and admin
//!   commands at once, and gives I/O commands to the front end.
//! * [`Target`] is the state that connections share: the subsystem, the hosts that may connect, and
//!   the controllers with their properties, features and keep-alive timers.
//!
//! # Invariants
//! * The host is hostile. No byte it sends can panic, or is trusted as a length before it is
//!   compared with a limit. What it sends is returned to it only in a termination request.
//! * Memory is bounded: a connection has at most [`QUEUE_ENTRIES_MAX`] commands in flight, each
//!   with at most [`CAPSULE_DATA_BYTES_MAX`] of data of its own accord. More comes only when the
//!   front end fetches it, at most [`TRANSFER_BYTES_MAX`] a command.
//! * How the input is cut into pieces never changes the output.
//! * A connection whose controller was reset or removed starts nothing any more.
//!
//! Sources: NVM Express Base 1.4, NVMe over Fabrics 1.1a, TCP transport 1.0, Zoned Namespaces 1.1.
//! Deliberately absent: TLS, in-band authentication, reservations, namespace management, and
//! metadata.

mod admin;
mod command;
mod connect;
mod connection;
mod controller;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
mod nqn;
mod nvm;
mod pdu;
mod status;
mod subsystem;
mod target;
mod transport;

pub use connect::QUEUE_ENTRIES_MAX;
pub use connection::{Connection, Done, End, HostData, Request, Step, Tag};
pub use controller::IO_QUEUES_MAX;
pub use nqn::{DISCOVERY_NQN, NQN_BYTES_MAX, NqnError, check_nqn};
pub use nvm::{BLOCK_BYTES, Operation, ZoneAction, deallocate_ranges};
pub use pdu::Violation;
pub use status::Status;
pub use subsystem::{Namespace, Subsystem, Zones};
pub use target::{ControllerId, Hosts, Shutdown, Target};
pub use transport::{CAPSULE_DATA_BYTES_MAX, TRANSFER_BYTES_MAX};
