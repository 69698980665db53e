//! A block device in memory: for trying clients and front ends without a drive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, ExtentState, Lba,
    Payload, zero_blocks,
};

/// Blocks in memory, sparse, lost with the process.
pub struct MemoryDevice {
    capacity: u64,
    blocks: RefCell<BTreeMap<u64, Bytes>>,
    durable: Cell<u64>,
}

impl MemoryDevice {
    /// A device of zeros.
    #[must_use]
    pub fn new(blocks: u64) -> Rc<Self> {
        Rc::new(Self { capacity: blocks, blocks: RefCell::default(), durable: Cell::new(0) })
    }

    /// The number of changes with Force Unit Access.
    #[must_use]
    pub fn durable_changes(&self) -> u64 {
        self.durable.get()
    }

    fn count(&self, fua: bool) {
        self.durable.set(self.durable.get() + u64::from(fua));
    }

    fn check(&self, lba: Lba, blocks: u64) -> Result<(), BlockError> {
        match lba.0.checked_add(blocks) {
            Some(end) if end <= self.capacity => Ok(()),
            _ => Err(BlockError::OutOfRange { lba, blocks, capacity: self.capacity }),
        }
    }

    fn discard(&self, lba: Lba, blocks: u64) {
        let mut held = self.blocks.borrow_mut();
        let mut behind = held.split_off(&lba.0);
        held.append(&mut behind.split_off(&(lba.0 + blocks)));
    }

    fn store(&self, lba: Lba, data: Vec<Bytes>) -> Result<(), BlockError> {
        let payload = Payload { data, oob: Bytes::new() };
        payload.assert_whole();
        self.check(lba, u64::from(payload.blocks().0))?;
        let mut blocks = self.blocks.borrow_mut();
        for (at, block) in (lba.0..).zip(payload.iter_blocks()) {
            // A copy, because a small slice would keep a large buffer alive.
            blocks.insert(at, Bytes::copy_from_slice(&block));
        }
        Ok(())
    }

    fn load(&self, lba: Lba, count: u32) -> Result<Vec<Bytes>, BlockError> {
        self.check(lba, u64::from(count))?;
        let blocks = self.blocks.borrow();
        let block = |at| blocks.get(&at).cloned().unwrap_or_else(|| zero_blocks(BlockCount(1)));
        Ok((lba.0..lba.0 + u64::from(count)).map(block).collect())
    }

    fn states(&self, lba: Lba, count: u64, limit: usize) -> Result<Vec<Extent>, BlockError> {
        self.check(lba, count)?;
        let end = lba.0 + count;
        let mut extents: Vec<Extent> = Vec::new();
        let mut push = |blocks, state| match extents.last_mut() {
            Some(last) if last.state == state => last.blocks += blocks,
            _ if blocks > 0 => extents.push(Extent { blocks, state }),
            _ => {}
        };
        let mut at = lba.0;
        for &held in self.blocks.borrow().range(at..end).map(|(held, _)| held) {
            push(held - at, ExtentState::Hole);
            push(1, ExtentState::Data);
            at = held + 1;
        }
        push(end - at, ExtentState::Hole);
        extents.truncate(limit);
        Ok(extents)
    }
}

impl BlockDevice for MemoryDevice {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: self.capacity, volatile_cache: true, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        Box::pin(ready(self.load(lba, blocks)))
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        self.count(fua);
        Box::pin(ready(self.store(lba, data)))
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.count(fua);
        let checked = self.check(lba, blocks);
        if checked.is_ok() {
            self.discard(lba, blocks);
        }
        Box::pin(ready(checked))
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.write_zeroes(lba, blocks, fua)
    }

    fn flush(&self) -> BlockFuture<()> {
        Box::pin(ready(Ok(())))
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        Box::pin(ready(self.states(lba, blocks, limit)))
    }
}
