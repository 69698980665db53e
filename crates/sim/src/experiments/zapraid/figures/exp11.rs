//! Exp#11: several open segments, with small and large chunks (Fig. 16 and 17).

use std::ops::RangeInclusive;

use zoneweave_raid::log::Lanes;
use zoneweave_runtime::Nanos;

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::figures::adaptive::beside_the_best;
use crate::experiments::zapraid::loads::random_writes::Mix;
use crate::experiments::zapraid::loads::writes::{
    Mode, P95, P99, PATH_MIB, TABLE, THROUGHPUT, WRITE_METRICS, Writes, three_and_one,
};
use crate::experiments::zapraid::method::{METHOD, STEADY, kib};

const ZAPRAID: Mode = Mode::Zapraid(256);

const MODES: [Mode; 4] = [Mode::ZoneWrite, Mode::ZoneAppend, ZAPRAID, Mode::Adaptive];

/// Chunks of both kinds of segments, in blocks.
const SMALL_CHUNK: u32 = 2;
const LARGE_CHUNK: u32 = 4;

/// Segments in Fig. 16.
const SEGMENTS: u32 = 4;

const WORKLOADS: [Mix; 4] = [Mix::Uniform(1), Mix::Uniform(2), Mix::Uniform(4), Mix::Hybrid];

const OWN_METHOD: &str = "\
Ns segments with chunks of 8 KiB and Nl with chunks of 16 KiB are open, 64 requests are in \
flight. Requests below 16 KiB go to segments with small chunks, others to those with large ones; \
where there are none of a kind all go to the other. ZapRAID appends to one of the segments with \
small chunks and writes to all others. The hybrid workload has 75 % requests of 4 KiB and 25 % of \
16 KiB.

RAIZN-SPDK is the model of the paper's sections 5.1 and 5.4. Requests of a segment wait for each \
other. Each writes its blocks and the partial parity, or the parity of a complete stripe, at the \
same time, and is then acknowledged. With more than four open segments, both are measured on \
drives that allow more active zones than the ZN540's 14: the engine reserves half of them for \
leftovers of crashes.

The findings decide whether ZapRAID's rank among the others is that of the paper, the throughput \
where the text has it, and the orders of RAIZN-SPDK's configurations. They also decide whether \
arrays are as fast as the paper's Fig. 2 implies for three such drives.

Findings that do not hold. (1) The paper's arrays of four segments reach 3,200 to 3,600 MiB/s \
with every scheme, while three drives of its Fig. 2 write 4,292 (8 KiB) and 5,250 MiB/s (16 KiB). \
Its text suspects the drives' firmware when several drives are busy. The drives here have the \
speed of Fig. 2 in an array, too, so everything beyond that ceiling is faster here.

(2) Below the ceiling all schemes of the paper are alike; without it they differ as in Fig. 2. 8 \
KiB by Zone Write to many zones are 1.35 times as fast as by Zone Append (1,430.7 and 1,058.6 \
MiB/s a drive). So ZapRAID, which appends to one of its segments, is behind Zone Write alone \
where that has three or four segments of the kind. One segment of a kind by Zone Write is the \
case for which ZapRAID was designed, and there it is ahead as in the paper.

For 16 KiB Fig. 2 has no difference (1,750 MiB/s a drive either way where several zones are \
written). So with Ns=1 Nl=3 Zone Write is not 1.27 times as fast as Zone Append, although the \
paper's array shows that.

(3) Entries of the stripe table of Zone Append have 2 bytes, not 3: groups have 16,384 rows, not \
a whole zone.

(4) 8 KiB with two or three segments of the kind: the median of ZapRAID is below that of Zone \
Append, as in the paper, but its 95th percentile is not.

When a group of the appended segment ends, that segment takes no stripe until the whole group is \
done. The engine puts all arrivals meanwhile into the segments of the kind that are written in \
place, where stripes go one at a time. Twenty stripes wait there, longer with fewer such \
segments: the 99th percentile is 467, 693 and 1,192 us with three, two and one at a scale of \
1/128.

With groups of 4,096 rows, a sixteenth as many ends, the effect is gone. In a like workload the \
95th percentile falls from 584 to 209 us, the 99th from 1,890 to 215 us, at 98 % of the \
throughput. The paper's prototype lets requests wait for the next group. The same holds for 16 \
KiB and Ns=4, where half of the throughput is of the appended segment.

