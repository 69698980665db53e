//! Sustained writes, and reads during rate-limited writes.

use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::BlockCount;

use super::load::{Load, Measured, Ranges, Writers};
use super::{conventional, conventional_target, mean, rate, simulate, zoned};
use crate::experiments::chart::{Chart, Line};
use crate::experiments::target::Target;
use crate::experiments::{ExperimentError, Finding, Report};
use crate::workload::WorkloadError;

const BIN: Nanos = Nanos::from_millis(200);
const ROWS: u32 = 4;
const OVERWRITES: u64 = 4;
/// Write rates, in MiB/s.
const TARGETS: [u64; 8] = [0, 50, 150, 300, 400, 500, 750, 1000];

const WRITERS: Writers = Writers { count: 4, request: BlockCount(16), queue_depth: 8, rate: None };

/// The measurements of one drive.
struct Run {
    name: &'static str,
    /// Written bytes as a multiple of the capacity, and MiB/s at that time.
    sustained: Vec<(f64, f64)>,
    points: Vec<Point>,
}

struct Point {
    target: u64,
    achieved: f64,
    read_us: f64,
}

pub(super) fn measure(report: &mut Report) -> Result<(), ExperimentError> {
    let zoned_drive = zoned()?;
    let zoned = simulate(|handle| async move {
        let target = Target::Zoned(zoned_drive.attach(&handle));
        run("ZNS", &handle, target).await
    })?;
    let mut runs = vec![zoned];
    for (name, spare) in [("28 % OP", 0.28), ("7 % OP", 0.07)] {
        let drive = conventional(spare, ROWS)?;
        runs.push(simulate(|handle| async move {
            let target = conventional_target(&drive, ROWS, &handle);
            run(name, &handle, target).await
        })?);
    }
    write(report, &runs);
    sustained_findings(report, &runs);
    latency_findings(report, &runs);
    Ok(())
}

