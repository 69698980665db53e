//! Garbage collection in steady state, compared with its cost in theory.

mod drives;
mod load;

use std::rc::Rc;

use zoneweave_raid::log::{
    ClassCounters, Collection, Counters, Lanes, Volume, WritePolicy, uniform_amplification,
};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice};

use self::drives::Drives;
use self::load::{Load, Places};
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::{ExperimentError, Report, Values};

/// Blocks of the volume at full scale: 16 GiB.
const VOLUME_BLOCKS: f64 = 4_194_304.0;

/// Segments that the volume fills at any scale.
const SEGMENTS: u64 = 1024;

/// Reserved space, in percent of the volume.
const SPARE: u64 = 20;

/// Overwrites of the volume before the measurement.
const ROUNDS: [Metric; 5] = [
    Metric { name: "amplification, 1st volume", unit: "blocks written for each" },
    Metric { name: "amplification, 2nd volume", unit: "blocks written for each" },
    Metric { name: "amplification, 3rd volume", unit: "blocks written for each" },
    Metric { name: "amplification, 4th volume", unit: "blocks written for each" },
    Metric { name: "amplification, 5th volume", unit: "blocks written for each" },
];

/// Windows of 100 ms in which throughput is measured. Tenths of them show dips that a whole window
/// averages out.
const WINDOWS: usize = 1000;
const PARTS: usize = 10;
const PART: Nanos = Nanos::from_millis(10);

const AMPLIFICATION: Metric = Metric { name: "amplification", unit: "blocks written for each" };
const WITH_PARITY: Metric = Metric { name: "with parity", unit: "blocks written for each" };
const PADDING: Metric = Metric { name: "padding", unit: "blocks for each" };
const ROOM: Metric = Metric { name: "room", unit: "of data" };
const THEORY: Metric = Metric { name: "theory, uniform", unit: "blocks written for each" };
const THROUGHPUT: Metric = Metric { name: "throughput", unit: "MiB/s" };
const SLOW: Metric = Metric { name: "0.1th percentile of 100 ms", unit: "% of the mean" };
const SLOW_PART: Metric = Metric { name: "0.1th percentile of 10 ms", unit: "% of the mean" };

/// By segment class: its share of all writes, and the cost of its segments.
const CLASSES: [(Metric, Metric); 4] = [
    (written("written to users' short"), cost("cost of users' short")),
    (written("written to users' long"), cost("cost of users' long")),
    (written("written to moved short"), cost("cost of moved short")),
    (written("written to moved long"), cost("cost of moved long")),
];

const fn written(name: &'static str) -> Metric {
    Metric { name, unit: "% of all blocks" }
}

const fn cost(name: &'static str) -> Metric {
    Metric { name, unit: "blocks written for each" }
}

const METRICS: &[Metric] = &[
    AMPLIFICATION,
    THEORY,
    ROOM,
    WITH_PARITY,
    PADDING,
    THROUGHPUT,
    SLOW,
    SLOW_PART,
    CLASSES[0].0,
    CLASSES[0].1,
    CLASSES[1].0,
    CLASSES[1].1,
    CLASSES[2].0,
    CLASSES[2].1,
    CLASSES[3].0,
    CLASSES[3].1,
];

const METHOD: &str = "\
This report is not from the paper: it measures the cost of collecting in steady state. A volume \
of 16 GiB, times the scale, on 3 + 1 drives `zn540-4tb` in RAID-5 is filled in order, then \
overwritten by requests of 4 KiB, 64 in flight. Five volumes' worth come first, then 1,000 \
measured windows of 100 ms. Everything is in virtual time, on one thread of the host as in the \
other experiments.

Drives are scaled as a whole: a segment is a 1,024th of the volume at any scale, 20 % of the \
volume is beside it, and resets are shorter as zones are smaller. So there are as many segments \
as at full size, and they are short: times that do not depend on zones, a record of the \
superblock for example, weigh more than there.

`greedy` relocates the segment with the least live data. `adaptive`, on the same lanes (two for \
users, with chunks of 4 KiB), also considers age, and separates blocks by expected lifetime, as \
long as that predicts something. `zipf 0.99` draws places in proportion to their rank to the \
power of -0.99, ranks spread over the volume.

*Amplification* is the number of blocks written without parity (users' blocks, relocated ones, \
padding), per user block. *Room* is all segments except those open at a time and those that users \
leave free for crashes, which is fewer than are free, over the volume's data. *Theory* is the \
cost of that room under uniform writes with greedy choice: a / (a + W(-a exp(-a))). The *cost* of \
a class is the amplification if all segments were as empty as those of the class when they are \
relocated.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Greedy,
    Adaptive,
}

