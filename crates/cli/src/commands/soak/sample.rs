//! Samples of the memory of the process, and the verdict on them.
//!
//! Resident memory is the figure of the kernel, including the program and the caches of the
//! allocator.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use zoneweave_raid::log::{Counters, SegmentPhase, Volume};
use zoneweave_runtime::Nanos;

use super::outcome::Outcome;
use crate::error::CliError;
use crate::format;

/// Maximum rise of a linear fit of the second half of a run. The allocator returns some MiB of
/// pages late and takes them again; a larger rise is a leak.
pub(super) const GROWTH_BYTES: u64 = 4 << 20;

/// The shortest run whose growth is judged: caches of the allocator and the engine fill before
/// that.
pub(super) const JUDGED_SECONDS: f64 = 600.0;

/// Maximum number of samples kept: one a second for a day would itself exceed the allowed growth.
const KEPT_MOST: usize = 4096;

/// Above [`Sample::line`].
pub(super) const HEADINGS: &str = "    TIME    REQUESTS    REQ/S  WRITTEN/S     READ/S     BESIDE     ENGINE    AT MOST  OPEN  FREE  AMPLIFICATION";

/// One sample; rates are since the previous one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    pub(super) written_bytes_per_second: f64,
    pub(super) read_bytes_per_second: f64,
    /// Of the process, including drives.
    pub(super) resident_bytes: u64,
    /// Of the process, without drives.
    pub(super) beside_drives_bytes: u64,
    /// Of the engine, by its own count.
    pub(super) engine_bytes: u64,
    /// Maximum of the engine, by its formula.
    pub(super) engine_at_most_bytes: u64,
    pub(super) segments_open: usize,
    pub(super) segments_free: u32,
    pub(super) mapped_bytes: u64,
    /// Data blocks written per block of user writes.
    pub(super) amplification: f64,
}

/// Takes samples.
pub(super) struct Sampler {
    drives_bytes: u64,
    time: Nanos,
    outcome: Outcome,
    counters: Counters,
}

impl Sampler {
    /// A sampler for a process whose drives hold `drives_bytes`.
    pub(super) fn new(volume: &Volume, drives_bytes: u64) -> Self {
        let counters = volume.status().counters;
        Self { drives_bytes, time: Nanos::ZERO, outcome: Outcome::default(), counters }
    }

    pub(super) fn take(
        &mut self,
        volume: &Volume,
        time: Nanos,
        outcome: &Outcome,
    ) -> Result<Sample, CliError> {
        let status = volume.status();
        let seconds = time.since(self.time).as_secs_f64().max(1e-9);
        let rate = |now: u64, before: u64| ratio(now - before) / seconds;
        let (counters, before) = (&status.counters, &self.counters);
        let users = counters.user_blocks_written - before.user_blocks_written;
        let open =
            volume.segments().iter().filter(|segment| segment.phase == SegmentPhase::Open).count();
        let resident_bytes = resident_bytes()?;
        let sample = Sample {
            seconds: time.as_secs_f64(),
            requests: outcome.requests(),
            requests_per_second: rate(outcome.requests(), self.outcome.requests()),
            written_bytes_per_second: rate(outcome.written_bytes, self.outcome.written_bytes),
            read_bytes_per_second: rate(outcome.read_bytes, self.outcome.read_bytes),
            resident_bytes,
            beside_drives_bytes: resident_bytes.saturating_sub(self.drives_bytes),
            engine_bytes: status.memory.total_bytes,
            engine_at_most_bytes: status.memory_at_most.total_bytes,
            segments_open: open,
            segments_free: status.segments_free,
            mapped_bytes: status.mapped_bytes,
            amplification: ratio(written(counters) - written(before)) / ratio(users.max(1)),
        };
        *self = Self { time, outcome: *outcome, counters: status.counters, ..*self };
        Ok(sample)
    }
}

