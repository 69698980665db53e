//! Continuous overwrites of a volume: uniform, skewed, or sequential.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::experiments::zapraid::loads::random_writes::{figures, write_of};
use crate::experiments::zapraid::loads::zipf::Zipf;
use crate::workload::{Driver, Figures, WorkloadError};

/// The distribution of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    Random,
    /// By Zipf's law, with an exponent of 0.99.
    Skewed,
    /// In order, repeatedly.
    Sequential,
}

impl Places {
    /// An endless sequence of places.
    fn draws(self, places: u64, mut random: Random) -> Box<dyn FnMut() -> u64> {
        match self {
            Self::Random => Box::new(move || random.below(places)),
            Self::Skewed => {
                let zipf = Zipf::new(places, 99);
                Box::new(move || zipf.draw(&mut random))
            }
            Self::Sequential => {
                let mut number = 0;
                Box::new(move || {
                    number += 1;
                    (number - 1) % places
                })
            }
        }
    }
}

/// Overwriting requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overwrites {
    pub(crate) places: Places,
    /// Blocks of a request.
    pub(crate) request: u32,
    pub(crate) queue_depth: u32,
}

impl Overwrites {
    /// Writes so many blocks.
    pub(crate) async fn run(
        self,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
        blocks: u64,
        seed: u64,
    ) -> Result<Figures, WorkloadError> {
        let request = u64::from(self.request);
        let (requests, places) = (blocks / request, device.info().blocks / request);
        let (mut draw, mut sent) = (self.places.draws(places, Random::new(seed)), 0);
        let next = || -> Result<_, WorkloadError> {
            if sent == requests {
                return Ok(None);
            }
            sent += 1;
            Ok(Some(write_of(Lba(draw() * request), self.request)))
        };
        let driver = Driver { queue_depth: self.queue_depth, largest: self.request, warm_up: 0 };
        Ok(figures(&driver.drive(handle, &device, next).await?))
    }
}
