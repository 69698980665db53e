//! Reads and writes over time, at full speed.

use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BlockCount, Lba};

use super::load::{Load, Measured, Ranges, Writers};
use super::{conventional, conventional_target, count, mean, rate, simulate, variation, zoned};
use crate::experiments::chart::{Chart, Line};
use crate::experiments::target::Target;
use crate::experiments::{ExperimentError, Finding, Report};
use crate::workload::{Figures, WorkloadError};

const ROWS: u32 = 16;
/// Ten seconds of the real drive, scaled like superblocks. Queues are as long as on the real drive,
/// and a read waits in them for 90 ms, so that bins of one second would be too short.
const BIN: Nanos = Nanos(10_000_000_000 * ROWS as u64 / 383);
const BIN_SECONDS: u32 = 10;
/// 1200 seconds of the real drive.
const BINS: u64 = 120;
/// The zoned drive is stationary.
const BINS_ZONED: u64 = 40;
const WRITERS: Writers =
    Writers { count: 4, request: BlockCount(32), queue_depth: 256, rate: None };
const PLACE: BlockCount = BlockCount(256);

struct Run {
    name: &'static str,
    write: Vec<f64>,
    read: Vec<f64>,
    reads: Figures,
}

pub(super) fn measure(report: &mut Report) -> Result<(), ExperimentError> {
    let mut runs = Vec::new();
    for depth in [32, 1] {
        runs.push(on_zoned(depth)?);
        runs.push(on_conventional(depth)?);
    }
    write(report, &runs);
    findings(report, &runs);
    Ok(())
}

fn on_zoned(depth: u32) -> Result<Run, ExperimentError> {
    let drive = zoned()?;
    let run = simulate(|handle| async move {
        let target = Target::Zoned(drive.attach(&handle));
        let ranges = fill(&handle, &target).await?;
        let load = Load::new(&handle, target, ranges, BIN);
        let mut tasks = load.fill_ranges(WRITERS, 5);
        // Queues fill in the first bin.
        handle.sleep(BIN).await;
        tasks.extend(load.read_at_random(depth, 6));
        handle.sleep(Nanos(BIN.0 * BINS_ZONED)).await;
        Ok::<_, WorkloadError>(Run::new("ZNS", load.finish(tasks).await?))
    })?;
    Ok(run)
}

/// Fills the drive once.
async fn fill(handle: &Handle, target: &Target) -> Result<Ranges, WorkloadError> {
    let ranges = Ranges { idle: (0..target.ranges()).collect(), partial: Vec::new() };
    for range in &ranges.idle {
        let ranges = Ranges { idle: Vec::new(), partial: vec![*range] };
        let load = Load::new(handle, target.clone(), ranges, BIN);
        load.limit_written(target.range_blocks() * 4096);
        let tasks = load.fill_ranges(Writers { count: 1, ..WRITERS }, *range);
        load.stopped(BIN).await;
        let filled = load.finish(tasks).await?.ranges;
        assert_eq!(filled.idle, [*range], "a range is filled completely");
    }
    Ok(ranges)
}

fn on_conventional(depth: u32) -> Result<Run, ExperimentError> {
    let drive = conventional(0.07, ROWS)?;
    drive.write_untimed(Lba(0), drive.blocks(), 1);
    let run = simulate(|handle| async move {
        let target = conventional_target(&drive, ROWS, &handle);
        // 446 of 960 GB.
        let places = drive.blocks() * 446 / 960 / u64::from(PLACE.0);
        let ranges = Ranges { idle: (0..target.ranges()).collect(), partial: Vec::new() };
        let load = Load::new(&handle, target, ranges, BIN);
        let mut tasks = load.shuffle(WRITERS, places, PLACE, 7);
        // Queues fill in the first bin.
        handle.sleep(BIN).await;
        tasks.extend(load.read_at_random(depth, 8));
        handle.sleep(Nanos(BIN.0 * BINS)).await;
        Ok::<_, WorkloadError>(Run::new("7 % OP", load.finish(tasks).await?))
    })?;
    Ok(run)
}

impl Run {
    fn new(name: &'static str, measured: Measured) -> Self {
        let rates =
            |bins: &[u64]| bins.iter().skip(1).map(|bytes| rate(*bytes, BIN)).collect::<Vec<_>>();
        let (write, read) = (rates(&measured.write_bins), rates(&measured.read_bins));
        Self { name, write, read, reads: measured.read }
    }
}

