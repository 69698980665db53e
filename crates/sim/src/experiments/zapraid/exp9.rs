//! Exp#9: how long a start takes after a crash (Fig. 14a), by lists and by the newest checkpoint.

use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::{Lanes, OpenOptions, Volume, WritePolicy};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba};

use super::METHOD;
use super::load::{Mix, RandomWrites, write_of};
use super::testbed::Testbed;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::{ExperimentError, Report, Values};
use crate::workload::{Driver, WorkloadError};

/// GiB written before the crash, at full scale.
const SIZES: [u32; 4] = [25, 50, 100, 200];

/// What part of those is overwritten at random places, up to the crash.
const OVERWRITTEN: u64 = 50;

/// Zones hold so much less than they do; with smaller ones lists would be padding for the most part.
const ZONES_LEAST: f64 = 1.0 / 64.0;

const START: Metric = Metric { name: "start", unit: "ms" };
const FIRST: Metric = Metric { name: "first read", unit: "ms" };
const WHOLE: Metric = Metric { name: "whole index", unit: "ms" };
const SEGMENTS: Metric = Metric { name: "segments", unit: "" };
const REPLAYED: Metric = Metric { name: "lists read of", unit: "segments" };
const SHARE: Metric = Metric { name: "checkpoints", unit: "% of users' blocks" };

const METRICS: &[Metric] = &[START, FIRST, WHOLE, SEGMENTS, REPLAYED, SHARE];

/// What the paper measured for 100 GiB, of 4 KiB chunks, in milliseconds.
const PAPER_100_GIB: f64 = 2_600.0;

const OWN_METHOD: &str = "\
A volume is written in order, 64 requests of 64 KiB in flight, then 2 % of it at random places by requests of 4 KiB; in the \
middle of that the process dies. The array is started again, and a block is read at once. Here not only the data but also zones \
are smaller, as the scale says (a 64th at the least), so there are as many segments as at full scale. Beside what every \
command takes, every block that is read takes a thread's time: 14 us, which is what decoding and entering a page of the index or a block of a \
list takes, measured on one core of an AMD EPYC (2 million blocks, 22 to 47 ns each).

By *lists*: those of every segment are read, as in the paper. By a *checkpoint*: its pages are read, and the lists of segments \
that it does not know. *On demand*: users are served before that, and pages are read when somebody asks for them, and in the \
background.";

/// The thread's time for a block that is read.
const BLOCK: Nanos = Nanos::from_micros(14);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Lists,
    Checkpoint,
    OnDemand,
}

const WAYS: [By; 3] = [By::Lists, By::Checkpoint, By::OnDemand];

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::Checkpoint => "checkpoint",
            Self::OnDemand => "on demand",
        }
    }

    fn options(self) -> OpenOptions {
        let options = OpenOptions {
            policy: Some(WritePolicy::adaptive(
                Lanes { count: 1, chunk_blocks: 1 },
                Lanes::default(),
            )),
            ..OpenOptions::default()
        };
        match self {
            Self::Lists => OpenOptions { checkpoint_share: None, ..options },
            Self::Checkpoint => OpenOptions { index_on_demand: None, ..options },
            Self::OnDemand => OpenOptions { index_on_demand: NonZeroU32::new(64), ..options },
        }
    }
}