async fn run(name: &'static str, handle: &Handle, target: Target) -> Result<Run, WorkloadError> {
    let capacity = target.ranges() * target.range_blocks() * 4096;
    let ranges = Ranges { idle: (0..target.ranges()).collect(), partial: Vec::new() };
    let load = Load::new(handle, target.clone(), ranges, BIN);
    load.limit_written(OVERWRITES * capacity);
    let tasks = load.fill_ranges(WRITERS, 1);
    load.stopped(BIN).await;
    let Measured { write_bins, mut ranges, .. } = load.finish(tasks).await?;
    assert!(!ranges.idle.is_empty(), "reads need a complete range");
    let mut points = Vec::new();
    for target_mib in TARGETS {
        let length = Nanos::from_millis(1500);
        let load = Load::new(handle, target.clone(), ranges, BIN);
        let rate = Some(target_mib << 20);
        let mut tasks = load.read_at_random(1, 2);
        if target_mib > 0 {
            tasks.extend(load.fill_ranges(Writers { rate, ..WRITERS }, 3 + target_mib));
        }
        handle.sleep(length).await;
        let measured = load.finish(tasks).await?;
        ranges = measured.ranges;
        assert!(!ranges.idle.is_empty(), "writers keep one range each");
        // The first third is left out: the buffer accepts it at any rate.
        let bins: Vec<f64> =
            measured.write_bins.iter().map(|bytes| super::rate(*bytes, BIN)).collect();
        let steady = bins.get(2..7).unwrap_or_default();
        let read_us = measured.read.mean_us;
        points.push(Point { target: target_mib, achieved: mean(steady), read_us });
    }
    Ok(Run { name, sustained: by_written(&write_bins, capacity), points })
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a run fit 53 bits")]
fn by_written(bins: &[u64], capacity: u64) -> Vec<(f64, f64)> {
    let mut written = 0;
    let whole = bins.len().saturating_sub(1);
    let place = |bytes: &u64| {
        written += bytes;
        (written as f64 / capacity as f64, rate(*bytes, BIN))
    };
    bins[..whole].iter().map(place).collect()
}

impl Run {
    /// Mean rate between two amounts of overwrites.
    fn rate_between(&self, from: f64, to: f64) -> f64 {
        let within = self.sustained.iter().filter(|point| (from..to).contains(&point.0));
        mean(&within.map(|point| point.1).collect::<Vec<_>>())
    }

    fn steady(&self) -> f64 {
        self.rate_between(3.0, 4.1)
    }

    /// The largest target rate that is reached within 3 %.
    fn sustains(&self) -> u64 {
        let reached = |point: &&Point| point.achieved >= 0.97 * to_f64(point.target);
        self.points.iter().filter(reached).map(|point| point.target).max().unwrap_or(0)
    }

    fn read_at(&self, target: u64) -> f64 {
        self.points
            .iter()
            .find(|point| point.target == target)
            .map_or(f64::NAN, |point| point.read_us)
    }
}

fn to_f64(target: u64) -> f64 {
    f64::from(u32::try_from(target).expect("a few thousand at most"))
}

fn write(report: &mut Report, runs: &[Run]) {
    let rows = runs
        .iter()
        .flat_map(|run| run.sustained.iter().map(|(x, y)| format!("{},{x:.3},{y:.1}", run.name)));
    report.table("sustained", "drive,capacities_written,write_mib_per_s", rows);
    let rows = runs.iter().flat_map(|run| {
        run.points.iter().map(|Point { target, achieved, read_us }| {
            format!("{},{target},{achieved:.1},{read_us:.1}", run.name)
        })
    });
    report.table("rates", "drive,target_mib_per_s,write_mib_per_s,read_mean_us", rows);
    let lines = |points: fn(&Run) -> Vec<(f64, f64)>| {
        runs.iter().map(|run| Line { name: run.name.to_owned(), points: points(run) }).collect()
    };
    report.chart(&Chart {
        name: "sustained",
        title: "Writes that overwrite the capacity four times",
        x: "capacities written",
        y: "MiB/s",
        lines: lines(|run| run.sustained.clone()),
    });
    report.chart(&Chart {
        name: "achieved",
        title: "Writes at a target rate",
        x: "target, MiB/s",
        y: "written, MiB/s",
        lines: lines(|run| {
            run.points.iter().map(|one| (to_f64(one.target), one.achieved)).collect()
        }),
    });
    report.chart(&Chart {
        name: "read_latency",
        title: "4 KiB random reads beside writes at a target rate",
        x: "target, MiB/s",
        y: "mean latency, us",
        lines: lines(|run| {
            run.points.iter().map(|one| (to_f64(one.target), one.read_us)).collect()
        }),
    });
}

fn sustained_findings(report: &mut Report, runs: &[Run]) {
    let [zns, large, small] = runs else { unreachable!("there are three drives") };
    let (a, b, c) = (zns.steady(), large.steady(), small.steady());
    report.findings.push(Finding {
        what: "ATC 2021 Fig. 1: steady writes, ZNS / 28 % / 7 %".to_owned(),
        paper: "1010 / 590 / 370 MiB/s: 1.7 and 2.7 times".to_owned(),
        ours: format!("{a:.0} / {b:.0} / {c:.0} MiB/s: {:.2} and {:.2} times", a / b, a / c),
        rule: "in this order, ratios within 1.3 times the paper's".to_owned(),
        holds: near(a / b, 1010.0 / 590.0) && near(a / c, 1010.0 / 370.0),
    });
    let first: Vec<f64> = runs.iter().map(|run| run.rate_between(0.1, 0.9)).collect();
    let all_high = first.iter().all(|rate| (rate / first[0] - 1.0).abs() < 0.1);
    report.findings.push(Finding {
        what: "the same, before the capacity is written once".to_owned(),
        paper: "all high".to_owned(),
        ours: format!("{:.0} / {:.0} / {:.0} MiB/s", first[0], first[1], first[2]),
        rule: "within 10 % of each other".to_owned(),
        holds: all_high,
    });
    let (a, b, c) = (zns.sustains(), large.sustains(), small.sustains());
    report.findings.push(Finding {
        what: "ATC 2021 Fig. 5a: highest target that is reached, ZNS / 28 % / 7 %".to_owned(),
        paper: "1000 / 500 / 300 MiB/s".to_owned(),
        ours: format!("{a} / {b} / {c} MiB/s (of 50, 150, 300, 400, 500, 750, 1000)"),
        rule: "1000, and falling from drive to drive".to_owned(),
        holds: a == 1000 && a > b && b > c,
    });
}

fn near(ratio: f64, paper: f64) -> bool {
    (paper / 1.3..paper * 1.3).contains(&ratio)
}

fn latency_findings(report: &mut Report, runs: &[Run]) {
    let [zns, large, small] = runs else { unreachable!("there are three drives") };
    let lower = |than: &Run, target| 100.0 * (1.0 - zns.read_at(target) / than.read_at(target));
    let mut before = (0.0, 0.0);
    for (target, paper) in [(50, (19, 5)), (150, (45, 16)), (300, (64, 27))] {
        let (c, b) = (lower(small, target), lower(large, target));
        report.findings.push(Finding {
            what: format!(
                "ATC 2021 Fig. 5b: reads beside {target} MiB/s, ZNS lower than 7 % / 28 %"
            ),
            paper: format!("{} % / {} %", paper.0, paper.1),
            ours: format!("{c:.0} % / {b:.0} %"),
            rule: "ZNS is lowest, 7 % highest, both gaps larger than at the rate before".to_owned(),
            holds: c > b && b > 0.0 && c > before.0 && b > before.1,
        });
        before = (c, b);
    }
    let idle: Vec<f64> = runs.iter().map(|run| run.read_at(0)).collect();
    report.findings.push(Finding {
        what: "the same, without writes".to_owned(),
        paper: "85 us on conventional drives".to_owned(),
        ours: format!("{:.1} / {:.1} / {:.1} us", idle[0], idle[1], idle[2]),
        rule: "within 2 % of each other".to_owned(),
        holds: idle.iter().all(|one| (one / idle[0] - 1.0).abs() < 0.02),
    });
}
