//! Hedged reads: if a drive is slow, a read is answered by reconstruction from the others.
//!
//! A drive is *held up* if a read on it is overdue by the usual bound of the others, if its recent
//! latency exceeds theirs, or if it is resetting a zone and is slower than they are during resets.
//! Reads then go *around* it: they are reconstructed instead. A read that is late nevertheless is
//! *hedged*: it is also reconstructed, and the first answer counts.
//!
//! The usual latency is estimated by running means and deviations, as in RFC 6298 for round trips
//! of TCP, one for each drive and size. Of the drives' bounds the median counts, so that a slow
//! drive cannot raise its own bound. All arithmetic is in integers and synchronous.
//!
//! Invariants:
//! * Every answer is verified like any other.
//! * Until the slower answer arrives, the segment stays pinned and the command keeps its buffers.
//! * Reads around drives, hedged reads, and reads left behind are limited to a share of all reads.
//! * If the other drives are held up as well, nothing is gained and nothing is done.
//! * Now and then a read probes a drive that reads go around.

use std::collections::BTreeMap;

use zoneweave_runtime::Nanos;

/// Limits for reads around slow drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedging {
    /// Percentage of reads that may be reconstructed because their drive is known to be held up.
    pub around_percent: u8,
    /// Percentage of reads that may also be reconstructed because their drive is late.
    pub late_percent: u8,
    /// Reads of a size needed for an estimate of their latency.
    pub samples: u32,
    /// No read is late before this time.
    pub least: Nanos,
}

impl Hedging {
    /// Disables hedging: every read waits for its drive.
    pub const OFF: Self =
        Self { around_percent: 0, late_percent: 0, samples: SAMPLES, least: Nanos(LEAST_NS) };

    /// The highest rates: for tests.
    pub const EAGER: Self =
        Self { around_percent: 100, late_percent: 100, samples: 1, least: Nanos(0) };
}

impl Default for Hedging {
    /// The percentage of late reads is the twentieth of "The Tail at Scale" (Dean and Barroso,
    /// 2013). Going around a drive costs as much as its loss, which the array must bear anyway;
    /// half of all reads may be of one drive of a mirror.
    fn default() -> Self {
        Self { around_percent: 50, late_percent: 5, ..Self::OFF }
    }
}

/// Size classes of reads: 1, 2, 4, 8, 16 and up to 32 blocks.
pub(crate) const SIZES: usize = 6;

/// Reads of a size after which an estimate counts.
const SAMPLES: u32 = 8;

/// No read is late before this, in ns: the least latency of a flash read.
const LEAST_NS: u64 = 50_000;

/// A sample counts at most as this multiple of the mean: one stall says little about the next read.
const OUTLIER: u64 = 8;

/// One in so many reads that would go around a slow drive goes to it.
pub(crate) const PROBE: u32 = 16;

/// Reads that may be in flight after others have answered them.
pub(crate) const LEFT_BEHIND: u32 = 64;

/// Cost of a read, in hundredths of reads.
pub(crate) const PRICE: u64 = 100;

/// Largest saved budget: a burst of 64.
const SAVED: u64 = 64 * PRICE;

/// Latency estimate for reads of one size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    mean_ns: u64,
    deviation_ns: u64,
    samples: u32,
}

impl Estimate {
    pub(crate) fn note(&mut self, latency: Nanos) {
        let ns = match self.samples {
            0 => latency.0,
            _ => latency.0.min(OUTLIER * self.mean_ns.max(LEAST_NS)),
        };
        if self.samples == 0 {
            (self.mean_ns, self.deviation_ns) = (ns, ns / 2);
        }
        let off = self.mean_ns.abs_diff(ns);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + off / 4;
        self.mean_ns = self.mean_ns - self.mean_ns / 8 + ns / 8;
        self.samples = self.samples.saturating_add(1);
    }

    pub(crate) fn mean(&self, hedging: &Hedging) -> Option<u64> {
        (self.samples >= hedging.samples).then_some(self.mean_ns)
    }