fn name(gib: u32, by: By) -> String {
    format!("{gib} GiB, {}", by.name())
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for gib in SIZES {
        for by in WAYS {
            let work = move |scale, seed| run(gib, by, scale, seed);
            let published = (gib == 100 && by == By::Lists).then_some(PAPER_100_GIB);
            let configuration = Configuration::new(name(gib, by), work);
            configurations.push(configuration.published(START, published));
        }
    }
    Suite {
        title: "ZapRAID, Exp#9: starting after a crash",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn run(gib: u32, by: By, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
    let scale = scale.max(ZONES_LEAST);
    let scheme = Scheme::new(3, 1).expect("a scheme");
    let capacity = Testbed::new("zn540-4tb", scheme, 1, seed)?.zone_capacity();
    let zone = BlockCount(u32::try_from(part(capacity.0, scale)).unwrap_or(u32::MAX));
    let blocks = part(gib << 18, scale);
    // A quarter more than the volume, and what the array needs besides.
    let zones = u32::try_from(blocks / 3 / u64::from(zone.0) * 5 / 4).unwrap_or(0) + 16;
    let testbed = Testbed::new("zn540-4tb", scheme, zones, seed)?.with_zones_of(zone)?;
    let testbed = testbed.with_volume_of(blocks);
    let mut values = Values::default();
    let share = testbed.crash_after(by.options(), async |volume, bench| {
        fill(&bench.handle, &volume, blocks).await?;
        let overwritten = blocks / OVERWRITTEN;
        let writes = RandomWrites {
            mix: Mix::Uniform(1),
            queue_depth: 64,
            range: blocks,
            blocks: overwritten * 2,
            seed,
        };
        let device: Rc<dyn BlockDevice> = Rc::new(volume.clone());
        let handle = bench.handle.clone();
        let before = volume.status().counters.user_blocks_written;
        let _until_the_crash =
            bench.handle.spawn("overwrites", async move { writes.run(&handle, device).await });
        while volume.status().counters.user_blocks_written < before + overwritten {
            bench.handle.sleep(Nanos::from_micros(100)).await;
        }
        let counters = volume.status().counters;
        Ok(100.0 * counters.checkpoint_blocks as f64 / counters.user_blocks_written as f64)
    });
    let (drives, share) = share?;
    values.put(SHARE.name, share);
    let mut random = Random::new(seed);
    testbed.start(&drives, BLOCK, by.options(), async |volume, report, bench| {
        let millis = || bench.handle.now().0 as f64 / 1e6;
        values.put(START.name, millis());
        volume.read(Lba(random.below(blocks)), 1).await.map_err(WorkloadError::Block)?;
        values.put(FIRST.name, millis());
        while volume.status().absent_pages > 0 {
            bench.handle.sleep(Nanos::from_micros(100)).await;
        }
        values.put(WHOLE.name, millis());
        values.put(SEGMENTS.name, report.segments as f64);
        values.put(REPLAYED.name, report.replayed_segments as f64);
        Ok(())
    })?;
    Ok(values)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "less than the whole")]
fn part(whole: u32, scale: f64) -> u64 {
    (f64::from(whole) * scale) as u64
}

/// Writes all of a volume in order.
async fn fill(handle: &Handle, volume: &Volume, blocks: u64) -> Result<(), ExperimentError> {
    const REQUEST: u32 = 16;
    let device: Rc<dyn BlockDevice> = Rc::new(volume.clone());
    let mut starts = (0..blocks).step_by(REQUEST as usize);
    let next = || -> Result<_, WorkloadError> {
        let Some(start) = starts.next() else { return Ok(None) };
        let length = u32::try_from(blocks - start).map_or(REQUEST, |left| left.min(REQUEST));
        Ok(Some(write_of(Lba(start), length)))
    };
    Driver { queue_depth: 64, largest: REQUEST }.drive(handle, &device, next).await?;
    Ok(())
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |gib: u32, by: By, metric: Metric| results.mean(&name(gib, by), metric);
    let slowest = SIZES.iter().map(|gib| of(*gib, By::OnDemand, FIRST)).fold(0.0, f64::max);
    let fastest = SIZES.iter().map(|gib| of(*gib, By::OnDemand, FIRST)).fold(f64::MAX, f64::min);
    report.findings.push(shape(
        "on demand: from the start to the first read",
        "does not depend on the data: at most 20 % between 25 and 200 GiB",
        format!("{fastest:.1} to {slowest:.1} ms"),
        "the ratio at most 1.2",
        slowest / fastest <= 1.2,
    ));
    report.findings.push(shape(
        "on demand: from the start to the first read",
        "at most a second",
        format!("{slowest:.1} ms"),
        "at full scale",
        slowest <= 1_000.0,
    ));
    let share = SIZES.iter().map(|gib| of(*gib, By::OnDemand, SHARE)).fold(0.0, f64::max);
    report.findings.push(shape(
        "checkpoints",
        "at most 2 % of what users write",
        format!("{share:.2} %"),
        "at most 2 %",
        share <= 2.0,
    ));
    let ratio = of(200, By::Lists, START) / of(25, By::Lists, START);
    report.findings.push(shape(
        "lists: 200 GiB over 25 GiB",
        "in proportion to the data (Fig. 14a)",
        format!("{ratio:.1}"),
        "at least 4",
        ratio >= 4.0,
    ));
    let line = |(by, metric, name): (By, Metric, &str)| Line {
        name: name.to_owned(),
        points: SIZES.iter().map(|gib| (f64::from(*gib), of(*gib, by, metric))).collect(),
    };
    let lines = [
        (By::Lists, FIRST, "lists"),
        (By::Checkpoint, FIRST, "checkpoint"),
        (By::OnDemand, FIRST, "on demand"),
        (By::OnDemand, WHOLE, "on demand: the whole index"),
    ];
    let lines = lines.into_iter().map(line).collect();
    let title = "From the start to the first read";
    report.chart(&Chart { name: "first_read", title, x: "GiB at full scale", y: "ms", lines });
}
