//! A driver of single requests to a block device, at a fixed queue depth.
//!
//! Each of `queue_depth` lanes draws a request, waits until it is due if it has a time, runs it,
//! and draws the next one. The latency of a request with a time starts at that time and includes
//! waiting for a lane. Otherwise a device that falls behind would look faster than it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, BlockDevice, Lba};

use super::{Recorder, WorkloadError};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The operation.
    pub direction: Direction,
    /// Its first block.
    pub lba: Lba,
    /// Number of blocks; at most those of the largest request.
    pub blocks: u32,
    /// Time of the request, from the start on; `None`: as soon as a lane is free.
    pub due: Option<Nanos>,
}

/// Latencies of the counted requests.
#[derive(Clone, Debug, Default)]
pub struct Driven {
    /// Reads.
    pub reads: Recorder,
    /// Writes.
    pub writes: Recorder,
    /// All requests.
    pub all: Recorder,
    /// From the start, or the end of the warm-up, to the end of the last request.
    pub span: Nanos,
}

/// The way requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Maximum requests in flight.
    pub queue_depth: u32,
    /// Blocks of the largest request.
    pub largest: u32,
    /// Blocks of the warm-up, which are not counted.
    pub warm_up: u64,
}

struct State<'a, N> {
    handle: &'a Handle,
    device: &'a Rc<dyn BlockDevice>,
    source: Bytes,
    next: RefCell<N>,
    begun: Nanos,
    /// Uncounted blocks that are left.
    uncounted: Cell<u64>,
    /// End of the last uncounted request.
    counted_from: Cell<Nanos>,
    last: Cell<Nanos>,
    driven: RefCell<Driven>,
}

impl Driver {
    /// Runs the requests of `next` until it returns none. Written data is a pattern.
    ///
    /// # Errors
    ///
    /// Errors of the device and of `next`.
    ///
    /// # Panics
    ///
    /// If a request is larger than `largest`.
    pub async fn drive<E: From<WorkloadError>>(
        self,
        handle: &Handle,
        device: &Rc<dyn BlockDevice>,
        next: impl FnMut() -> Result<Option<BlockRequest>, E>,
    ) -> Result<Driven, E> {
        if device.info().blocks < self.largest.into() {
            let problem = "the device is smaller than a request";
            return Err(WorkloadError::Impossible(problem).into());
        }
        let mut source = AlignedBuffer::zeroed(BlockCount(self.largest));
        source.as_mut().fill(0xA5);
        let begun = handle.now();
        let state = State {
            handle,
            device,
            source: source.freeze(),
            next: RefCell::new(next),
            begun,
            uncounted: Cell::new(self.warm_up),
            counted_from: Cell::new(begun),
            last: Cell::new(begun),
            driven: RefCell::default(),
        };
        try_join_all((0..self.queue_depth).map(|_| state.lane())).await?;
        let span = state.last.get().since(state.counted_from.get());
        Ok(Driven { span, ..state.driven.into_inner() })
    }
}

