//! Exp#10: throughput by queue depth, with a conventional array (Fig. 15).

mod conventional;
mod one_drive;

use zoneweave_raid::scheme::Scheme;

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};
use crate::experiments::zapraid::figures::adaptive::beside_the_best;
use crate::experiments::zapraid::loads::writes::{HOST, Mode, P50, P95, P99, THROUGHPUT, Writes};
use crate::experiments::zapraid::method::{METHOD, STEADY, kib};

const CHUNKS: [u32; 3] = [1, 2, 4];

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99, HOST];

/// The arrays of Fig. 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Array {
    /// 3 + 1 drives like the testbed's.
    Zn540,
    /// 6 + 1 drives as FEMU emulates them.
    Femu,
    /// 6 + 1 conventional drives of the same chips.
    Conventional,
}

const ARRAYS: [Array; 3] = [Array::Zn540, Array::Femu, Array::Conventional];

impl Array {
    const fn name(self) -> &'static str {
        match self {
            Self::Zn540 => "zn540",
            Self::Femu => "femu",
            Self::Conventional => "conventional",
        }
    }

    const fn depths(self) -> &'static [u32] {
        match self {
            Self::Zn540 => &[1, 2, 4, 8, 16, 32, 64],
            Self::Femu | Self::Conventional => &[4, 8, 16, 32, 64, 128],
        }
    }
}

const OWN_METHOD: &str = "\
ZapRAID writes to one segment, requests are as large as chunks; the engine's other write modes \
are measured beside it. `zn540` is the array of all experiments; `femu` has 6 + 1 drives `femu`: \
16 chips of 27.9 MiB/s each, no write buffer. `femu` has more zones than its preset where stripes \
are padded, so that nothing is relocated.

`conventional` is RAID-5 that overwrites in place on 6 + 1 conventional drives of the same chips, \
50 % spare, and as large as the paper's at that scale, superblocks included; all blocks were \
written in order before. Each request reads the old data and parity, and then writes both. Drives \
answer a write 140 us after it has entered a buffer of 32 blocks, where FEMU's have none: in \
their favour where chips are busy. Neither md nor the kernel takes time here.

Requests on `femu` are as large as chunks, too. The paper's text has 4 KiB for all, and its \
numbers are of those.

`one drive` is a single drive `zn540-4tb` without an array, written by Zone Write, one request at \
a time.

Beyond the paper: at every depth `adaptive` should be no more than 3 % slower than the best of \
the paper's three, and its 99th percentile no more than 10 % above the lowest of theirs. A lone \
write should take at most 1.3 times as long as on one drive.

Findings that do not hold. (1) At low queue depths the paper waits up to 100 us for a stripe to \
fill, and then fills it with zeros. This engine closes a partial stripe as soon as no other is in \
flight, so it is faster there, and grows less from there.

(2) The paper's array of FEMU drives reaches 1,745 MiB/s with 4 KiB and 2,554 MiB/s with 16 KiB \
where its zones allow 2,678: FEMU and all of ZapRAID share the 12 processors of a virtual \
machine. Here commands have their usual cost, 0.95 us.

(3) The paper's conventional array stays below 200 MiB/s at any depth, far below the capability \
of seven drives of 16 chips with four commands per request. That is a limit of md and of FEMU, \
not of the drives. So it is slower than the zoned array here, too, but not by as much.

(4) `adaptive` on ZN540: a zone has one Zone Write in flight. Answered clients send their next \
requests before the next write is built, so that write takes all of them along. With 4 or 8 \
requests in flight it is 16 to 33 % faster than the best of the paper's (but not with 16 KiB and \
8, see below). Blocks that do not fill a stripe wait for the next one. So with 4 the 99th \
percentile is close to the bound, with a median far below that of Zone Append.

Where the flash of the zones is the bound, `adaptive` is paced to its drain rate, so hardly a \
write meets a full buffer. A write takes at most half of its zone's backlog, if that is 16 KiB or \
more, so writes have similar sizes.

With 16 KiB and 8 in flight that is one chunk each. Zones take 3 x 1,041 MiB/s of those at most \
(Fig. 2), and 3,100 result, 4 % less than with Zone Append: beyond the bound. Two chunks at a time \
make 3,206, with a 99th percentile of 60 us and not 46, which is beyond the other bound.

