//! A real drive: the generic character device of an NVMe zoned namespace (`/dev/ng0n1`).
//!
//! Commands go to the drive as they are, through io_uring, beside those of files and sockets; the block layer sees
//! nothing of them. Only so does the host have the metadata beside each block, and Zone Append.
//!
//! Invariants:
//! - Drives may carry out commands that they hold at the same time in any order. A write is sent when no other
//!   write, append or change of its zone is under way, a change likewise, an append when nothing but
//!   appends is. What is for all zones is not ordered with the rest.
//! - Nothing the drive answers is used before it is known to lie within the drive.
//! - Memory of a command is the ring's until the kernel gives the command back, even if nobody waits any more.
//!
//! Fault model: the drive may fail or refuse any command, answer nonsense, or not answer. The kernel ends what takes
//! longer than [`COMMAND_TIMEOUT_MS`]; should it not either, the drive is lost after two minutes. A drive whose
//! device is gone is lost for good: one that comes back is another one, which has to be opened anew.

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
