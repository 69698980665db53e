//! Hedged reads: a read whose drive is held up is answered by the others.
//!
//! A drive is *held up* if it has owed a read for longer than the others usually take, if it has
//! lately been slower than they are, or if it resets a zone and is slower than they are whenever it
//! does. Reads then go *around* it: they are rebuilt instead. A read that is late all the same is
//! *hedged*: rebuilt, too, and the first answer counts.
//!
//! What is usual is told by running means and deviations, as RFC 6298 has them for the round trips
//! of TCP, one for each drive and size; of the drives' bounds the median counts, so that a slow
//! drive cannot excuse itself. All of it is integers, and decided at once.
//!
//! Invariants: every answer is verified like any other; the segment stays pinned, and the command
//! its buffers, until the slower answer is there too. Both kinds are limited to a share of all
//! reads, and so are the reads left behind. Where the others are held up as well nothing is gained,
//! and nothing is done. Now and then a read goes to a drive that is gone around, to see how it is.

use std::collections::BTreeMap;

use zoneweave_runtime::Nanos;

/// How many reads may go around drives that are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedging {
    /// Of a hundred reads, those that may be rebuilt because their drive is known to be held up.
    pub around_percent: u8,
    /// Of a hundred reads, those that may be rebuilt, too, because their drive is late.
    pub late_percent: u8,
    /// Reads of a size that it takes to say how long they usually take.
    pub samples: u32,
    /// No read is late before.
    pub least: Nanos,
}

impl Hedging {
    /// Every read waits for its drive.
    pub const OFF: Self =
        Self { around_percent: 0, late_percent: 0, samples: SAMPLES, least: Nanos(LEAST_NS) };

    /// As often as can be: for tests.
    pub const EAGER: Self =
        Self { around_percent: 100, late_percent: 100, samples: 1, least: Nanos(0) };
}

impl Default for Hedging {
    /// Late ones as the twentieth that "The Tail at Scale" (Dean and Barroso, 2013) proposes. Going
    /// around a drive costs what it would cost to have lost it, which the array must bear anyway;
    /// half of all reads may be of one drive of a mirror.
    fn default() -> Self {
        Self { around_percent: 50, late_percent: 5, ..Self::OFF }
    }
}

/// Sizes of reads that are told apart: 1, 2, 4, 8, 16 and up to 32 blocks.
pub(in crate::log) const SIZES: usize = 6;

/// Reads of a size after which an estimate counts.
const SAMPLES: u32 = 8;

/// No read is late before, in ns: what a read of flash takes at the least.
const LEAST_NS: u64 = 50_000;

/// A sample counts as so many times the mean at most: one stall says little about the next read.
const OUTLIER: u64 = 8;

/// Of so many reads that would go around a slow drive one goes to it.
pub(in crate::log) const PROBE: u32 = 16;

/// Reads that may be under way after they were answered by others.
pub(in crate::log) const LEFT_BEHIND: u32 = 64;

/// What a read costs, in hundredths of reads.
pub(in crate::log) const PRICE: u64 = 100;

/// The most that is saved up: a burst of 64.
const SAVED: u64 = 64 * PRICE;

/// How long reads of a size take.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Estimate {
    mean_ns: u64,
    deviation_ns: u64,
    samples: u32,
}

impl Estimate {
    pub(in crate::log) fn note(&mut self, latency: Nanos) {
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

    pub(in crate::log) fn mean(&self, hedging: &Hedging) -> Option<u64> {
        (self.samples >= hedging.samples).then_some(self.mean_ns)
    }

    /// What a read hardly ever takes.
    pub(in crate::log) fn bound(&self, hedging: &Hedging) -> Option<u64> {
        let mean = self.mean(hedging)?;
        Some((mean + 4 * self.deviation_ns).max(2 * mean).max(hedging.least.0))
    }
}

/// How a drive has lately answered reads.
#[derive(Debug, Default)]
pub(in crate::log) struct ReadPace {
    pub(in crate::log) usual: [Estimate; SIZES],
    /// While it resets zones.
    pub(in crate::log) resetting: [Estimate; SIZES],
    pub(in crate::log) resets: u32,
    /// Reads under way, by number, and when each is late.
    pub(in crate::log) under_way: BTreeMap<u64, Nanos>,
    /// Reads that went around it since one went to it.
    pub(in crate::log) spared: u32,
}

impl ReadPace {
    /// Whether the oldest read is late.
    pub(in crate::log) fn owes(&self, now: Nanos) -> bool {
        self.under_way.first_key_value().is_some_and(|(_, late)| *late <= now)
    }

    /// Whether any read is.
    pub(in crate::log) fn owes_any(&self, now: Nanos) -> bool {
        self.under_way.values().any(|late| *late <= now)
    }
}

/// What is left of the shares, in hundredths of reads.
#[derive(Debug)]
pub(in crate::log) struct Hedge {
    pub(in crate::log) hedging: Hedging,
    pub(in crate::log) next: u64,
    pub(in crate::log) around: u64,
    pub(in crate::log) late: u64,
    pub(in crate::log) left_behind: u32,
}

impl Hedge {
    /// Nothing is saved up yet.
    #[must_use]
    pub(in crate::log) fn new(hedging: Hedging) -> Self {
        Self { hedging, next: 0, around: 0, late: 0, left_behind: 0 }
    }

    pub(in crate::log) fn earn(&mut self) {
        let Hedging { around_percent, late_percent, .. } = self.hedging;
        self.around = SAVED.min(self.around + u64::from(around_percent));
        self.late = SAVED.min(self.late + u64::from(late_percent));
    }
}

pub(in crate::log) fn size_of(blocks: u32) -> usize {
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
    fn reads_are_told_apart_by_size() {
        let sizes = [1, 2, 3, 4, 5, 8, 16, 17, 32, 64].map(size_of);
        assert_eq!(sizes, [0, 1, 2, 2, 3, 3, 4, 5, 5, 5]);
    }
}
