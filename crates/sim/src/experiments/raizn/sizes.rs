//! Fig. 9 and 11: both arrays by the size of requests, whole and with a drive missing.

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::raizn::array::{DATA, DRIVES, UNIT};
use crate::experiments::raizn::loads::{
    LOADS, Load, SYSTEMS, System, WORKLOADS, Workload, on_one_drive,
};
use crate::experiments::raizn::method::{
    AMPLIFICATION, METHOD, NOT_IN_PAPER, P50, P999, THROUGHPUT, size,
};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};

/// Blocks of requests, 4 KiB to 1 MiB.
const REQUESTS: [u32; 5] = [1, 4, 16, 64, 256];

/// Requests to one drive, the reference: 64 KiB.
const ONE_DRIVE: u32 = 16;

const READS: [Workload; 2] = [Workload::Read, Workload::RandomRead];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P999, AMPLIFICATION];

const WHOLE_METHOD: &str = "\
`one drive` is a drive of `raizn` without an array, under the same jobs with requests of 64 KiB. \
Writes are compared with four drives, as a fifth of what five take is parity, and reads with five.

The volume has one layout of partial parity: a block with a header, then the blocks of parity \
that a write changed. Parity in random write areas and headers in metadata are not built, so this \
report does not compare them.";

const DEGRADED_METHOD: &str = "\
The first drive of each array is taken out after the volume was written, without a replacement.";

fn name(system: System, workload: Workload, request: u32) -> String {
    format!("{} {} {}", system.name(), workload.name(), size(request))
}

fn name_of_drive(workload: Workload) -> String {
    format!("one drive {} {}", workload.name(), size(ONE_DRIVE))
}

fn configurations(workloads: &[Workload], is_degraded: bool) -> Vec<Configuration> {
    let mut configurations = Vec::new();
    for workload in workloads {
        for request in REQUESTS {
            for system in SYSTEMS {
                let load = Load { is_degraded, ..Load::new(system, *workload, request) };
                let work = move |scale, seed| load.run(scale, seed);
                configurations.push(Configuration::new(name(system, *workload, request), work));
            }
        }
    }
    configurations
}

/// Fig. 9.
pub(in crate::experiments) fn whole() -> Suite {
    let mut configurations = configurations(&WORKLOADS, false);
    for workload in [Workload::Write, Workload::Read] {
        let work = move |scale, seed| on_one_drive(workload, ONE_DRIVE, scale, seed);
        configurations.push(Configuration::new(name_of_drive(workload), work));
    }
    Suite {
        title: "RAIZN, Fig. 9: throughput and latency by the size of requests",
        method: format!("{METHOD}\n\n{LOADS}\n\n{WHOLE_METHOD}"),
        metrics: METRICS,
        configurations,
        judge: judge_whole,
    }
}

/// Fig. 11.
pub(in crate::experiments) fn degraded() -> Suite {
    Suite {
        title: "RAIZN, Fig. 11: reads with a drive missing",
        method: format!("{METHOD}\n\n{LOADS}\n\n{DEGRADED_METHOD}"),
        metrics: METRICS,
        configurations: configurations(&READS, true),
        judge: judge_degraded,
    }
}

/// A metric of `raizn` over that of `md`.
fn over_md(results: &Results<'_>, workload: Workload, request: u32, metric: Metric) -> f64 {
    let of = |system| results.mean(&name(system, workload, request), metric);
    of(System::Raizn) / of(System::Md)
}

/// What drives without an array reach: a fifth of what they write is parity.
fn of_raw_drives(results: &Results<'_>, workload: Workload) -> f64 {
    let drives = if workload == Workload::Write { DATA } else { DRIVES };
    f64::from(drives) * results.mean(&name_of_drive(workload), THROUGHPUT)
}

