//! A volume that is written over and over: everywhere alike, some places more often, or in order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{AlignedBuffer, BlockCount, BlockDevice, Lba};

use crate::workload::{Figures, Recorder, WorkloadError};

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

struct State {
    handle: Handle,
    device: Rc<dyn BlockDevice>,
    source: Bytes,
    random: RefCell<Random>,
    sent: Cell<u64>,
    last: Cell<Nanos>,
    recorder: RefCell<Recorder>,
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
        let mut source = AlignedBuffer::zeroed(BlockCount(self.request));
        source.as_mut().fill(0xA5);
        let state = State {
            handle: handle.clone(),
            device,
            source: source.freeze(),
            random: RefCell::new(Random::new(seed)),
            sent: Cell::new(0),
            last: Cell::new(handle.now()),
            recorder: RefCell::default(),
        };
        let begun = handle.now();
        let requests = blocks / u64::from(self.request);
        try_join_all((0..self.queue_depth).map(|_| state.lane(self, requests))).await?;
        let figures = state.recorder.borrow().figures(state.last.get().since(begun));
        Ok(figures)
    }
}

impl State {
    async fn lane(&self, load: Overwrites, requests: u64) -> Result<(), WorkloadError> {
        let places = self.device.info().blocks / u64::from(load.request);
        while self.sent.get() < requests {
            let number = self.sent.replace(self.sent.get() + 1);
            let place = load.places.draw(number, places, &mut self.random.borrow_mut());
            let started = self.handle.now();
            let lba = Lba(place * u64::from(load.request));
            self.device.write(lba, vec![self.source.clone()], false).await?;
            let now = self.handle.now();
            self.recorder.borrow_mut().record(now.since(started), self.source.len() as u64);
            self.last.set(now);
        }
        Ok(())
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
