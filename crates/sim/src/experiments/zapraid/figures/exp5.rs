//! Exp#5: random writes to one open segment (Fig. 9 and 10).

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::figures::adaptive::beside_the_best;
use crate::experiments::zapraid::loads::random_writes::Mix;
use crate::experiments::zapraid::loads::writes::{
    Mode, P50, P95, TABLE, THROUGHPUT, WRITE_METRICS, Writes,
};
use crate::experiments::zapraid::method::{METHOD, STEADY, kib};

const MODES: [Mode; 5] =
    [Mode::ZoneWrite, Mode::ZoneAppend, Mode::Zapraid(256), Mode::Adaptive, Mode::RaiznSpdk];

const CHUNKS: [u32; 3] = [1, 2, 4];

const OWN_METHOD: &str = "\
One segment is open, 64 requests are in flight. In the first series requests are as large as \
chunks, in the second one they are of 4 KiB.

Findings that do not hold. (1) Latencies: the emulated drives vary less than real ones, so the \
95th percentile is close to the median where no buffer is full. At 16 KiB, appended chunks wait \
for room in full buffers. Zone Write has one write in flight per zone, stays just below the flash \
rate, and never fills a buffer. The paper suspects the firmware's work for Zone Append there, \
which the model has as a constant.

(2) Entries of the stripe table of Zone Append have 2 bytes, not the paper's 3: groups have \
16,384 rows, not a whole zone.

(3) The 99th percentile of `adaptive`: it is paced to about the flash rate, 3,150 MiB/s within a \
segment and 3,235 with the next zones' dies, so hardly a write meets a full buffer. A write takes \
at most half of its zone's backlog, if that is 16 KiB or more. So consecutive writes have similar \
sizes, and a request that arrives during one does not wait for a large one behind it. Without \
that, three of these points were beyond the bound.";

/// Values in the text of section 5.4 (the highest throughput: section 5.2), for a mode and a chunk
/// size equal to the request size.
fn published(mode: Mode, chunk_blocks: u32, metric: Metric) -> Option<f64> {
    match (mode, chunk_blocks, metric) {
        (Mode::ZoneWrite, 1, THROUGHPUT) => Some(910.8),
        (Mode::Zapraid(_), 1, THROUGHPUT) => Some(1574.2),
        (Mode::Zapraid(_), 2, THROUGHPUT) => Some(3012.0),
        (Mode::ZoneAppend, 1, TABLE) => Some(1018.2),
        (Mode::Zapraid(_), 1, TABLE) => Some(339.4),
        _ => None,
    }
}

/// The text's ratios of ZapRAID to Zone Write: throughput, median, 95th percentile.
const RATIOS: [(u32, f64, Option<f64>, Option<f64>); 3] = [
    (1, 1.728, Some(0.562), Some(0.636)),
    (2, 1.772, Some(0.555), Some(0.659)),
    (4, 1.0, Some(1.0), Some(3.80)),
];

/// Points that are also run at full scale: one bound by commands, one by flash.
const WHOLE: [(Mode, u32); 2] = [(Mode::Zapraid(256), 1), (Mode::Zapraid(256), 4)];

fn name_whole(mode: Mode, chunk_blocks: u32) -> String {
    format!("64 GiB of {}", name(mode, chunk_blocks))
}

fn name(mode: Mode, chunk_blocks: u32) -> String {
    format!("{} {}", kib(chunk_blocks), mode.name())
}

