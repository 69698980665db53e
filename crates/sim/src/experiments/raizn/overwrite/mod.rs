//! Fig. 10: the whole array is written by five threads, and then overwritten by one.

mod timeline;

use std::rc::Rc;

use zoneweave_emulator::{ConventionalConfig, ConventionalCounters};
use zoneweave_zoned::{BlockDevice, ZonedDevice};

use self::timeline::{PASSES, Shape, Timeline, WINDOWS};
use crate::experiments::chart::{Chart, Line};
use crate::experiments::raizn::array::{DATA, UNIT, ZonedArray};
use crate::experiments::raizn::loads::{SYSTEMS, System};
use crate::experiments::raizn::md::ConventionalArray;
use crate::experiments::raizn::method::{METHOD, ratio};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::target::Target;
use crate::experiments::{ExperimentError, Report, Values};

/// Threads of the first pass. Each writes a part of the array.
const THREADS: u32 = 5;

/// Zones of a thread at full scale.
const ZONES_OF_THREAD: f64 = 32.0;

/// Rows of a superblock for each zone of a thread, so that both arrays are about as large.
const ROWS: u32 = 2;

/// Windows that are as long as a second of the paper's array: one zone of the volume at the default
/// scale, a tenth of the array.
const TENTHS: usize = 10;
const OF_TENTH: usize = WINDOWS / TENTHS;

const PASS: [Metric; PASSES] = [
    Metric { name: "pass 1: throughput", unit: "MiB/s" },
    Metric { name: "pass 2: throughput", unit: "MiB/s" },
];
const TAIL: [Metric; PASSES] = [
    Metric { name: "pass 1: p99.9 latency", unit: "us" },
    Metric { name: "pass 2: p99.9 latency", unit: "us" },
];
const MOVED: Metric =
    Metric { name: "amplification of the drives", unit: "blocks written for each" };

const METRICS: &[Metric] = &[PASS[0], TAIL[0], PASS[1], TAIL[1], MOVED];

const OWN_METHOD: &str = "\
In the first pass five threads write the array, a fifth of it each, from front to back. In the \
second pass one thread overwrites it from front to back; on `raizn` it resets each zone before it \
writes it. Requests have 256 KiB, a whole stripe, with 64 of a thread in flight; the paper states \
neither.

At full scale `raizn` has 160 zones of real size, 673 GiB of data (the paper: 7.4 TiB), and at a \
sixteenth 10. `md` is about as large: its drives have 910 superblocks as a drive of 960 GB has, of \
fewer rows of dies, and 7 % spare. Collecting is faster by that ratio, and so are its waves. So \
the charts show parts of the array, not time: each pass is divided into 50 windows of equal data. \
The first window of a pass also fills write buffers.

*Collapse* is the slowest window of the second pass. *Flat* is judged by tenths of a pass: at a \
sixteenth of the scale each is a zone of `raizn`, about a second, which the paper samples. One \
reset is in each.";

fn name(system: System) -> String {
    system.name().to_owned()
}

