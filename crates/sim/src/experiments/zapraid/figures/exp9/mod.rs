//! Exp#9: time of a start after a crash (Fig. 14a), from summaries and from the newest checkpoint,
//! and time of a rebuild (Fig. 14b).

mod rebuild;

use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_raid::log::format::ENTRIES_PER_INDEX_BLOCK;
use zoneweave_raid::log::{Lanes, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, ZoneId};

use self::rebuild::rebuild;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::zapraid::loads::random_writes::{Mix, RandomWrites, write_of};
use crate::experiments::zapraid::loads::writes::{PATH_MIB, three_and_one};
use crate::experiments::zapraid::method::METHOD;
use crate::experiments::{ExperimentError, Report, Values};
use crate::testbed::Testbed;
use crate::testbed::host::Looks;
use crate::workload::{Driver, WorkloadError};

/// GiB written before the crash, at full scale.
const SIZES: [u32; 4] = [25, 50, 100, 200];

/// The part of them that is overwritten at random before the crash.
const OVERWRITTEN: u64 = 50;

/// Blocks of a column in a span; its list is written at its end.
const SPAN: u32 = 16_384;

/// The smallest scale of zones; lists in smaller zones would be mostly padding.
const ZONES_LEAST: f64 = 1.0 / 64.0;

const LISTS: Metric = Metric { name: "by lists: first read", unit: "ms" };
const CHECKPOINT: Metric = Metric { name: "by a checkpoint: first read", unit: "ms" };
const START: Metric = Metric { name: "on demand: start", unit: "ms" };
const FIRST: Metric = Metric { name: "on demand: first read", unit: "ms" };
const WHOLE: Metric = Metric { name: "on demand: whole index", unit: "ms" };
const ALIKE: Metric = Metric { name: "on demand, after the same load: first read", unit: "ms" };
const SEGMENTS: Metric = Metric { name: "segments", unit: "" };
const REPLAYED: Metric = Metric { name: "lists read of", unit: "segments" };
const REPLAYED_ALIKE: Metric =
    Metric { name: "after the same load: lists read of", unit: "segments" };
const SHARE: Metric = Metric { name: "checkpoints", unit: "% of users' blocks" };

const REBUILD: Metric = Metric { name: "rebuild, chunks of 4 KiB", unit: "s" };
const REBUILD_LARGE: Metric = Metric { name: "rebuild, chunks of 16 KiB", unit: "s" };
const REBUILD_RATE: Metric = Metric { name: "rebuild, chunks of 4 KiB: written", unit: "MiB/s" };

const METRICS: &[Metric] = &[
    LISTS,
    CHECKPOINT,
    START,
    FIRST,
    WHOLE,
    ALIKE,
    SEGMENTS,
    REPLAYED,
    REPLAYED_ALIKE,
    SHARE,
    REBUILD,
    REBUILD_LARGE,
    REBUILD_RATE,
];

/// Seconds of the paper's rebuild of 100 GiB with chunks of 4 KiB, and of 1,000 GiB.
const PAPER_REBUILD: [f64; 2] = [81.9, 813.2];

/// The paper's saving with chunks of 16 KiB.
const PAPER_LARGE_LESS: &str = "22.1 to 23.8 % less";

/// The paper's time for 100 GiB, chunks of 4 KiB, in milliseconds.
const PAPER_100_GIB: f64 = 2_600.0;

/// The paper's time for each 100 GiB more.
const PAPER_MORE: f64 = 1_510.0;

/// Tenths of nanoseconds to enter an entry of a page, in a start on demand and in another one.
const PAGE_ENTRY_ON_DEMAND_TENTHS: u64 = 55;
const PAGE_ENTRY_TENTHS: u64 = 120;

/// Nanoseconds for an entry of a list: entered into the index at once, kept aside, or entered
/// later. It is 21 ns for a block entered at once and 16 ns for a deferred one, and a third as many
/// entries more as blocks. Where entries are entered at once, an eighth is written twice.
const LIST_ENTRY: u64 = 15;
const DEFERRED_ENTRY: u64 = 13;
const ENTERED_LATER: u64 = 41;

