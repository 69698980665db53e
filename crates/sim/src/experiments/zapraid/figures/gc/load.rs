//! A volume that is filled once and then overwritten continuously, observed in windows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, BlockDevice, Lba};

use crate::experiments::zapraid::loads::zipf::Zipf;
use crate::workload::WorkloadError;

/// Blocks of a request that fills the volume.
const FILL_BLOCKS: u32 = 32;

/// Requests in flight.
const QUEUE_DEPTH: usize = 64;

/// Spreads ranks over the volume: a prime above the block count of any volume here.
const SPREAD: u64 = 4_294_967_311;

/// The distribution of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    Uniform,
    /// By Zipf's law, with an exponent of 0.99.
    Zipf,
}

impl Places {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf 0.99",
        }
    }
}

/// Overwrites of 4 KiB in a closed loop.
pub(super) struct Load {
    handle: Handle,
    device: Rc<dyn BlockDevice>,
    source: Bytes,
    random: RefCell<Random>,
    /// `None`: uniform.
    zipf: Option<Zipf>,
    blocks: u64,
    next: Cell<u64>,
    windows: RefCell<Vec<u64>>,
}

impl Load {
    pub(super) fn new(
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        places: Places,
        seed: u64,
    ) -> Self {
        let blocks = device.info().blocks;
        let mut source = AlignedBuffer::zeroed(BlockCount(FILL_BLOCKS));
        source.as_mut().fill(0xA5);
        Self {
            handle: handle.clone(),
            device,
            source: source.freeze(),
            random: RefCell::new(Random::new(seed)),
            zipf: (places == Places::Zipf).then(|| Zipf::new(blocks, 99)),
            blocks,
            next: Cell::default(),
            windows: RefCell::default(),
        }
    }

    /// Writes every block once, in order.
    pub(super) async fn fill(&self) -> Result<(), WorkloadError> {
        self.next.set(0);
        try_join_all((0..QUEUE_DEPTH).map(|_| self.fill_lane())).await?;
        Ok(())
    }

    async fn fill_lane(&self) -> Result<(), WorkloadError> {
        while self.next.get() < self.blocks {
            let at = self.next.replace(self.next.get() + u64::from(FILL_BLOCKS));
            let blocks = (self.blocks - at).min(FILL_BLOCKS.into());
            let bytes = usize::try_from(blocks).unwrap_or(0) * BLOCK_BYTES;
            self.device.write(Lba(at), vec![self.source.slice(..bytes)], false).await?;
        }
        Ok(())
    }

    /// Overwrites so many blocks.
    pub(super) async fn overwrite(&self, blocks: u64) -> Result<(), WorkloadError> {
        self.next.set(0);
        let lane = async || {
            while self.next.replace(self.next.get() + 1) < blocks {
                self.write().await?;
            }
            Ok::<_, WorkloadError>(())
        };
        try_join_all((0..QUEUE_DEPTH).map(|_| lane())).await?;
        Ok(())
    }

    /// Overwrites for so many windows of a length; returns the blocks written in each.
    pub(super) async fn watch(
        &self,
        windows: usize,
        length: Nanos,
    ) -> Result<Vec<u64>, WorkloadError> {
        let begun = self.handle.now();
        self.windows.replace(vec![0; windows]);
        let lane = async || {
            loop {
                self.write().await?;
                let window = self.handle.now().since(begun).0 / length.0;
                let mut counts = self.windows.borrow_mut();
                let window = usize::try_from(window).ok().and_then(|at| counts.get_mut(at));
                let Some(count) = window else { break };
                *count += 1;
            }
            Ok::<_, WorkloadError>(())
        };
        try_join_all((0..QUEUE_DEPTH).map(|_| lane())).await?;
        Ok(self.windows.take())
    }

    async fn write(&self) -> Result<(), WorkloadError> {
        let lba = {
            let mut random = self.random.borrow_mut();
            match &self.zipf {
                None => random.below(self.blocks),
                Some(zipf) => zipf.draw(&mut random) * SPREAD % self.blocks,
            }
        };
        self.device.write(Lba(lba), vec![self.source.slice(..BLOCK_BYTES)], false).await?;
        Ok(())
    }
}
