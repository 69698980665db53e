//! A block device of another thread.
//!
//! ```text
//!   thread of the front end              thread of the engine
//!   RemoteDevice ──── requests ────► one task a request ──► BlockDevice
//!        ▲                                    │
//!        └─────────── answers ────────────────┘
//! ```
//!
//! Invariants:
//! - A flush begins after all that was answered before it, as requests are handed over in order.
//! - So many requests are under way at the most; others wait for their turn where they are made,
//!   and may be overtaken.
//! - Data is handed over, never copied.
//! - Should the engine's thread end, everything is answered with [`BlockError::ShuttingDown`].

mod device;
mod mailbox;

pub use device::{DeviceLink, RemoteDevice};
pub use mailbox::Mailbox;
