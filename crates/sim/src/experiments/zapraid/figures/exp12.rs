//! Exp#12: garbage collection with more or less reserved space (Fig. 18).

use std::rc::Rc;

use zoneweave_emulator::Preset;
use zoneweave_raid::log::{Lanes, WritePolicy};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount};

use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::zapraid::loads::overwrites::{Overwrites, Places};
use crate::experiments::zapraid::loads::writes::{
    P50, P95, P99, THROUGHPUT, figures_of, three_and_one,
};
use crate::experiments::zapraid::method::{METHOD, kib};
use crate::experiments::{ExperimentError, Report, Values};
use crate::testbed::Testbed;
use crate::workload::Host;

pub(crate) const GIB: f64 = 1_073_741_824.0;

/// Size of the volume, and bytes written in all.
const VOLUME_BYTES: f64 = 200.0 * GIB;
const WRITTEN_BYTES: f64 = 1024.0 * GIB;

/// Reserved space, in percent of the volume.
const RESERVES: [u32; 5] = [20, 40, 60, 80, 100];

/// The smallest scale: zones of 4 MiB.
pub(crate) const SCALE_LEAST: f64 = 1.0 / 256.0;

/// Blocks written, without parity.
const AMPLIFICATION: Metric = Metric { name: "blocks written", unit: "for each of users" };

const METRICS: &[Metric] = &[THROUGHPUT, P50, P95, P99, AMPLIFICATION];

const OWN_METHOD: &str = "\
A volume of 200 GiB is overwritten repeatedly, 1 TiB in all, 64 requests in flight; the array has \
room for 20 to 100 % more data than that. Zones are scaled with the data, so that there are as \
many of them (down to zones of 4 MiB, at a scale of 1/256); groups of 256 rows are a larger part \
of a zone then. One segment is open, with chunks of 4 or 16 KiB, or two with 8 and two with 16 \
KiB; all are written as by ZapRAID.

The text has no numbers, so only shapes are decided. The engine collects by its own rules, not \
the paper's, and its free segments for crashes are part of the reserve.

Operations on a whole zone are scaled with the zone: resetting it (15.4 ms for a full one, one at \
a time), finishing, opening and closing it. At full size a zone is reset in the time in which 16 \
MiB are written to it, a sixtieth of its capacity. With zones of 34 MiB and resets of full length \
a drive would do little else.

Resets unmap block by block in the measurements of the drives (49.9 ns each), and the rest of \
their times is scaled so that they take the same part of a drive's time as at full size.

The write buffer (40 MiB) shrinks, too, so that it does not hold several zones, but not below the \
12 MiB that four groups of dies have in flight at once: with less a drive would be slower. \
Operations on blocks and dies keep their times. A zone of 34 MiB or less still overlaps with the \
next one in the buffer, and these are on different dies. So one segment is faster than the 1,050 \
MiB/s of a zone here, and four gain less over one than at full size.

Skewed requests follow Zipf's law with an exponent of 0.99, as in the paper.

Findings that do not hold. (1) Random 4 KiB: the paper has more throughput with four segments \
than with one. Here small requests go to the two segments with chunks of 8 KiB. One of these is \
appended to and takes 3 x 1,058 MiB/s at most (Fig. 2), where in one segment four requests fill a \
chunk of 16 KiB. That segment is bound by its zones (3 x 1,050 MiB/s) at full size only, not with \
small zones, as explained above.

(2) Random 64 KiB with 40 % in reserve, where four segments have 0.88 of one. Requests of 64 KiB \
fill two segments then (those with chunks of 16 KiB), and a second open segment is space that the \
collector lacks.

Of some 83 segments, 68 for the data, one more is open, and relocation makes 2.04 blocks of one, \
not 1.86, a tenth more. At 20 % there is no room for a second one, so both are written alike. \
From 60 % on it makes 5, 3 and 2 % more, which two zones at a time outweigh. The number of \
segments is that of full size.

One point was measured at full scale, in 200 GiB with 1 TiB written: random 64 KiB to one segment \
of 16 KiB, 40 % in reserve, one seed. It has 2,318 MiB/s and 1.824 blocks of one, 1.4 and 1.8 % \
less than at a scale of 1/256; 2,356 and 1.826 at 1/16. Other points were not measured at full \
scale.";

/// Settings of Fig. 18: number of segments, and their chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    One(u32),
    Four,
}

const SETTINGS: [Setting; 3] = [Setting::One(1), Setting::One(4), Setting::Four];

impl Setting {
    fn name(self) -> String {
        match self {
            Self::One(chunk) => format!("one segment of {}", kib(chunk)),
            Self::Four => "four segments".to_owned(),
        }
    }

    fn policy(self) -> WritePolicy {
        let lanes = |count, chunk_blocks| Lanes { count, chunk_blocks };
        let (small, large) = match self {
            Self::One(chunk) => (lanes(1, chunk), lanes(0, chunk)),
            Self::Four => (lanes(2, 2), lanes(2, 4)),
        };
        WritePolicy::zapraid(small, large, 256)
    }
}

