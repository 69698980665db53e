//! The load: writers that fill ranges front to back, writers in a shuffled order, random readers.
//!
//! Each writer is one task. It sends requests as long as fewer than its queue depth are in flight
//! and its rate allows. Completions are counted in bins of a fixed length.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Handle, JoinHandle, Nanos, Random, Semaphore};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use crate::experiments::target::{Reply, Target};
use crate::workload::{Figures, Recorder, WorkloadError};

/// The counters of a load, and its limits.
pub(super) struct Load {
    handle: Handle,
    target: Target,
    bin: Nanos,
    begun: Nanos,
    stopped: Cell<bool>,
    error: RefCell<Option<WorkloadError>>,
    written: RefCell<Recorder>,
    read: RefCell<Recorder>,
    write_bins: RefCell<Vec<u64>>,
    read_bins: RefCell<Vec<u64>>,
    ranges: RefCell<Ranges>,
    written_bytes: Cell<u64>,
    write_limit_bytes: Cell<u64>,
}

/// How writers write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writers {
    /// Number of writers, each in a place of its own.
    pub(super) count: u32,
    /// Size of a request.
    pub(super) request: BlockCount,
    /// Requests in flight of each.
    pub(super) queue_depth: u64,
    /// Rate of all of them together, in bytes per second.
    pub(super) rate: Option<u64>,
}

/// Ranges without a writer.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// Written completely, or not at all.
    pub(super) idle: Vec<u64>,
    /// Partially written: they are written first, and never read.
    pub(super) partial: Vec<u64>,
}

/// The result of a load.
pub(super) struct Measured {
    pub(super) read: Figures,
    pub(super) write_bins: Vec<u64>,
    pub(super) read_bins: Vec<u64>,
    pub(super) ranges: Ranges,
}

impl Load {
    /// A load on a drive that may write the given ranges.
    pub(super) fn new(handle: &Handle, target: Target, ranges: Ranges, bin: Nanos) -> Rc<Self> {
        Rc::new(Self {
            handle: handle.clone(),
            target,
            bin,
            begun: handle.now(),
            stopped: Cell::new(false),
            error: RefCell::default(),
            written: RefCell::default(),
            read: RefCell::default(),
            write_bins: RefCell::default(),
            read_bins: RefCell::default(),
            ranges: RefCell::new(ranges),
            written_bytes: Cell::new(0),
            write_limit_bytes: Cell::new(u64::MAX),
        })
    }

    /// Ends the load after so many bytes.
    pub(super) fn limit_written(&self, bytes: u64) {
        self.write_limit_bytes.set(bytes);
    }

    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Writers that take a range, clear it, fill it, and continue with another one at random.
    pub(super) fn fill_ranges(self: &Rc<Self>, writers: Writers, seed: u64) -> Vec<JoinHandle<()>> {
        let mut random = Random::new(seed);
        let writer = |_| {
            let (load, random) = (self.clone(), random.fork());
            self.handle.spawn("range writer", async move {
                let outcome = load.clone().fill_until_stopped(writers, random).await;
                load.end(outcome);
            })
        };
        (0..writers.count).map(writer).collect()
    }

    async fn fill_until_stopped(
        self: Rc<Self>,
        writers: Writers,
        mut random: Random,
    ) -> Result<(), WorkloadError> {
        let mut sender = Sender::new(self.clone(), writers);
        while !self.stopped.get() {
            let Some(range) = self.take_range(&mut random) else { break };
            self.target.clear(range).done().await?;
            let mut offset = 0;
            while offset < self.target.range_blocks() && !self.stopped.get() {
                let left = self.target.range_blocks() - offset;
                let blocks = u64::from(writers.request.0).min(left);
                assert!(blocks > 0, "a writer makes progress");
                sender.turn().await;
                let data = sender.source.slice(..BLOCK_BYTES * index(blocks));
                sender.send(self.target.write(range, offset, data), blocks);
                offset += blocks;
            }
            // Only a completely written range is read or taken again.
            sender.drain().await;
            let mut ranges = self.ranges.borrow_mut();
            match offset == self.target.range_blocks() {
                true => ranges.idle.push(range),
                false => ranges.partial.push(range),
            }
        }
        Ok(())
    }

    fn take_range(&self, random: &mut Random) -> Option<u64> {
        let mut ranges = self.ranges.borrow_mut();
        if let Some(range) = ranges.partial.pop() {
            return Some(range);
        }
        let idle = ranges.idle.len() as u64;
        (idle > 0).then(|| ranges.idle.swap_remove(index(random.below(idle))))
    }

    /// Writers that each overwrite a part of the drive in shuffled orders.
    pub(super) fn shuffle(
        self: &Rc<Self>,
        writers: Writers,
        places: u64,
        place: BlockCount,
        seed: u64,
    ) -> Vec<JoinHandle<()>> {
        let mut random = Random::new(seed);
        let share = places / u64::from(writers.count);
        let writer = |number: u32| {
            let (load, random) = (self.clone(), random.fork());
            let first = u64::from(number) * share;
            let order: Vec<u64> = (first..first + share).collect();
            self.handle.spawn("shuffled writer", async move {
                load.shuffle_until_stopped(writers, order, place, random).await;
            })
        };
        (0..writers.count).map(writer).collect()
    }

