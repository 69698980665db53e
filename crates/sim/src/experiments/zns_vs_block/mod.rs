//! A zoned drive compared with conventional drives of the same dies.
//!
//! - Sustained writes: Bjørling et al., "ZNS: Avoiding the Block Interface Tax for Flash-based
//!   SSDs", ATC 2021, Fig. 1.
//! - Reads during rate-limited writes: Fig. 5 of the same paper.
//! - Reads and writes over time: Doekemeijer et al., "Performance Characterization of NVMe Flash
//!   Devices with Zoned Namespaces", CLUSTER 2023, Fig. 6.
//!
//! Conventional drives have the superblock count of real ones, but smaller superblocks, which are
//! rewritten several times within seconds. The zoned drive, which collects no garbage, has fewer
//! zones of the real size.
//!
//! `load` runs writers and readers; `overwrite` and `series` are the figures.

mod load;
mod overwrite;
mod series;

use std::rc::Rc;

use zoneweave_emulator::{ConventionalConfig, ConventionalDrive, Preset, RamDrive, Spread};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::OobKind;

use super::target::Target;
use super::{ExperimentError, Report};

const METHOD: &str = "\
The zoned drive is the preset `zn540-1tb` with 16 zones of the real size. The conventional drives \
have the same dies, program times and buffer behind a page-mapping translation layer with greedy \
collecting. They have 910 superblocks as a drive of 1 TB has, but each of a few rows of dies \
instead of 383. Events that take a superblock's time are faster by that ratio, and the bins of \
the series are shorter by it; ratios between drives are compared. Everything runs in virtual \
time.

Sustained writes, and reads beside them: four writers of 64 KiB requests, queue depth 8, each \
fills a range of a zone's size (a superblock's on conventional drives) and takes another one at \
random, which is reset or trimmed first. After four times the capacity the writers go on at a \
rate, with a reader of random 4 KiB blocks beside them.

Over time: four writers with 256 requests of 128 KiB each (the published data: 32 of 1 MiB), a \
reader at queue depth 32 or 1. On the conventional drive, which was filled before, each writer \
writes every 1 MiB of its part once in a shuffled order, then again in another order, as fio does \
by default. The published series has waves of 446 GB, so the parts together are 446 of 960 GB.

The waves come from that workload: the superblocks of one pass become ever emptier during the \
next pass, until the following pass begins with full ones. That order is inferred from the \
published series, not known. Bins are ten scaled seconds, the published ones one second.

Rules decide about shapes, and about ratios where they say so: beside slow writes the latency of \
reads differs less between the drives here than in the paper.";

/// Runs all three.
pub(super) fn run() -> Result<Report, ExperimentError> {
    let mut report = Report {
        title: "A zoned drive beside conventional ones".to_owned(),
        method: METHOD.to_owned(),
        ..Report::default()
    };
    overwrite::measure(&mut report)?;
    series::measure(&mut report)?;
    Ok(report)
}

/// The conventional twin with so much spare capacity, and superblocks of so many rows.
fn conventional(spare: f64, rows: u32) -> Result<ConventionalDrive, ExperimentError> {
    let mut config = ConventionalConfig::sn640_960gb().with_superblock_rows(rows);
    // As on the zoned drive: both have the same dies.
    config.flash.program = Spread::new(2446.0, 0.08);
    config.over_provisioning = spare;
    Ok(ConventionalDrive::new(config)?)
}

fn conventional_target(drive: &ConventionalDrive, rows: u32, handle: &Handle) -> Target {
    let range_blocks =
        ConventionalConfig::sn640_960gb().with_superblock_rows(rows).superblock_blocks();
    Target::Block { device: Rc::new(drive.attach(handle)), range_blocks }
}

/// The zoned drive, of 16 zones.
fn zoned() -> Result<RamDrive, ExperimentError> {
    let preset = Preset::by_name("zn540-1tb")?;
    let mut geometry = preset.geometry().clone();
    geometry.zones = 16;
    // Out-of-band metadata plays no role here, and would take memory.
    geometry.oob = OobKind::None;
    let preset = preset.with_zones(geometry.zones, geometry.zone_capacity)?;
    Ok(RamDrive::new(geometry, preset.timing(1))?)
}

/// Runs work in virtual time.
fn simulate<T, F: Future<Output = T>>(work: impl FnOnce(Handle) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.run(work(executor.handle()))
}

/// Bytes of a bin as a rate in MiB/s.
#[expect(clippy::cast_precision_loss, reason = "bytes of a run fit 53 bits")]
fn rate(bytes: u64, bin: zoneweave_runtime::Nanos) -> f64 {
    bytes as f64 / f64::from(1 << 20) / bin.as_secs_f64()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len()).max(1.0)
}

/// Standard deviation as a part of the mean.
fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - mean).powi(2)).collect();
    self::mean(&squares).sqrt() / mean.max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn count(number: usize) -> f64 {
    number as f64
}
