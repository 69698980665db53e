//! Findings that are not in the paper: whether the adaptive policy is ever worse than the paper's
//! modes.

use crate::experiments::Report;
use crate::experiments::suite::{Metric, Results, shape};
use crate::experiments::zapraid::loads::writes::{Mode, P99, THROUGHPUT};

/// The paper's three modes.
const PAPER: [Mode; 3] = [Mode::ZoneWrite, Mode::ZoneAppend, Mode::Zapraid(256)];

/// Tolerated loss of throughput, and tolerated excess of the 99th percentile.
const BEHIND_MOST: f64 = 0.03;
const ABOVE_MOST: f64 = 0.10;

/// Tolerated loss of throughput that counts as equally fast.
const AS_FAST: f64 = 0.03;

/// Decides it for some points, each with its title and its configurations by mode.
pub(crate) fn beside_the_best<N: Fn(Mode) -> String>(
    results: &Results<'_>,
    report: &mut Report,
    of_what: &str,
    points: &[(String, N)],
) {
    let of = |name: &N, mode, metric: Metric| results.mean(&name(mode), metric);
    let throughput = points.iter().map(|(point, name)| {
        let paper = PAPER.map(|mode| of(name, mode, THROUGHPUT)).into_iter().fold(0.0, f64::max);
        (point, 1.0 - of(name, Mode::Adaptive, THROUGHPUT) / paper)
    });
    let p99 = points.iter().map(|(point, name)| {
        let paper = PAPER.map(|mode| of(name, mode, P99)).into_iter().fold(f64::INFINITY, f64::min);
        (point, of(name, Mode::Adaptive, P99) / paper - 1.0)
    });
    let as_fast = points.iter().filter_map(|(point, name)| {
        let least = of(name, Mode::Adaptive, THROUGHPUT) * (1.0 - AS_FAST);
        let others = PAPER.into_iter().filter(|mode| of(name, *mode, THROUGHPUT) >= least);
        let paper = others.map(|mode| of(name, mode, P99)).reduce(f64::min)?;
        Some((point, of(name, Mode::Adaptive, P99) / paper - 1.0))
    });
    let as_fast: Vec<_> = as_fast.collect();
    let throughput: Vec<_> = throughput.collect();
    let p99: Vec<_> = p99.collect();
    report.findings.extend([
        shape(
            &format!("{of_what}: throughput of adaptive behind the best of the paper's, at worst"),
            "not in the paper",
            told(&throughput, BEHIND_MOST),
            "at most 3 % at every point",
            throughput.iter().all(|(_, behind)| *behind <= BEHIND_MOST),
        ),
        shape(
            &format!("{of_what}: 99th percentile of adaptive above the lowest of the paper's"),
            "not in the paper",
            told(&p99, ABOVE_MOST),
            "at most 10 % at every point",
            p99.iter().all(|(_, above)| *above <= ABOVE_MOST),
        ),
        shape(
            &format!(
                "{of_what}: the same, above the lowest of those of the paper's that are as fast"
            ),
            "not in the paper",
            told(&as_fast, ABOVE_MOST),
            "at most 10 % at every point where one is not more than 3 % slower",
            as_fast.iter().all(|(_, above)| *above <= ABOVE_MOST),
        ),
    ]);
}

/// The worst value, and the number of points beyond the bound.
fn told(points: &[(&String, f64)], bound: f64) -> String {
    let worst = points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let Some((point, worst)) = worst else { return "none of them is".to_owned() };
    let beyond = points.iter().filter(|(_, value)| *value > bound).count();
    format!("{:.1} % ({point}); {beyond} of {} points beyond", 100.0 * worst, points.len())
}
