//! The real world: an io_uring reactor, drives in files and real ones, and front ends on sockets.
//!
//! Everything else in Zoneweave is deterministic and knows traits only. This crate implements
//! them with the kernel: [`Ring`] is the reactor on which devices and sockets share one
//! submission queue. It is the only crate with `unsafe` code, kept in `ring` (buffers lent to the
//! kernel) and `sys` (system calls without a safe wrapper).

mod drives;
pub mod fuse;
mod host;
mod memory_device;
pub mod nbd;
pub mod nvme_tcp;
#[cfg(test)]
mod odd_device;
mod remote;
mod ring;
mod socket;
pub mod stream;
mod sys;
pub mod ublk;
pub mod vhost_user;

pub use drives::{
    AnyDrive, DiskNonsense, Drive, DriveError, DriveFailure, DriveInfo, DriveLoss, FileDrive,
    FileDriveError, NonsenseError, NvmeDrive, NvmeDriveError, ZonedBlock, ZonedBlockError,
};
pub use host::timeout::timeout;
pub use host::{ServiceManager, Signal, Signals, entropy, survive_file_size_limit, unix_seconds};
pub use memory_device::MemoryDevice;
pub use remote::{DeviceLink, Mailbox, RemoteDevice};
pub use ring::{Descriptor, NoOperations, Ring, RingError, RingOptions};
pub use socket::{stranger_at, try_connect};
pub use sys::child::FreshChild;
