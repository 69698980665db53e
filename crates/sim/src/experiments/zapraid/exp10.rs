//! Exp#10: how throughput grows with the queue depth, and a conventional array beside it (Fig. 15).

mod conventional;

use zoneweave_raid::layout::Scheme;

use super::writes::{HOST, Mode, P50, P95, P99, THROUGHPUT, Writes};
use super::{METHOD, kib};
use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape, within};

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
ZapRAID writes to one segment, requests are as large as chunks. `zn540` is the array of all experiments; `femu` has \
6 + 1 drives `femu`: 16 chips of 27.9 MiB/s each, no write buffer. Zones of `femu` are more than the preset has where \
stripes are padded, so that nothing has to be moved.

`conventional` is RAID-5 that overwrites in place on 6 + 1 conventional drives of the same chips, 50 % spare, and as \
large as the paper's at that scale, superblocks included; all blocks were written in order before. Each request reads \
what it overwrites and its parity, and then writes both. Drives answer a write 140 us after it has come into a buffer of \
32 blocks, where FEMU's have none: in their favour where chips are busy. Neither md nor the kernel takes time here.

Where findings do not hold. (1) At low queue depths the paper waits up to 100 us for a stripe to fill, and fills it up \
with zeros then; this engine closes a stripe that does not fill as soon as no other is under way, so it is \
faster there, and grows less from there. (2) The paper's array of FEMU drives reaches 1,745 MiB/s with 4 KiB and 2,554 \
MiB/s with 16 KiB where its zones allow 2,678: FEMU and all of ZapRAID share the 12 processors of a virtual machine. Here \
commands cost what they cost everywhere else, 0.95 us. (3) The paper's conventional array stays below 200 MiB/s at any \
depth, far below what seven drives of 16 chips can do with four commands a request: that is a limit of md and of FEMU, \
not of the drives. What is decided is that it is slower than the zoned array.";

/// Throughput in the text, at the lowest and the highest depth of Fig. 15 (b).
const PAPER_FEMU: [(u32, f64, f64); 3] =
    [(1, 58.3, 1745.5), (2, 114.0, 2384.6), (4, 224.2, 2554.2)];

/// Depth 16 over depth 4 in Fig. 15 (a).
const PAPER_ZN540: [(u32, f64); 3] = [(1, 3.52), (2, 3.57), (4, 2.08)];

fn name(array: Array, chunk_blocks: u32, depth: u32) -> String {
    format!("{} {} QD={depth}", array.name(), kib(chunk_blocks))
}

fn configuration(array: Array, chunk_blocks: u32, depth: u32) -> Configuration {
    let name = name(array, chunk_blocks, depth);
    let zoned =
        Writes { queue_depth: depth, ..Writes::one_segment(Mode::Zapraid(256), chunk_blocks) };
    match array {
        Array::Zn540 => Configuration::new(name, move |scale, seed| zoned.run(scale, seed)),
        Array::Femu => {
            let scheme = Scheme::new(6, 1).expect("6 + 1 is a scheme");
            let zoned = Writes { preset: "femu", scheme, ..zoned };
            let paper = PAPER_FEMU.iter().find(|(chunk, ..)| *chunk == chunk_blocks);
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
            let of = |depth: &u32| configuration(array, chunk, *depth);
            configurations.extend(array.depths().iter().map(of));
        }
    }
    Suite {
        title: "ZapRAID, Exp#10: queue depths, and a conventional array",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
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
    }
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
