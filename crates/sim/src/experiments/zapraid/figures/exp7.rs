//! Exp#7: the size of stripe groups, for writes and for degraded reads (Fig. 12).

use zoneweave_raid::log::format::MAX_SEAL_ROWS;

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::loads::reads::{SEARCH_METHOD, Which, read_at_random};
use crate::experiments::zapraid::loads::writes::{
    HOST, Mode, P50, P95, P99, TABLE, THROUGHPUT, Writes,
};
use crate::experiments::zapraid::method::{METHOD, STEADY, kib};

/// Rows of a group; the first is Zone Write, the last Zone Append in groups of the largest size.
const GROUPS: [u32; 8] = [1, 4, 16, 64, 256, 1024, 4096, MAX_SEAL_ROWS];

const CHUNKS: [u32; 3] = [1, 2, 4];

const READ: Metric = Metric { name: "degraded read median", unit: "us" };
const ROWS: Metric = Metric { name: "table rows searched", unit: "for a read" };

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99, TABLE, READ, ROWS, HOST];

const OWN_METHOD: &str = "\
One segment is open, groups have G rows; G = 1 is Zone Write. After enough writes to complete a \
segment, a drive is removed. When the contents of the open segment are relocated, chunks are read \
at random places, one at a time; only rebuilt ones count.";

const DEVIATIONS: &str = "\
G = S, the paper's Zone Append with one group in a segment of 274,160 rows, is beyond the format. \
The largest groups have 16,384 rows, and none is larger than 64 MiB of a zone: 8,192 rows at 8 \
KiB and 4,096 at 16 KiB. The paper's results for G = S are not compared.

The engine searches the table in the order of rows and stops at the chunk, so it examines half of \
a group on average for each of the three other drives. Where chunks have several blocks, each \
block is searched for and rebuilt on its own.

Findings that do not hold. Small groups cost less here: the next group begins in the instant in \
which the previous one is complete, and all 64 requests are ready to fill it. The paper's \
prototype suspends a request at the end of a group and checks again later, from another handler. \
The time that adds to each group of four stripes is not modelled.";

/// Over the smallest groups, and over the default ones: text of section 5.4.
const PAPER_WRITES: [(u32, f64, f64); 2] = [(1, 1574.2, 1.43), (2, 2961.2, 1.59)];

fn name(chunk_blocks: u32, group_rows: u32) -> String {
    format!("{} G={group_rows}", kib(chunk_blocks))
}

fn mode(group_rows: u32) -> Mode {
    match group_rows {
        1 => Mode::ZoneWrite,
        MAX_SEAL_ROWS => Mode::ZoneAppend,
        rows => Mode::Zapraid(rows),
    }
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for chunk in CHUNKS {
        for group in GROUPS {
            let writes = Writes::one_segment(mode(group), chunk);
            let paper = PAPER_WRITES.iter().find(|(of, ..)| *of == chunk && group == 256);
            let work = move |scale, seed| {
                let range = writes.range(scale)?;
                writes.run_then(scale, seed, async |volume, bench, values| {
                    let reads =
                        read_at_random(volume, bench, Which::Degraded, range, chunk, seed).await?;
                    values.put(READ.name, reads.figures.p50_us);
                    values.put(ROWS.name, reads.rows);
                    Ok(())
                })
            };
            let one = Configuration::new(name(chunk, group), work);
            configurations.push(one.published(THROUGHPUT, paper.map(|(_, paper, _)| *paper)));
        }
    }
    Suite {
        title: "ZapRAID, Exp#7: the size of stripe groups",
        method: format!("{METHOD}\n\n{STEADY}\n\n{OWN_METHOD}\n\n{SEARCH_METHOD}\n\n{DEVIATIONS}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |chunk, group, metric| results.mean(&name(chunk, group), metric);
    for (chunk, paper, over_four) in PAPER_WRITES {
        let at = |group| of(chunk, group, THROUGHPUT);
        let size = kib(chunk);
        report.findings.extend([
            within(format!("{size}: G = 256, MiB/s"), at(256), paper, 0.15),
            within(format!("{size}: G = 256 over G = 4"), at(256) / at(4), over_four, 0.15),
            shape(
                &format!("{size}: groups up to 256 rows help, larger ones do not"),
                "rises to G = 256, then stays",
                format!("{:.0}, {:.0}, {:.0}, {:.0}", at(4), at(64), at(256), at(4096)),
                "rises from 4 to 64 to 256, 4,096 within 5 % of 256",
                at(4) < at(64) && at(64) < at(256) && (at(4096) / at(256) - 1.0).abs() <= 0.05,
            ),
        ]);
    }
    let large: Vec<f64> = GROUPS[1..7].iter().map(|group| of(4, *group, THROUGHPUT)).collect();
    let (low, high) = (
        large.iter().copied().fold(f64::INFINITY, f64::min),
        large.iter().copied().fold(0.0, f64::max),
    );
    report.findings.push(shape(
        "16 KiB: G = 4 to 4,096",
        "almost unchanged",
        format!("{low:.0} to {high:.0} MiB/s"),
        "within 10 %",
        high / low <= 1.1,
    ));
    for chunk in CHUNKS {
        let read = |group| of(chunk, group, READ);
        let size = kib(chunk);
        let grown = 100.0 * (read(4096) / read(256) - 1.0);
        report.findings.extend([
            shape(
                &format!("{size}: median degraded read, G = 4,096 over 256"),
                "13.2 to 24.7 % more",
                format!("{grown:.1} % more"),
                "5 to 50 % more",
                (5.0..=50.0).contains(&grown),
            ),
            shape(
                &format!("{size}: median degraded read, G = 256 over Zone Write"),
                "around 1 us more",
                format!("{:.1} us more", read(256) - read(1)),
                "at most 3 us for each block",
                read(256) - read(1) <= 3.0 * f64::from(chunk),
            ),
        ]);
    }
    let tables: Vec<f64> = [1, 256, 4096].iter().map(|group| of(1, *group, TABLE)).collect();
    report.findings.push(shape(
        "4 KiB: stripe table, KiB per GiB, Zone Write, G = 256, G = 4,096",
        "none, 339.4, twice that",
        format!("{:.1}, {:.1}, {:.1}", tables[0], tables[1], tables[2]),
        "none, within 2 %, within 2 %",
        tables[0] < 0.05
            && (tables[1] / 339.4 - 1.0).abs() <= 0.02
            && (tables[2] / 678.8 - 1.0).abs() <= 0.02,
    ));
    chart(results, report, "throughput", "Writes as large as chunks", THROUGHPUT);
    chart(results, report, "degraded_read", "Degraded reads, median", READ);
}

fn chart(
    results: &Results<'_>,
    report: &mut Report,
    file: &'static str,
    title: &'static str,
    metric: Metric,
) {
    let point =
        |chunk, group: u32| (f64::from(group).log2(), results.mean(&name(chunk, group), metric));
    let line = |chunk: &u32| Line {
        name: kib(*chunk),
        points: GROUPS.iter().map(|group| point(*chunk, *group)).collect(),
    };
    report.chart(&Chart {
        name: file,
        title,
        x: "log2 of the rows of a group; 0 is Zone Write",
        y: metric.unit,
        lines: CHUNKS.iter().map(line).collect(),
    });
}