/// All data blocks written: user data, padding, relocations and checkpoints.
fn written(counters: &Counters) -> u64 {
    let users = counters.user_blocks_written + counters.padding_blocks;
    users + counters.relocated_blocks + counters.checkpoint_blocks
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(count: u64) -> f64 {
    count as f64
}

impl Sample {
    pub(super) fn line(&self) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people"
        )]
        let rate = |bytes: f64| format::bytes(bytes as u64);
        format!(
            "{:>7.0}s {:>11} {:>8.0} {:>10} {:>10} {:>10} {:>10} {:>10} {:>5} {:>5}  {:.2}",
            self.seconds,
            self.requests,
            self.requests_per_second,
            rate(self.written_bytes_per_second),
            rate(self.read_bytes_per_second),
            format::bytes(self.beside_drives_bytes),
            format::bytes(self.engine_bytes),
            format::bytes(self.engine_at_most_bytes),
            self.segments_open,
            self.segments_free,
            self.amplification,
        )
    }
}

/// Whether the memory limits held.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Verdict {
    /// Drives, the index's formula and 256 MiB.
    pub(super) allowed_bytes: u64,
    /// Peak of the process.
    pub(super) resident_peak_bytes: u64,
    pub(super) second_half_seconds: f64,
    /// Rise of the least-squares line through the second half of the samples.
    pub(super) growth_bytes: i64,
    growth_allowed_bytes: u64,
    growth_is_judged: bool,
    holds: bool,
}

/// Samples at even distances, and the last one.
#[derive(Default)]
pub(super) struct Samples {
    kept: Vec<Sample>,
    seen: u64,
    /// One of 2^`thinned` samples is kept.
    thinned: u32,
}

impl Samples {
    /// Adds a sample. If there are too many, every other one is dropped, now and from then on.
    pub(super) fn add(&mut self, sample: Sample) {
        let before = self.seen.checked_sub(1);
        if before.is_some_and(|before| !before.is_multiple_of(1 << self.thinned)) {
            self.kept.pop();
        }
        self.kept.push(sample);
        self.seen += 1;
        if self.kept.len() > KEPT_MOST {
            let mut goes = true;
            self.kept.retain(|_| {
                goes = !goes;
                !goes
            });
            self.thinned += 1;
        }
    }

    /// The kept samples.
    pub(super) fn kept(self) -> Vec<Sample> {
        self.kept
    }
}

impl Verdict {
    pub(super) fn of(samples: &[Sample], allowed_bytes: u64, resident_peak_bytes: u64) -> Self {
        let end = samples.last().map_or(0.0, |sample| sample.seconds);
        let half = samples.iter().filter(|sample| sample.seconds >= end / 2.0);
        let points: Vec<_> =
            half.map(|sample| (sample.seconds, ratio(sample.resident_bytes))).collect();
        let second_half_seconds = end - points.first().map_or(end, |(seconds, _)| *seconds);
        #[expect(clippy::cast_possible_truncation, reason = "bytes of memory")]
        let growth_bytes = (slope(&points) * second_half_seconds) as i64;
        let mut verdict = Self {
            allowed_bytes,
            resident_peak_bytes,
            second_half_seconds,
            growth_bytes,
            growth_allowed_bytes: GROWTH_BYTES,
            growth_is_judged: end >= JUDGED_SECONDS,
            holds: false,
        };
        verdict.holds = verdict.is_within() && verdict.is_steady().unwrap_or(true);
        verdict
    }

    pub(super) const fn is_within(&self) -> bool {
        self.resident_peak_bytes <= self.allowed_bytes
    }

    /// Whether memory did not grow; `None` after too short a run.
    pub(super) fn is_steady(&self) -> Option<bool> {
        let grown = u64::try_from(self.growth_bytes).unwrap_or(0);
        self.growth_is_judged.then_some(grown <= self.growth_allowed_bytes)
    }

    pub(super) const fn holds(&self) -> bool {
        self.holds
    }
}

/// Slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = ratio(points.len() as u64).max(1.0);
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Resident memory of the process.
fn resident_bytes() -> Result<u64, CliError> {
    of_process("VmRSS:")
}

