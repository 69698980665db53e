//! A real drive: the generic character device of an NVMe zoned namespace (`/dev/ng0n1`).
//!
//! Commands go to the drive unchanged, through io_uring, past the block layer. Only this path has
//! metadata for each block, and Zone Append.
//!
//! A drive is opened by `open` (identity: `identify`; zones: `report`; multipath: `ways`). A
//! command passes through these files:
//! 1. `drive` refuses changes of a drive opened read-only;
//! 2. `core` waits for the zone, sends, and keeps time;
//! 3. `encode` makes the NVMe command, and the reply of its completion;
//! 4. `status` translates errors, `retry` decides which commands are sent again.
//!
//! `low_memory` guards against a bug of the kernel.
//!
//! Invariants:
//! - A drive may execute queued commands in any order. A write is sent when no other write, append
//!   or change of its zone is in flight; a change likewise; an append when only appends are in
//!   flight. Commands for all zones are not ordered with the rest.
//! - Every value from the drive is checked to lie within the drive before it is used.
//! - A command's memory belongs to the ring until the kernel returns the command, even if no task
//!   waits any more.
//!
//! Fault model: the drive may fail or refuse any command, answer nonsense, or not answer. The
//! kernel aborts a command after [`COMMAND_TIMEOUT_MS`]; if it does not, the drive is lost after
//! two minutes. A drive whose device is gone is lost for good: a device that returns is a new
//! drive, and has to be opened anew.
//!
//! [`COMMAND_TIMEOUT_MS`]: encode::COMMAND_TIMEOUT_MS

mod core;
mod drive;
mod encode;
mod error;
mod identify;
mod low_memory;
mod open;
mod report;
mod retry;
mod status;
mod ways;

pub use drive::NvmeDrive;
pub use error::NvmeDriveError;
pub use identify::NonsenseError;
pub(crate) use open::{Opened, sibling};
