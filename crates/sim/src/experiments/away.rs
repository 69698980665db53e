//! Time to full redundancy after a drive was away, beside the rebuild of a whole drive.
//!
//! A drive that returns to its slot keeps the columns that still count, so the time depends on the
//! writes that it missed, not on the volume. All of it is measured under the load of users.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Health, Lanes, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba};

use super::chart::{Chart, Line};
use super::suite::{Configuration, Metric, Results, Suite, shape};
use super::zapraid::figures::exp9::{fill, part, zones_for};
use super::{ExperimentError, Report, Values};
use crate::testbed::host::{Charged, Looks};
use crate::testbed::{Bench, Testbed};
use crate::workload::{BlockRequest, Direction, Driver, WorkloadError};

/// GiB of the volume, at full scale.
const SIZES: [u32; 2] = [100, 200];

/// The slot whose drive is away.
const AWAY: usize = 1;

/// Requests of users: blocks, and how many a second, 200 MiB/s in all.
const REQUEST: u32 = 16;
const REQUESTS_PER_SECOND: u64 = 3_200;

const SECONDS: [u64; 3] = [10, 30, 60];

const WRITTEN: [Metric; 3] = [
    Metric { name: "away for 10 s: users wrote", unit: "MiB" },
    Metric { name: "away for 30 s: users wrote", unit: "MiB" },
    Metric { name: "away for 60 s: users wrote", unit: "MiB" },
];
const COPIED: [Metric; 3] = [
    Metric { name: "away for 10 s: written to the drive until it is whole", unit: "MiB" },
    Metric { name: "away for 30 s: written to the drive until it is whole", unit: "MiB" },
    Metric { name: "away for 60 s: written to the drive until it is whole", unit: "MiB" },
];
const WHOLE_AFTER: [Metric; 3] = [
    Metric { name: "away for 10 s: full redundancy after", unit: "ms" },
    Metric { name: "away for 30 s: full redundancy after", unit: "ms" },
    Metric { name: "away for 60 s: full redundancy after", unit: "ms" },
];
const REBUILD: Metric = Metric { name: "another drive: full redundancy after", unit: "ms" };
const REBUILT: Metric =
    Metric { name: "another drive: written to it until it is whole", unit: "MiB" };

const METRICS: &[Metric] = &[
    WRITTEN[0],
    COPIED[0],
    WHOLE_AFTER[0],
    WRITTEN[1],
    COPIED[1],
    WHOLE_AFTER[1],
    WRITTEN[2],
    COPIED[2],
    WHOLE_AFTER[2],
    REBUILT,
    REBUILD,
];

const METHOD: &str = "\
A volume of 3 + 1 drives `zn540-4tb` is written in order. Then users write 64 KiB at random places, \
200 MiB a second, until the end. A drive stops to answer, is away for 10, 30 and 60 s, and returns to \
its slot each time. At last it fails for good, and another drive takes its place. The time is from \
the return, or from the replacement, to full redundancy. Zones have their real size; the scale is \
that of the volume. Each drive command takes 0.95 us of one host thread; parity and checksums take \
no time.

What the drive was written meanwhile includes its part of the users' writes. A drive that returns \
misses its part of the writes, and of the segments that were open when it left, which are written \
again: up to a segment of users and one of relocation, whatever the time.";

pub(super) fn suite() -> Suite {
    let configuration =
        |gib| Configuration::new(name(gib), move |scale, seed| run(gib, scale, seed));
    Suite {
        title: "A drive that was away: time to full redundancy",
        method: METHOD.to_owned(),
        metrics: METRICS,
        configurations: SIZES.into_iter().map(configuration).collect(),
        judge,
    }
}

fn name(gib: u32) -> String {
    format!("{gib} GiB")
}

/// Writes of users at a fixed rate, until this is dropped.
struct Load(Rc<Cell<bool>>);

