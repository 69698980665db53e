//! Requests of several sizes at random places, so many in flight.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::workload::{BlockRequest, Direction, Driven, Driver, Figures, WorkloadError};

/// How large requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
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

/// A request that is sent as soon as it can be, and writes.
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
    /// Places are chosen from so many blocks, or the whole device if that is smaller.
    pub(crate) range: u64,
    /// Blocks that do not count, before all others.
    pub(crate) warm_up: u64,
    /// Blocks that count.
    pub(crate) blocks: u64,
    pub(crate) seed: u64,
}

impl RandomWrites {
    /// Writes all of it, and tells how long that took.
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
