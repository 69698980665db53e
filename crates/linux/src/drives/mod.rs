//! Zoned drives: one in a file, a real NVMe namespace, a zoned block device of the kernel.
//!
//! A path leads to [`Drive`] (`drive`), which opens one of three kinds (`kind`):
//! - `file`: an emulated drive whose media are a sparse file;
//! - `nvme`: NVMe commands through the namespace's character device;
//! - `zoned_block`: any other zoned disk, through the kernel's block layer.
//!
//! They share `access` (exclusive or read-only), `info` (geometry and zones read at opening, or by
//! `inspect`), and `nonblock_open`. `emulated` has what only drives in files know, `media` what
//! errors of reads tell of blocks, and `inflight` unanswered commands of a real drive.
//!
//! Invariants:
//! - A process that writes holds an exclusive lock on the drive.
//! - A lost drive answers every command with `DeviceGone`, for good.

mod access;
mod drive;
mod emulated;
mod error;
mod file;
mod inflight;
mod info;
mod inspect;
mod kind;
mod locked;
mod media;
mod nonblock_open;
mod nvme;
mod zoned_block;

pub use drive::{AnyDrive, Drive};
pub use error::DriveError;
pub use file::{DriveFailure, FileDrive, FileDriveError};
pub use inflight::DriveLoss;
pub use info::DriveInfo;
pub use nvme::{NonsenseError, NvmeDrive, NvmeDriveError};
pub use zoned_block::{DiskNonsense, ZonedBlock, ZonedBlockError};
