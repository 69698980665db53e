//! Fig. 7 and 8: the size of stripe units, of md and of the zoned volume.

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::raizn::loads::{LOADS, Load, System, WORKLOADS, Workload};
use crate::experiments::raizn::method::{AMPLIFICATION, METHOD, P50, P999, THROUGHPUT, size};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};

/// Blocks of stripe units, 8 to 128 KiB.
const UNITS: [u32; 4] = [2, 4, 16, 32];

/// The sizes that the paper compares.
const SMALL: u32 = 4;
const CHOSEN: u32 = 16;

/// Blocks of requests, 4 KiB to 1 MiB.
const REQUESTS: [u32; 4] = [1, 16, 64, 256];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P999, AMPLIFICATION];

const MD_METHOD: &str = "\
Of 4 KiB requests, the 64 in flight of a job do not fill a stripe of 128 KiB units, so these \
writes wait for the 200 us. md has other reasons to begin, so this point is not judged.";

fn name(workload: Workload, request: u32, unit: u32) -> String {
    format!("{} {} in units of {}", workload.name(), size(request), size(unit))
}

fn configurations(system: System) -> Vec<Configuration> {
    let mut configurations = Vec::new();
    for workload in WORKLOADS {
        for request in REQUESTS {
            for unit in UNITS {
                let load = Load { unit, ..Load::new(system, workload, request) };
                let work = move |scale, seed| load.run(scale, seed);
                configurations.push(Configuration::new(name(workload, request, unit), work));
            }
        }
    }
    configurations
}

/// Fig. 7.
pub(in crate::experiments) fn of_md() -> Suite {
    Suite {
        title: "RAIZN, Fig. 7: stripe units of md",
        method: format!("{METHOD}\n\n{LOADS}\n\n{MD_METHOD}"),
        metrics: METRICS,
        configurations: configurations(System::Md),
        judge: judge_md,
    }
}

/// Fig. 8.
pub(in crate::experiments) fn of_raizn() -> Suite {
    Suite {
        title: "RAIZN, Fig. 8: stripe units of the zoned volume",
        method: format!("{METHOD}\n\n{LOADS}"),
        metrics: METRICS,
        configurations: configurations(System::Raizn),
        judge: judge_raizn,
    }
}

/// Throughput with units of 64 KiB over that with units of 16 KiB.
fn chosen_over_small(results: &Results<'_>, workload: Workload, request: u32) -> f64 {
    let of = |unit| results.mean(&name(workload, request, unit), THROUGHPUT);
    of(CHOSEN) / of(SMALL)
}

fn judge_md(results: &Results<'_>, report: &mut Report) {
    for request in REQUESTS {
        let over = chosen_over_small(results, Workload::RandomRead, request);
        report.findings.push(shape(
            &format!("random read {}: units of 64 KiB over 16 KiB", size(request)),
            "higher with 64 KiB; largely reduced with 16 KiB",
            format!("{over:.2}"),
            if request > SMALL { "above 1" } else { "at least 0.97: a read is one command" },
            if request > SMALL { over > 1.0 } else { over >= 0.97 },
        ));
    }
    for workload in [Workload::Write, Workload::Read] {
        let over = chosen_over_small(results, workload, 256);
        report.findings.push(shape(
            &format!("{} 1 MiB: units of 64 KiB over 16 KiB", workload.name()),
            "lower, not significantly",
            format!("{over:.2}"),
            "0.80 to 1.02",
            (0.8..=1.02).contains(&over),
        ));
    }
    charts(results, report);
}

fn judge_raizn(results: &Results<'_>, report: &mut Report) {
    for workload in WORKLOADS {
        for request in REQUESTS {
            let over = chosen_over_small(results, workload, request);
            let is_exception = (workload, request) == (Workload::Read, 1);
            report.findings.push(shape(
                &format!("{} {}: units of 64 KiB over 16 KiB", workload.name(), size(request)),
                if is_exception { "lower" } else { "higher" },
                format!("{over:.2}"),
                if is_exception { "below 1" } else { "at least 0.97" },
                if is_exception { over < 1.0 } else { over >= 0.97 },
            ));
        }
    }
    for workload in WORKLOADS {
        let of = |unit: &u32| results.mean(&name(workload, 256, *unit), THROUGHPUT);
        let best = UNITS.iter().map(of).fold(0.0, f64::max);
        let ours = of(&CHOSEN) / best;
        report.findings.push(shape(
            &format!("{} 1 MiB: units of 64 KiB over the best size", workload.name()),
            "64 KiB performs optimally",
            format!("{ours:.3}"),
            "at least 0.97",
            ours >= 0.97,
        ));
    }
    charts(results, report);
}

fn charts(results: &Results<'_>, report: &mut Report) {
    for (workload, file, title) in [
        (Workload::Write, "write", "Sequential writes"),
        (Workload::Read, "read", "Sequential reads"),
        (Workload::RandomRead, "random_read", "Random reads"),
    ] {
        let line = |unit: &u32| {
            let point = |request: &u32| {
                let y = results.mean(&name(workload, *request, *unit), THROUGHPUT);
                (f64::from(*request) * 4.0, y)
            };
            Line { name: size(*unit), points: REQUESTS.iter().map(point).collect() }
        };
        let lines = UNITS.iter().map(line).collect();
        report.chart(&Chart { name: file, title, x: "request, KiB", y: THROUGHPUT.unit, lines });
    }
}