    /// A bound that reads hardly ever exceed.
    pub(crate) fn bound(&self, hedging: &Hedging) -> Option<u64> {
        let mean = self.mean(hedging)?;
        Some((mean + 4 * self.deviation_ns).max(2 * mean).max(hedging.least.0))
    }
}

/// Recent read latencies of a drive.
#[derive(Debug, Default)]
pub(crate) struct ReadPace {
    pub(crate) usual: [Estimate; SIZES],
    /// Latencies while it resets zones.
    pub(crate) resetting: [Estimate; SIZES],
    pub(crate) resets: u32,
    /// Reads in flight by number, with the time at which each is late.
    pub(crate) under_way: BTreeMap<u64, Nanos>,
    /// Reads around the drive since the last read on it.
    pub(crate) spared: u32,
}

impl ReadPace {
    /// The usual latency of its smallest reads that have an estimate, in ns.
    pub(crate) fn usual_ns(&self, hedging: &Hedging) -> Option<u64> {
        self.usual.iter().find_map(|estimate| estimate.mean(hedging))
    }

    /// Whether the oldest read is late.
    pub(crate) fn owes(&self, now: Nanos) -> bool {
        self.under_way.first_key_value().is_some_and(|(_, late)| *late <= now)
    }

    /// Whether any read is late.
    pub(crate) fn owes_any(&self, now: Nanos) -> bool {
        self.under_way.values().any(|late| *late <= now)
    }
}

/// Remaining budgets, in hundredths of reads.
#[derive(Debug)]
pub(crate) struct Hedge {
    pub(crate) hedging: Hedging,
    pub(crate) next: u64,
    pub(crate) around: u64,
    pub(crate) late: u64,
    pub(crate) left_behind: u32,
}

impl Hedge {
    /// Starts with empty budgets.
    #[must_use]
    pub(crate) fn new(hedging: Hedging) -> Self {
        Self { hedging, next: 0, around: 0, late: 0, left_behind: 0 }
    }

    pub(crate) fn earn(&mut self) {
        let Hedging { around_percent, late_percent, .. } = self.hedging;
        self.around = SAVED.min(self.around + u64::from(around_percent));
        self.late = SAVED.min(self.late + u64::from(late_percent));
    }
}

pub(crate) fn size_of(blocks: u32) -> usize {
    let size = blocks.max(1).next_power_of_two().trailing_zeros() as usize;
    size.min(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_follows_what_reads_take_and_not_one_that_stalls() {
        let hedging = &Hedging::default();
        let mut estimate = Estimate::default();
        for at in 0..100 {
            assert_eq!(estimate.bound(hedging).is_some(), at >= SAMPLES);
            estimate.note(Nanos(70_000 + u64::from(at % 2) * 10_000));
        }
        let usual = estimate.bound(hedging).unwrap();
        assert!((80_000..200_000).contains(&usual), "{usual}");
        estimate.note(Nanos(70_000_000));
        assert!(estimate.mean(hedging).unwrap() < 2 * usual);
        for _ in 0..100 {
            estimate.note(Nanos(700_000));
        }
        assert!(estimate.mean(hedging).unwrap() > 600_000, "what lasts is believed");
    }

    #[test]
    fn the_usual_latency_is_that_of_the_smallest_reads_with_an_estimate() {
        let hedging = &Hedging::default();
        let mut pace = ReadPace::default();
        let mut reads = |size: usize, us, count| {
            (0..count).for_each(|_| pace.usual[size].note(Nanos::from_micros(us)));
            pace.usual_ns(hedging)
        };
        assert_eq!(reads(4, 900, SAMPLES), Some(900_000));
        assert_eq!(reads(1, 90, SAMPLES - 1), Some(900_000), "too few of them");
        assert_eq!(reads(1, 90, 1), Some(90_000));
    }

    #[test]
    fn reads_are_told_apart_by_size() {
        let sizes = [1, 2, 3, 4, 5, 8, 16, 17, 32, 64].map(size_of);
        assert_eq!(sizes, [0, 1, 2, 2, 3, 3, 4, 5, 5, 5]);
    }
}
