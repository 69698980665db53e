//! A model of Linux md in RAID-5 over conventional drives, for comparisons only.
//!
//! It sends the drives the commands that md would send. Chunks and parity rotate in md's
//! left-symmetric layout. A stripe cache (`stripe`) gathers writes, `read` spreads reads over the
//! drives, and a resync reads and writes everything; `drives` has conventional drives for it.
//! Parity is not computed and contents are not kept, as neither takes time here.
//!
//! Invariants: the blocks of a stripe are written by one task at a time. A write is answered when
//! its blocks and their parity are written.

mod drives;
mod read;
mod stripe;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Semaphore};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba,
    zero_blocks,
};

pub(super) use self::drives::ConventionalArray;
use self::stripe::Gathered;
use crate::experiments::zapraid::baselines::{all_data, nothing_to_flush, unsupported};

/// Locks; stripes share them.
const LOCKS: usize = 4096;

/// Blocks that a resync reads and writes at a time, and how often at once: enough for the new drive
/// to be the bound.
const RESYNC_BLOCKS: u32 = 32;
const RESYNCS_IN_FLIGHT: usize = 16;

/// An array.
pub(super) struct Md(Rc<Inner>);

struct Inner {
    handle: Handle,
    drives: Vec<Rc<dyn BlockDevice>>,
    unit: u64,
    blocks: u64,
    /// The drive that is missing.
    lost: Cell<Option<usize>>,
    /// Parts of stripes that wait for more blocks.
    gathered: RefCell<BTreeMap<u64, Gathered>>,
    locks: Vec<Semaphore>,
}

/// Blocks of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    drive: usize,
    at: Lba,
    blocks: u32,
}

impl Md {
    /// An array of drives, with stripe units of so many blocks.
    pub(super) fn new(handle: &Handle, drives: Vec<Rc<dyn BlockDevice>>, unit: u32) -> Self {
        assert!(drives.len() > 2 && unit > 0, "RAID-5 has three drives");
        let unit = u64::from(unit);
        let least = drives.iter().map(|drive| drive.info().blocks).min().unwrap_or(0);
        let blocks = least / unit * unit * (drives.len() as u64 - 1);
        Self(Rc::new(Inner {
            handle: handle.clone(),
            drives,
            unit,
            blocks,
            lost: Cell::new(None),
            gathered: RefCell::default(),
            locks: (0..LOCKS).map(|_| Semaphore::new(1)).collect(),
        }))
    }

    /// Takes a drive out.
    pub(super) fn lose(&self, drive: usize) {
        assert!(drive < self.0.drives.len(), "there is no drive {drive}");
        self.0.lost.set(Some(drive));
    }

    /// Writes the first blocks of a drive from those of the others.
    pub(super) async fn resync(&self, drive: usize, blocks: u64) -> Result<(), BlockError> {
        let next = Cell::new(0);
        let lanes = (0..RESYNCS_IN_FLIGHT).map(|_| self.0.resync_lane(drive, blocks, &next));
        try_join_all(lanes).await.map(drop)
    }
}

impl Inner {
    /// Blocks of users in a stripe.
    fn stripe_blocks(&self) -> u64 {
        self.unit * (self.drives.len() as u64 - 1)
    }

    fn parity_drive(&self, stripe: u64) -> usize {
        let columns = self.drives.len() as u64;
        index(columns - 1 - stripe % columns)
    }

    /// The drive of a data unit of a stripe.
    fn data_drive(&self, stripe: u64, number: u64) -> usize {
        let columns = self.drives.len() as u64;
        index((self.parity_drive(stripe) as u64 + 1 + number) % columns)
    }

    /// Blocks of a stripe on one drive, by their places in the unit.
    fn span(&self, drive: usize, stripe: u64, within: &Range<u64>) -> Span {
        assert!(within.end <= self.unit, "blocks {within:?} of a unit of {}", self.unit);
        let blocks = u32::try_from(within.end - within.start).expect("a unit is small");
        Span { drive, at: Lba(stripe * self.unit + within.start), blocks }
    }

    async fn read_span(&self, span: Span) -> Result<Vec<Bytes>, BlockError> {
        self.drives[span.drive].read(span.at, span.blocks).await
    }

    async fn write_span(&self, span: Span) -> Result<(), BlockError> {
        let data = vec![zero_blocks(BlockCount(span.blocks))];
        self.drives[span.drive].write(span.at, data, false).await
    }

    async fn resync_lane(
        &self,
        drive: usize,
        blocks: u64,
        next: &Cell<u64>,
    ) -> Result<(), BlockError> {
        while next.get() < blocks {
            let at = next.get();
            let length = u64::from(RESYNC_BLOCKS).min(blocks - at);
            next.set(at + length);
            let blocks = u32::try_from(length).expect("a short piece");
            let span = |drive| Span { drive, at: Lba(at), blocks };
            let others = (0..self.drives.len()).filter(|other| *other != drive);
            try_join_all(others.map(|other| self.read_span(span(other)))).await?;
            self.write_span(span(drive)).await?;
        }
        Ok(())
    }
}

impl BlockDevice for Md {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: self.0.blocks, volatile_cache: false, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let spans = inner.spans_of_read(lba.0..lba.0 + u64::from(blocks));
            try_join_all(spans.into_iter().map(|span| inner.read_span(span))).await?;
            // No contents are kept.
            Ok(vec![zero_blocks(BlockCount(blocks))])
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
        let inner = self.0.clone();
        let blocks = (data.iter().map(Bytes::len).sum::<usize>() / BLOCK_BYTES) as u64;
        Box::pin(async move {
            let parts = inner.stripes_of(lba.0..lba.0 + blocks).into_iter();
            let writes = parts.map(|(stripe, within)| inner.clone().gather(stripe, within));
            try_join_all(writes).await.map(drop)
        })
    }

    fn write_zeroes(&self, _lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
        unsupported()
    }

    fn trim(&self, _lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
        unsupported()
    }

    fn flush(&self) -> BlockFuture<()> {
        nothing_to_flush()
    }

    fn extents(&self, _lba: Lba, blocks: u64, _limit: usize) -> BlockFuture<Vec<Extent>> {
        all_data(blocks)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("usize is 64 bits wide")
}
