//! Fig. 12: time to repair a replaced drive, by the data on it.

use std::rc::Rc;

use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{ByteSize, ZoneId, ZonedDevice};

use crate::experiments::chart::{Chart, Line};
use crate::experiments::raizn::array::{DRIVES, UNIT, ZonedArray, fill, member};
use crate::experiments::raizn::loads::{Workload, on_one_drive};
use crate::experiments::raizn::md::ConventionalArray;
use crate::experiments::raizn::method::{METHOD, NOT_IN_PAPER, THROUGHPUT};
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::{ExperimentError, Report, Values};
use crate::workload::WorkloadError;

/// Eighths of the zones that are written.
const EIGHTHS: [u32; 4] = [1, 2, 4, 8];
const ALL: u32 = 8;

/// Eighths of an array at full scale: zones.
const ZONES_OF_EIGHTH: f64 = 16.0;

/// Requests to one drive: its largest.
const ONE_DRIVE: u32 = 32;

/// The drive that is replaced.
const LOST: usize = 0;

const TIME: Metric = Metric { name: "time to repair", unit: "s" };
const DATA: Metric = Metric { name: "written to the new drive", unit: "MiB" };
const RATE: Metric = Metric { name: "rate of the repair", unit: "MiB/s" };

const METRICS: &[Metric] = &[TIME, DATA, RATE, THROUGHPUT];

const OWN_METHOD: &str = "\
Zones of the volume are written to their ends, then the first drive is taken out, and a blank one \
takes its place, without load. The time is from the replacement to full redundancy. At full scale \
an array has 128 zones, 135 GiB of each drive, at a sixteenth 8; the paper's drives have 946 GiB, \
and 64 to 946 GiB are rebuilt. `md` is an array of as many blocks. Its resync reads all blocks of \
the other drives and writes all of the new one, 16 times 128 KiB at once, whatever was written; so \
it is measured once.

`one drive` is a drive of `raizn` under sequential writes of 128 KiB in eight zones.";

fn name(eighths: u32) -> String {
    format!("raizn {eighths}/{ALL} written")
}