/// Nanoseconds for a page listed in a directory.
const LISTED_PAGE: u64 = 5;

/// Maximum entries of a page and of a directory.
const ENTRIES: u64 = 960;

/// Processor time per block read, from `cargo run --release -p zoneweave-raid --example start`.
const LOOKS: Looks = Looks {
    page: Nanos(PAGE_ENTRY_TENTHS * ENTRIES / 10),
    directory: Nanos(LISTED_PAGE * ENTRIES),
    list: Nanos(LIST_ENTRY * ENTRIES_PER_INDEX_BLOCK as u64),
    chunk: Nanos(235),
    other: Nanos(1_000),
};

/// The same on demand: list entries of a page are entered together with it.
const LOOKS_ON_DEMAND: Looks = Looks {
    page: Nanos(PAGE_ENTRY_ON_DEMAND_TENTHS * ENTRIES / 10 + ENTERED_LATER * ENTRIES / OVERWRITTEN),
    list: Nanos(DEFERRED_ENTRY * ENTRIES_PER_INDEX_BLOCK as u64),
    ..LOOKS
};

const OWN_METHOD: &str = "\
A volume is written in order, 64 requests of 64 KiB in flight, then 2 % of it at random places by \
requests of 4 KiB. More follow until nine tenths of the last span of the open segment are \
written, so that as much of a segment as possible must be examined. For open segments that is the \
worst moment to crash, and the same for every size. For the writes since the newest checkpoint it \
is not: they are one segment here, and `formula.csv` has the maximum.

*After the same load* means that no part of the volume was written at random places, but the same \
amount for every size: a segment, and the next one up to that moment. The process dies with 64 \
requests in flight. The array is started again from the same drives in each of the ways below, \
and a block is read at once. Zones are scaled with the data (a 64th at the least), so there are \
as many segments as at full scale.

In addition to the commands, the processing of blocks takes a thread's time. An entry of an index \
page takes 5.5 ns on demand and 12 ns otherwise, an entry of a summary 15 ns. An entry of a \
summary that a start on demand keeps aside takes 13 ns, and 41 ns more when it is entered with \
its page. A block of a segment that the crash left open takes 235 ns, its share of verification \
included. A page listed by a directory takes 5 ns.

The example `start` of `zoneweave-raid` measures these; they are rounded up. They are the least \
of 15 runs, in thread time, on one of two virtual cores of an AMD EPYC with four programs \
running. Three measurements gave, in this order: 5.3, 5.3 and 5.4 ns; 11.7 to 12.1; 20.5 to 21.4 \
for a block by summaries, which have half as many entries more. Kept aside: 15.4 to 16.2, a third \
more entries; then 39.9 to 40.8; 201 to 233; 1 to 4.5. The 1 us for a header or a superblock \
record is assumed, not measured.

By *lists*: the summaries of every segment are read, as in the paper. By a *checkpoint*: its \
pages are read, and the summaries of segments that it does not cover. *On demand*: users are \
served before that, and pages are read on request, and in the background.

`formula.csv` extrapolates to 16 TiB from 25 GiB, by the rates above. It counts a directory per \
921,600 blocks, headers, and the summaries of the writes since the checkpoint: 2 % of the volume, \
or a fifteenth at most. A fifteenth is the volume of random writes until a checkpoint has written \
every page at one block for 64. So with the oldest possible checkpoint, the time of a start \
depends on the size of the volume: it is below a second up to some 2.5 TiB.

*Rebuild*: a volume is written in order, a drive is removed, and when the open segments have been \
relocated a new one takes its place; zones have their real size. Parity and checksums cost no \
time there. The paper's prototype writes one chunk at a time, and reads all of a segment before. \
Here many chunks go with each command, several zones are written at a time, and reading continues \
meanwhile. So only the rate of the new drive matters, not the chunk size.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Lists,
    Checkpoint,
    OnDemand,
}