One and two in turn were within both, while the zones of a segment waited for each other, so that \
answered clients' next requests were written along before any zone began anew. Where clients take \
longer than an instant, or drives differ in speed, that gains nothing, and a tenth would be lost. \
The engine no longer waits, as no other point needs it.

(5) `adaptive` on drives without a write buffer appends, because the drive's profile shows that \
this is faster.

(6) A lone write takes 3 us longer by Zone Append on the drive itself, in the model as in the \
measurements that it was fitted to. So ZapRAID is beyond the bound with an appended stripe, and \
Zone Write within it.

(7) 8 in flight on 6 + 1 FEMU drives, chunks as large as requests: six requests fill a stripe, \
and two wait until it is done, since a partial stripe is not closed beside one in flight. Then \
eight are there again, of which six go: six in 144 us, as measured (4 KiB: 162.8 MiB/s, a median \
of 144 us, and a 95th percentile of 288). This rhythm is stable.

Before the long warm-up another rhythm was measured, stripes of six and of two in turn, all eight \
in 147.5 us, with twice as many commands (212 MiB/s). Once everything has waited for one moment, \
as at the end of a group, all eight arrive together, and the six and the two stay together. \
Closing the two beside the others would be a third faster, for a stripe of which four sixths are \
padding in every round.";

/// Throughput in the text of the paper, at the lowest and the highest depth of Fig. 15 (b).
const PAPER_FEMU: [(u32, f64, f64); 3] =
    [(1, 58.3, 1745.5), (2, 114.0, 2384.6), (4, 224.2, 2554.2)];

/// Upper bound of the conventional array's throughput in the paper, in MiB/s.
const PAPER_CONVENTIONAL: f64 = 200.0;

/// Depth 16 over depth 4 in Fig. 15 (a).
const PAPER_ZN540: [(u32, f64); 3] = [(1, 3.52), (2, 3.57), (4, 2.08)];

const ZAPRAID: Mode = Mode::Zapraid(256);

/// The other modes that write to zones.
const OTHERS: [Mode; 3] = [Mode::ZoneWrite, Mode::ZoneAppend, Mode::Adaptive];

fn name(array: Array, chunk_blocks: u32, depth: u32) -> String {
    format!("{} {} QD={depth}", array.name(), kib(chunk_blocks))
}

/// The configuration's name; ZapRAID is the default mode and not mentioned.
fn name_of(array: Array, mode: Mode, chunk_blocks: u32, depth: u32) -> String {
    let name = name(array, chunk_blocks, depth);
    if mode == ZAPRAID { name } else { format!("{name} {}", mode.name()) }
}

fn name_of_drive(chunk_blocks: u32) -> String {
    format!("one drive {} QD=1", kib(chunk_blocks))
}