const MD: &str = "md";
const DRIVE: &str = "one drive";

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations: Vec<Configuration> = EIGHTHS
        .into_iter()
        .map(|eighths| {
            let work = move |scale, seed| {
                let of_eighth = zones_of_eighth(scale);
                on_raizn(ZonedArray::new(UNIT, ALL * of_eighth, seed)?, eighths * of_eighth)
            };
            Configuration::new(name(eighths), work)
        })
        .collect();
    configurations.push(Configuration::new(MD.to_owned(), |scale, seed| {
        on_md(&ZonedArray::new(UNIT, ALL * zones_of_eighth(scale), seed)?)
    }));
    configurations.push(Configuration::new(DRIVE.to_owned(), |scale, seed| {
        on_one_drive(Workload::Write, ONE_DRIVE, scale, seed)
    }));
    Suite {
        title: "RAIZN, Fig. 12: time to repair",
        method: format!("{METHOD}\n\n{OWN_METHOD}"),
        metrics: METRICS,
        configurations,
        judge,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few zones")]
fn zones_of_eighth(scale: f64) -> u32 {
    (ZONES_OF_EIGHTH * scale).round().max(1.0) as u32
}

/// Repairs an array of which so many zones are written.
fn on_raizn(array: ZonedArray, written: u32) -> Result<Values, ExperimentError> {
    assert!(written <= array.zones, "{written} of {} zones", array.zones);
    let new = array.drive(u64::from(DRIVES))?;
    array.run(async |volume, handle, _| {
        let device: Rc<dyn ZonedDevice> = Rc::new(volume.clone());
        let capacity = device.geometry().zone_capacity;
        for zone in 0..written {
            fill(&device, ZoneId(zone), capacity).await?;
        }
        let slot = Column::of(LOST);
        volume.fail(slot).await.expect("a drive of a healthy array fails");
        let begun = handle.now();
        let replaced = volume.replace(slot, new.attach(&handle), member(DRIVES as usize)).await;
        replaced.expect("a drive like the others");
        let seconds = handle.now().since(begun).as_secs_f64();
        let status = volume.status();
        assert!(status.members[LOST].online, "it is whole: {status:?}");
        Ok(repaired(seconds, new.counters().written_blocks))
    })
}

/// Resyncs a conventional array with as many blocks.
fn on_md(like: &ZonedArray) -> Result<Values, ExperimentError> {
    let blocks = u64::from(like.zones) * u64::from(like.capacity.0);
    let (unit, seed) = (like.unit, like.seed);
    let array = ConventionalArray { unit, blocks, written: blocks, blank: Some(LOST), seed };
    array.run(async |md, handle, drives| {
        md.lose(LOST);
        let (begun, before) = (handle.now(), drives[LOST].counters().written_blocks);
        md.resync(LOST, blocks).await.map_err(WorkloadError::from)?;
        let seconds = handle.now().since(begun).as_secs_f64();
        let written = drives[LOST].counters().written_blocks - before;
        assert_eq!(written, blocks, "the whole drive is written");
        Ok(repaired(seconds, written))
    })
}

#[expect(clippy::cast_precision_loss, reason = "fewer blocks than 2^53")]
fn repaired(seconds: f64, blocks: u64) -> Values {
    let mib = ByteSize::of_blocks(blocks).0 as f64 / f64::from(1 << 20);
    let mut values = Values::default();
    values.put(TIME.name, seconds);
    values.put(DATA.name, mib);
    values.put(RATE.name, mib / seconds.max(1e-9));
    values
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |eighths: u32, metric| results.mean(&name(eighths), metric);
    for eighths in &EIGHTHS[1..] {
        let time = of(*eighths, TIME) / of(EIGHTHS[0], TIME);
        let data = of(*eighths, DATA) / of(EIGHTHS[0], DATA);
        report.findings.push(shape(
            &format!("{eighths}/{ALL} over {}/{ALL} of the zones: time to repair", EIGHTHS[0]),
            "scales linearly with the data",
            format!("{time:.2} times, data {data:.2} times"),
            "within 5 % of each other",
            (time / data - 1.0).abs() <= 0.05,
        ));
    }
    let target = results.mean(DRIVE, THROUGHPUT);
    let rate = of(ALL, RATE) / target;
    report.findings.push(shape(
        "whole array: rate of the repair over the write bandwidth of a drive",
        "bottlenecked by the write throughput of the drive",
        format!("{rate:.3} ({:.0} and {target:.0} MiB/s)", of(ALL, RATE)),
        "at least 0.95",
        rate >= 0.95,
    ));
    let md = results.mean(MD, TIME);
    let whole = of(ALL, TIME) / md;
    report.findings.push(shape(
        "whole array: time to repair, raizn over md",
        "the same for a completely full volume",
        format!("{whole:.2} ({:.2} and {md:.2} s)", of(ALL, TIME)),
        "0.90 to 1.10",
        (0.9..=1.1).contains(&whole),
    ));
    let least = of(EIGHTHS[0], TIME) / md;
    report.findings.push(shape(
        &format!("{}/{ALL} of the zones: time to repair, raizn over md", EIGHTHS[0]),
        "shorter unless the array is full",
        format!("{least:.2}"),
        "below 1",
        least < 1.0,
    ));
    let of_md = results.mean(MD, RATE) / target;
    report.findings.push(shape(
        "md: rate of the resync over the write bandwidth of a zoned drive",
        NOT_IN_PAPER,
        format!("{of_md:.3}"),
        "0.95 to 1.10: the model is bound by the new drive as well",
        (0.95..=1.1).contains(&of_md),
    ));
    let gib = |eighths: u32| of(eighths, DATA) / 1024.0;
    let ours = EIGHTHS.map(|eighths| (gib(eighths), of(eighths, TIME)));
    let theirs = EIGHTHS.map(|eighths| (gib(eighths), md));
    let line =
        |name: &str, points: [(f64, f64); 4]| Line { name: name.to_owned(), points: points.into() };
    let lines = vec![line("raizn", ours), line("md, a full resync", theirs)];
    let title = "Time to repair a drive";
    let x = "written to the new drive, GiB";
    report.chart(&Chart { name: "time_to_repair", title, x, y: TIME.unit, lines });
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;

    fn small() -> ZonedArray {
        let capacity = BlockCount(2048);
        ZonedArray { capacity, ..ZonedArray::new(UNIT, 4, 1).unwrap() }
    }

    #[test]
    fn only_written_zones_are_rebuilt() {
        let of = |zones| on_raizn(small(), zones).unwrap().get(DATA.name).unwrap();
        let (one, four) = (of(1), of(4));
        // A zone of a drive has 8 MiB. Superblock and parity log are a few blocks.
        assert!((8.0..8.5).contains(&one), "{one} MiB");
        assert!((32.0..32.5).contains(&four), "{four} MiB");
    }

    #[test]
    fn a_resync_writes_the_whole_drive() {
        let values = on_md(&small()).unwrap();
        assert!((values.get(DATA.name).unwrap() - 32.0).abs() < 1e-9, "{values:?}");
    }
}
