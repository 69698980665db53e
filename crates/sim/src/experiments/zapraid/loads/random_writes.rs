//! Requests of several sizes at random places, with a fixed number in flight.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::workload::{BlockRequest, Direction, Driven, Driver, Figures, WorkloadError};

/// Request sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// All of so many blocks.
    Uniform(u32),
    /// 75 % of one block, 25 % of four.
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

/// A write that is sent as soon as a slot is free.
pub(crate) fn write_of(lba: Lba, blocks: u32) -> BlockRequest {
    BlockRequest { direction: Direction::Write, lba, blocks, due: None }
}

/// Rates and latencies of all requests.
pub(crate) fn figures(driven: &Driven) -> Figures {
    driven.all.figures(driven.span)
}

/// Random writes to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomWrites {
    pub(crate) mix: Mix,
    pub(crate) queue_depth: u32,
    /// Number of blocks that requests choose from, or the whole device if that is smaller.
    pub(crate) range: u64,
    /// Blocks of the warm-up, which do not count.
    pub(crate) warm_up: u64,
    /// Blocks that count.
    pub(crate) blocks: u64,
    pub(crate) seed: u64,
}

impl RandomWrites {
    /// Writes everything; returns the figures.
    pub(crate) async fn run(
        self,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
    ) -> Result<Figures, WorkloadError> {
        let largest = self.mix.largest();
        let range = self.range.min(device.info().blocks);
        if range < largest.into() {
            return Err(WorkloadError::Impossible("the range is smaller than a request"));
        }
        let (mut random, mut left) = (Random::new(self.seed), self.warm_up + self.blocks);
        let next = || -> Result<_, WorkloadError> {
            if left == 0 {
                return Ok(None);
            }
            let blocks = self.mix.draw(&mut random);
            left = left.saturating_sub(blocks.into());
            let places = range / u64::from(blocks);
            Ok(Some(write_of(Lba(random.below(places) * u64::from(blocks)), blocks)))
        };
        let driver = Driver { queue_depth: self.queue_depth, largest, warm_up: self.warm_up };
        Ok(figures(&driver.drive(handle, &device, next).await?))
    }
}
