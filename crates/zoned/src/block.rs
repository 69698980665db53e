//! The device that a front end serves: 4 KiB blocks that can be written in any order.

mod byte_device;
mod claims;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use thiserror::Error;

use crate::{Lba, Status};
pub use byte_device::{ByteDevice, ByteExtent};

/// The future of a block request.
pub type BlockFuture<T> = Pin<Box<dyn Future<Output = Result<T, BlockError>>>>;

/// The properties of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDeviceInfo {
    /// Size in 4 KiB blocks.
    pub blocks: u64,
    /// Whether acknowledged writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// The state of a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Written data.
    Data,
    /// Never written, or trimmed: reads as zeros.
    Hole,
}

/// A run of blocks in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in blocks.
    pub blocks: u64,
    /// Its state.
    pub state: ExtentState,
}

/// Why a block request failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// The request reaches beyond the device.
    #[error("{lba} + {blocks} blocks reaches beyond the volume's {capacity} blocks")]
    OutOfRange {
        /// The first block.
        lba: Lba,
        /// The length in blocks.
        blocks: u64,
        /// The device's size.
        capacity: u64,
    },
    /// The block exists but can neither be read nor reconstructed.
    #[error("{lba} is lost: its copy is unreadable and too few others are left to rebuild it")]
    Unrecoverable {
        /// The block.
        lba: Lba,
    },
    /// Too many members are gone for writes to be safe.
    #[error("the volume takes no writes: {reason}")]
    ReadOnly {
        /// Why.
        reason: &'static str,
    },
    /// A member failed in a way that redundancy could not hide.
    #[error("a drive failed: {0}")]
    Device(#[from] Status),
    /// The volume is shutting down.
    #[error("the volume is shutting down")]
    ShuttingDown,
}

/// A device of 4 KiB blocks.
///
/// Every block is an atomic register; larger writes are not atomic. Requests may be in flight
/// together; overlapping ones take effect on each block in one order, the same live and after a
/// crash. A caller that needs a certain order waits for the first before it makes the second.
pub trait BlockDevice {
    /// Its properties.
    fn info(&self) -> BlockDeviceInfo;

    /// Reads `blocks` blocks; the pieces are whole blocks.
    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>>;

    /// Writes whole blocks; with `fua` they are durable when the future is done.
    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()>;

    /// Makes a range read as zeros, as a write would (`WRITE_ZEROES`).
    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()>;

    /// Discards a range: it reads as zeros from now on.
    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()>;

    /// Makes every request completed so far durable.
    fn flush(&self) -> BlockFuture<()>;

    /// The states of a range, merged, at most `limit` extents.
    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>>;

    /// The one [`ByteDevice`] that every change must go through, if there is one.
    fn in_bytes(&self) -> Option<ByteDevice> {
        None
    }
}
