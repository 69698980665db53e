//! Table 1: space and memory of the volume's metadata, by type.
//!
//! Space is the growth of the drives' superblock zones and parity logs in one step. Memory is that
//! of the blocks that a step frees.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::RamDrive;
use zoneweave_raid::raizn::Volume;
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZonedDevice,
    ZonedDeviceExt, blocks_in_use,
};

use crate::experiments::raizn::array::{
    DATA, LOG_ZONES, SUPERBLOCK_ZONES, UNIT, ZonedArray, failed,
};
use crate::experiments::raizn::method::NOT_IN_PAPER;
use crate::experiments::suite::{Configuration, Metric, Results, Suite, shape};
use crate::experiments::{ExperimentError, Report, Values};

/// Blocks of a stripe.
const STRIPE: u32 = UNIT * DATA;

const SMALL_PARITY: Metric = space("partial parity of a 4 KiB write: storage");
const UNIT_PARITY: Metric = space("partial parity of a stripe unit: storage");
const RESET: Metric = space("zone reset log, generation counters: storage on each drive");
const SUPERBLOCK: Metric = space("superblock: storage on each drive");
const MOVED: Metric = space("remapped stripe unit: storage");
const MOVED_MEMORY: Metric = space("remapped stripe unit: memory");
const BUFFER: Metric = space("stripe buffers of an open zone: memory");

const fn space(name: &'static str) -> Metric {
    Metric { name, unit: "KiB" }
}

const METRICS: &[Metric] =
    &[SUPERBLOCK, RESET, SMALL_PARITY, UNIT_PARITY, BUFFER, MOVED, MOVED_MEMORY];

const POINT: &str = "4 + 1 drives, units of 64 KiB";

const METHOD: &str = "\
The volume is made of 4 + 1 drives `zn540-1tb` without metadata beside their blocks, in RAID-5, \
with stripe units of 64 KiB. Each step is made alone. *Storage* is the number of blocks that it \
adds to superblock zones or to parity logs, *memory* that of the blocks that are freed once the \
metadata is of no use any more. Seeds make no difference.

The *superblock* is written when a drive is taken out: the others have the record. The step of \
*zone reset log* is a reset of a written zone. Its records have the zone's next generation, so the \
*generation counters* have none of their own; the paper writes both. A write of 4 KiB, and one of \
a whole stripe unit, begin stripes: *partial parity*. *Stripe buffers* hold a stripe without its \
last block. They share the memory of the writes, and at most eight stripes of a zone are in \
flight, as many as the paper reserves.

A *remapped stripe unit* is one that became unreadable, and that a scrub moved to the parity log. \
A scrub moves single blocks, with a header each. Where a crash left something in the place of a \
unit, a write puts the whole unit behind one header.

Three rows of the table are not compared. The volume has no persistence bitmaps: one number for \
each zone says how far it is durable. And no interface tells the size of zone descriptors, of \
zones of drives and of the volume, nor that of superblock and generations in memory.";

pub(in crate::experiments) fn suite() -> Suite {
    let paper = [
        (SUPERBLOCK, 4.0),
        (RESET, 8.0),
        (SMALL_PARITY, 8.0),
        (UNIT_PARITY, 68.0),
        (BUFFER, 2560.0),
        (MOVED, 68.0),
        (MOVED_MEMORY, 68.0),
    ];
    let mut one = Configuration::new(POINT.to_owned(), |_, seed| run(seed));
    for (metric, value) in paper {
        one = one.published(metric, Some(value));
    }
    Suite {
        title: "RAIZN, Table 1: space and memory of metadata",
        method: METHOD.to_owned(),
        metrics: METRICS,
        configurations: vec![one],
        judge,
    }
}

fn run(seed: u64) -> Result<Values, ExperimentError> {
    ZonedArray::new(UNIT, 2, seed)?.run(async |volume, _, drives| {
        let device: Rc<dyn ZonedDevice> = Rc::new(volume.clone());
        let mut values = Values::default();
        partial_parity(&device, drives, &mut values).await?;
        reset(&device, drives, &mut values).await?;
        remapped(&volume, &device, drives, &mut values).await?;
        let others = &drives[1..];
        let before = superblock_blocks(others);
        volume.fail(Column::of(0)).await.expect("a drive of a healthy array fails");
        values.put(SUPERBLOCK.name, kib_of_each(growth(before, superblock_blocks(others)), others));
        Ok(values)
    })
}

/// Writes a stripe in three parts, and a unit of the next one.
async fn partial_parity(
    device: &Rc<dyn ZonedDevice>,
    drives: &[RamDrive],
    values: &mut Values,
) -> Result<(), ExperimentError> {
    let before = log_blocks(drives);
    write(device, 0, 1).await?;
    values.put(SMALL_PARITY.name, kib(growth(before, log_blocks(drives))));
    write(device, 1, STRIPE - 2).await?;
    let held = blocks_in_use();
    write(device, STRIPE - 1, 1).await?;
    values.put(BUFFER.name, kib(freed_since(held)));
    let before = log_blocks(drives);
    write(device, STRIPE, UNIT).await?;
    values.put(UNIT_PARITY.name, kib(growth(before, log_blocks(drives))));
    Ok(())
}