fn write(report: &mut Report, runs: &[Run]) {
    for (name, pair) in [("series_qd32", &runs[..2]), ("series_qd1", &runs[2..])] {
        let rows = pair.iter().flat_map(|run| {
            (1..).zip(run.write.iter().zip(&run.read)).map(|(bin, (write, read))| {
                format!("{},{},{write:.1},{read:.4}", run.name, bin * BIN_SECONDS)
            })
        });
        report.table(name, "drive,scaled_second,write_mib_per_s,read_mib_per_s", rows);
    }
    let lines = |values: fn(&Run) -> &[f64]| {
        let points = |run: &Run| {
            (1..).map(|bin| f64::from(bin * BIN_SECONDS)).zip(values(run).iter().copied()).collect()
        };
        runs[..2]
            .iter()
            .map(|run| Line { name: run.name.to_owned(), points: points(run) })
            .collect()
    };
    report.chart(&Chart {
        name: "series_write",
        title: "Writes over time, beside reads at queue depth 32",
        x: "time, scaled seconds",
        y: "MiB/s",
        lines: lines(|run| &run.write),
    });
    report.chart(&Chart {
        name: "series_read",
        title: "Reads at queue depth 32 over time, beside writes",
        x: "time, scaled seconds",
        y: "MiB/s",
        lines: lines(|run| &run.read),
    });
}

fn findings(report: &mut Report, runs: &[Run]) {
    let [zns, block, zns_single, block_single] = runs else { unreachable!("there are four runs") };
    let (a, b) = (variation(&zns.write), variation(&block.write));
    let range = |run: &Run| {
        let (low, high) = run
            .write
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
        (low, high)
    };
    let ((zns_low, zns_high), (low, high)) = (range(zns), range(block));
    report.findings.push(Finding {
        what: "CLUSTER 2023 Fig. 6a: writes over time, deviation of the mean, ZNS and conventional"
            .to_owned(),
        paper: "1 % and 54 % (1058-1190 and 7-1208 MiB/s)".to_owned(),
        ours: format!(
            "{:.0} % and {:.0} % ({zns_low:.0}-{zns_high:.0} and {low:.0}-{high:.0} MiB/s)",
            a * 100.0,
            b * 100.0
        ),
        rule: "below 5 % and above 30 %".to_owned(),
        holds: a < 0.05 && b > 0.3,
    });
    let ratio = mean(&zns.write) / mean(&block.write);
    report.findings.push(Finding {
        what: "the same, mean write rate, ZNS / conventional".to_owned(),
        paper: "1155 / 561 MiB/s: 2.1 times (reads at queue depth 1: 687, 1.7 times)".to_owned(),
        ours: format!(
            "{:.0} / {:.0} MiB/s: {ratio:.2} times",
            mean(&zns.write),
            mean(&block.write)
        ),
        rule: "1.4 to 2.7 times".to_owned(),
        holds: (1.4..2.7).contains(&ratio),
    });
    let (a, b) = (variation(&zns.read), variation(&block.read));
    let follows = correlation(&block.write, &block.read);
    report.findings.push(Finding {
        what: "Fig. 6b: reads over time (queue depth 32), mean and deviation, ZNS and conventional"
            .to_owned(),
        paper: "1.36 MiB/s, 5 % and 0.62 MiB/s, 54 %; reads follow writes".to_owned(),
        ours: format!(
            "{:.2} MiB/s, {:.0} % and {:.2} MiB/s, {:.0} %; correlation {follows:.2}",
            mean(&zns.read),
            a * 100.0,
            mean(&block.read),
            b * 100.0
        ),
        rule:
            "deviation of the conventional drive at least twice, correlation with writes above 0.7"
                .to_owned(),
        holds: b > 2.0 * a && follows > 0.7,
    });
    let (a, b) = (zns_single.reads.p95_us / 1e3, block_single.reads.p95_us / 1e3);
    report.findings.push(Finding {
        what: "Observation 11: 95 % of reads (queue depth 1) are faster than, ZNS / conventional"
            .to_owned(),
        paper: "98.0 / 299.9 ms: 3.1 times".to_owned(),
        ours: format!("{a:.1} / {b:.1} ms: {:.1} times", b / a),
        rule: "ZNS within 10 %, ratio from 2 to 5".to_owned(),
        holds: (a / 98.04 - 1.0).abs() < 0.1 && (2.0..5.0).contains(&(b / a)),
    });
}

/// Pearson's correlation of two series.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let (a, b) = (mean(one), mean(other));
    assert!(!one.is_empty() && !other.is_empty(), "a series has values");
    let products: Vec<f64> = one.iter().zip(other).map(|(x, y)| (x - a) * (y - b)).collect();
    let scale = variation(one) * a * variation(other) * b;
    products.iter().sum::<f64>() / count(products.len()).max(1.0) / scale.max(1e-12)
}