(5) RAIZN-SPDK is faster here. A request takes its segment 34 us in the paper (268.6 MiB/s of \
requests of 7 KiB on average, of which three quarters go to the one segment), here 16 us. Table 4 \
counts 22.6 us of the paper's for writing data, where Fig. 2 has 11.6 us for a Zone Write of 4 \
KiB. The difference is the prototype's own time between threads, which is not modelled. As it is \
the same for requests of every size, it changes the ratios, too.

Two segments for all requests over one for the small ones is 1.5 times the time of a small \
request over that of an average one. In the paper these take 33.9 and 31.0 us although every \
fourth request is four times as large. Here they take 16.2 and 18.1 us, as Fig. 2 implies for \
their sizes, so the ratio is 1.34 and not 1.64.

Six segments over one is six times the time of a lone request over that of one of six at once: \
33.9 and 50.8 us in the paper; 16.2 and 30.1 us here. Requests that arrive twice as often meet in \
the same drives twice as often, so the ratio is 3.2 and not 4.0.

Beyond the paper: for every workload and choice of segments, `adaptive` should be no more than 3 \
% slower than the best of the paper's three, and its 99th percentile no more than 10 % above the \
lowest of theirs. Both hold at every point.

(6) At most four segments of a size are written at a time. With five and six for small requests, \
and two for large ones, the large ones had two of seven or eight zones of each drive. The 99th \
percentile was 167 and 172 us, not 152 and 151, at the same throughput.

Segments with chunks of one size have at most eight writes of 16 KiB of each drive in flight \
together, or two stripes each. The other blocks wait in the volume's queue, where all wait alike. \
Without that, 8 KiB with Ns=0 Nl=4 had 123 us and not 105; the lowest of the paper's, Zone Append \
at 4 % less throughput, has 103.

The processor is charged for commands only (0.95 us, one thread). One point is measured with the \
engine's time as well, on the same thread, so one core does everything: 1.075 us for each block. \
The figure is of a core of an AMD EPYC (docs/internals/performance-log.md), which also copies \
into drives in memory and makes the load. There the core is the bound, and shards use more cores.

(7) A write takes at most half of its zone's backlog, if that is 16 KiB or more. It takes at most \
32 KiB while another zone of its drive has at least a third as much to write: writes to one zone \
wait for those to the other. Without the latter, 16 KiB with Ns=2 Nl=2 had 270 us and not 211, \
and 8 KiB with Ns=1 Nl=3 225 us and not 123.";

/// Throughput of a drive in Fig. 2: Zone Write of 8 KiB and 16 KiB to many zones, Zone Append of 8
/// KiB.
const FIG_2: [(u32, Open, Mode, f64); 3] = [
    (2, Open { small: 4, large: 0 }, Mode::ZoneWrite, 1430.7),
    (2, Open { small: 2, large: 2 }, Mode::ZoneAppend, 1058.6),
    (4, Open { small: 0, large: 4 }, Mode::ZoneWrite, 1750.0),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    small: u32,
    large: u32,
}

fn mix_name(mix: Mix) -> String {
    match mix {
        Mix::Uniform(blocks) => kib(blocks),
        Mix::Hybrid => "hybrid".to_owned(),
    }
}

fn name(mix: Mix, open: Open, mode: Mode) -> String {
    format!("{} Ns={} Nl={} {}", mix_name(mix), open.small, open.large, mode.name())
}

/// Fig. 16: four segments, of both kinds in all ratios.
fn four() -> impl Iterator<Item = Open> {
    (0..=SEGMENTS).map(|large| Open { small: SEGMENTS - large, large })
}

/// The configuration that is bound by the drives alone: the most blocks per second.
const DEVICE_BOUND: (Mix, Open, Mode) =
    (Mix::Uniform(1), Open { small: SEGMENTS, large: 0 }, Mode::Adaptive);

/// Engine time on a core for each 4 KiB block, 3 + 1 drives, four segments with chunks of 8 KiB. It
/// follows from 3.51 to 3.58 GiB/s in docs/internals/performance-log.md, and includes copies into
/// drives in memory and the load generator.
const ENGINE: Nanos = Nanos(1_075);

/// Fig. 17: segments of one kind, with two of the other.
const BESIDE_TWO: RangeInclusive<u32> = 0..=6;

