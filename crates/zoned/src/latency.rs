//! How long operations take, counted by operation and by time.
//!
//! A histogram is an array of counters: to count an operation costs a few additions, and no
//! memory. Bounds are powers of two from 8.192 us to 8.6 s. A percentile is exact to the bucket,
//! and between its bounds as `histogram_quantile` of Prometheus has it.
//!
//! Times are read where the engine reads them anyway, by [`Handle::recent`]: at the last turn of
//! the reactor. With virtual time they are exact.

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos};

use crate::{Command, ZoneAction};

/// The lowest bound is two to the power of this, in ns: a request in memory takes less.
const LEAST_POWER: u32 = 13;

/// Bounds: the highest is 2^33 ns.
const BOUNDS: usize = 21;

/// An operation whose time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A read.
    Read,
    /// A write, of a drive at the write pointer.
    Write,
    /// A zone append.
    Append,
    /// A trim of a block device.
    Trim,
    /// A range of a block device made zero.
    WriteZeroes,
    /// A flush.
    Flush,
    /// The reset of one zone.
    Reset,
    /// The finish of one zone.
    Finish,
}

impl Operation {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Append,
        Self::Trim,
        Self::WriteZeroes,
        Self::Flush,
        Self::Reset,
        Self::Finish,
    ];

    /// The operation of a command to a drive; `None` if its time is not counted.
    #[must_use]
    pub const fn of(command: &Command) -> Option<Self> {
        Some(match command {
            Command::Read { .. } => Self::Read,
            Command::Write { .. } => Self::Write,
            Command::Append { .. } => Self::Append,
            Command::Flush => Self::Flush,
            Command::Manage { action: ZoneAction::Reset, .. } => Self::Reset,
            Command::Manage { action: ZoneAction::Finish, .. } => Self::Finish,
            _ => return None,
        })
    }

    /// Its name in metrics and in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
            Self::Flush => "flush",
            Self::Reset => "reset",
            Self::Finish => "finish",
        }
    }
}

/// Times counted by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Times up to each bound and above the one before; the last counts times above all bounds.
    buckets: [u64; Self::BUCKETS],
    sum: Nanos,
}

impl Histogram {
    /// Number of buckets. The last one has no bound.
    pub const BUCKETS: usize = BOUNDS + 1;

    /// The upper bound of a bucket; `None` for the last one.
    #[must_use]
    pub const fn bound(bucket: usize) -> Option<Nanos> {
        if bucket < BOUNDS { Some(Nanos(1 << (LEAST_POWER as usize + bucket))) } else { None }
    }

    /// A histogram of these buckets; further ones are empty. Buckets beyond the last are left out.
    #[must_use]
    pub fn from_parts(buckets: &[u64], sum: Nanos) -> Self {
        let mut known = Self { sum, ..Self::default() };
        known.buckets.iter_mut().zip(buckets).for_each(|(known, count)| *known = *count);
        known
    }

    /// Counts a time.
    pub fn note(&mut self, time: Nanos) {
        let bucket = bucket_of(time);
        let fits = Self::bound(bucket).is_none_or(|bound| time <= bound);
        assert!(fits, "{time} is above the bound of bucket {bucket}");
        self.buckets[bucket] += 1;
        self.sum += time;
    }

    /// The buckets, from the lowest.
    #[must_use]
    pub const fn buckets(&self) -> &[u64; Self::BUCKETS] {
        &self.buckets
    }

    /// Number of times counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All times added.
    #[must_use]
    pub const fn sum(&self) -> Nanos {
        self.sum
    }

    /// The times counted since an earlier look at the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut left = *self;
        for (count, before) in left.buckets.iter_mut().zip(earlier.buckets) {
            *count = count.saturating_sub(before);
        }
        left.sum = self.sum.since(earlier.sum);
        left
    }

    /// The time that so many percent do not exceed, if there are any. Times above all bounds count
    /// as the highest bound.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<Nanos> {
        assert!(percent <= 100, "{percent} % of all");
        let wanted = u128::from(self.count()) * u128::from(percent);
        let (mut below, mut least) = (0, Nanos::ZERO);
        for (bucket, count) in self.buckets.iter().enumerate() {
            let Some(bound) = Self::bound(bucket) else { break };
            let count = u128::from(*count) * 100;
            if count > 0 && below + count >= wanted {
                let part = u128::from((bound - least).0) * (wanted - below) / count;
                return Some(least + Nanos(u64::try_from(part).unwrap_or(u64::MAX)));
            }
            (below, least) = (below + count, bound);
        }
        (self.count() > 0).then_some(least)
    }
}