impl By {
    fn options(self) -> OpenOptions {
        let options = OpenOptions {
            writes: WriteChoice::Policy(WritePolicy::adaptive(
                Lanes { count: 1, chunk_blocks: 1 },
                Lanes::default(),
            )),
            ..OpenOptions::default()
        };
        match self {
            Self::Lists => OpenOptions { ignore_checkpoint: true, ..options },
            Self::Checkpoint => OpenOptions { index_on_demand: None, ..options },
            Self::OnDemand => OpenOptions { index_on_demand: NonZeroU32::new(64), ..options },
        }
    }
}

fn name(gib: u32) -> String {
    format!("{gib} GiB")
}

pub(in crate::experiments) fn suite() -> Suite {
    let configuration = |gib| {
        let work = move |scale, seed| run(gib, scale, seed);
        let published = (gib == 100).then_some(PAPER_100_GIB);
        let rebuild = (gib == 100).then_some(PAPER_REBUILD[0]);
        let one = Configuration::new(name(gib), work).published(LISTS, published);
        one.published(REBUILD, rebuild)
    };
    Suite {
        title: "ZapRAID, Exp#9: starting after a crash",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations: SIZES.into_iter().map(configuration).collect(),
        judge,
    }
}

/// Random writes before the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// A part of the volume.
    Part,
    /// The same amount for every size: a segment, and most of the next one.
    Alike,
}

/// An array, and the load on it.
struct Work {
    testbed: Testbed,
    zone: BlockCount,
    blocks: u64,
    seed: u64,
}

impl Work {
    fn new(gib: u32, scale: f64, seed: u64) -> Result<Self, ExperimentError> {
        let scale = scale.max(ZONES_LEAST);
        let capacity = Testbed::new("zn540-4tb", three_and_one(), 1, seed)?.zone_capacity();
        let zone = BlockCount(u32::try_from(part(capacity.0, scale)).unwrap_or(u32::MAX));
        let blocks = part(gib << 18, scale);
        let zones = zones_for(blocks, zone);
        let testbed =
            Testbed::new("zn540-4tb", three_and_one(), zones, seed)?.with_zones_of(zone)?;
        Ok(Self { testbed: testbed.with_volume_of(blocks), zone, blocks, seed })
    }

    /// The drives after the crash, and checkpoint blocks in percent of user blocks.
    fn crash_after(&self, load: Load) -> Result<(Vec<RamDrive>, f64), ExperimentError> {
        let Self { zone, blocks, seed, .. } = *self;
        self.testbed.crash_after(By::OnDemand.options(), async |volume, bench, drives| {
            fill(&bench.handle, &volume, blocks).await?;
            let segment = u64::from(zone.0) * 3;
            let least = match load {
                Load::Part => blocks / OVERWRITTEN,
                Load::Alike => segment,
            };
            let (mix, range) = (Mix::Uniform(1), blocks);
            let writes = RandomWrites {
                mix,
                queue_depth: 64,
                range,
                warm_up: 0,
                blocks: least + 4 * segment,
                seed,
            };
            let device: Rc<dyn BlockDevice> = Rc::new(volume.clone());
            let handle = bench.handle.clone();
            let before = volume.status().counters.user_blocks_written;
            let _until_the_crash =
                bench.handle.spawn("overwrites", async move { writes.run(&handle, device).await });
            let written = || volume.status().counters.user_blocks_written - before;
            while written() < least || !is_worst(&drives[0], zone) {
                bench.handle.sleep(Nanos::from_micros(100)).await;
            }
            let counters = volume.status().counters;
            assert!(counters.user_blocks_written >= blocks, "the volume was filled");
            Ok(100.0 * counters.checkpoint_blocks as f64 / counters.user_blocks_written as f64)
        })
    }

