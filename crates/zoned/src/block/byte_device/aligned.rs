//! A byte device as a block device: changes of whole blocks, in order with those of parts of blocks
//! that other front ends make.

use bytes::Bytes;

use super::ByteDevice;
use crate::block::claims::Access;
use crate::{BLOCK_BYTES, BlockDevice, BlockDeviceInfo, BlockFuture, Extent, Lba};

impl ByteDevice {
    /// Makes a change of whole blocks when no earlier one of a part of them is under way. The
    /// device checks the range.
    fn change(
        &self,
        lba: Lba,
        blocks: u64,
        change: impl FnOnce(&dyn BlockDevice) -> BlockFuture<()> + 'static,
    ) -> BlockFuture<()> {
        let this = self.clone();
        Box::pin(async move {
            let range = lba.0..lba.0.saturating_add(blocks);
            let _claim = this.claims.claim(range, Access::Whole).await;
            change(&*this.device).await
        })
    }
}

impl BlockDevice for ByteDevice {
    fn info(&self) -> BlockDeviceInfo {
        self.device.info()
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        self.device.read(lba, blocks)
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        let blocks = data.iter().map(|piece| piece.len() / BLOCK_BYTES).sum::<usize>() as u64;
        self.change(lba, blocks, move |device| device.write(lba, data, fua))
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.change(lba, blocks, move |device| device.write_zeroes(lba, blocks, fua))
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.change(lba, blocks, move |device| device.trim(lba, blocks, fua))
    }

    fn flush(&self) -> BlockFuture<()> {
        self.device.flush()
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        self.device.extents(lba, blocks, limit)
    }

    fn in_bytes(&self) -> Option<ByteDevice> {
        Some(self.clone())
    }
}
