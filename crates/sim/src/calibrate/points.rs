//! Each measured row, repeated on the model.
//!
//! The host is the one of the measurements: a polling driver. It takes [`SUBMISSION`] for each
//! submission, which the mean latency of the data includes and its percentiles do not, and [`GAP`]
//! between a completion and the next submission. With the kernel's scheduler ([`MERGE`]) half the
//! queue is merged into each write.

use std::collections::BTreeMap;

use zoneweave_emulator::Preset;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneId};

use super::measured::Row;
use super::{ClosedLoop, Job, Kind, Outcome};

/// Host time per submission: part of mean latencies and of all zone management.
const SUBMISSION: Nanos = Nanos(500);

/// From a completion to the next submission.
const GAP: Nanos = Nanos(450);

/// The kernel's time per request, and that of a scheduler that passes on a write unmerged.
const KERNEL: Nanos = Nanos(1_300);
const SINGLE: Nanos = Nanos(1_900);

/// A merging scheduler: time per merged write, and per request in it.
const MERGE: Nanos = Nanos(5_900);
const MERGE_EACH: Nanos = Nanos(850);

/// The largest command.
const COMMAND_KIB: u32 = 128;

/// Seed of every run.
const SEED: u64 = 540;

/// A measured row beside the model's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// The measurement.
    pub row: Row,
    /// The model's value, in the same unit.
    pub model: f64,
}

impl Residual {
    /// The model's error in percent.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.model / self.row.measured - 1.0)
    }
}

type Key = (String, Option<u32>, u32, u32, Option<u32>);

/// Runs the workloads of the rows, each once.
///
/// # Panics
///
/// If a row has an unknown operation or quantity.
#[must_use]
pub fn residuals(rows: &[Row]) -> Vec<Residual> {
    let mut presets = BTreeMap::new();
    let mut runs: BTreeMap<(&str, Key), Vec<Outcome>> = BTreeMap::new();
    let residual = |row: &Row| {
        let name = preset_of(row);
        let load = || Preset::by_name(name).expect("embedded presets load");
        let preset = &*presets.entry(name).or_insert_with(load);
        let key =
            (row.operation.clone(), row.request_kib, row.zones, row.queue_depth, row.parameter);
        let model = if row.request_kib.is_none() || row.group.starts_with("opening") {
            lone_command(row, preset)
        } else {
            let run = runs.entry((name, key)).or_insert_with(|| workload(row, preset));
            quantity(row, run)
        };
        Residual { row: row.clone(), model }
    };
    rows.iter().map(residual).collect()
}

/// The preset of the drive that a row was measured on.
fn preset_of(row: &Row) -> &'static str {
    match row.group.as_str() {
        group if group.starts_with("ZapRAID") => "zn540-4tb",
        "512 B format" => "zn540-1tb-512",
        _ => "zn540-1tb",
    }
}

fn quantity(row: &Row, run: &[Outcome]) -> f64 {
    let main = &run[0];
    match row.quantity.as_str() {
        "iops" if row.operation == "merged-write" => main.iops * f64::from(merged(row)),
        "iops" => main.iops,
        "throughput" => main.mib_per_second,
        "write throughput" => run[1].mib_per_second,
        "mean" => main.mean_us() + micros(SUBMISSION),
        "p50" => main.percentile_us(50),
        "p95" => main.percentile_us(95),
        "p99" => main.percentile_us(99),
        other => panic!("unknown quantity {other}"),
    }
}

fn micros(span: Nanos) -> f64 {
    span.as_secs_f64() * 1e6
}

/// Requests that the scheduler merges into one write: the half of the queue that waits while the
/// other half is written.
fn merged(row: &Row) -> u32 {
    (row.queue_depth / 2).max(1)
}

fn job(kind: Kind, kib: u32, zones: std::ops::Range<u32>, queue_depth: u32) -> Job {
    Job {
        kind,
        command: BlockCount(kib.min(COMMAND_KIB) / 4),
        commands: kib.div_ceil(COMMAND_KIB),
        zones,
        queue_depth,
        gap: SUBMISSION + GAP,
        interval: None,
    }
}

