//! Exp#6: normal and degraded reads (Fig. 11).

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::zapraid::loads::reads::{Reads, SEARCH_METHOD, Which, read_at_random};
use crate::experiments::zapraid::loads::writes::{
    Mode, P50, P95, P99, THROUGHPUT, Writes, figures_of,
};
use crate::experiments::zapraid::method::{METHOD, kib};

const CHUNKS: [u32; 3] = [1, 2, 4];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99];

const OWN_METHOD: &str = "\
A volume is written until a segment is complete, and then chunks are read at random places, one \
at a time. Then a drive is removed, and the contents of the open segment are relocated. Degraded \
reads are of chunks that must be rebuilt: from segments written by Zone Write, where chunks of a \
stripe are at the same place of each zone (Log-RAID in the paper), and from ZapRAID's.

Normal reads are of the same chunks before the drive was removed; the write mode of the volume \
does not affect them. The chunks must be the same because parity takes every fourth place of a \
drive. Of the first drive's 8 KiB chunks, two of nine cross from one page of a die into the next; \
of all drives' chunks, two of twelve. Such reads take 60 us longer, with or without the drive.";

const ONE_COMMAND: &str = "\
A degraded read is one command to each of the other drives, as large as the read, so it takes as long as the slowest of \
three.";

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
            let work = move |scale, seed| {
                let range = writes.range(scale)?;
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
        method: format!("{METHOD}\n\n{OWN_METHOD}\n\n{SEARCH_METHOD}\n\n{ONE_COMMAND}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    for chunk in CHUNKS {
        let of = |case: usize| results.mean(&name(chunk, CASES[case].0), THROUGHPUT);
        let (normal, log_raid, zapraid) = (of(0), of(1), of(2));
        let slower = 1.0 - log_raid.min(zapraid) / normal;
        report.findings.extend([
            shape(
                &format!("{}: degraded reads, slower than normal ones by at most", kib(chunk)),
                "less than 6 %",
                format!("{:.1} %", 100.0 * slower),
                "less than 8 %, either way",
                slower.abs() < 0.08,
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