fn configuration(array: Array, mode: Mode, chunk_blocks: u32, depth: u32) -> Configuration {
    let name = name_of(array, mode, chunk_blocks, depth);
    let zoned = Writes { queue_depth: depth, ..Writes::one_segment(mode, chunk_blocks) };
    match array {
        Array::Zn540 => Configuration::new(name, move |scale, seed| zoned.run(scale, seed)),
        Array::Femu => {
            let scheme = Scheme::new(6, 1).expect("6 + 1 is a scheme");
            let zoned = Writes { preset: "femu", scheme, ..zoned };
            let paper = PAPER_FEMU.iter().find(|(chunk, ..)| *chunk == chunk_blocks);
            let paper = paper.filter(|_| mode == ZAPRAID);
            let paper = paper.and_then(|(_, low, high)| match depth {
                4 => Some(*low),
                128 => Some(*high),
                _ => None,
            });
            Configuration::new(name, move |scale, seed| zoned.run(scale, seed))
                .published(THROUGHPUT, paper)
        }
        Array::Conventional => Configuration::new(name, move |scale, seed| {
            conventional::run(chunk_blocks, depth, scale, seed)
        }),
    }
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for array in ARRAYS {
        for chunk in CHUNKS {
            let of = |mode| move |depth: &u32| configuration(array, mode, chunk, *depth);
            configurations.extend(array.depths().iter().map(of(ZAPRAID)));
            for mode in OTHERS.iter().filter(|_| array != Array::Conventional) {
                configurations.extend(array.depths().iter().map(of(*mode)));
            }
        }
    }
    for chunk in CHUNKS {
        let work = move |_, seed| one_drive::run(chunk, seed);
        configurations.push(Configuration::new(name_of_drive(chunk), work));
    }
    Suite {
        title: "ZapRAID, Exp#10: queue depths, and a conventional array",
        method: format!("{METHOD}\n\n{STEADY}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |array, chunk, depth| results.mean(&name(array, chunk, depth), THROUGHPUT);
    for (chunk, paper) in PAPER_ZN540 {
        let at = |depth| of(Array::Zn540, chunk, depth);
        let what = format!("zn540 {}: queue depth 16 over 4", kib(chunk));
        report.findings.push(within(what, at(16) / at(4), paper, 0.15));
        report.findings.push(shape(
            &format!("zn540 {}: queue depth 64 over 16", kib(chunk)),
            "saturated at 16",
            format!("{:.2}", at(64) / at(16)),
            "at most 1.15",
            at(64) / at(16) <= 1.15,
        ));
    }
    for (chunk, low, high) in PAPER_FEMU {
        let what = |text: &str| format!("femu {}: {text}", kib(chunk));
        let at = |depth| of(Array::Femu, chunk, depth);
        report.findings.extend([
            within(what("queue depth 4, MiB/s"), at(4), low, 0.15),
            within(what("queue depth 128, MiB/s"), at(128), high, 0.15),
        ]);
    }
    for chunk in CHUNKS {
        let over =
            |depth: &u32| of(Array::Femu, chunk, *depth) / of(Array::Conventional, chunk, *depth);
        let least = Array::Femu.depths().iter().map(over).fold(f64::INFINITY, f64::min);
        report.findings.push(shape(
            &format!("{}: zoned array over conventional one, at worst", kib(chunk)),
            "the conventional one is much lower",
            format!("{least:.2}"),
            "above 1.1",
            least > 1.1,
        ));
        let (_, _, zoned) =
            PAPER_FEMU.into_iter().find(|(of, ..)| *of == chunk).expect("a chunk of Fig. 15");
        let here = over(&128);
        report.findings.push(shape(
            &format!("{}: zoned array over conventional one, queue depth 128", kib(chunk)),
            &format!(
                "at least {:.1} ({zoned} MiB/s and below {PAPER_CONVENTIONAL})",
                zoned / PAPER_CONVENTIONAL
            ),
            format!("{here:.1}"),
            "within 15 % of that, or more",
            here >= 0.85 * zoned / PAPER_CONVENTIONAL,
        ));
    }
    for array in [Array::Zn540, Array::Femu] {
        adaptive(results, report, array);
    }
    alone(results, report);
    for (array, title) in [
        (Array::Zn540, "3 + 1 drives zn540-4tb"),
        (Array::Femu, "6 + 1 drives femu"),
        (Array::Conventional, "6 + 1 conventional drives, overwritten in place"),
    ] {
        let line = |chunk: &u32| Line {
            name: kib(*chunk),
            points: array
                .depths()
                .iter()
                .map(|depth| (f64::from(*depth), of(array, *chunk, *depth)))
                .collect(),
        };
        let lines = CHUNKS.iter().map(line).collect();
        let (x, y) = ("requests in flight", THROUGHPUT.unit);
        report.chart(&Chart { name: array.name(), title, x, y, lines });
    }
}

/// Adaptive compared with the best of the paper's modes, at every depth.
fn adaptive(results: &Results<'_>, report: &mut Report, array: Array) {
    let points: Vec<_> = CHUNKS
        .iter()
        .flat_map(|chunk| array.depths().iter().map(|depth| (*chunk, *depth)))
        .map(|(chunk, depth)| {
            let name = name(array, chunk, depth);
            (name, move |mode| name_of(array, mode, chunk, depth))
        })
        .collect();
    beside_the_best(results, report, array.name(), &points);
}

/// A lone write to the array, compared with a lone write to a drive.
fn alone(results: &Results<'_>, report: &mut Report) {
    for chunk in CHUNKS {
        let drive = results.mean(&name_of_drive(chunk), P50);
        for mode in [ZAPRAID, Mode::Adaptive] {
            let here = results.mean(&name_of(Array::Zn540, mode, chunk, 1), P50);
            let what = format!(
                "{}, one request at a time: median latency of {} over one drive's",
                kib(chunk),
                mode.name()
            );
            report.findings.push(shape(
                &what,
                "not in the paper",
                format!("{:.2} ({here:.1} and {drive:.1} us)", here / drive),
                "at most 1.30",
                here / drive <= 1.3,
            ));
        }
    }
}
