//! The real world: an io_uring reactor, drives in files and real ones, and front ends on sockets.
//!
//! Everything else in Zoneweave is deterministic and knows traits only. This crate implements
//! them with the kernel: [`Ring`] is the reactor on which devices and sockets share one
//! submission queue. It is the only crate with `unsafe` code, kept in `ring` (buffers lent to the
//! kernel) and `sys` (system calls without a safe wrapper).

mod at_once;
mod blkzoned;
mod drive;
mod elsewhere;
mod entropy;
mod file_drive;
pub mod fuse;
mod in_use;
mod memory_device;
pub mod nbd_server;
mod nvme_drive;
mod peer;
mod remote;
mod ring;
mod service;
mod signals;
mod sys;
pub mod ublk;
pub mod vhost_user;
mod within;
mod worker;
mod zoned_block;

pub use drive::{Drive, DriveError, DriveInfo};
pub use entropy::entropy;
pub use file_drive::{DriveFailure, FileDrive, FileDriveError};
pub use memory_device::MemoryDevice;
pub use nvme_drive::{NonsenseError, NvmeDrive, NvmeDriveError};
pub use peer::stranger_at;
pub use remote::{DeviceLink, RemoteDevice};
pub use ring::{Descriptor, NoOperations, Ring, RingError, RingOptions};
pub use service::DriveLoss;
pub use signals::{Signal, Signals};
pub use zoned_block::{DiskNonsense, ZonedBlock, ZonedBlockError};