const POLICIES: [Policy; 2] = [Policy::Greedy, Policy::Adaptive];
const PLACES: [Places; 2] = [Places::Uniform, Places::Zipf];

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Adaptive => "adaptive",
        }
    }

    /// The same lanes for both.
    fn policy(self) -> WritePolicy {
        let adaptive = WritePolicy::adaptive(Lanes { count: 2, chunk_blocks: 1 }, Lanes::default());
        let collection = Collection::Greedy;
        match self {
            Self::Greedy => WritePolicy { collection, lifetimes: false, ..adaptive },
            Self::Adaptive => adaptive,
        }
    }
}

fn name(places: Places, policy: Policy) -> String {
    format!("{} {}", places.name(), policy.name())
}

pub(in crate::experiments) fn suite() -> Suite {
    let all = PLACES.into_iter().flat_map(|places| POLICIES.map(|policy| (places, policy)));
    let configurations = all.map(|(places, policy)| {
        let work = move |scale, seed| run(places, policy, scale, seed);
        Configuration::new(name(places, policy), work)
    });
    Suite {
        title: "Collecting in steady state, beside theory",
        method: METHOD.to_owned(),
        metrics: METRICS,
        configurations: configurations.collect(),
        judge,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some GiB")]
fn run(places: Places, policy: Policy, scale: f64, seed: u64) -> Result<Values, ExperimentError> {
    let volume_blocks = (VOLUME_BLOCKS * scale) as u64;
    // One block of each row is parity.
    let rows = u32::try_from(volume_blocks / SEGMENTS / 3).unwrap_or(u32::MAX).max(16);
    // A header, and two lists of 250 entries a block.
    let zone_blocks = 1 + rows + 2 * rows.div_ceil(250);
    let segments = (volume_blocks * (100 + SPARE)).div_ceil(u64::from(rows) * 3 * 100);
    // And the zones of superblocks.
    let zones = u32::try_from(segments).unwrap_or(u32::MAX - 2) + 2;
    let drives = Drives { zone_blocks, zones, volume_blocks, seed };
    drives.run(&policy.policy(), async |volume, handle| {
        let load = Load::new(&handle, Rc::new(volume.clone()), places, seed);
        load.fill().await?;
        let mut values = Values::default();
        for round in ROUNDS {
            let before = volume.status().counters;
            load.overwrite(volume_blocks).await?;
            let written = Written::between(&before, &volume.status().counters);
            values.put(round.name, written.amplification());
        }
        assert!(volume.info().blocks >= volume_blocks, "the load fits the volume");
        measure(&load, &volume, &handle, &mut values).await?;
        Ok(values)
    })
}

async fn measure(
    load: &Load,
    volume: &Volume,
    handle: &Handle,
    values: &mut Values,
) -> Result<(), ExperimentError> {
    let (before, begun) = (volume.status().counters, handle.now());
    let parts = load.watch(WINDOWS * PARTS, PART).await?;
    let seconds = handle.now().since(begun).as_secs_f64();
    assert_eq!(parts.len(), WINDOWS * PARTS, "every window is measured");
    let status = volume.status();
    let written = Written::between(&before, &status.counters);
    written.put(values);
    let room = status.amplification.room;
    values.put(ROOM.name, room);
    values.put(THEORY.name, uniform_amplification(room).unwrap_or(0.0));
    let mib = f64::from(1 << 20);
    #[expect(clippy::cast_precision_loss, reason = "some KiB")]
    values.put(THROUGHPUT.name, written.user * BLOCK_BYTES as f64 / mib / seconds);
    let windows: Vec<u64> = parts.chunks(PARTS).map(|parts| parts.iter().sum()).collect();
    values.put(SLOW.name, slow(windows));
    values.put(SLOW_PART.name, slow(parts));
    Ok(())
}

/// The 0.1th percentile, in percent of the mean.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2 to the 53rd")]
fn slow(mut counts: Vec<u64>) -> f64 {
    counts.sort_unstable();
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts[counts.len().div_ceil(1000) - 1] as f64 * 100.0 / mean
}

/// Blocks that were written between two moments.
struct Written {
    user: f64,
    moved: f64,
    padding: f64,
    /// Blocks of index checkpoints.
    checkpoints: f64,
    parity: f64,
    classes: [ClassCounters; 4],
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2 to the 53rd")]
impl Written {
    fn between(before: &Counters, after: &Counters) -> Self {
        let since = |count: fn(&Counters) -> u64| (count(after) - count(before)) as f64;
        let class = |class: usize| {
            let (before, after) = (&before.classes[class], &after.classes[class]);
            ClassCounters {
                written_blocks: after.written_blocks - before.written_blocks,
                padding_blocks: after.padding_blocks - before.padding_blocks,
                moved_blocks: after.moved_blocks - before.moved_blocks,
                freed_blocks: after.freed_blocks - before.freed_blocks,
            }
        };
        Self {
            user: since(|counters| counters.user_blocks_written),
            moved: since(|counters| counters.relocated_blocks),
            padding: since(|counters| counters.padding_blocks),
            checkpoints: since(|counters| counters.checkpoint_blocks),
            parity: since(|counters| counters.parity_blocks),
            classes: std::array::from_fn(class),
        }
    }

    fn all(&self) -> f64 {
        self.user + self.moved + self.padding + self.checkpoints
    }

    fn amplification(&self) -> f64 {
        self.all() / self.user
    }

    fn put(&self, values: &mut Values) {
        values.put(AMPLIFICATION.name, self.amplification());
        values.put(WITH_PARITY.name, (self.all() + self.parity) / self.user);
        values.put(PADDING.name, self.padding / self.user);
        for ((written, cost), class) in CLASSES.iter().zip(&self.classes) {
            let blocks = class.written_blocks + class.padding_blocks;
            values.put(written.name, blocks as f64 * 100.0 / self.all());
            if let Some(amplification) = class.amplification() {
                values.put(cost.name, amplification);
            }
        }
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |places, policy, metric| results.mean(&name(places, policy), metric);
    let theory = of(Places::Uniform, Policy::Greedy, THEORY);
    let mut find = |what: &str, theory: String, ours: String, rule: &str, holds| {
        report.findings.push(shape(what, &theory, ours, rule, holds));
    };
    for policy in POLICIES {
        let ours = of(Places::Uniform, policy, AMPLIFICATION);
        let theory = of(Places::Uniform, policy, THEORY);
        let what = format!("uniform, {}: amplification", policy.name());
        let holds = ours <= theory * 1.03;
        find(&what, format!("{theory:.2}"), format!("{ours:.2}"), "at most 3 % above", holds);
    }
    let [greedy, adaptive] = POLICIES.map(|policy| of(Places::Uniform, policy, AMPLIFICATION));
    let what = "uniform: adaptive / greedy";
    let ours = adaptive / greedy;
    find(what, "1".to_owned(), format!("{ours:.3}"), "at most 1.02", ours <= 1.02);
    let [greedy, adaptive] = POLICIES.map(|policy| of(Places::Zipf, policy, AMPLIFICATION));
    let ours = format!("{adaptive:.2}, greedy {greedy:.2}");
    let what = "zipf 0.99, adaptive: amplification";
    find(what, format!("uniform {theory:.2}"), ours, "at most 2.2", adaptive <= 2.2);
    for (places, policy) in PLACES.into_iter().flat_map(|at| POLICIES.map(|policy| (at, policy))) {
        let ours = of(places, policy, SLOW);
        let what = format!("{}: 0.1th percentile of 1,000 windows", name(places, policy));
        let ours = (format!("{ours:.1} % of the mean"), ours >= 50.0);
        find(&what, "-".to_owned(), ours.0, "at least 50 %", ours.1);
    }
    let volumes = |places, policy| {
        let points = (1_u32..).zip(ROUNDS);
        points.map(|(at, round)| (f64::from(at), of(places, policy, round))).collect()
    };
    let line =
        |places, policy| Line { name: name(places, policy), points: volumes(places, policy) };
    let all = PLACES.into_iter().flat_map(|places| POLICIES.map(|policy| (places, policy)));
    let lines = all.map(|(places, policy)| line(places, policy)).collect();
    let (x, y) = ("volumes overwritten", "blocks written for each of users");
    let title = "Amplification while the volume is overwritten";
    report.chart(&Chart { name: "amplification", title, x, y, lines });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_thousand_is_the_percentile() {
        let mut counts = vec![100; 999];
        counts.push(50);
        assert!((slow(counts) - 50.0 / 0.9995).abs() < 0.01);
    }

    #[test]
    fn what_collecting_costs_is_near_theory() {
        let mut values = Values::default();
        let drives = Drives { zone_blocks: 67, zones: 262, volume_blocks: 40_000, seed: 1 };
        let policy = Policy::Greedy.policy();
        let room = drives.run(&policy, async |volume, handle| {
            let load = Load::new(&handle, Rc::new(volume.clone()), Places::Uniform, 1);
            load.fill().await?;
            load.overwrite(80_000).await?;
            let before = volume.status().counters;
            load.overwrite(80_000).await?;
            Written::between(&before, &volume.status().counters).put(&mut values);
            Ok(volume.status().amplification.room)
        });
        let theory = uniform_amplification(room.unwrap()).unwrap();
        let ours = values.get(AMPLIFICATION.name).unwrap();
        assert!((0.9..1.1).contains(&(ours / theory)), "{ours} instead of {theory}");
    }
}