pub(in crate::experiments) fn suite() -> Suite {
    let configuration = |system: System| {
        let work = move |scale, seed| run(system, zones_of_thread(scale), seed);
        Configuration::new(name(system), work)
    };
    Suite {
        title: "RAIZN, Fig. 10: garbage collection of drives",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations: SYSTEMS.map(configuration).into(),
        judge,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few zones")]
fn zones_of_thread(scale: f64) -> u32 {
    (ZONES_OF_THREAD * scale).round().max(1.0) as u32
}

fn run(system: System, zones: u32, seed: u64) -> Result<Values, ExperimentError> {
    assert!(zones > 0, "each thread has a zone");
    match system {
        System::Raizn => on_raizn(ZonedArray::new(UNIT, THREADS * zones, seed)?),
        System::Md => on_md(zones, seed),
    }
}

fn on_raizn(array: ZonedArray) -> Result<Values, ExperimentError> {
    array.run(async |volume, handle, _| {
        let device: Rc<dyn ZonedDevice> = Rc::new(volume);
        let shape = Shape { threads: THREADS, ranges: array.zones, is_reset: true };
        let timeline = Timeline::new(&handle, Target::Zoned(device), shape);
        let mut values = Values::default();
        timeline.measure(&mut values).await?;
        Ok(values)
    })
}

fn on_md(zones: u32, seed: u64) -> Result<Values, ExperimentError> {
    // The smallest drive with so many rows.
    let config = ConventionalConfig::sn640_960gb().with_superblock_rows(ROWS * zones);
    let blocks = config.logical_blocks();
    let array = ConventionalArray { unit: UNIT, blocks, written: 0, blank: None, seed };
    array.run(async |md, handle, drives| {
        let stripe = u64::from(UNIT * DATA);
        let ranges = THREADS * zones;
        let range_blocks = md.info().blocks / u64::from(ranges) / stripe * stripe;
        assert!(range_blocks > 0, "each thread has a part");
        let device: Rc<dyn BlockDevice> = Rc::new(md);
        let target = Target::Block { device, range_blocks };
        let shape = Shape { threads: THREADS, ranges, is_reset: false };
        let mut values = Values::default();
        Timeline::new(&handle, target, shape).measure(&mut values).await?;
        let of_all = |of: fn(&ConventionalCounters) -> u64| {
            drives.iter().map(|drive| of(&drive.counters())).sum::<u64>()
        };
        let written = of_all(|counters| counters.written_blocks);
        let moved = of_all(|counters| counters.moved_blocks);
        values.put(MOVED.name, ratio(written + moved, written));
        Ok(values)
    })
}

/// Throughput or tail latency of a window, by its number in a pass.
fn window(results: &Results<'_>, system: System, name_of: String) -> f64 {
    let found = results.value(&name(system), &name_of);
    found.unwrap_or_else(|| panic!("{} has no {name_of}", system.name())).mean
}

fn rates(results: &Results<'_>, system: System, pass: usize) -> Vec<f64> {
    let of = |at| window(results, system, timeline::rate_name(pass, at));
    (0..WINDOWS).map(of).collect()
}

fn tails(results: &Results<'_>, system: System, pass: usize) -> Vec<f64> {
    let of = |at| window(results, system, timeline::tail_name(pass, at));
    (0..WINDOWS).map(of).collect()
}

/// The throughput of tenths of a pass: windows have the same amount of data.
fn of_tenths(rates: &[f64]) -> Vec<f64> {
    let mean = |part: &[f64]| {
        let times = part.iter().map(|rate| 1.0 / rate).sum::<f64>();
        f64::from(u32::try_from(part.len()).unwrap_or(u32::MAX)) / times
    };
    rates.chunks(OF_TENTH).map(mean).collect()
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |system, metric| results.mean(&name(system), metric);
    let md = rates(results, System::Md, 1);
    let before = of(System::Md, PASS[0]);
    let loss = 100.0 * (1.0 - least(&md) / before);
    report.findings.push(shape(
        "md: loss of throughput in the slowest window of the second pass",
        "up to 93 %",
        format!("{loss:.0} % ({:.0} after {before:.0} MiB/s)", least(&md)),
        "at least 50 %",
        loss >= 50.0,
    ));
    let end = least(&md[WINDOWS - 3..]);
    report.findings.push(shape(
        "md: throughput at the end of the second pass over the slowest window",
        "returns to a steady state after 80 %",
        format!("{:.2}", end / least(&md)),
        "at least 2",
        end / least(&md) >= 2.0,
    ));
    for (pass, metric) in PASS.into_iter().enumerate() {
        let tenths = of_tenths(&rates(results, System::Raizn, pass));
        let mean = of(System::Raizn, metric);
        let apart = tenths.iter().map(|rate| (rate / mean - 1.0).abs()).fold(0.0, f64::max);
        report.findings.push(shape(
            &format!("raizn: largest deviation of a tenth of pass {} from its mean", pass + 1),
            "constant throughput",
            format!("{:.1} %", 100.0 * apart),
            "at most 5 %",
            apart <= 0.05,
        ));
    }
    let passes = of(System::Raizn, PASS[1]) / of(System::Raizn, PASS[0]);
    report.findings.push(shape(
        "raizn: throughput of the second pass over the first",
        "a slight reduction",
        format!("{passes:.3}"),
        "0.90 to 1.02",
        (0.9..=1.02).contains(&passes),
    ));
    let [md_tail, our_tail] =
        [System::Md, System::Raizn].map(|system| most(&tails(results, system, 1)));
    report.findings.push(shape(
        "second pass, highest p99.9 latency of a window: md over raizn",
        "14 (tail latency)",
        format!("{:.1}", md_tail / our_tail),
        "at least 5",
        md_tail / our_tail >= 5.0,
    ));
    let over = least(&rates(results, System::Raizn, 1)) / least(&md);
    report.findings.push(shape(
        "second pass, throughput of the slowest window: raizn over md",
        "up to 14",
        format!("{over:.1}"),
        "at least 5",
        over >= 5.0,
    ));
    charts(results, report);
}

fn charts(results: &Results<'_>, report: &mut Report) {
    type Series = fn(&Results<'_>, System, usize) -> Vec<f64>;
    let series: [(&str, &str, &str, Series); 2] = [
        ("throughput", "Throughput while the array is written, and overwritten", "MiB/s", rates),
        ("p999", "p99.9 latency while the array is written, and overwritten", "us", tails),
    ];
    for (file, title, y, of) in series {
        let line = |system: System| {
            let values = (0..PASSES).flat_map(|pass| of(results, system, pass));
            let percent = 100.0 / f64::from(u32::try_from(WINDOWS).unwrap_or(u32::MAX));
            let points = (1_u32..).zip(values).map(|(at, y)| (f64::from(at) * percent, y));
            Line { name: name(system), points: points.collect() }
        };
        let lines = SYSTEMS.map(line).into();
        report.chart(&Chart { name: file, title, x: "written, % of the array", y, lines });
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;

    fn check(values: &Values) {
        for (pass, metric) in PASS.into_iter().enumerate() {
            for at in 0..WINDOWS {
                let rate = values.get(&timeline::rate_name(pass, at)).unwrap();
                assert!(rate > 0.0 && values.get(&timeline::tail_name(pass, at)).unwrap() > 0.0);
            }
            assert!(values.get(metric.name).unwrap() > 100.0, "{values:?}");
        }
    }

    #[test]
    fn small_zones_are_written_and_overwritten() {
        let whole = ZonedArray::new(UNIT, THREADS, 1).unwrap();
        check(&on_raizn(ZonedArray { capacity: BlockCount(2048), ..whole }).unwrap());
    }

    #[test]
    fn tenths_have_the_rate_of_their_data() {
        let mut rates = vec![100.0; WINDOWS];
        rates[0] = 20.0;
        let tenths = of_tenths(&rates);
        assert_eq!(tenths.len(), TENTHS);
        assert!((tenths[0] - 5.0 / 0.09).abs() < 1e-9 && (tenths[1] - 100.0).abs() < 1e-9);
    }
}