/// Throughput over that of the drives.
fn judge_best(results: &Results<'_>, report: &mut Report) {
    for workload in [Workload::Write, Workload::Read] {
        let raw = of_raw_drives(results, workload);
        let over =
            |request| results.mean(&name(System::Raizn, workload, request), THROUGHPUT) / raw;
        let best = REQUESTS.map(over).into_iter().fold(0.0, f64::max);
        report.findings.push(shape(
            &format!("{}: highest throughput over that of the drives", workload.name()),
            "within 2 % of the raw drives",
            format!("{best:.3}"),
            "at least 0.98",
            best >= 0.98,
        ));
        // Smaller writes have partial parity.
        let least = if workload == Workload::Write { UNIT * DATA } else { ONE_DRIVE };
        for request in REQUESTS.into_iter().filter(|request| *request >= least) {
            let ours = over(request);
            report.findings.push(shape(
                &format!("{} {}: throughput over the same", workload.name(), size(request)),
                NOT_IN_PAPER,
                format!("{ours:.3}"),
                "at least 0.97",
                ours >= 0.97,
            ));
        }
    }
}

fn judge_whole(results: &Results<'_>, report: &mut Report) {
    judge_best(results, report);
    for workload in WORKLOADS {
        for request in REQUESTS {
            let is_small = request <= ONE_DRIVE && workload != Workload::RandomRead;
            let over = over_md(results, workload, request, THROUGHPUT);
            report.findings.push(shape(
                &format!("{} {}: raizn over md", workload.name(), size(request)),
                if is_small { "lower" } else { "similar" },
                format!("{over:.2}"),
                if is_small { "below 1" } else { "0.90 to 1.25" },
                if is_small { over < 1.0 } else { (0.9..=1.25).contains(&over) },
            ));
        }
    }
    for metric in [P50, P999] {
        let over = over_md(results, Workload::Read, 256, metric);
        report.findings.push(shape(
            &format!("read 1 MiB: {} of raizn over md", metric.name),
            "slightly better at larger sizes",
            format!("{over:.2}"),
            "at most 1.05",
            over <= 1.05,
        ));
    }
    let small = results.mean(&name(System::Raizn, Workload::Write, 1), AMPLIFICATION);
    report.findings.push(shape(
        "write 4 KiB: blocks written for each",
        "a header for each partial parity",
        format!("{small:.2}"),
        "3.10 to 3.40: data, header and parity of 63 in 64, and a quarter",
        (3.1..=3.4).contains(&small),
    ));
    let whole = results.mean(&name(System::Raizn, Workload::Write, 64), AMPLIFICATION);
    report.findings.push(shape(
        "write 256 KiB, a stripe: blocks written for each",
        NOT_IN_PAPER,
        format!("{whole:.3}"),
        "at most 1.26",
        whole <= 1.26,
    ));
    charts(results, report, &WORKLOADS);
}

fn judge_degraded(results: &Results<'_>, report: &mut Report) {
    for workload in READS {
        for request in REQUESTS {
            let over = over_md(results, workload, request, THROUGHPUT);
            report.findings.push(shape(
                &format!("{} {}: raizn over md", workload.name(), size(request)),
                if request == 1 { "slightly worse" } else { "better at larger sizes" },
                format!("{over:.2}"),
                if request == 1 { "0.80 to 1.02" } else { "at least 0.97" },
                if request == 1 { (0.8..=1.02).contains(&over) } else { over >= 0.97 },
            ));
        }
    }
    charts(results, report, &READS);
}

fn charts(results: &Results<'_>, report: &mut Report, workloads: &[Workload]) {
    for workload in workloads {
        let (throughput, latency, title) = match workload {
            Workload::Write => ("write", "write_p999", "Sequential writes"),
            Workload::Read => ("read", "read_p999", "Sequential reads"),
            Workload::RandomRead => ("random_read", "random_read_p999", "Random reads"),
        };
        for (file, metric) in [(throughput, THROUGHPUT), (latency, P999)] {
            let line = |system: System| {
                let point = |request: &u32| {
                    let y = results.mean(&name(system, *workload, *request), metric);
                    (f64::from(*request) * 4.0, y)
                };
                Line {
                    name: system.name().to_owned(),
                    points: REQUESTS.iter().map(point).collect(),
                }
            };
            let lines = SYSTEMS.map(line).into();
            report.chart(&Chart { name: file, title, x: "request, KiB", y: metric.unit, lines });
        }
    }
}
