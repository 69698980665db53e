//! A volume that is written over and over: everywhere alike, some places more often, or in order.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::experiments::zapraid::load::{figures, write_of};
use crate::replay::zipf;
use crate::workload::{Driver, Figures, WorkloadError};

/// Which places are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    Random,
    /// By Zipf's law: the place of rank *r* is written in proportion to 1 / *r*.
    Skewed,
    /// One after the other, again and again.
    Sequential,
}

impl Places {
    /// A place of so many, for the request of that number.
    fn draw(self, number: u64, places: u64, random: &mut Random) -> u64 {
        match self {
            Self::Random => random.below(places),
            Self::Sequential => number % places,
            Self::Skewed => zipf(places, random),
        }
    }
}

/// Requests that overwrite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwrites {
    pub(super) places: Places,
    /// Blocks of a request.
    pub(super) request: u32,
    pub(super) queue_depth: u32,
}

impl Overwrites {
    /// Writes so many blocks.
    pub(super) async fn run(
        self,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        blocks: u64,
        seed: u64,
    ) -> Result<Figures, WorkloadError> {
        let (mut random, mut sent) = (Random::new(seed), 0);
        let request = u64::from(self.request);
        let (requests, places) = (blocks / request, device.info().blocks / request);
        let next = || -> Result<_, WorkloadError> {
            if sent == requests {
                return Ok(None);
            }
            let place = self.places.draw(sent, places, &mut random);
            sent += 1;
            Ok(Some(write_of(Lba(place * request), self.request)))
        };
        let driver = Driver { queue_depth: self.queue_depth, largest: self.request, warm_up: 0 };
        Ok(figures(&driver.drive(handle, &device, next).await?))
    }
}
