//! An emulated zoned drive whose media are one sparse file.
//!
//! [`Controller`] decides, as for every emulated drive; this module moves the bytes. What is where
//! in the file is defined by [`zoneweave_emulator::media_format`].
//!
//! Invariants:
//! - A command that writes completes when its data and metadata are in the file and after that
//!   the zone's record, with the new write pointer, is too. "In the file" means the page cache:
//!   killing the process at any point loses nothing that completed, and the write pointer always
//!   covers a hole-free prefix of what was submitted.
//! - Reset, finish and offline are durable when they complete, as on flash; flush and FUA are
//!   `fdatasync`. Until then the file system may lose or reorder what it holds if the machine
//!   itself fails, so the drive reports a volatile cache. (Flash loses only tails; here a block
//!   below the write pointer that was not flushed may read as zeros after a power failure.)
//! - A drive that was made as a preset completes no command before the preset's model says, nor before
//!   the file has done it. The others pay nothing for that, and those opened to be looked at neither.
//! - One process at a time writes to a drive, by a lock on the file.
//!
//! Fault model: the file may be removed or cut off under us, which pulls the drive out; the file
//! system may fail a read (unrecovered read), a write (write fault, and the zone becomes
//! read-only), have no room (capacity exceeded, and the write pointer stays where it was) or fail
//! to write a record or to sync, after which nothing is certain and the drive answers no more.

mod commands;
mod core;
mod drive;
mod error;
mod flush;
mod open;
mod publish;
mod sync;
mod tickets;
mod timing;
mod zone_queue;

pub use drive::FileDrive;
pub use error::{DriveFailure, FileDriveError};
pub(crate) use open::OpenFile;