/// Workloads of Fig. 18: distribution, and blocks of a request.
pub(crate) const WORKLOADS: [(&str, Places, u32); 4] = [
    ("random 4 KiB", Places::Random, 1),
    ("random 64 KiB", Places::Random, 16),
    ("skewed 64 KiB", Places::Skewed, 16),
    ("sequential 64 KiB", Places::Sequential, 16),
];

fn name(workload: &str, setting: Setting, reserve: u32) -> String {
    format!("{workload} {} reserve {reserve} %", setting.name())
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for (workload, places, request) in WORKLOADS {
        for setting in SETTINGS {
            for reserve in RESERVES {
                let load = Overwrites { places, request, queue_depth: 64 };
                let work = move |scale: f64, seed| {
                    run(load, setting, reserve, scale.max(SCALE_LEAST), seed)
                };
                configurations.push(Configuration::new(name(workload, setting, reserve), work));
            }
        }
    }
    Suite {
        title: "ZapRAID, Exp#12: collecting",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

fn run(
    load: Overwrites,
    setting: Setting,
    reserve: u32,
    scale: f64,
    seed: u64,
) -> Result<Values, ExperimentError> {
    let testbed = shrunk_array(blocks_of(VOLUME_BYTES, scale), reserve, scale, seed)?;
    testbed.run(&setting.policy(), Host::SPDK, async |device, bench| {
        let blocks = blocks_of(WRITTEN_BYTES, scale);
        let figures = load.run(&bench.handle, Rc::new(device.clone()), blocks, seed).await?;
        assert!(figures.operations > 0, "a point measures something");
        let mut values = figures_of(&figures);
        values.put(AMPLIFICATION.name, device.status().write_amplification);
        Ok(values)
    })
}

/// An array with a volume of so many blocks and so much reserved space in percent, in scaled-down
/// zones.
pub(crate) fn shrunk_array(
    volume: u64,
    reserve: u32,
    scale: f64,
    seed: u64,
) -> Result<Testbed, ExperimentError> {
    let capacity = Preset::by_name("zn540-4tb")?.geometry().zone_capacity;
    let zone_bytes = f64::from(capacity.0) * f64::from(1 << 12);
    let zone = blocks_of(zone_bytes, scale);
    assert!(zone > 0, "SCALE_LEAST keeps blocks in a zone");
    let room = volume * u64::from(100 + reserve) / 100;
    let zones = u32::try_from(room.div_ceil(zone * 3)).unwrap_or(u32::MAX);
    let zone = BlockCount(u32::try_from(zone).unwrap_or(u32::MAX));
    let testbed = Testbed::new("zn540-4tb", three_and_one(), zones, seed)?;
    Ok(testbed.with_zones_of(zone)?.with_volume_of(volume))
}

/// Bytes at a scale, in blocks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some TiB")]
pub(crate) fn blocks_of(bytes: f64, scale: f64) -> u64 {
    (bytes * scale) as u64 / BLOCK_BYTES as u64
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |workload: &str, setting: Setting, reserve: u32| {
        results.mean(&name(workload, setting, reserve), THROUGHPUT)
    };
    for setting in SETTINGS {
        for (workload, ..) in &WORKLOADS[..3] {
            let (low, high) = (of(workload, setting, 20), of(workload, setting, 100));
            report.findings.push(shape(
                &format!("{workload}, {}: 100 % in reserve over 20 %", setting.name()),
                "more throughput",
                format!("{:.2}", high / low),
                "above 1",
                high > low,
            ));
        }
        let at = |workload: usize| of(WORKLOADS[workload].0, setting, 20);
        report.findings.push(shape(
            &format!("64 KiB, {}, 20 % in reserve: sequential, skewed, random", setting.name()),
            "in this order",
            format!("{:.0}, {:.0}, {:.0} MiB/s", at(3), at(2), at(1)),
            "each above the next",
            at(3) > at(2) && at(2) > at(1),
        ));
    }
    for (workload, ..) in WORKLOADS {
        let over_one = RESERVES.map(|reserve| {
            let one = of(workload, Setting::One(1), reserve);
            of(workload, Setting::Four, reserve) / one.max(of(workload, Setting::One(4), reserve))
        });
        let shown = over_one.map(|over| format!("{over:.2}"));
        report.findings.push(shape(
            &format!("{workload}, by reserve: four segments over the better of one"),
            "more throughput",
            shown.join(", "),
            "at least 0.97 at each",
            over_one.iter().all(|over| *over >= 0.97),
        ));
    }
    for (setting, file, title) in [
        (SETTINGS[0], "one_4k", "One segment, chunks of 4 KiB"),
        (SETTINGS[1], "one_16k", "One segment, chunks of 16 KiB"),
        (SETTINGS[2], "four", "Four segments"),
    ] {
        let point =
            |workload: &str, reserve: u32| (f64::from(reserve), of(workload, setting, reserve));
        let line = |(workload, ..): &(&str, Places, u32)| Line {
            name: (*workload).to_owned(),
            points: RESERVES.iter().map(|reserve| point(workload, *reserve)).collect(),
        };
        let lines = WORKLOADS.iter().map(line).collect();
        let x = "space in reserve, %";
        report.chart(&Chart { name: file, title, x, y: THROUGHPUT.unit, lines });
    }
}
