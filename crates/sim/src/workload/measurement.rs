//! Latencies and rates of a job.
//!
//! Percentiles come from a histogram with three significant digits (0.1 % at most from the exact
//! ones), mean and deviation from the exact latencies.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use zoneweave_runtime::Nanos;

/// The largest distinguishable latency: an hour.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Collects latencies.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    sum_us: f64,
    squares_us: f64,
    bytes: u64,
    seconds: Vec<Second>,
}

/// One second of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Requests completed in it.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The measurements of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Rates and latencies.
    pub figures: Figures,
    /// By second, from the end of the warm-up; the last one may be cut short.
    pub seconds: Vec<Second>,
    /// Writes sent to the device per request; below one if a scheduler merged some.
    pub commands_per_request: f64,
}

/// Rates and latencies of a number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests measured.
    pub operations: u64,
    /// Time measured.
    pub seconds: f64,
    /// Requests a second.
    pub iops: f64,
    /// Mebibytes a second.
    pub mib_per_second: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Standard deviation of the latency.
    pub deviation_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95 % are below or equal.
    pub p95_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Default for Recorder {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3);
        Self {
            histogram: histogram.expect("the bounds are in order and the digits few"),
            sum_us: 0.0,
            squares_us: 0.0,
            bytes: 0,
            seconds: Vec::new(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds and bytes of a run fit 53 bits")]
impl Recorder {
    /// Nothing measured yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of recorded latencies.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds a request of `bytes` that took `latency`.
    pub fn record(&mut self, latency: Nanos, bytes: u64) {
        self.histogram.saturating_record(latency.0);
        let micros = latency.0 as f64 / 1e3;
        self.sum_us += micros;
        self.squares_us += micros * micros;
        self.bytes += bytes;
    }

    /// Adds the request to the series too; it completed `after` the start of the measurement.
    pub fn record_at(&mut self, after: Nanos, latency: Nanos, bytes: u64) {
        self.record(latency, bytes);
        let second = usize::try_from(after.0 / 1_000_000_000).expect("a job ends in centuries");
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        self.seconds[second].operations += 1;
        self.seconds[second].bytes += bytes;
    }

    /// The figures over a span of time.
    #[must_use]
    pub fn figures(&self, span: Nanos) -> Figures {
        let operations = self.operations();
        let (count, seconds) = (operations.max(1) as f64, span.as_secs_f64().max(1e-9));
        let mean_us = self.sum_us / count;
        let variance = (self.squares_us / count - mean_us * mean_us).max(0.0);
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        Figures {
            operations,
            seconds,
            iops: operations as f64 / seconds,
            mib_per_second: self.bytes as f64 / f64::from(1 << 20) / seconds,
            mean_us,
            deviation_us: variance.sqrt(),
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
        }
    }

    /// The series by second.
    #[must_use]
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_with_sorted_latencies() {
        let mut recorder = Recorder::new();
        for micros in (1..=1000).rev() {
            recorder.record(Nanos::from_micros(micros), 4096);
        }
        let figures = recorder.figures(Nanos::from_secs(2));
        let close = |value: f64, to: f64| (value / to - 1.0).abs() < 0.002;
        assert!(close(figures.mean_us, 500.5) && close(figures.p50_us, 500.0));
        assert!(close(figures.p99_us, 990.0) && close(figures.max_us, 1000.0));
        assert!(close(figures.deviation_us, (999_999.0_f64 / 12.0).sqrt()));
        assert!(close(figures.iops, 500.0) && close(figures.mib_per_second, 1.953_125));
    }

    #[test]
    fn the_series_counts_by_second_of_completion() {
        let mut recorder = Recorder::new();
        for millis in [0, 999, 1000, 3500] {
            recorder.record_at(Nanos::from_millis(millis), Nanos(5), 10);
        }
        let counts: Vec<u64> = recorder.seconds().iter().map(|second| second.operations).collect();
        assert_eq!(counts, [2, 1, 0, 1]);
        assert_eq!(recorder.figures(Nanos::from_secs(4)).operations, 4);
    }
}
