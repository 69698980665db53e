//! Requests drawn from published statistics of cloud volumes.
//!
//! Of the write requests of cloud block storage 60 % have at most 4 KiB and 25 % have at least 16
//! KiB (J. Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale
//! Production", as cited by the ZapRAID paper). The statistics leave other sizes open, so they are
//! chosen here. Small requests have 4 KiB, and those between have 8 or 12 KiB. Half of the large
//! ones have 16 KiB, half of the rest 32 KiB, and so on up to 256 KiB, 48 KiB on average.
//!
//! Places follow Zipf's law with an exponent of 1, which integers alone can draw, identically on
//! every machine.

use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::BLOCK_BYTES;

use super::TraceRequest;
use crate::workload::Direction;

/// Maximum blocks of a request.
pub const MIXTURE_BLOCKS_MAX: u32 = 64;

/// Spreads ranks over places: a prime above their number.
const SPREAD: u64 = 4_294_967_311;

/// A place by Zipf's law: the probability of rank *r* is proportional to 1 / *r*.
///
/// # Panics
///
/// If there is no place, or 2^31 of them.
pub(crate) fn zipf(places: u64, random: &mut Random) -> u64 {
    assert!((1..1 << 31).contains(&places), "ranks times the prime fit 64 bits");
    // All doublings of the rank are equally likely; the last one is cut short.
    let doublings = u64::from(places.ilog2()) + 1;
    loop {
        let first = 1 << random.below(doublings);
        let rank = first + random.below(first) - 1;
        if rank < places {
            break rank * SPREAD % places;
        }
    }
}

/// The distribution of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// Writes, of 10,000 requests.
    pub writes: u64,
    /// Requests of 4 KiB, of 10,000.
    pub small: u64,
    /// Requests of 16 KiB or more, of 10,000.
    pub large: u64,
    /// Blocks of the device.
    pub blocks: u64,
    /// Mean requests per second.
    pub rate: u64,
    /// Seed of the choices.
    pub seed: u64,
}

impl Mixture {
    /// The published mix of write-dominated cloud volumes: 60 % small, 25 % large, 90 % writes.
    #[must_use]
    pub const fn cloud(blocks: u64, seed: u64) -> Self {
        Self { writes: 9000, small: 6000, large: 2500, blocks, rate: 10_000, seed }
    }

    /// An endless sequence of requests.
    ///
    /// # Panics
    ///
    /// If parts exceed the whole, the device is smaller than a request, or the rate is zero.
    pub fn requests(self) -> impl Iterator<Item = TraceRequest> {
        assert!(self.small + self.large <= 10_000, "parts of a whole");
        assert!(self.blocks >= MIXTURE_BLOCKS_MAX.into(), "a request fits the device");
        assert!(self.rate > 0, "requests come at some rate");
        let (mut random, mut now) = (Random::new(self.seed), Nanos::ZERO);
        std::iter::repeat_with(move || {
            let at = now;
            now += Nanos(random.below(2 * 1_000_000_000 / self.rate + 1));
            let writes = random.below(10_000) < self.writes;
            let bytes = self.request_blocks(&mut random) * BLOCK_BYTES as u64;
            let offset_bytes = zipf(self.blocks, &mut random) * BLOCK_BYTES as u64;
            let direction = if writes { Direction::Write } else { Direction::Read };
            TraceRequest { at, device: 0, direction, offset_bytes, bytes }
        })
    }

    fn request_blocks(&self, random: &mut Random) -> u64 {
        let kind = random.below(10_000);
        if kind < self.small {
            1
        } else if kind < 10_000 - self.large {
            2 + random.below(2)
        } else {
            // One doubling for each leading one bit, four at most.
            4 << random.below(16).trailing_ones()
        }
    }
}
