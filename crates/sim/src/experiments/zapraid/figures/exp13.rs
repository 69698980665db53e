//! Exp#13: an index with less memory than it needs (Fig. 19).

use std::rc::Rc;

use zoneweave_raid::log::{Lanes, OpenOptions, WriteChoice, WritePolicy};

use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::figures::exp12::{
    GIB, SCALE_LEAST, WORKLOADS, blocks_of, shrunk_array,
};
use crate::experiments::zapraid::loads::overwrites::{Overwrites, Places};
use crate::experiments::zapraid::loads::writes::{P50, P95, P99, THROUGHPUT, figures_of};
use crate::experiments::zapraid::method::METHOD;
use crate::experiments::{ExperimentError, Report, Values};
use crate::testbed::Testbed;
use crate::workload::Host;

/// Data of the volume.
const VOLUME_BYTES: f64 = 200.0 * GIB;

/// Space in reserve, in percent of the volume.
const RESERVE: u32 = 50;

/// Memory for the index, in percent of its full size: 50 to 200 MiB of 200.
const MEMORY: [u32; 4] = [25, 50, 75, 100];

/// Overwrites of the volume that are measured, after one that fills it.
const WRITTEN_OVER: f64 = 1.0;

const READ: Metric = Metric { name: "pages read", unit: "for 1,000 blocks of users" };
const WRITTEN: Metric = Metric { name: "pages written", unit: "for 1,000 blocks of users" };

const HELD: Metric = Metric { name: "index in memory at the most", unit: "% of its pages" };

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99, READ, WRITTEN, HELD];

/// Loss of throughput with half the memory, in percent.
const PAPER: [f64; 4] = [59.2, 16.8, 4.0, 3.6];

const OWN_METHOD: &str = "\
A volume of 200 GiB is filled in order, and then as much is written again, 64 requests in flight; \
the array has room for 50 % more data than that. Only the second part is measured. Zones are \
scaled, as in Exp#12, and memory is. Two segments with chunks of 8 and two with 16 KiB are open, \
written as by ZapRAID. Checkpoints are off. A page of the index has 960 entries (the paper has \
1,024).

Skewed requests follow Zipf's law with an exponent of 0.99, as in the paper.

The maximum in memory is somewhat above the limit, by pages that are about to be written or read: \
the smaller the index, the larger their share. With the paper's 200 GiB (`--scale 1 --runs 1`, \
skewed) it is 50.5 % of the index where half is the limit, not 55 to 57. Throughput is 4,109 \
MiB/s there, against 4,210 with the whole index in memory, 2.4 % less.

Random requests lose less than in the paper, 28 and 9 % for its 59 and 17. A page that is away is \
one read of a drive that has little else to read, and 64 requests wait for theirs at the same \
time. The paper does not describe its prototype's behaviour meanwhile.

Findings that do not hold. Skewed requests mostly find their pages in memory. Relocation does \
not: the live blocks of a segment are of all parts of the volume. Evicted pages are written \
beside user blocks, and a bit for each block shows whether it is live, in an additional eighth of \
the memory for pages. The number of pages in memory limits the pages of a relocation batch: at a \
32nd they are 13, so each batch waits for its own. With more data there are more pages, and less \
is lost.";

fn name(workload: &str, memory: u32) -> String {
    format!("{workload} memory {memory} %")
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for (workload, places, request) in WORKLOADS {
        for memory in MEMORY {
            let load = Overwrites { places, request, queue_depth: 64 };
            let work = move |scale: f64, seed| run(load, memory, scale.max(SCALE_LEAST), seed);
            configurations.push(Configuration::new(name(workload, memory), work));
        }
    }
    Suite {
        title: "ZapRAID, Exp#13: an index that takes less memory than it needs",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn run(load: Overwrites, memory: u32, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
    let volume = blocks_of(VOLUME_BYTES, scale);
    let testbed = shrunk_array(volume, RESERVE, scale, seed)?;
    let lanes = |chunk_blocks| Lanes { count: 2, chunk_blocks };
    let policy = WritePolicy::zapraid(lanes(2), lanes(4), 256);
    let index_memory = (memory < 100).then(|| volume * 4 * u64::from(memory) / 100);
    let chunk = policy.relocation.chunk_blocks;
    let writes = WriteChoice::Policy(policy);
    let options = OpenOptions { index_memory, ..Testbed::without_checkpoints(writes) };
    testbed.run_with(options, chunk, Host::SPDK, async |device, bench| {
        let fill = Overwrites { places: Places::Sequential, request: 16, queue_depth: 64 };
        fill.run(&bench.handle, Rc::new(device.clone()), volume, seed).await?;
        let before = device.status().counters;
        let blocks = blocks_of(VOLUME_BYTES * WRITTEN_OVER, scale);
        let figures = load.run(&bench.handle, Rc::new(device.clone()), blocks, seed).await?;
        let after = device.status().counters;
        let per_thousand =
            |before: u64, after: u64| (after - before) as f64 * 1000.0 / blocks as f64;
        let mut values = figures_of(&figures);
        values.put(READ.name, per_thousand(before.index_pages_read, after.index_pages_read));
        values
            .put(WRITTEN.name, per_thousand(before.index_pages_written, after.index_pages_written));
        let held = device.status().index_pages.map_or(1.0, |p| p.held_most as f64 / p.total as f64);
        values.put(HELD.name, 100.0 * held);
        Ok(values)
    })
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |workload: &str, memory: u32| results.mean(&name(workload, memory), THROUGHPUT);
    let loss = |workload: &str| 100.0 * (1.0 - of(workload, 50) / of(workload, 100));
    for ((workload, ..), paper) in WORKLOADS.iter().zip(PAPER) {
        let lost = loss(workload);
        let skewed = *workload == WORKLOADS[2].0;
        report.findings.push(shape(
            &format!("{workload}: half the memory"),
            &format!("{paper} % less throughput"),
            format!("{lost:.1} % less"),
            if skewed { "at most 5 % less" } else { "not more than 5 points beyond" },
            if skewed { lost <= 5.0 } else { lost <= paper + 5.0 },
        ));
    }
    for ((workload, ..), paper) in WORKLOADS.iter().zip(PAPER) {
        let here = of(workload, 50) / of(workload, 100);
        let what = format!("{workload}: throughput with half the memory, over that with all");
        report.findings.push(within(what, here, 1.0 - paper / 100.0, 0.15));
    }
    let [random_4k, random_64k, _, sequential] = WORKLOADS.map(|(workload, ..)| loss(workload));
    report.findings.push(shape(
        "half the memory: random 4 KiB, random 64 KiB, sequential",
        "less and less is lost",
        format!("{random_4k:.1}, {random_64k:.1}, {sequential:.1} %"),
        "in this order",
        random_4k >= random_64k && random_64k >= sequential,
    ));
    let line = |(workload, ..): &(&str, Places, u32)| Line {
        name: (*workload).to_owned(),
        points: MEMORY.iter().map(|memory| (f64::from(*memory), of(workload, *memory))).collect(),
    };
    let lines = WORKLOADS.iter().map(line).collect();
    let (title, x) = ("Memory for the index", "memory, % of what it needs");
    report.chart(&Chart { name: "throughput", title, x, y: THROUGHPUT.unit, lines });
}