    /// Starts the array and reads a block; records the times.
    fn start(
        &self,
        drives: &[RamDrive],
        by: By,
        load: Load,
        values: &mut Values,
    ) -> Result<(), ExperimentError> {
        let mut random = Random::new(self.seed);
        let looks = if by == By::OnDemand { LOOKS_ON_DEMAND } else { LOOKS };
        self.testbed.start(drives, looks, by.options(), async |volume, report, bench| {
            let millis = || bench.handle.now().0 as f64 / 1e6;
            let started = millis();
            assert!(report.replayed_segments <= report.segments, "replay is of known segments");
            let lba = Lba(random.below(self.blocks));
            volume.read(lba, 1).await.map_err(WorkloadError::Block)?;
            match (by, load) {
                (By::Lists, _) => values.put(LISTS.name, millis()),
                (By::Checkpoint, _) => values.put(CHECKPOINT.name, millis()),
                (By::OnDemand, Load::Alike) => {
                    values.put(ALIKE.name, millis());
                    values.put(REPLAYED_ALIKE.name, report.replayed_segments as f64);
                }
                (By::OnDemand, Load::Part) => {
                    values.put(START.name, started);
                    values.put(FIRST.name, millis());
                    while volume.status().absent_pages > 0 {
                        bench.handle.sleep(Nanos::from_micros(100)).await;
                    }
                    values.put(WHOLE.name, millis());
                    values.put(SEGMENTS.name, report.segments as f64);
                    values.put(REPLAYED.name, report.replayed_segments as f64);
                }
            }
            Ok(())
        })
    }
}

fn run(gib: u32, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
    let work = Work::new(gib, scale, seed)?;
    let mut values = Values::default();
    {
        // Freed before the next ones are filled: both together exceed the memory of many machines.
        let (drives, _) = work.crash_after(Load::Alike)?;
        work.start(&drives, By::OnDemand, Load::Alike, &mut values)?;
    }
    let (drives, share) = work.crash_after(Load::Part)?;
    values.put(SHARE.name, share);
    for by in [By::Lists, By::Checkpoint, By::OnDemand] {
        work.start(&drives, by, Load::Part, &mut values)?;
    }
    drop(drives);
    let small = rebuild(gib, 1, scale, seed)?;
    values.put(REBUILD.name, small.seconds);
    values.put(REBUILD_RATE.name, small.mib_per_second);
    values.put(REBUILD_LARGE.name, rebuild(gib, 4, scale, seed)?.seconds);
    Ok(values)
}

/// Whether most of the last span of an open segment is written.
fn is_worst(drive: &RamDrive, zone: BlockCount) -> bool {
    let span = zone.0.min(SPAN);
    let last = (zone.0 - 1) / span * span;
    // Lists occupy some of a zone's end.
    let (least, most) = (last + (zone.0 - last) / 20 * 17, last + (zone.0 - last) / 20 * 19);
    // The first two zones hold superblocks.
    (2..drive.geometry().zones)
        .map(|at| drive.zone(ZoneId(at)))
        .any(|info| info.state.is_active() && (least..most).contains(&info.write_pointer.0))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "less than the whole")]
pub(in crate::experiments) fn part(whole: u32, scale: f64) -> u64 {
    (f64::from(whole) * scale) as u64
}

/// Zones of each drive: a quarter more than the volume, and the array's overhead.
pub(in crate::experiments) fn zones_for(blocks: u64, zone: BlockCount) -> u32 {
    u32::try_from(blocks / 3 / u64::from(zone.0) * 5 / 4).unwrap_or(0) + 16
}