fn name_small(mode: Mode, chunk_blocks: u32) -> String {
    format!("4 KiB in chunks of {} {}", kib(chunk_blocks), mode.name())
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for chunk in CHUNKS {
        for mode in MODES {
            let writes = Writes::one_segment(mode, chunk);
            let mut one =
                Configuration::new(name(mode, chunk), move |scale, seed| writes.run(scale, seed));
            for metric in WRITE_METRICS {
                one = one.published(*metric, published(mode, chunk, *metric));
            }
            configurations.push(one);
        }
    }
    for chunk in &CHUNKS[1..] {
        for mode in MODES {
            let writes = Writes { mix: Mix::Uniform(1), ..Writes::one_segment(mode, *chunk) };
            configurations
                .push(Configuration::new(name_small(mode, *chunk), move |scale, seed| {
                    writes.run(scale, seed)
                }));
        }
    }
    for (mode, chunk) in WHOLE {
        let writes = Writes::one_segment(mode, chunk);
        let work = move |_, seed| writes.run(1.0, seed);
        configurations.push(Configuration::new(name_whole(mode, chunk), work));
    }
    Suite {
        title: "ZapRAID, Exp#5: random writes to one open segment",
        method: format!("{METHOD}\n\n{STEADY}\n\n{OWN_METHOD}"),
        metrics: WRITE_METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let zapraid = Mode::Zapraid(256);
    for (chunk, throughput, median, tail) in RATIOS {
        let ratio = |metric, over| {
            results.mean(&name(zapraid, chunk), metric) / results.mean(&name(over, chunk), metric)
        };
        let size = kib(chunk);
        let (write, append) = (Mode::ZoneWrite, Mode::ZoneAppend);
        let of = |what: &str| format!("{size}: zapraid / {what}");
        report.findings.extend([
            within(of("zone-write"), ratio(THROUGHPUT, write), throughput, 0.12),
            within(of("zone-append"), ratio(THROUGHPUT, append), 1.0, 0.03),
        ]);
        let latency = |what: &str, metric, paper: Option<f64>| {
            paper.map(|paper| within(of(what), ratio(metric, write), paper, 0.15))
        };
        report.findings.extend(latency("zone-write, median latency", P50, median));
        report.findings.extend(latency("zone-write, 95th percentile", P95, tail));
    }
    for chunk in CHUNKS {
        let of = |mode| results.mean(&name(mode, chunk), THROUGHPUT);
        let least = [Mode::ZoneWrite, Mode::ZoneAppend, zapraid].map(of);
        let least = least.into_iter().fold(f64::INFINITY, f64::min);
        report.findings.push(shape(
            &format!("{}: the slowest of the others / raizn-spdk", kib(chunk)),
            "all others are much higher",
            format!("{:.2}", least / of(Mode::RaiznSpdk)),
            "at least 2",
            least / of(Mode::RaiznSpdk) >= 2.0,
        ));
    }
    for mode in MODES {
        for chunk in CHUNKS {
            let Some(paper) = published(mode, chunk, THROUGHPUT) else { continue };
            let here = results.mean(&name(mode, chunk), THROUGHPUT);
            let what = format!("{}: {}, MiB/s", kib(chunk), mode.name());
            report.findings.push(within(what, here, paper, 0.15));
        }
    }
    scaled(results, report);
    beyond(results, report);
    report.findings.push(within(
        "4 KiB: zone-append, KiB of stripe table per GiB".to_owned(),
        results.mean(&name(Mode::ZoneAppend, 1), TABLE),
        1018.2,
        0.02,
    ));
    let table = results.mean(&name(zapraid, 1), TABLE);
    report.findings.push(within(
        "4 KiB: zapraid, KiB of stripe table per GiB".to_owned(),
        table,
        339.4,
        0.02,
    ));
    chart(results, report, "throughput", "Requests as large as chunks", THROUGHPUT, name);
    chart(results, report, "p95", "Requests as large as chunks: 95th percentile", P95, name);
    chart(results, report, "small", "Requests of 4 KiB", THROUGHPUT, |mode, chunk| match chunk {
        1 => name(mode, 1),
        _ => name_small(mode, chunk),
    });
}

/// Whether a scaled-down run has the result of the full one.
fn scaled(results: &Results<'_>, report: &mut Report) {
    for (mode, chunk) in WHOLE {
        for metric in [THROUGHPUT, P50, P95] {
            let whole = results.mean(&name_whole(mode, chunk), metric);
            let part = results.mean(&name(mode, chunk), metric);
            report.findings.push(shape(
                &format!("{}: {}, 64 GiB and this scale", name(mode, chunk), metric.name),
                "not in the paper",
                format!("{whole:.1} and {part:.1} {}", metric.unit),
                "within 2 %",
                (part / whole - 1.0).abs() < 0.02,
            ));
        }
    }
}

/// Findings that are not in the paper.
fn beyond(results: &Results<'_>, report: &mut Report) {
    let of = |mode, chunk| results.mean(&name(mode, chunk), THROUGHPUT);
    let over = of(Mode::Adaptive, 1) / of(Mode::Zapraid(256), 1);
    report.findings.push(shape(
        "4 KiB: adaptive over zapraid",
        "not in the paper",
        format!("{over:.2}"),
        "at least 1.8",
        over >= 1.8,
    ));
    type Name = Box<dyn Fn(Mode) -> String>;
    let like_chunks = CHUNKS.map(|chunk| {
        let name: Name = Box::new(move |mode| name(mode, chunk));
        (format!("{} in chunks of it", kib(chunk)), name)
    });
    let small = CHUNKS[1..].iter().map(|chunk| {
        let chunk = *chunk;
        let name: Name = Box::new(move |mode| name_small(mode, chunk));
        (format!("4 KiB in chunks of {}", kib(chunk)), name)
    });
    let points: Vec<_> = like_chunks.into_iter().chain(small).collect();
    beside_the_best(results, report, "one segment", &points);
}

fn chart(
    results: &Results<'_>,
    report: &mut Report,
    file: &'static str,
    title: &'static str,
    metric: Metric,
    name: impl Fn(Mode, u32) -> String,
) {
    let point =
        |mode, chunk: u32| (f64::from(chunk) * 4.0, results.mean(&name(mode, chunk), metric));
    let line = |mode: &Mode| Line {
        name: mode.name().to_owned(),
        points: CHUNKS.iter().map(|chunk| point(*mode, *chunk)).collect(),
    };
    report.chart(&Chart {
        name: file,
        title,
        x: "chunk, KiB",
        y: metric.unit,
        lines: MODES.iter().map(line).collect(),
    });
}
