//! A zoned block device of the kernel as a drive: a shingled disk, the block device of an NVMe
//! namespace, or an emulated one (zloop, null_blk, our own zoned ublk disk).
//!
//! Reads and writes go through io_uring with direct I/O. Reports and zone changes are blocking
//! system calls, made by a worker thread, one at a time. The block layer has neither metadata for
//! each block nor a Zone Append that returns an address. The geometry says so ([`OobKind::None`],
//! an append limit of zero).
//!
//! Shingled disks have about 1 % of conventional zones at the start, some one at the end. They are
//! left out: the drive's zone 0 is the disk's first sequential zone. A shorter last zone is left
//! out too.
//!
//! A disk is opened by `open` (description: `sysfs`; zones: `report`). A command passes through
//! `drive` (read-only check), `check` (addresses and features), `core` (locks and I/O), `pieces`
//! (alignment) and `status` (errors).
//!
//! Invariants:
//! - One write or change of a zone is in flight at a time, in the order of submission: the kernel
//!   does not keep the order of several.
//! - A write is sent only at a known write pointer. After an error, the write pointer is reported
//!   before the next write.
//! - Every value from the kernel is checked to lie within the drive before it is used.
//!
//! Fault model: the drive may fail or refuse any command, and the kernel seldom says why: the
//! reason is found in the zone's state afterwards. The kernel aborts slow commands; if it does not,
//! the drive is lost after two minutes. A drive whose device is gone, or whose size changed, is
//! lost for good.
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
pub(crate) use open::{Opened, is_claimed};