impl Load {
    fn begin(bench: &Bench, volume: &Volume, blocks: u64, seed: u64) -> Self {
        let ends = Rc::new(Cell::new(false));
        let (handle, device, stop) =
            (bench.handle.clone(), Rc::new(volume.clone()) as Rc<dyn BlockDevice>, ends.clone());
        let (mut random, mut number) = (Random::new(seed), 0);
        let next = move || -> Result<_, WorkloadError> {
            let due = Nanos(number * 1_000_000_000 / REQUESTS_PER_SECOND);
            number += 1;
            let lba = Lba(random.below(blocks / u64::from(REQUEST)) * u64::from(REQUEST));
            let request =
                BlockRequest { direction: Direction::Write, lba, blocks: REQUEST, due: Some(due) };
            Ok((!stop.get()).then_some(request))
        };
        bench.handle.spawn_alone("users", async move {
            let driver = Driver { queue_depth: 64, largest: REQUEST, warm_up: 0 };
            driver.drive(&handle, &device, next).await.expect("users are served all the time");
        });
        Self(ends)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn run(gib: u32, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
    let preset = Preset::by_name("zn540-4tb")?;
    let blocks = part(gib << 18, scale);
    let zones = zones_for(blocks, preset.geometry().zone_capacity);
    let scheme = Scheme::new(3, 1).expect("3 + 1 is a scheme");
    let testbed = Testbed::new("zn540-4tb", scheme, zones, seed)?.with_volume_of(blocks);
    let lanes = Lanes { count: 1, chunk_blocks: 4 };
    let writes = WriteChoice::Policy(WritePolicy::adaptive(lanes, Lanes::default()));
    let options = OpenOptions { writes, ..OpenOptions::default() };
    let (_, values) = testbed.crash_after(options, async |volume, bench, drives| {
        fill(&bench.handle, &volume, blocks).await?;
        let _load = Load::begin(&bench, &volume, blocks, seed);
        let mut values = Values::default();
        for (at, seconds) in SECONDS.into_iter().enumerate() {
            bench.handle.sleep(Nanos::from_secs(1)).await;
            leave_and_return(&volume, &bench, &drives[AWAY], at, seconds, &mut values).await;
        }
        volume.fail(AWAY).await.expect("a drive of a healthy array is taken out");
        let geometry = drives[0].geometry().clone();
        let new = RamDrive::new(geometry.clone(), preset.timing_of(&geometry, seed ^ 99))?;
        let device = Charged::new(&bench.thread, new.attach(&bench.handle), Looks::FREE);
        let begun = bench.handle.now();
        volume.replace(AWAY, device, MemberUuid([99; 16])).await.expect("a drive like the others");
        values.put(REBUILD.name, millis(bench.handle.now().since(begun)));
        values.put(REBUILT.name, mib(new.counters().written_blocks));
        Ok(values)
    })?;
    Ok(values)
}

/// The drive is away for some seconds, and returns to its slot.
async fn leave_and_return(
    volume: &Volume,
    bench: &Bench,
    drive: &RamDrive,
    at: usize,
    seconds: u64,
    values: &mut Values,
) {
    let users = || volume.status().counters.user_blocks_written;
    let before = users();
    drive.set_gone(true);
    bench.handle.sleep(Nanos::from_secs(seconds)).await;
    assert_eq!(volume.status().health, Health::Degraded, "the drive was missed");
    values.put(WRITTEN[at].name, mib(users() - before));
    drive.set_gone(false);
    let (begun, written) = (bench.handle.now(), drive.counters().written_blocks);
    let device = Charged::new(&bench.thread, drive.attach(&bench.handle), Looks::FREE);
    let uuid = MemberUuid([u8::try_from(50 + at).unwrap_or(0); 16]);
    volume.readd(AWAY, device, uuid).await.expect("a former member");
    assert_eq!(volume.status().health, Health::Healthy, "the drive is whole");
    values.put(WHOLE_AFTER[at].name, millis(bench.handle.now().since(begun)));
    values.put(COPIED[at].name, mib(drive.counters().written_blocks - written));
}

#[expect(clippy::cast_precision_loss, reason = "some minutes")]
fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "fewer blocks than 2^53")]
fn mib(blocks: u64) -> f64 {
    blocks as f64 / 256.0
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let none = "no paper";
    let of = |gib: u32, metric: Metric| results.mean(&name(gib), metric);
    let rebuild = of(200, REBUILD);
    for (at, seconds) in SECONDS.into_iter().enumerate() {
        let back = of(200, WHOLE_AFTER[at]);
        let written = of(200, WRITTEN[at]);
        report.findings.push(shape(
            &format!(
                "200 GiB, away for {seconds} s ({written:.0} MiB missed): full redundancy after"
            ),
            none,
            format!(
                "{:.2} s, {:.1} % of a rebuild ({:.1} s)",
                back / 1e3,
                100.0 * back / rebuild,
                rebuild / 1e3
            ),
            "less than a fifth of a rebuild",
            back < rebuild / 5.0,
        ));
    }
    // What is missed in any case is in both.
    let more = |metrics: [Metric; 3]| of(200, metrics[2]) - of(200, metrics[0]);
    let each = |from: usize, to: usize| {
        let written = of(200, WRITTEN[to]) - of(200, WRITTEN[from]);
        (of(200, WHOLE_AFTER[to]) - of(200, WHOLE_AFTER[from])) / written
    };
    let (first, last) = (each(0, 1), each(1, 2));
    report.findings.push(shape(
        "200 GiB: time for each GiB more that was missed, from 10 to 30 s and from 30 to 60 s",
        none,
        format!(
            "{:.0} and {:.0} ms; {:.0} MiB more in all",
            first * 1024.0,
            last * 1024.0,
            more(WRITTEN)
        ),
        "within 1.5 times of each other",
        first > 0.0 && (1.0 / 1.5..=1.5).contains(&(last / first)),
    ));
    let ratio = of(200, WHOLE_AFTER[0]) / of(100, WHOLE_AFTER[0]);
    report.findings.push(shape(
        "away for 10 s: 200 GiB over 100 GiB",
        none,
        format!("{ratio:.2}"),
        "0.8 to 1.25: the volume does not matter",
        (0.8..=1.25).contains(&ratio),
    ));
    let ratio = rebuild / of(100, REBUILD);
    report.findings.push(shape(
        "another drive: 200 GiB over 100 GiB",
        none,
        format!("{ratio:.2}"),
        "1.8 to 2.2: in proportion to the volume",
        (1.8..=2.2).contains(&ratio),
    ));
    let line = |gib: &u32| {
        let point = |at: usize| (of(*gib, WRITTEN[at]), of(*gib, WHOLE_AFTER[at]) / 1e3);
        Line { name: name(*gib), points: (0..SECONDS.len()).map(point).collect() }
    };
    let lines = SIZES.iter().map(line).collect();
    let title = "From the return of a drive to full redundancy";
    let x = "MiB that users wrote while it was away";
    report.chart(&Chart { name: "redundancy", title, x, y: "s", lines });
}
