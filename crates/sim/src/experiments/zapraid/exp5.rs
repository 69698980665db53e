//! Exp#5: random writes to one open segment (Fig. 9).
//!
//! Requests are as large as chunks, 64 are in flight. No paper data for RAIZN-SPDK is compared here.

use std::rc::Rc;

use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::{Lanes, WritePolicy};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, BlockDevice};

use super::summary::Summary;
use super::testbed::Testbed;
use crate::experiments::{ExperimentError, Finding, Report, Settings};
use crate::workload::{BlockJob, BlockOperation, Figures, Host, Length, Pace};

/// Bytes that the paper writes in a run.
const WRITTEN_BYTES: f64 = 64.0 * 1073741824.0;

const METHOD: &str = "\
A volume of 3 + 1 drives `zn540-4tb`, random writes as large as a chunk, 64 in flight, one segment open. Zones \
have their real size; a run writes a part of the paper's 64 GiB, as the scale says. Each command to a drive takes \
0.95 us of one thread of the host (0.5 us to submit it, 0.45 us when it is done). Groups of zone-append are as large as \
the format lets them be, 16,384 rows. Values are means of runs with different seeds, with the half-width of the 95 % \
confidence interval (Student's t). Where the paper gives no number in its text, none is compared.";

/// Chunk sizes in blocks, with the paper's throughput of Zone Write, of ZapRAID (MiB/s), and their
/// ratio: text of section 5.4, and section 1 for the highest throughput.
const PAPER: [(u32, Option<f64>, Option<f64>, f64); 3] =
    [(1, Some(910.8), Some(1574.2), 1.728), (2, None, Some(3012.0), 1.772), (4, None, None, 1.0)];

pub(in crate::experiments) fn run(settings: &Settings) -> Result<Report, ExperimentError> {
    let mut report = Report {
        title: "ZapRAID, Exp#5: random writes to one open segment".to_owned(),
        method: METHOD.to_owned(),
        ..Report::default()
    };
    let mut rows = Vec::new();
    for (chunk_blocks, zone_write, zapraid, ratio) in PAPER {
        let one = Lanes { count: 1, chunk_blocks };
        let none = Lanes { count: 0, chunk_blocks };
        let kib = u64::from(chunk_blocks) * 4;
        let mut measure = |name: &str, policy: WritePolicy, paper: Option<f64>| {
            let runs = measure(settings, chunk_blocks, &policy)?;
            rows.extend(table_rows(kib, name, &runs, paper));
            Ok::<_, ExperimentError>(Summary::of(&runs, |run| run.mib_per_second))
        };
        let written = measure("zone-write", WritePolicy::zone_write(one, none), zone_write)?;
        let appended = measure("zone-append", WritePolicy::zone_append(one, none), None)?;
        let ours = measure("zapraid", WritePolicy::zapraid(one, none, 256), zapraid)?;
        report.findings.push(within(
            format!("{kib} KiB: zapraid / zone-write"),
            ours.mean / written.mean,
            ratio,
            0.12,
        ));
        report.findings.push(within(
            format!("{kib} KiB: zapraid / zone-append"),
            ours.mean / appended.mean,
            1.0,
            0.03,
        ));
        for (name, paper, ours) in [("zone-write", zone_write, written), ("zapraid", zapraid, ours)]
        {
            let what = format!("{kib} KiB: {name}, MiB/s");
            report.findings.extend(paper.map(|paper| within(what, ours.mean, paper, 0.15)));
        }
    }
    report.table(
        "exp5",
        "request_kib,mode,metric,paper,here,confidence_95,ratio",
        rows.into_iter(),
    );
    Ok(report)
}

fn measure(
    settings: &Settings,
    chunk_blocks: u32,
    policy: &WritePolicy,
) -> Result<Vec<Figures>, ExperimentError> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some GiB")]
    let written_blocks = (WRITTEN_BYTES * settings.scale) as u64 / BLOCK_BYTES as u64;
    let run = |seed: u64| {
        let scheme = Scheme::new(3, 1).expect("3 + 1 is a scheme");
        let testbed = Testbed::new("zn540-4tb", scheme, zones_for(written_blocks), seed)?;
        testbed.run(policy, Host::SPDK, async |volume, handle| {
            let device: Rc<dyn BlockDevice> = Rc::new(volume);
            let job = BlockJob {
                operation: BlockOperation::RandomWrite,
                request: BlockCount(chunk_blocks),
                streams: 1,
                blocks: device.info().blocks,
                pace: Pace {
                    queue_depth: 64,
                    host: Host::NONE,
                    rate_bytes_per_second: None,
                    length: Length::counting(written_blocks / u64::from(chunk_blocks)),
                    seed,
                },
            };
            Ok(job.run(&handle, &device).await?.figures)
        })
    };
    (1..=settings.runs).map(run).collect()
}

/// Zones of each drive for so many blocks, without anything having to be moved.
fn zones_for(written_blocks: u64) -> u32 {
    let segment_blocks = 3 * 273_000;
    u32::try_from(written_blocks / segment_blocks).unwrap_or(u32::MAX / 2) + 12
}

type Metric = (&'static str, fn(&Figures) -> f64);

fn table_rows(kib: u64, mode: &str, runs: &[Figures], paper: Option<f64>) -> Vec<String> {
    let metrics: [Metric; 4] = [
        ("mib_per_second", |run| run.mib_per_second),
        ("p50_us", |run| run.p50_us),
        ("p95_us", |run| run.p95_us),
        ("p99_us", |run| run.p99_us),
    ];
    let row = |(at, (name, of)): (usize, &Metric)| {
        let ours = Summary::of(runs, of);
        let paper = paper.filter(|_| at == 0);
        let ratio = paper.map_or(String::new(), |paper| format!("{:.3}", ours.mean / paper));
        let paper = paper.map_or(String::new(), |paper| paper.to_string());
        let Summary { mean, half_width } = ours;
        format!("{kib},{mode},{name},{paper},{mean:.1},{half_width:.1},{ratio}")
    };
    metrics.iter().enumerate().map(row).collect()
}

fn within(what: String, ours: f64, paper: f64, tolerance: f64) -> Finding {
    Finding {
        what,
        paper: format!("{paper:.2}"),
        ours: format!("{ours:.2}"),
        rule: format!("within {:.0} %", tolerance * 100.0),
        holds: (ours / paper - 1.0).abs() <= tolerance,
    }
}
