//! The load: threads that write ranges front to back, and the throughput and latencies by parts of
//! the array.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, zero_blocks};

use super::{PASS, TAIL};
use crate::experiments::target::Target;
use crate::experiments::{ExperimentError, Values};
use crate::workload::{Recorder, WorkloadError};

/// Passes over the array.
pub(super) const PASSES: usize = 2;

/// Parts of a pass with the same amount of data.
pub(super) const WINDOWS: usize = 50;

/// A whole stripe of 64 KiB units.
const REQUEST: BlockCount = BlockCount(64);

/// Requests in flight of a thread.
const QUEUE_DEPTH: usize = 64;

/// The array as ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Threads of the first pass.
    pub(super) threads: u32,
    /// Ranges of the array; a thread of the first pass has as many as any other.
    pub(super) ranges: u32,
    /// Whether ranges are reset before they are overwritten.
    pub(super) is_reset: bool,
}

/// The load, and the measurements of the present pass.
pub(super) struct Timeline {
    handle: Handle,
    target: Target,
    shape: Shape,
    source: Bytes,
    pass: RefCell<Pass>,
}

/// A pass.
struct Pass {
    begun: Nanos,
    bytes: u64,
    all: Recorder,
    /// Latencies of the present window.
    window: Recorder,
    /// Ends of the complete windows, with their tail latencies.
    windows: Vec<(Nanos, f64)>,
}

/// The name of a window's throughput.
pub(super) fn rate_name(pass: usize, window: usize) -> String {
    format!("pass {}, window {window}: throughput", pass + 1)
}

/// The name of a window's tail latency.
pub(super) fn tail_name(pass: usize, window: usize) -> String {
    format!("pass {}, window {window}: p99.9 latency", pass + 1)
}

impl Pass {
    fn new(begun: Nanos) -> Self {
        let (all, window) = (Recorder::new(), Recorder::new());
        Self { begun, bytes: 0, all, window, windows: Vec::new() }
    }
}

impl Timeline {
    /// A load on an array.
    pub(super) fn new(handle: &Handle, target: Target, shape: Shape) -> Self {
        assert_eq!(shape.ranges % shape.threads, 0, "threads have equal parts");
        let pass = RefCell::new(Pass::new(handle.now()));
        Self { handle: handle.clone(), target, shape, source: zero_blocks(REQUEST), pass }
    }

    /// Runs both passes.
    pub(super) async fn measure(&self, values: &mut Values) -> Result<(), ExperimentError> {
        let share = self.shape.ranges / self.shape.threads;
        let parts = (0..self.shape.threads).map(|thread| thread * share..(thread + 1) * share);
        let threads = parts.map(|ranges| self.write(ranges, false));
        try_join_all(threads).await?;
        self.put(0, values);
        self.pass.replace(Pass::new(self.handle.now()));
        self.write(0..self.shape.ranges, self.shape.is_reset).await?;
        self.put(1, values);
        Ok(())
    }

    /// A thread: writes ranges front to back.
    async fn write(&self, ranges: Range<u32>, is_reset: bool) -> Result<(), WorkloadError> {
        for range in ranges.map(u64::from) {
            if is_reset {
                self.target.clear(range).done().await?;
            }
            let next = Cell::new(0);
            try_join_all((0..QUEUE_DEPTH).map(|_| self.lane(range, &next))).await?;
        }
        Ok(())
    }

    async fn lane(&self, range: u64, next: &Cell<u64>) -> Result<(), WorkloadError> {
        while next.get() < self.target.range_blocks() {
            let offset = next.get();
            let blocks = u64::from(REQUEST.0).min(self.target.range_blocks() - offset);
            next.set(offset + blocks);
            let begun = self.handle.now();
            let count = BlockCount(u32::try_from(blocks).expect("a request is small"));
            let data = self.source.slice(..count.data_bytes());
            self.target.write(range, offset, data).done().await?;
            self.record(begun, count.data_bytes() as u64);
        }
        Ok(())
    }

    fn record(&self, begun: Nanos, bytes: u64) {
        let now = self.handle.now();
        let mut pass = self.pass.borrow_mut();
        pass.all.record(now.since(begun), bytes);
        pass.window.record(now.since(begun), bytes);
        pass.bytes += bytes;
        let window_bytes = self.window_bytes();
        while pass.windows.len() < WINDOWS
            && pass.bytes >= window_bytes * (pass.windows.len() as u64 + 1)
        {
            let window = std::mem::take(&mut pass.window);
            pass.windows.push((now, window.figures(Nanos::ZERO).p999_us));
        }
    }

    /// Bytes of a window.
    fn window_bytes(&self) -> u64 {
        let blocks = u64::from(self.shape.ranges) * self.target.range_blocks();
        blocks * BLOCK_BYTES as u64 / WINDOWS as u64
    }

    /// Stores the measurements of a pass.
    #[expect(clippy::cast_precision_loss, reason = "some GiB")]
    fn put(&self, number: usize, values: &mut Values) {
        let pass = self.pass.borrow();
        assert_eq!(pass.windows.len(), WINDOWS, "the whole array was written");
        let all = pass.all.figures(self.handle.now().since(pass.begun));
        values.put(PASS[number].name, all.mib_per_second);
        values.put(TAIL[number].name, all.p999_us);
        let mib = self.window_bytes() as f64 / f64::from(1 << 20);
        let mut begun = pass.begun;
        for (at, (end, tail)) in pass.windows.iter().enumerate() {
            let seconds = end.since(begun).as_secs_f64().max(1e-9);
            values.put(&rate_name(number, at), mib / seconds);
            values.put(&tail_name(number, at), *tail);
            begun = *end;
        }
    }
}