fn seventeen() -> Vec<Open> {
    let small = BESIDE_TWO.map(|small| Open { small, large: 2 });
    let large = BESIDE_TWO.map(|large| Open { small: 2, large });
    let mut all: Vec<_> = small.chain(large).collect();
    // The point with two of both kinds is in both series.
    all.remove(BESIDE_TWO.count() + 2);
    all
}

/// Throughput in the text of the paper.
fn published(open: Open, mode: Mode) -> Option<f64> {
    match (open.small, open.large, mode) {
        (4, 0, Mode::Zapraid(_)) => Some(3181.0),
        (3, 1, Mode::Zapraid(_)) => Some(3459.0),
        (0, 4, Mode::Zapraid(_)) => Some(3583.0),
        (0, 2, Mode::RaiznSpdk) => Some(440.4),
        (1, 2, Mode::RaiznSpdk) => Some(268.6),
        (6, 2, Mode::RaiznSpdk) => Some(1077.6),
        (2, 0, Mode::RaiznSpdk) => Some(444.6),
        _ => None,
    }
}

/// 99th percentiles in the text of the paper.
fn published_p99(open: Open, mode: Mode) -> Option<f64> {
    match (open.small, open.large, mode) {
        (4, 0, Mode::Zapraid(_)) => Some(168.8),
        (3, 1, Mode::Zapraid(_)) => Some(171.2),
        (0, 4, Mode::Zapraid(_)) => Some(342.2),
        _ => None,
    }
}

fn writes(mix: Mix, open: Open, mode: Mode) -> Writes {
    Writes {
        preset: "zn540-4tb",
        scheme: three_and_one(),
        mode,
        small: Lanes { count: open.small, chunk_blocks: SMALL_CHUNK },
        large: Lanes { count: open.large, chunk_blocks: LARGE_CHUNK },
        mix,
        queue_depth: 64,
        engine: Nanos::ZERO,
    }
}

fn configuration(mix: Mix, open: Open, mode: Mode) -> Configuration {
    let writes = writes(mix, open, mode);
    let one = Configuration::new(name(mix, open, mode), move |scale, seed| writes.run(scale, seed));
    if mix != Mix::Hybrid {
        return one;
    }
    one.published(THROUGHPUT, published(open, mode)).published(P99, published_p99(open, mode))
}

/// As the drive-bound point, with the engine's processor time charged.
fn charged() -> Configuration {
    let (mix, open, mode) = DEVICE_BOUND;
    let writes = Writes { engine: ENGINE, ..writes(mix, open, mode) };
    Configuration::new(charged_name(), move |scale, seed| writes.run(scale, seed))
}

