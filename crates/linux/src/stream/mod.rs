//! Clients of stream sockets, for servers of any protocol, on the ring that also runs the drives.
//!
//! [`Clients`] accepts them, [`Input`] receives, [`Output`] sends. The protocol is its server's.
//!
//! Invariants: memory is bounded. [`Clients`] admits so many, and so many in their handshake; the
//! rest wait in the kernel. A request takes a share of its connection's budget before its payload
//! is received, and gives it back when its reply was handed to the kernel.
//!
//! Fault model: clients are hostile. The servers verify all that they receive.

mod clients;
mod input;
mod output;

pub use clients::{ClientLimits, Clients, HandshakePlace};
pub use input::Input;
pub use output::Output;