/// Writes all of a volume in order.
pub(in crate::experiments) async fn fill(
    handle: &Handle,
    volume: &Volume,
    blocks: u64,
) -> Result<(), ExperimentError> {
    const REQUEST: u32 = 16;
    let device: Rc<dyn BlockDevice> = Rc::new(volume.clone());
    let mut starts = (0..blocks).step_by(REQUEST as usize);
    let next = || -> Result<_, WorkloadError> {
        let Some(start) = starts.next() else { return Ok(None) };
        let length = u32::try_from(blocks - start).map_or(REQUEST, |left| left.min(REQUEST));
        Ok(Some(write_of(Lba(start), length)))
    };
    Driver { queue_depth: 64, largest: REQUEST, warm_up: 0 }.drive(handle, &device, next).await?;
    Ok(())
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |gib: u32, metric: Metric| results.mean(&name(gib), metric);
    for (metric, load) in [(ALIKE, "after the same load"), (FIRST, "after 2 % was written again")] {
        let slowest = SIZES.iter().map(|gib| of(*gib, metric)).fold(0.0, f64::max);
        let fastest = SIZES.iter().map(|gib| of(*gib, metric)).fold(f64::MAX, f64::min);
        report.findings.push(shape(
            &format!("on demand, {load}: from the start to the first read"),
            "does not depend on the data: at most 20 % between 25 and 200 GiB",
            format!("{fastest:.1} to {slowest:.1} ms"),
            "the ratio at most 1.2",
            slowest / fastest <= 1.2,
        ));
    }
    let [least, most] = [25, 200].map(|gib| first_read(gib, AT_WORST, of(25, FIRST)));
    report.findings.push(shape(
        "on demand, a fifteenth written since the checkpoint, as at worst: from the start to the first read",
        "does not depend on the data: at most 20 % between 25 and 200 GiB",
        format!("{least:.0} to {most:.0} ms, by the formula"),
        "the ratio at most 1.2",
        most / least <= 1.2,
    ));
    let slowest = SIZES.iter().map(|gib| of(*gib, FIRST)).fold(0.0, f64::max);
    report.findings.push(shape(
        "on demand: from the start to the first read",
        "at most a second",
        format!("{slowest:.1} ms"),
        "at most 1,000 ms",
        slowest <= 1_000.0,
    ));
    let share = SIZES.iter().map(|gib| of(*gib, SHARE)).fold(0.0, f64::max);
    report.findings.push(shape(
        "checkpoints",
        "at most 2 % of user writes",
        format!("{share:.2} %"),
        "at most 2 %",
        share <= 2.0,
    ));
    for (metric, what, bound) in [
        (
            WHOLE,
            "on demand: the whole index of the first TiB, in proportion from 25 and 200 GiB",
            2_000.0,
        ),
        (LISTS, "lists: the first TiB, in proportion from 25 and 200 GiB", 6_000.0),
    ] {
        // Extrapolated with the constant part of a start.
        let ms = of(200, metric) + (of(200, metric) - of(25, metric)) / 175.0 * 824.0;
        let (ours, rule) = (format!("{ms:.0} ms"), format!("at most {bound} ms"));
        report.findings.push(shape(what, "not in the paper", ours, &rule, ms <= bound));
    }
    let ratio = of(200, LISTS) / of(25, LISTS);
    report.findings.push(shape(
        "lists: 200 GiB over 25 GiB",
        "in proportion to the data (Fig. 14a)",
        format!("{ratio:.1}"),
        "at least 4",
        ratio >= 4.0,
    ));
    rebuilds(results, report);
    let lines = [
        (LISTS, "lists"),
        (CHECKPOINT, "checkpoint"),
        (FIRST, "on demand"),
        (ALIKE, "on demand, after the same load"),
        (WHOLE, "on demand: the whole index"),
    ];
    let mut lines: Vec<_> = lines.into_iter().map(|line| line_of(results, line)).collect();
    let paper = |gib: &u32| {
        let gib = f64::from(*gib);
        (gib, PAPER_100_GIB + (gib / 100.0 - 1.0) * PAPER_MORE)
    };
    let points = SIZES.iter().map(paper).collect();
    lines
        .push(Line { name: "the paper (a line through its 100 and 1,000 GiB)".to_owned(), points });
    let title = "From the start to the first read";
    report.chart(&Chart { name: "first_read", title, x: "GiB at full scale", y: "ms", lines });
    formula(of(25, FIRST), report);
}

/// A line by the amount of stored data.
fn line_of(results: &Results<'_>, (metric, called): (Metric, &str)) -> Line {
    let point = |gib: &u32| (f64::from(*gib), results.mean(&name(*gib), metric));
    Line { name: called.to_owned(), points: SIZES.iter().map(point).collect() }
}

