//! Exp#6: normal reads and degraded ones (Fig. 11).

use super::reads::{Reads, SCALE_LEAST, SEARCH_METHOD, Which, read_at_random};
use super::writes::{Mode, P50, P95, P99, THROUGHPUT, Writes, figures_of};
use super::{METHOD, kib};
use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};

const CHUNKS: [u32; 3] = [1, 2, 4];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99];

const OWN_METHOD: &str = "\
A volume is written, 4 GiB at least so that a segment is complete, and then chunks are read at random places, one at a \
time. Normal reads are the same whatever wrote the volume; degraded ones are from a volume that a drive was taken from, \
after what was in the open segment is moved, and only those count that had to be rebuilt: from segments written by Zone \
Write, where chunks of a stripe are in the same place of each zone (Log-RAID in the paper), and from ZapRAID's.";

const DEVIATIONS: &str = "\
Where findings do not hold. Degraded reads of chunks of several blocks are faster than normal ones: each block is rebuilt on \
its own, from commands of one block that are all sent at once, and the drives answer four of those in parallel sooner (71 \
us in the median) than one command of 16 KiB (103 us). The paper's prototype reads whole chunks either way.";

/// The cases of Fig. 11.
const CASES: [(&str, Mode, Which); 3] = [
    ("normal", Mode::Zapraid(256), Which::Normal),
    ("degraded Log-RAID", Mode::ZoneWrite, Which::Degraded),
    ("degraded ZapRAID", Mode::Zapraid(256), Which::Degraded),
];

fn name(chunk_blocks: u32, case: &str) -> String {
    format!("{} {case}", kib(chunk_blocks))
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for chunk in CHUNKS {
        for (case, mode, which) in CASES {
            let writes = Writes::one_segment(mode, chunk);
            let work = move |scale: f64, seed| {
                let scale = scale.max(SCALE_LEAST);
                let range = writes.range(scale);
                writes.run_then(scale, seed, async |volume, bench, values| {
                    let Reads { figures, .. } =
                        read_at_random(volume, bench, which, range, chunk, seed).await?;
                    *values = figures_of(&figures);
                    Ok(())
                })
            };
            configurations.push(Configuration::new(name(chunk, case), work));
        }
    }
    Suite {
        title: "ZapRAID, Exp#6: normal and degraded reads",
        method: format!("{METHOD}\n\n{OWN_METHOD} {SEARCH_METHOD}\n\n{DEVIATIONS}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    for chunk in CHUNKS {
        let of = |case: usize| results.mean(&name(chunk, CASES[case].0), THROUGHPUT);
        let (normal, log_raid, zapraid) = (of(0), of(1), of(2));
        let high = normal.max(log_raid).max(zapraid);
        let low = normal.min(log_raid).min(zapraid);
        report.findings.extend([
            shape(
                &format!("{}: largest difference of normal and degraded reads", kib(chunk)),
                "less than 6 %",
                format!("{:.1} %", 100.0 * (high / low - 1.0)),
                "less than 10 %",
                high / low < 1.1,
            ),
            shape(
                &format!("{}: degraded reads, zapraid / Log-RAID", kib(chunk)),
                "comparable",
                format!("{:.3}", zapraid / log_raid),
                "within 5 %",
                (zapraid / log_raid - 1.0).abs() <= 0.05,
            ),
        ]);
    }
    let point = |chunk: u32, case: &str| {
        (f64::from(chunk) * 4.0, results.mean(&name(chunk, case), THROUGHPUT))
    };
    let line = |(case, ..): &(&str, Mode, Which)| Line {
        name: (*case).to_owned(),
        points: CHUNKS.iter().map(|chunk| point(*chunk, case)).collect(),
    };
    report.chart(&Chart {
        name: "throughput",
        title: "Reads of a chunk, one at a time",
        x: "chunk, KiB",
        y: THROUGHPUT.unit,
        lines: CASES.iter().map(line).collect(),
    });
}