impl<E: From<WorkloadError>, N: FnMut() -> Result<Option<BlockRequest>, E>> State<'_, N> {
    /// One request after the other.
    async fn lane(&self) -> Result<(), E> {
        while let Some(request) = self.draw()? {
            let mut started = self.handle.now();
            if let Some(due) = request.due {
                started = self.begun + due;
                self.handle.sleep_until(started).await;
            }
            self.carry_out(request).await?;
            let now = self.handle.now();
            self.last.set(now);
            self.record(request, now.since(started));
        }
        Ok(())
    }

    fn draw(&self) -> Result<Option<BlockRequest>, E> {
        (self.next.borrow_mut())()
    }

    async fn carry_out(&self, request: BlockRequest) -> Result<(), WorkloadError> {
        match request.direction {
            Direction::Read => drop(self.device.read(request.lba, request.blocks).await?),
            Direction::Write => {
                let data = self.source.slice(..BLOCK_BYTES * request.blocks as usize);
                self.device.write(request.lba, vec![data], false).await?;
            }
        }
        Ok(())
    }

    fn record(&self, request: BlockRequest, latency: Nanos) {
        let uncounted = self.uncounted.get();
        if uncounted > 0 {
            self.uncounted.set(uncounted.saturating_sub(request.blocks.into()));
            self.counted_from.set(self.last.get());
            return;
        }
        let mut driven = self.driven.borrow_mut();
        let bytes = u64::from(request.blocks) * BLOCK_BYTES as u64;
        driven.all.record(latency, bytes);
        match request.direction {
            Direction::Read => driven.reads.record(latency, bytes),
            Direction::Write => driven.writes.record(latency, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use zoneweave_runtime::{Executor, VirtualTime};
    use zoneweave_zoned::{BlockDeviceInfo, BlockFuture, Extent};

    use super::*;

    /// Takes 10 us for each request, and records its time.
    struct Slow {
        handle: Handle,
        came: RefCell<Vec<(Nanos, Lba)>>,
    }

    impl Slow {
        fn take<T: 'static>(&self, lba: Lba, answer: T) -> BlockFuture<T> {
            self.came.borrow_mut().push((self.handle.now(), lba));
            let handle = self.handle.clone();
            Box::pin(async move {
                handle.sleep(Nanos::from_micros(10)).await;
                Ok(answer)
            })
        }
    }

    impl BlockDevice for Slow {
        fn info(&self) -> BlockDeviceInfo {
            BlockDeviceInfo { blocks: 100, volatile_cache: false, read_only: false }
        }

        fn read(&self, lba: Lba, _blocks: u32) -> BlockFuture<Vec<Bytes>> {
            self.take(lba, Vec::new())
        }

        fn write(&self, lba: Lba, _data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
            self.take(lba, ())
        }

        fn write_zeroes(&self, lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
            self.take(lba, ())
        }

        fn trim(&self, lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
            self.take(lba, ())
        }

        fn flush(&self) -> BlockFuture<()> {
            self.take(Lba(0), ())
        }

        fn extents(&self, lba: Lba, _blocks: u64, _limit: usize) -> BlockFuture<Vec<Extent>> {
            self.take(lba, Vec::new())
        }
    }

    fn driven(
        queue_depth: u32,
        warm_up: u64,
        due_us: &[Option<u64>],
    ) -> (Driven, Vec<(Nanos, Lba)>) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let slow = Rc::new(Slow { handle: handle.clone(), came: RefCell::default() });
        let device: Rc<dyn BlockDevice> = slow.clone();
        let mut requests = due_us.iter().zip(0..);
        let next = || {
            let request = requests.next().map(|(due, number)| BlockRequest {
                direction: if number % 2 == 0 { Direction::Write } else { Direction::Read },
                lba: Lba(number),
                blocks: 1,
                due: due.map(Nanos::from_micros),
            });
            Ok::<_, WorkloadError>(request)
        };
        let driver = Driver { queue_depth, largest: 4, warm_up };
        let driven = executor.run(driver.drive(&handle, &device, next)).unwrap();
        let came = slow.came.take();
        (driven, came)
    }

    #[test]
    fn so_many_are_in_flight() {
        let (driven, came) = driven(2, 0, &[None; 6]);
        assert_eq!(driven.span, Nanos::from_micros(30));
        assert_eq!((driven.reads.operations(), driven.writes.operations()), (3, 3));
        assert_eq!(driven.all.operations(), 6);
        let order: Vec<u64> = came.iter().map(|(_, lba)| lba.0).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_done_first_does_not_count() {
        let (driven, came) = driven(2, 3, &[None; 8]);
        assert_eq!((came.len(), driven.all.operations()), (8, 5));
        assert_eq!(driven.span, Nanos::from_micros(20));
    }

    #[test]
    fn requests_come_at_their_times_and_waiting_for_a_lane_counts() {
        let times = [Some(5), Some(100), Some(102), Some(104)];
        let (driven, came) = driven(2, 0, &times);
        let at: Vec<u64> = came.iter().map(|(at, _)| at.0 / 1000).collect();
        assert_eq!(at, [5, 100, 102, 110]);
        assert_eq!(driven.span, Nanos::from_micros(120));
        let longest = driven.all.figures(driven.span).max_us;
        assert!((longest - 16.0).abs() < 0.1, "{longest}");
    }
}