fn charged_name() -> String {
    let (mix, open, mode) = DEVICE_BOUND;
    format!("{} with the engine's time", name(mix, open, mode))
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = vec![charged()];
    for mix in WORKLOADS {
        for open in four() {
            configurations.extend(MODES.map(|mode| configuration(mix, open, mode)));
        }
    }
    for open in seventeen() {
        configurations.push(configuration(Mix::Hybrid, open, Mode::RaiznSpdk));
        if !four().any(|other| other == open) {
            configurations.extend(MODES.map(|mode| configuration(Mix::Hybrid, open, mode)));
        }
    }
    Suite {
        title: "ZapRAID, Exp#11: several open segments",
        method: format!("{METHOD}\n\n{STEADY}\n\n{OWN_METHOD}"),
        metrics: WRITE_METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    for mix in WORKLOADS {
        best(results, report, mix);
    }
    gaps(results, report);
    for (blocks, open, mode, drive) in FIG_2 {
        let name = name(Mix::Uniform(blocks), open, mode);
        let what = format!("{name}: MiB/s, and three drives of Fig. 2");
        let here = results.mean(&name, THROUGHPUT);
        report.findings.push(within(what, here, 3.0 * drive, 0.15));
    }
    tables(results, report);
    hybrid(results, report);
    raizn(results, report);
    adaptive(results, report);
    charts(results, report);
}

/// ZapRAID is the best of the three, or equal to it.
fn best(results: &Results<'_>, report: &mut Report, mix: Mix) {
    let over_best = |open| {
        let of = |mode| results.mean(&name(mix, open, mode), THROUGHPUT);
        of(ZAPRAID) / of(Mode::ZoneWrite).max(of(Mode::ZoneAppend))
    };
    let worst = four().map(over_best).fold(f64::INFINITY, f64::min);
    report.findings.push(shape(
        &format!("{}: zapraid / the better of the others, at worst", mix_name(mix)),
        "the highest, or similar",
        format!("{worst:.2}"),
        "at least 0.90",
        worst >= 0.9,
    ));
}

/// Adaptive compared with the best of the paper's modes.
fn adaptive(results: &Results<'_>, report: &mut Report) {
    let (mix, open, mode) = DEVICE_BOUND;
    let part = |name: &str| results.mean(name, THROUGHPUT) / (3.0 * PATH_MIB);
    let (free, charged) = (part(&name(mix, open, mode)), part(&charged_name()));
    report.findings.push(shape(
        "4 KiB Ns=4 Nl=0: adaptive, of the 1,780 MiB/s that each of three drives takes at most",
        "not in the paper",
        format!(
            "{:.1} % (with the engine's time on one core {:.1} %)",
            100.0 * free,
            100.0 * charged
        ),
        "at least 85 %, bound by drives",
        free >= 0.85,
    ));
    for mix in WORKLOADS {
        beside_the_paper(results, report, &mix_name(mix), mix, four());
    }
    let others = seventeen().into_iter().filter(|open| !four().any(|other| other == *open));
    beside_the_paper(results, report, "hybrid, two segments of a kind", Mix::Hybrid, others);
}

fn beside_the_paper(
    results: &Results<'_>,
    report: &mut Report,
    of_what: &str,
    mix: Mix,
    choices: impl Iterator<Item = Open>,
) {
    let point = |open: Open| {
        let called = format!("Ns={} Nl={}", open.small, open.large);
        (called, move |mode| name(mix, open, mode))
    };
    let points: Vec<_> = choices.map(point).collect();
    beside_the_best(results, report, of_what, &points);
}

fn gaps(results: &Results<'_>, report: &mut Report) {
    let open = Open { small: 1, large: 3 };
    let of = |blocks, mode| results.mean(&name(Mix::Uniform(blocks), open, mode), THROUGHPUT);
    let (write, append) = (Mode::ZoneWrite, Mode::ZoneAppend);
    let what = |text: &str| format!("Ns=1 Nl=3, {text}");
    report.findings.extend([
        within(what("4 KiB: zone-append / zone-write"), of(1, append) / of(1, write), 1.657, 0.15),
        within(what("16 KiB: zone-write / zone-append"), of(4, write) / of(4, append), 1.272, 0.15),
    ]);
    let p95 = |large, mode| {
        results.mean(&name(Mix::Uniform(2), Open { small: SEGMENTS - large, large }, mode), P95)
    };
    let saved = (0..=2).map(|large| 100.0 * (1.0 - p95(large, ZAPRAID) / p95(large, append)));
    let saved: Vec<_> = saved.map(|part| format!("{part:.0} %")).collect();
    report.findings.push(shape(
        "8 KiB, Nl = 0, 1, 2: 95th percentile of zapraid below that of zone-append",
        "15.9 to 32.7 %",
        saved.join(", "),
        "below in each",
        (0..=2).all(|large| p95(large, ZAPRAID) < p95(large, append)),
    ));
}

fn tables(results: &Results<'_>, report: &mut Report) {
    let table = |mix, open, mode| results.mean(&name(mix, open, mode), TABLE);
    let small = Mix::Uniform(1);
    let saved = |open| {
        let of = |mode| table(small, open, mode);
        100.0 * (1.0 - of(ZAPRAID) / of(Mode::ZoneAppend))
    };
    let saved: Vec<f64> = four().take(4).map(saved).collect();
    let shown: Vec<_> = saved.iter().map(|part| format!("{part:.1}")).collect();
    report.findings.push(shape(
        "4 KiB, Nl = 0 to 3: stripe table that zapraid saves over zone-append, %",
        "68.9 to 98.5",
        shown.join(", "),
        "at least 45: entries of zone-append have 2 bytes here, not 3",
        saved.iter().all(|part| *part >= 45.0),
    ));
    let none = four().filter(|open| open.large > 0);
    let none = none.map(|open| table(Mix::Uniform(4), open, ZAPRAID)).fold(0.0, f64::max);
    report.findings.push(shape(
        "16 KiB, Nl > 0: stripe table of zapraid, KiB per GiB",
        "none",
        format!("{none:.1}"),
        "none",
        none < 0.05,
    ));
}

fn hybrid(results: &Results<'_>, report: &mut Report) {
    for open in four() {
        let Some(paper) = published(open, ZAPRAID) else { continue };
        let here = results.mean(&name(Mix::Hybrid, open, ZAPRAID), THROUGHPUT);
        let what = format!("hybrid Ns={} Nl={}: zapraid, MiB/s", open.small, open.large);
        report.findings.push(within(what, here, paper, 0.15));
    }
}

fn raizn(results: &Results<'_>, report: &mut Report) {
    let of = |small, large, mode| {
        results.mean(&name(Mix::Hybrid, Open { small, large }, mode), THROUGHPUT)
    };
    let raizn = |small, large| of(small, large, Mode::RaiznSpdk);
    let (none, one, six) = (raizn(0, 2), raizn(1, 2), raizn(6, 2));
    let far = seventeen()
        .into_iter()
        .map(|Open { small, large }| of(small, large, ZAPRAID) / raizn(small, large));
    let far = far.fold(f64::INFINITY, f64::min);
    let flat: Vec<f64> = (1..=6).map(|large| raizn(2, large)).collect();
    let (low, high) = (
        flat.iter().copied().fold(f64::INFINITY, f64::min),
        flat.iter().copied().fold(0.0, f64::max),
    );
    report.findings.extend([
        shape(
            "raizn-spdk, Nl = 2, Ns = 0, 1, 6: one segment for small requests is worse than none",
            "440.4, 268.6, 1077.6 MiB/s",
            format!("{none:.0}, {one:.0}, {six:.0}"),
            "the second below the first, the third above",
            one < none && six > none,
        ),
        within("raizn-spdk, Nl = 2: Ns = 0 over Ns = 1".to_owned(), none / one, 1.64, 0.15),
        within("raizn-spdk, Nl = 2: Ns = 6 over Ns = 1".to_owned(), six / one, 4.01, 0.15),
        shape(
            "raizn-spdk, Ns = 2, Nl = 1 to 6: more segments for large requests do not help",
            "488.4 to 498.0 MiB/s",
            format!("{low:.0} to {high:.0}"),
            "within 5 %",
            high / low <= 1.05,
        ),
        shape(
            "zapraid over raizn-spdk, at worst",
            "significantly higher throughput",
            format!("{far:.2}"),
            "at least 1.5",
            far >= 1.5,
        ),
    ]);
}

fn charts(results: &Results<'_>, report: &mut Report) {
    const CHARTS: [(Mix, &str, &str); 4] = [
        (WORKLOADS[0], "write_4k", "Requests of 4 KiB, four segments"),
        (WORKLOADS[1], "write_8k", "Requests of 8 KiB, four segments"),
        (WORKLOADS[2], "write_16k", "Requests of 16 KiB, four segments"),
        (WORKLOADS[3], "write_hybrid", "75 % of 4 KiB, 25 % of 16 KiB, four segments"),
    ];
    for (mix, file, title) in CHARTS {
        let line = |mode: &Mode| Line {
            name: mode.name().to_owned(),
            points: four()
                .map(|open| {
                    (f64::from(open.large), results.mean(&name(mix, open, *mode), THROUGHPUT))
                })
                .collect(),
        };
        let lines = MODES.iter().map(line).collect();
        let x = "segments with chunks of 16 KiB";
        report.chart(&Chart { name: file, title, x, y: THROUGHPUT.unit, lines });
    }
    let against = |metric: Metric, open: fn(u32) -> Open| -> Vec<Line> {
        let point = |count, mode| {
            (f64::from(count), results.mean(&name(Mix::Hybrid, open(count), mode), metric))
        };
        let line = |mode: Mode| Line {
            name: mode.name().to_owned(),
            points: BESIDE_TWO.map(|count| point(count, mode)).collect(),
        };
        vec![line(Mode::RaiznSpdk), line(ZAPRAID)]
    };
    report.chart(&Chart {
        name: "raizn_small",
        title: "Hybrid requests, two segments with chunks of 16 KiB",
        x: "segments with chunks of 8 KiB",
        y: THROUGHPUT.unit,
        lines: against(THROUGHPUT, |small| Open { small, large: 2 }),
    });
    report.chart(&Chart {
        name: "raizn_large",
        title: "Hybrid requests, two segments with chunks of 8 KiB",
        x: "segments with chunks of 16 KiB",
        y: THROUGHPUT.unit,
        lines: against(THROUGHPUT, |large| Open { small: 2, large }),
    });
}
