//! Medians of runs, per figure: the run with the median of one may be the fastest by another.

use super::volume::{Measure, ratio};

/// The medians of runs. Cycles and instructions are those of the run with the median CPU time.
///
/// # Panics
/// Without runs.
pub(super) fn median(runs: &[Measure]) -> Measure {
    let ns = |figure: fn(&Measure) -> u64| middle(runs, figure, u64::cmp);
    Measure {
        blocks_per_second: middle(runs, |run| run.blocks_per_second, f64::total_cmp),
        latency_p50_ns: ns(|run| run.latency_p50_ns),
        latency_p99_ns: ns(|run| run.latency_p99_ns),
        ..middle(
            runs,
            |run| *run,
            |one, other| one.processor_ns_per_request.total_cmp(&other.processor_ns_per_request),
        )
    }
}

/// Ratios of one server to another.
#[derive(Clone, Copy, serde::Serialize)]
pub(super) struct Beside {
    pub(super) throughput: f64,
    pub(super) latency_p50: f64,
}

/// Medians of the ratios of runs to the runs right after them, when the machine was equally fast.
///
/// # Panics
/// Without runs.
pub(super) fn beside(runs: &[Measure], others: &[Measure]) -> Beside {
    let pairs: Vec<_> = runs.iter().zip(others).collect();
    let times = |one: &Measure, other: &Measure| one.blocks_per_second / other.blocks_per_second;
    let waits =
        |one: &Measure, other: &Measure| ratio(one.latency_p50_ns, other.latency_p50_ns.max(1));
    Beside {
        throughput: middle(&pairs, |(one, other)| times(one, other), f64::total_cmp),
        latency_p50: middle(&pairs, |(one, other)| waits(one, other), f64::total_cmp),
    }
}

/// The median figure, the higher of two.
///
/// # Panics
/// Without runs.
pub(super) fn middle<R, T>(
    runs: &[R],
    figure: impl Fn(&R) -> T,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    let mut figures: Vec<_> = runs.iter().map(figure).collect();
    figures.sort_by(order);
    figures.swap_remove(figures.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, processor_ns: f64, latency_ns: u64) -> Measure {
        Measure {
            blocks_per_second: rate,
            processor_ns_per_request: processor_ns,
            counted: None,
            latency_p50_ns: latency_ns,
            latency_p99_ns: 2 * latency_ns,
            amplification: None,
            full: None,
            volume_blocks: 1,
        }
    }

    #[test]
    fn every_figure_has_its_own_median_and_ratios_are_of_pairs() {
        let ours = [run(30.0, 1.0, 10), run(10.0, 2.0, 30), run(20.0, 3.0, 20)];
        let median = median(&ours);
        let of_median = (median.blocks_per_second, median.processor_ns_per_request);
        assert_eq!(of_median, (20.0, 2.0));
        assert_eq!((median.latency_p50_ns, median.latency_p99_ns), (20, 40));
        let others = [run(60.0, 1.0, 10), run(10.0, 1.0, 10), run(80.0, 1.0, 10)];
        let beside = beside(&ours, &others);
        assert_eq!((beside.throughput, beside.latency_p50), (0.5, 2.0), "1/2, 1, 1/4; 1, 3, 2");
    }
}