/// Fig. 14b, and the part of the new drive's bandwidth in use.
fn rebuilds(results: &Results<'_>, report: &mut Report) {
    let of = |gib: u32, metric: Metric| results.mean(&name(gib), metric);
    let ratio = of(200, REBUILD) / of(100, REBUILD);
    report.findings.push(shape(
        "rebuild, chunks of 4 KiB: 200 GiB over 100 GiB",
        "in proportion to the data (Fig. 14b)",
        format!("{ratio:.2}"),
        "1.8 to 2.2",
        (1.8..=2.2).contains(&ratio),
    ));
    let (ours, paper) = (of(100, REBUILD), PAPER_REBUILD[0]);
    report.findings.push(shape(
        "rebuild of 100 GiB, chunks of 4 KiB",
        &format!("{paper} s"),
        format!("{ours:.1} s"),
        "no longer",
        ours <= paper,
    ));
    let less = 100.0 * (1.0 - of(100, REBUILD_LARGE) / ours);
    report.findings.push(shape(
        "rebuild of 100 GiB, chunks of 16 KiB against 4 KiB",
        PAPER_LARGE_LESS,
        format!("{less:.1} % less"),
        "no longer",
        less >= -1.0,
    ));
    let part = of(200, REBUILD_RATE) / PATH_MIB;
    report.findings.push(shape(
        "rebuild of 200 GiB: written to the new drive, of the 1,780 MiB/s that it takes at most",
        "not in the paper",
        format!("{:.1} %", 100.0 * part),
        "at least 90 %",
        part >= 0.9,
    ));
    let ours = [(REBUILD, "chunks of 4 KiB"), (REBUILD_LARGE, "chunks of 16 KiB")];
    let mut lines: Vec<_> = ours.into_iter().map(|line| line_of(results, line)).collect();
    let [least, most] = PAPER_REBUILD;
    let paper =
        |gib: &u32| (f64::from(*gib), least + f64::from(gib - 100) / 900.0 * (most - least));
    let points = SIZES.iter().filter(|gib| **gib >= 100).map(paper).collect();
    lines.push(Line { name: "the paper, chunks of 4 KiB".to_owned(), points });
    let (title, x) = ("From a new drive to full redundancy", "GiB at full scale");
    report.chart(&Chart { name: "rebuild", title, x, y: "s", lines });
}

/// The part of the volume that may have been written since the newest checkpoint.
const AT_WORST: f64 = 1.0 / 15.0;

const BLOCKS_PER_GIB: f64 = (1 << 18) as f64;

fn ms(each: f64, nanos: f64) -> f64 {
    each * nanos / 1e6
}

/// Time to the first read if a part of the volume was written since the checkpoint, scaled from the
/// time for 25 GiB.
fn first_read(gib: u32, part: f64, of_25_gib: f64) -> f64 {
    let more = f64::from(gib - 25) * BLOCKS_PER_GIB;
    let directories = ms(more / ENTRIES as f64, LISTED_PAGE as f64);
    // Each zone of a segment has one header; 0.95 us is the command's time.
    let headers = ms(more / 3.0 / 275_712.0 * 4.0, LOOKS.other.0 as f64 + 950.0);
    let lists = ms(more * part * 4.0 / 3.0, DEFERRED_ENTRY as f64);
    of_25_gib + directories + headers + lists
}

/// Estimates for larger volumes, next to the paper's line.
fn formula(of_25_gib: f64, report: &mut Report) {
    let header =
        "GiB,first read after 2 % ms,first read after a fifteenth ms,whole index ms,paper ms";
    let rows = [25, 100, 200, 1_024, 4_096, 16_384].map(|gib: u32| {
        let first = first_read(gib, 1.0 / OVERWRITTEN as f64, of_25_gib);
        let most = first_read(gib, AT_WORST, of_25_gib);
        let blocks = f64::from(gib) * BLOCKS_PER_GIB;
        let later = ENTERED_LATER as f64 / OVERWRITTEN as f64;
        let whole = first + ms(blocks, PAGE_ENTRY_ON_DEMAND_TENTHS as f64 / 10.0 + later);
        let paper = PAPER_100_GIB + (f64::from(gib) / 100.0 - 1.0) * PAPER_MORE;
        format!("{gib},{first:.0},{most:.0},{whole:.0},{paper:.0}")
    });
    report.table("formula", header, rows.into_iter());
}
