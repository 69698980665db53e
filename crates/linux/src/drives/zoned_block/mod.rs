//! A zoned block device of the kernel as a drive: a shingled disk, the block device of an NVMe namespace, or an
//! emulated one (zloop, null_blk, a zoned disk of ours).
//!
//! Reads and writes go through io_uring, past the page cache. Reports and changes of zones are system calls that wait for
//! the drive, and are made by a thread of their own, one at a time. The block layer has neither metadata beside blocks
//! nor Zone Append that tells where: a drive says so in its geometry ([`OobKind::None`], an append limit of zero).
//!
//! Conventional zones, which shingled disks have about 1 % of at their start, some one at the end, are left out: the
//! drive's zone 0 is the disk's first zone that is written from front to back. So is a last zone that is shorter.
//!
//! Invariants:
//! - One write or change of a zone is under way at a time, in the order of submission: the kernel promises an order to
//!   nobody who has several.
//! - A write is sent only where the zone is known to end. After an error that is looked up before another one is sent.
//! - Nothing the kernel tells is used before it is known to lie within the drive.
//!
//! Fault model: the drive may fail or refuse any command, and the kernel mostly says no more than that: why a zone
//! refused is told from its state afterwards. What takes too long the kernel ends; should it not, the drive is lost
//! after two minutes. A drive whose device is gone, or lost its size, is lost for good.
//!
//! [`OobKind::None`]: zoneweave_zoned::OobKind::None

mod check;
mod core;
mod drive;
mod error;
mod open;
mod pieces;
mod report;
mod status;
mod sysfs;

pub use drive::ZonedBlock;
pub use error::{DiskNonsense, ZonedBlockError};
pub(crate) use open::Opened;