    async fn shuffle_until_stopped(
        self: Rc<Self>,
        writers: Writers,
        mut order: Vec<u64>,
        place: BlockCount,
        mut random: Random,
    ) {
        let mut sender = Sender::new(self.clone(), writers);
        let (place, request) = (u64::from(place.0), u64::from(writers.request.0));
        while !self.stopped.get() {
            shuffle(&mut order, &mut random);
            for at in order.iter().map(|number| number * place) {
                for part in 0..place / request {
                    sender.turn().await;
                    if self.stopped.get() {
                        return;
                    }
                    // The whole drive is one range to the place of a block.
                    let data = sender.source.clone();
                    let block = at + part * request;
                    let (range, offset) =
                        (block / self.target.range_blocks(), block % self.target.range_blocks());
                    sender.send(self.target.write(range, offset, data), request);
                }
            }
        }
    }

    /// Reads random blocks of ranges without a writer.
    pub(super) fn read_at_random(
        self: &Rc<Self>,
        queue_depth: u32,
        seed: u64,
    ) -> Vec<JoinHandle<()>> {
        let mut random = Random::new(seed);
        let reader = |_| {
            let (load, mut random) = (self.clone(), random.fork());
            self.handle.spawn("reader", async move {
                while !load.stopped.get() {
                    let outcome = load.read_one(&mut random).await;
                    if outcome.is_err() {
                        load.end(outcome);
                    }
                }
            })
        };
        (0..queue_depth).map(reader).collect()
    }

    async fn read_one(&self, random: &mut Random) -> Result<(), WorkloadError> {
        let range = {
            let idle = &self.ranges.borrow().idle;
            assert!(!idle.is_empty(), "readers need a range without a writer");
            idle[index(random.below(idle.len() as u64))]
        };
        let started = self.handle.now();
        self.target.read(range, random.below(self.target.range_blocks())).done().await?;
        self.count(&self.read, &self.read_bins, started, BLOCK_BYTES as u64);
        Ok(())
    }

    /// Waits for all requests in flight; returns the measurements.
    pub(super) async fn finish(
        self: Rc<Self>,
        tasks: Vec<JoinHandle<()>>,
    ) -> Result<Measured, WorkloadError> {
        let span = self.handle.now().since(self.begun);
        let read = self.read.borrow().figures(span);
        let (write_bins, read_bins) =
            (self.write_bins.borrow().clone(), self.read_bins.borrow().clone());
        self.stop();
        for task in tasks {
            task.await;
        }
        match self.error.borrow_mut().take() {
            Some(error) => Err(error),
            None => {
                let ranges = self.ranges.take();
                Ok(Measured { read, write_bins, read_bins, ranges })
            }
        }
    }

    /// Waits until a limit or an error stops the load.
    pub(super) async fn stopped(&self, look: Nanos) {
        while !self.stopped.get() {
            self.handle.sleep(look).await;
        }
    }

    fn end(&self, outcome: Result<(), WorkloadError>) {
        if let Err(error) = outcome {
            self.error.borrow_mut().get_or_insert(error);
        }
        self.stop();
    }

    fn count(&self, to: &RefCell<Recorder>, bins: &RefCell<Vec<u64>>, started: Nanos, bytes: u64) {
        let now = self.handle.now();
        to.borrow_mut().record(now.since(started), bytes);
        let bin = index(now.since(self.begun).0 / self.bin.0);
        let mut bins = bins.borrow_mut();
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += bytes;
    }

    fn count_written(&self, started: Nanos, bytes: u64) {
        self.count(&self.written, &self.write_bins, started, bytes);
        let written = self.written_bytes.get() + bytes;
        self.written_bytes.set(written);
        if written >= self.write_limit_bytes.get() {
            self.stop();
        }
    }
}

/// Keeps one writer within its queue depth and its rate.
struct Sender {
    load: Rc<Load>,
    slots: Semaphore,
    queue_depth: u64,
    source: Bytes,
    due: Nanos,
    /// Interval between two requests, if a rate is set.
    pause: Option<Nanos>,
}

impl Sender {
    fn new(load: Rc<Load>, writers: Writers) -> Self {
        let mut source = AlignedBuffer::zeroed(writers.request);
        source.as_mut().fill(0xA5);
        let bytes = writers.request.data_bytes() as u64 * u64::from(writers.count);
        let pause = writers.rate.map(|rate| Nanos(bytes * 1_000_000_000 / rate.max(1)));
        Self {
            due: load.handle.now(),
            load,
            slots: Semaphore::new(writers.queue_depth),
            queue_depth: writers.queue_depth,
            source: source.freeze(),
            pause,
        }
    }

    /// Waits until another request may be sent.
    async fn turn(&mut self) {
        if let Some(pause) = self.pause {
            self.load.handle.sleep_until(self.due).await;
            // Time lost to a slow drive is not made up for later.
            self.due = (self.due + pause).max(self.load.handle.now());
        }
        drop(self.slots.acquire().await);
    }

    fn send(&self, reply: Reply, blocks: u64) {
        let slot = self.slots.try_acquire().expect("a turn was waited for");
        let (load, started) = (self.load.clone(), self.load.handle.now());
        // Bounded by the slots.
        drop(self.load.handle.spawn("write", async move {
            match reply.done().await {
                Ok(()) => load.count_written(started, blocks * BLOCK_BYTES as u64),
                Err(error) => load.end(Err(error)),
            }
            drop(slot);
        }));
    }

    /// Waits for all requests in flight.
    async fn drain(&self) {
        drop(self.slots.acquire_many(self.queue_depth).await);
    }
}

fn shuffle(order: &mut [u64], random: &mut Random) {
    for last in (1..order.len()).rev() {
        order.swap(last, index(random.below(last as u64 + 1)));
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("usize is 64 bits wide")
}