fn workload(row: &Row, preset: &Preset) -> Vec<Outcome> {
    let kib = row.request_kib.expect("a workload has a request size");
    let mut drive = ClosedLoop::new(preset, SEED);
    let mut reader = || {
        let full = preset.geometry().zone_capacity;
        (0..row.zones).for_each(|zone| drive.fill(ZoneId(zone), full));
        job(Kind::Read, kib, 0..row.zones, row.queue_depth)
    };
    let (jobs, saturates) = match row.operation.as_str() {
        "read" => (vec![reader()], false),
        "write" => (vec![job(Kind::Write, kib, 0..row.zones, 1)], kib >= 8),
        "append" => (vec![job(Kind::Append, kib, 0..row.zones, row.queue_depth)], kib >= 8),
        "merged-write" => {
            let mut write = job(Kind::Write, 4 * merged(row), 0..1, 1);
            write.gap = SUBMISSION + host_of_merging(row);
            (vec![write], true)
        }
        "read-under-write" => {
            let reader = reader();
            let mut writer = job(Kind::Append, COMMAND_KIB, 500..501, 1);
            let rate = u64::from(row.parameter.expect("a rate"));
            writer.interval = Some(Nanos(1_000_000_000 / 8 / rate));
            (vec![reader, writer], true)
        }
        "read-under-saturation" => (vec![reader(), job(Kind::Append, 1024, 500..504, 32)], true),
        other => panic!("unknown workload {other}"),
    };
    // A write buffer takes time to fill.
    let warm_up = Nanos::from_millis(if saturates { 1500 } else { 20 });
    let duration = Nanos::from_millis(500);
    drive.run(&jobs, warm_up, duration)
}

/// Time that the scheduler adds between two writes to a zone.
fn host_of_merging(row: &Row) -> Nanos {
    match row.queue_depth {
        1 => GAP + KERNEL + SINGLE,
        2 => SINGLE,
        _ => MERGE + Nanos(MERGE_EACH.0 * u64::from(merged(row))),
    }
}

/// The median latency of one command by itself, with the host's submission, in the row's unit.
fn lone_command(row: &Row, preset: &Preset) -> f64 {
    let mut took: Vec<_> = (0..5).map(|run| lone_run(row, preset, SEED + run)).collect();
    took.sort_unstable();
    let micros = micros(took[took.len() / 2] + SUBMISSION);
    if row.unit == "ms" { micros / 1e3 } else { micros }
}

fn lone_run(row: &Row, preset: &Preset, seed: u64) -> Nanos {
    const ZONE: ZoneId = ZoneId(7);
    let mut drive = ClosedLoop::new(preset, seed);
    let written = BlockCount(row.parameter.unwrap_or(0));
    drive.fill(ZONE, written);
    let one = BlockCount(1);
    match row.operation.as_str() {
        "open" => drive.manage(ZONE, ZoneAction::Open),
        "close" => {
            drive.set(ZONE, ZoneAction::Open);
            drive.manage(ZONE, ZoneAction::Close)
        }
        "reset-unfinished" => drive.manage(ZONE, ZoneAction::Reset),
        "reset-finished" => {
            drive.set(ZONE, ZoneAction::Finish);
            drive.manage(ZONE, ZoneAction::Reset)
        }
        "finish" => drive.manage(ZONE, ZoneAction::Finish),
        "first-write" => drive.write(Kind::Write, ZONE, one),
        "first-append" => drive.write(Kind::Append, ZONE, one),
        "steady-write" | "steady-append" | "reopening-write" => {
            drive.fill(ZONE, one);
            if row.operation == "reopening-write" {
                drive.set(ZONE, ZoneAction::Close);
            }
            let append = row.operation == "steady-append";
            drive.write(if append { Kind::Append } else { Kind::Write }, ZONE, one)
        }
        other => panic!("unknown command {other}"),
    }
}
