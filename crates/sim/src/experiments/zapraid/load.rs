//! Requests of several sizes at random places, so many in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, BlockDevice, Lba};

use crate::workload::{Figures, Recorder, WorkloadError};

/// How large requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// All of so many blocks.
    Uniform(u32),
    /// 75 % of a block, 25 % of four.
    Hybrid,
}

impl Mix {
    fn draw(self, random: &mut Random) -> u32 {
        match self {
            Self::Uniform(blocks) => blocks,
            Self::Hybrid => [1, 1, 1, 4][usize::try_from(random.below(4)).unwrap_or(0)],
        }
    }

    /// The largest request, in blocks.
    const fn largest(self) -> u32 {
        match self {
            Self::Uniform(blocks) => blocks,
            Self::Hybrid => 4,
        }
    }
}

/// Random writes to a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomWrites {
    pub(super) mix: Mix,
    pub(super) queue_depth: u32,
    /// Places are chosen from so many blocks, or the whole device if that is smaller.
    pub(super) range: u64,
    /// In all.
    pub(super) blocks: u64,
    pub(super) seed: u64,
}

struct State {
    handle: Handle,
    device: Rc<dyn BlockDevice>,
    writes: RandomWrites,
    source: Bytes,
    random: RefCell<Random>,
    left: Cell<u64>,
    last: Cell<Nanos>,
    recorder: RefCell<Recorder>,
}

impl RandomWrites {
    /// Writes all of it, and tells how long that took.
    pub(super) async fn run(
        self,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
    ) -> Result<Figures, WorkloadError> {
        if self.range.min(device.info().blocks) < self.mix.largest().into() {
            return Err(WorkloadError::Impossible("the device is smaller than a request"));
        }
        let mut source = AlignedBuffer::zeroed(BlockCount(self.mix.largest()));
        source.as_mut().fill(0xA5);
        let state = State {
            handle: handle.clone(),
            device,
            writes: self,
            source: source.freeze(),
            random: RefCell::new(Random::new(self.seed)),
            left: Cell::new(self.blocks),
            last: Cell::new(handle.now()),
            recorder: RefCell::default(),
        };
        let begun = handle.now();
        let lanes = (0..self.queue_depth).map(|_| state.lane());
        try_join_all(lanes).await?;
        let figures = state.recorder.borrow().figures(state.last.get().since(begun));
        Ok(figures)
    }
}

impl State {
    /// One request after the other.
    async fn lane(&self) -> Result<(), WorkloadError> {
        while let Some((lba, blocks)) = self.draw() {
            let data = self.source.slice(..BLOCK_BYTES * blocks as usize);
            let started = self.handle.now();
            self.device.write(lba, vec![data], false).await?;
            let now = self.handle.now();
            let bytes = u64::from(blocks) * BLOCK_BYTES as u64;
            self.recorder.borrow_mut().record(now.since(started), bytes);
            self.last.set(now);
        }
        Ok(())
    }

    fn draw(&self) -> Option<(Lba, u32)> {
        let mut random = self.random.borrow_mut();
        let left = self.left.get();
        if left == 0 {
            return None;
        }
        let blocks = self.writes.mix.draw(&mut random);
        self.left.set(left.saturating_sub(blocks.into()));
        let range = self.writes.range.min(self.device.info().blocks);
        let places = range / u64::from(blocks);
        Some((Lba(random.below(places) * u64::from(blocks)), blocks))
    }
}