/// The bucket of a time: the first whose bound it does not exceed.
const fn bucket_of(time: Nanos) -> usize {
    let powers = u64::BITS - time.0.saturating_sub(1).leading_zeros();
    let bucket = powers.saturating_sub(LEAST_POWER) as usize;
    if bucket < BOUNDS { bucket } else { BOUNDS }
}

/// The times of all operations of a device that succeeded.
pub struct Latencies {
    handle: Handle,
    counted: RefCell<[Histogram; Operation::ALL.len()]>,
}

impl Latencies {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(handle: &Handle) -> Self {
        Self { handle: handle.clone(), counted: RefCell::default() }
    }

    /// Counts an operation that began then, and has just succeeded.
    pub fn note(&self, operation: Operation, begun: Nanos) {
        let time = self.handle.recent().since(begun);
        self.counted.borrow_mut()[operation as usize].note(time);
    }

    /// The operations that were counted, with their times.
    #[must_use]
    pub fn counted(&self) -> Vec<(Operation, Histogram)> {
        let all = Operation::ALL.into_iter().zip(*self.counted.borrow());
        all.filter(|(_, times)| times.count() > 0).collect()
    }
}

/// An operation under way.
pub struct Timed {
    latencies: Rc<Latencies>,
    operation: Operation,
    begun: Nanos,
}

impl Timed {
    /// An operation that began then.
    #[must_use]
    pub fn new(latencies: &Rc<Latencies>, operation: Operation, begun: Nanos) -> Self {
        Self { latencies: latencies.clone(), operation, begun }
    }

    /// It has succeeded.
    pub fn succeeded(self) {
        self.latencies.note(self.operation, self.begun);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zoneweave_runtime::{Executor, VirtualTime};

    use super::*;

    #[test]
    fn bounds_are_powers_of_two_from_8_us_to_8_s() {
        assert_eq!(Histogram::bound(0), Some(Nanos(8_192)));
        assert_eq!(Histogram::bound(20), Some(Nanos(8_589_934_592)));
        assert_eq!(Histogram::bound(21), None);
        let buckets = [0, 1, 8_192, 8_193, 16_384, 16_385, 8_589_934_592, 8_589_934_593, u64::MAX];
        assert_eq!(buckets.map(|ns| bucket_of(Nanos(ns))), [0, 0, 0, 1, 1, 2, 20, 21, 21]);
    }

    #[test]
    fn percentiles_are_between_the_bounds_of_their_bucket() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile(50), None);
        (0..98).for_each(|_| times.note(Nanos::from_micros(100)));
        times.note(Nanos::from_millis(3));
        times.note(Nanos::from_secs(100));
        let (usual, rare) = (times.percentile(50).unwrap(), times.percentile(99).unwrap());
        assert!((65_536..=131_072).contains(&usual.0), "{usual}");
        assert!((2_097_152..=4_194_304).contains(&rare.0), "{rare}");
        assert_eq!(times.percentile(100), Histogram::bound(20), "nothing is known beyond");
        assert_eq!(times.count(), 100);
        assert_eq!(times.sum(), Nanos(98 * 100_000 + 3_000_000 + 100_000_000_000));
    }

    proptest! {
        #[test]
        fn percentiles_grow_and_differences_are_what_was_added(
            first in prop::collection::vec(0..1_u64 << 36, 0..50),
            second in prop::collection::vec(0..1_u64 << 36, 1..50),
        ) {
            let mut times = Histogram::default();
            first.iter().for_each(|ns| times.note(Nanos(*ns)));
            let before = times;
            let mut added = Histogram::default();
            for ns in &second {
                times.note(Nanos(*ns));
                added.note(Nanos(*ns));
            }
            prop_assert_eq!(times.since(&before), added);
            prop_assert_eq!(Histogram::from_parts(times.buckets(), times.sum()), times);
            let all: Vec<_> = (0..=100).map(|percent| times.percentile(percent).unwrap()).collect();
            prop_assert!(all.is_sorted(), "{all:?}");
        }
    }

    /// The number of an operation is its place in the array.
    #[test]
    fn every_operation_is_counted_by_itself() {
        let handle = Executor::new(Rc::new(VirtualTime::new())).handle();
        let latencies = Latencies::new(&handle);
        for (at, operation) in (1..).zip(Operation::ALL) {
            (0..at).for_each(|_| latencies.note(operation, Nanos::ZERO));
        }
        let counts = latencies.counted().into_iter().map(|(one, times)| (one, times.count()));
        let expected: Vec<_> = Operation::ALL.into_iter().zip(1..).collect();
        assert_eq!(counts.collect::<Vec<_>>(), expected);
    }
}
