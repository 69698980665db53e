//! A block device that is slow, fails, or never answers: for tests of front ends.

use std::future::{pending, ready};
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba, Status,
    zero_blocks,
};

/// Reads of block 1 take long, those of block 2 fail, block 3 never answers; all changes fail.
pub(crate) struct OddDevice {
    handle: Handle,
    read_only: bool,
}

impl OddDevice {
    pub(crate) fn writable(handle: &Handle) -> Rc<dyn BlockDevice> {
        Rc::new(Self { handle: handle.clone(), read_only: false })
    }

    pub(crate) fn read_only(handle: &Handle) -> Rc<dyn BlockDevice> {
        Rc::new(Self { handle: handle.clone(), read_only: true })
    }
}

impl BlockDevice for OddDevice {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: 64, volatile_cache: false, read_only: self.read_only }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let handle = self.handle.clone();
        Box::pin(async move {
            match lba.0 {
                1 => handle.sleep(Nanos::from_millis(50)).await,
                2 => return Err(BlockError::Unrecoverable { lba }),
                3 => pending().await,
                _ => {}
            }
            Ok(vec![zero_blocks(BlockCount(blocks))])
        })
    }

    fn write(&self, _: Lba, _: Vec<Bytes>, _: bool) -> BlockFuture<()> {
        Box::pin(ready(Err(BlockError::Device(Status::WriteFault))))
    }

    fn write_zeroes(&self, lba: Lba, _: u64, fua: bool) -> BlockFuture<()> {
        self.write(lba, Vec::new(), fua)
    }

    fn trim(&self, lba: Lba, _: u64, fua: bool) -> BlockFuture<()> {
        self.write(lba, Vec::new(), fua)
    }

    fn flush(&self) -> BlockFuture<()> {
        // Not a sensible error for a flush, but it must not take the server down.
        Box::pin(ready(Err(BlockError::Unrecoverable { lba: Lba(0) })))
    }

    fn extents(&self, _: Lba, _: u64, _: usize) -> BlockFuture<Vec<Extent>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
