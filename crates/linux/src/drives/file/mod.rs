//! An emulated zoned drive whose media are one sparse file.
//!
//! A command passes through these files:
//! 1. `drive`: asks [`Controller`] for admission, and spawns the command's task;
//! 2. `core`: the drive's state; queues the change of the zone's record;
//! 3. `zone_queue`: the order of commands within a zone; `tickets`: the order between zones;
//! 4. `commands`: reads and writes the file;
//! 5. `publish`: writes the zone's record; `flush` and `sync`: `fdatasync`;
//! 6. `timing`: delays the answer as the preset of the drive says.
//!
//! `watch` looks whether the file is still there, with its header.
//!
//! `open` creates, locks and checks drive files; their layout is
//! [`zoneweave_emulator::media_format`].
//!
//! Invariants:
//! - A writing command completes after its data and metadata are in the file, and after them the
//!   zone's record with the new write pointer. "In the file" means the page cache: killing the
//!   process at any point loses nothing that completed. The write pointer always covers a hole-free
//!   prefix of the submitted data.
//! - Reset, finish and offline are durable on completion, as on flash; flush and FUA are
//!   `fdatasync`. Before that, the file system may lose or reorder data if the machine fails, so
//!   the drive reports a volatile cache. (Flash loses only tails; here a block below the write
//!   pointer that was not flushed may read as zeros after a power failure.)
//! - A drive made from a preset completes no command earlier than the preset's model, nor earlier
//!   than the file. Other drives, and drives opened read-only, skip the model.
//! - One process at a time writes to a drive, by a lock on the file.
//!
//! Fault model: the file may be removed, truncated, or overwritten with another drive, which pulls
//! the drive out. Its header may be overwritten, so that it does not open again. The file system
//! may fail a read (unrecovered read), or fail a write (write fault, and the zone becomes
//! read-only). It may have no room, or the process may not write so large a file (capacity
//! exceeded, and the write pointer stays). If it fails to write a record or to sync, nothing is
//! certain, and the drive stops answering.
//!
//! [`Controller`]: zoneweave_emulator::Controller

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
mod watch;
mod zone_queue;

pub use drive::FileDrive;
pub use error::{DriveFailure, FileDriveError};
pub(crate) use open::OpenFile;