/// Peak resident memory of the process.
pub(super) fn resident_peak_bytes() -> Result<u64, CliError> {
    of_process("VmHWM:")
}

fn of_process(name: &str) -> Result<u64, CliError> {
    let path = PathBuf::from("/proc/self/status");
    let read = |error| CliError::File {
        path: path.clone(),
        action: "read the memory of this process",
        error,
    };
    let text = fs::read_to_string(&path).map_err(read)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes << 10)
        .ok_or_else(|| read(std::io::ErrorKind::InvalidData.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(minutes: u32, resident_mib: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |minute: u32| Sample {
            seconds: f64::from(minute) * 60.0,
            requests: minute.into(),
            requests_per_second: 0.0,
            written_bytes_per_second: 0.0,
            read_bytes_per_second: 0.0,
            resident_bytes: resident_mib(minute.into()) << 20,
            beside_drives_bytes: 0,
            engine_bytes: 0,
            engine_at_most_bytes: 0,
            segments_open: 0,
            segments_free: 0,
            mapped_bytes: 0,
            amplification: 1.0,
        };
        (0..=minutes).map(sample).collect()
    }

    #[test]
    fn what_rises_to_the_end_is_growth_and_what_rises_at_the_start_is_not() {
        let of = |mib: fn(u64) -> u64| Verdict::of(&samples(60, mib), 1 << 30, 200 << 20);
        let leaking = of(|minute| 100 + minute);
        assert_eq!((leaking.growth_bytes, leaking.is_steady()), (30 << 20, Some(false)));
        assert!(!leaking.holds());
        let filling = of(|minute| 100 + minute.min(29));
        assert_eq!((filling.growth_bytes, filling.holds()), (0, true));
        let shaking = of(|minute| 100 + minute % 2 * 20);
        assert!(shaking.holds(), "{shaking:?}");
        let shrinking = of(|minute| 100 - minute);
        assert!(shrinking.growth_bytes < 0 && shrinking.holds());
    }

    /// From a day to two months of samples, one a minute: the growth is the same as with all
    /// samples.
    #[test]
    fn samples_that_are_kept_are_bounded_and_tell_the_same() {
        for minutes in [1440, 4096, 4097, 8192, 12_345, 86_400] {
            let all = samples(minutes, |minute| 100 + minute / 100);
            let mut kept = Samples::default();
            all.iter().for_each(|sample| kept.add(sample.clone()));
            let kept = kept.kept();
            let last = |samples: &[Sample]| samples.last().map(|sample| sample.requests);
            assert!(kept.len() <= KEPT_MOST && last(&kept) == last(&all));
            let [of_kept, of_all] = [&kept, &all].map(|samples| Verdict::of(samples, 1 << 30, 0));
            let off = of_kept.growth_bytes.abs_diff(of_all.growth_bytes);
            assert!(off <= of_all.growth_bytes.unsigned_abs() / 100, "{of_kept:?}, {of_all:?}");
            let seconds = of_all.second_half_seconds;
            assert!((of_kept.second_half_seconds - seconds).abs() <= seconds / 100.0);
        }
    }

    #[test]
    fn growth_is_not_judged_after_some_minutes_and_the_most_always_is() {
        let short = samples(5, |minute| 100 + 10 * minute);
        assert_eq!(Verdict::of(&short, 1 << 30, 1 << 30).is_steady(), None);
        assert!(Verdict::of(&short, 1 << 30, 1 << 30).holds());
        assert!(!Verdict::of(&short, 1 << 30, (1 << 30) + 1).holds());
        assert!(Verdict::of(&[], 1, 1).holds());
    }

    #[test]
    fn the_kernel_tells_what_this_process_takes() {
        let (now, most) = (resident_bytes().unwrap(), resident_peak_bytes().unwrap());
        assert!(now > 1 << 20 && most >= now, "{now} of {most}");
    }
}