async fn reset(
    device: &Rc<dyn ZonedDevice>,
    drives: &[RamDrive],
    values: &mut Values,
) -> Result<(), ExperimentError> {
    let before = superblock_blocks(drives);
    let done = device.manage(ZoneId(0), ZoneAction::Reset).await;
    done.map_err(|status| failed("a reset", ZoneId(0), status))?;
    values.put(RESET.name, kib_of_each(growth(before, superblock_blocks(drives)), drives));
    Ok(())
}

/// A unit of the first stripe becomes unreadable, and a scrub moves it.
async fn remapped(
    volume: &Volume,
    device: &Rc<dyn ZonedDevice>,
    drives: &[RamDrive],
    values: &mut Values,
) -> Result<(), ExperimentError> {
    write(device, 0, STRIPE).await?;
    let column = SUPERBLOCK_ZONES + LOG_ZONES;
    drives[0].set_unreadable(ZoneAddress::new(ZoneId(column), 0), BlockCount(UNIT));
    let before = log_blocks(drives);
    let report = volume.scrub().await.expect("all members are there");
    assert_eq!(report.relocated, u64::from(UNIT), "the scrub moves the unit: {report:?}");
    values.put(MOVED.name, kib(growth(before, log_blocks(drives))));
    let held = blocks_in_use();
    let done = device.manage(ZoneId(0), ZoneAction::Reset).await;
    done.map_err(|status| failed("a reset", ZoneId(0), status))?;
    values.put(MOVED_MEMORY.name, kib(freed_since(held)));
    Ok(())
}

/// Writes blocks of the first zone, from a buffer of their own.
async fn write(device: &Rc<dyn ZonedDevice>, at: u32, blocks: u32) -> Result<(), ExperimentError> {
    let payload = Payload::new(AlignedBuffer::zeroed(BlockCount(blocks)).freeze(), Bytes::new());
    let zone = ZoneId(0);
    let written = device.write(ZoneAddress::new(zone, at), payload, false).await;
    written.map(drop).map_err(|status| failed("a write", zone, status))
}

/// Blocks in the superblock zones of all drives.
fn superblock_blocks(drives: &[RamDrive]) -> u64 {
    blocks_in(drives, 0..SUPERBLOCK_ZONES)
}

/// Blocks in the parity logs of all drives.
fn log_blocks(drives: &[RamDrive]) -> u64 {
    blocks_in(drives, SUPERBLOCK_ZONES..SUPERBLOCK_ZONES + LOG_ZONES)
}

fn blocks_in(drives: &[RamDrive], zones: Range<u32>) -> u64 {
    let of_drive = |drive: &RamDrive| {
        zones.clone().map(|zone| u64::from(drive.zone(ZoneId(zone)).write_pointer.0)).sum::<u64>()
    };
    drives.iter().map(of_drive).sum()
}

/// Blocks that a step added to zones of metadata.
fn growth(before: u64, after: u64) -> u64 {
    assert!(after >= before, "zones of metadata were emptied: {before} blocks, then {after}");
    after - before
}

/// Blocks of memory that were freed since so many were in use.
fn freed_since(held: usize) -> u64 {
    held.saturating_sub(blocks_in_use()) as u64
}

#[expect(clippy::cast_precision_loss, reason = "a few blocks")]
fn kib(blocks: u64) -> f64 {
    blocks as f64 * 4.0
}

/// Of all drives, to each.
fn kib_of_each(blocks: u64, drives: &[RamDrive]) -> f64 {
    kib(blocks) / f64::from(u32::try_from(drives.len()).expect("a few drives"))
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of = |metric| results.mean(POINT, metric);
    for (metric, paper, most) in [
        (SUPERBLOCK, "4 KiB", 4.0),
        (RESET, "4 KiB, and 4 KiB", 8.0),
        (SMALL_PARITY, "4 KiB and the blocks", 8.0),
        (UNIT_PARITY, "4 KiB and the blocks, at most 64 KiB", 68.0),
        (BUFFER, "320 KiB for each of 8 stripes, reserved", 320.0),
        (MOVED, "4 + 64 KiB", 68.0),
        (MOVED_MEMORY, "4 + 64 KiB", 68.0),
    ] {
        let ours = of(metric);
        report.findings.push(shape(
            metric.name,
            paper,
            format!("{ours} KiB"),
            &format!("at most {most} KiB"),
            ours > 0.0 && ours <= most,
        ));
    }
    let over = of(RESET) / of(SUPERBLOCK);
    report.findings.push(shape(
        "records of a zone reset: one before it, and one behind it",
        NOT_IN_PAPER,
        format!("{over}"),
        "2",
        (over - 2.0).abs() < 1e-9,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_takes_the_space_of_the_format() {
        let values = run(1).unwrap();
        let of = |metric: Metric| values.get(metric.name).unwrap();
        let is = |metric, kib: f64| (of(metric) - kib).abs() < 1e-9;
        assert!(is(SMALL_PARITY, 8.0) && is(UNIT_PARITY, 68.0), "{values:?}");
        assert!(of(SUPERBLOCK) >= 4.0 && of(RESET) >= 8.0, "{values:?}");
        assert!(of(BUFFER) > 0.0 && of(MOVED) > 0.0 && of(MOVED_MEMORY) > 0.0, "{values:?}");
    }
}
