//! A volume that is written over and over: everywhere alike, some places more often, or in order.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::experiments::zapraid::load::{figures, write_of};
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

/// Spreads ranks over the volume: a prime above the number of places of any volume here.
const SPREAD: u64 = 4_294_967_311;

impl Places {
    /// A place of so many, for the request of that number.
    fn draw(self, number: u64, places: u64, random: &mut Random) -> u64 {
        match self {
            Self::Random => random.below(places),
            Self::Sequential => number % places,
            Self::Skewed => loop {
                // Each doubling of the rank is as likely as any other; the last one is cut short.
                let doublings = u64::from(places.ilog2()) + 1;
                let first = 1 << random.below(doublings);
                let rank = first + random.below(first) - 1;
                if rank < places {
                    break rank * SPREAD % places;
                }
            },
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
        let driver = Driver { queue_depth: self.queue_depth, largest: self.request };
        Ok(figures(&driver.drive(handle, &device, next).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_places_of_skewed_ones_are_the_most_frequent() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 1000];
        for number in 0..100_000 {
            let place = Places::Skewed.draw(number, 1000, &mut random);
            counts[usize::try_from(place).unwrap()] += 1;
        }
        let of_rank = |rank: u64| counts[usize::try_from(rank * SPREAD % 1000).unwrap()];
        // 1 + 1/2 + ... + 1/1000 is 7.5.
        assert!((9_000..12_000).contains(&of_rank(0)), "{}", of_rank(0));
        assert!(of_rank(0) > of_rank(1) && of_rank(1) > of_rank(7) && of_rank(7) > of_rank(500));
        assert!(counts.iter().all(|count| *count > 0));
    }
}
