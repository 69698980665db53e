//! Checks after a recovery, on an idle volume, and after its end.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_check::{Contents, Finding, Options, Problem, Severity, check};
use zoneweave_emulator::{FaultPlan, Immediate};
use zoneweave_raid::log::{Health, Volume};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, BlockError, Lba, ZonedDevice};

use crate::pattern::version_of;
use crate::simulate::oracle::Survives;
use crate::simulate::run::harness::Harness;
use crate::simulate::run::split_brain;

/// Blocks read at a time.
const READ_BLOCKS: u64 = 64;

/// Virtual time in which background work ends.
const SETTLING: Nanos = Nanos::from_secs(10);

/// Zones of each drive that hold superblock records.
const SUPERBLOCK_ZONES: u64 = 2;

/// The version of a block; `None` for a permitted read error.
type Found = Option<u64>;

/// After a start: every block has an allowed version, and is pinned.
pub(crate) async fn verify_recovered(
    harness: &Rc<Harness>,
    volume: &Volume,
    away: &BTreeSet<usize>,
    offline: bool,
) {
    // A version that was read is a promise, even if the next crash comes before the rest is read.
    let survives = harness.survives.get();
    let found = read_all(harness, volume, |lba, found| {
        let mut oracle = harness.oracle.borrow_mut();
        for (lba, version) in (lba..).zip(found) {
            let Some(version) = version else { continue };
            oracle.settle(lba, *version, survives).unwrap_or_else(|why| panic!("{why}"));
        }
    });
    let found = found.await;
    harness.survives.set(Survives::Acknowledged);
    volume.assert_consistent();
    harness.confirm(volume);
    split_brain::record(harness, &found);
    let status = volume.status();
    for member in &status.members {
        harness.drives.borrow_mut().record_orphans(usize::from(member.slot), member.orphan_zones);
    }
    harness.drives.borrow_mut().started();
    let crashed = harness.crashed.replace(0);
    let degraded = status.health != Health::Healthy;
    harness.count(|tally| {
        tally.recoveries += u64::from(crashed > 0);
        tally.degraded_recoveries += u64::from(crashed > 0 && degraded);
        tally.blocks_read += found.len() as u64;
    });
    if offline && harness.drives.borrow().unsuspected() {
        check_offline(harness, away, Some(&found));
    }
}

/// Reads everything, and passes on each version as soon as it is read.
async fn read_all(
    harness: &Harness,
    volume: &Volume,
    mut read_at: impl FnMut(u64, &[Found]),
) -> Vec<Found> {
    let blocks = harness.blocks.get();
    let mut found = Vec::new();
    let mut lba = 0;
    while lba < blocks {
        let length = (blocks - lba).min(READ_BLOCKS);
        match read(volume, lba, length).await {
            Ok(versions) => found.extend(versions.into_iter().map(Some)),
            Err(error) => {
                harness.expect::<()>("a read of a recovered volume", Err(error));
                for lba in lba..lba + length {
                    let block = read(volume, lba, 1).await;
                    found.push(harness.expect("a read", block).map(|versions| versions[0]));
                }
            }
        }
        read_at(lba, &found[found.len() - usize::try_from(length).expect("a length")..]);
        lba += length;
    }
    found
}

async fn read(volume: &Volume, lba: u64, blocks: u64) -> Result<Vec<u64>, BlockError> {
    let length = u32::try_from(blocks).expect("a request's length");
    let pieces = volume.read(Lba(lba), length).await?;
    let blocks = pieces.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
    let version = |(lba, block): (u64, &[u8])| {
        version_of(lba, block)
            .unwrap_or_else(|| panic!("block {lba} has contents that were never written to it"))
    };
    Ok((lba..).zip(blocks).map(version).collect())
}

/// Runs the offline checker, which shares no code with the engine. It must find no contradictions
/// on media, no damage on undamaged drives, and on a running volume the same contents as the
/// engine. It does not run on damaged drives: there the last group's stripes may not count, and the
/// next start would write them again.
pub(crate) fn check_offline(harness: &Harness, away: &BTreeSet<usize>, found: Option<&[Found]>) {
    let sound = {
        let drives = harness.drives.borrow();
        drives.undamaged() && drives.is_clean()
    };
    if harness.shape.beyond || !sound {
        return;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let drives = harness.drives.borrow();
    // Copies: attaching the drives themselves would detach them from the engine.
    let copies: Vec<_> = drives.in_slots.iter().map(|drive| drive.ram.fork(Immediate)).collect();
    let devices = copies.iter().enumerate().map(|(slot, copy)| {
        copy.faults(FaultPlan::clear);
        (!away.contains(&slot)).then(|| -> Rc<dyn ZonedDevice> { copy.attach(&handle) })
    });
    let devices = devices.collect();
    executor.run(async {
        let options = Options { every_version: true, ..Options::default() };
        let checked = check(devices, options).await;
        let bad = |finding: &&Finding| finding.severity == Severity::Violation;
        let contradictions: Vec<_> = checked.report.findings.iter().filter(bad).take(3).collect();
        assert!(
            contradictions.is_empty(),
            "the checker finds {} contradictions, such as {contradictions:?}",
            checked.report.tally.violations
        );
        assert_no_damage(harness, &checked.report.findings);
        let Some(contents) = checked.contents else {
            panic!("the checker finds no array");
        };
        compare(&contents, found.unwrap_or_default()).await;
    });
    harness.count(|tally| tally.offline_checks += 1);
}

/// Compares the checker's blocks with those that the volume returned.
async fn compare(contents: &Contents, found: &[Found]) {
    // In the order of the media, each stripe is read and judged once, however scattered its blocks
    // are in the volume. The other blocks read as zeros.
    if found.is_empty() {
        return;
    }
    let mut order = contents.in_media_order();
    order.extend((0..found.len() as u64).filter(|lba| contents.newest(*lba).reads_as_zeros()));
    assert_eq!(order.len(), found.len(), "each block is compared once");
    for lba in order {
        let Some(version) = found[usize::try_from(lba).expect("a block of the volume")] else {
            continue;
        };
        match contents.read(lba).await {
            Ok(block) => {
                let read = block.map_or(Some(0), |block| version_of(lba, &block));
                assert!(
                    read == Some(version),
                    "block {lba} reads as version {version}, the checker finds {read:?}: {:?}",
                    contents.newest(lba)
                );
            }
            Err(error) => panic!("the checker cannot read: {error}"),
        }
    }
}

/// Checks that the checker finds no damage on drives without faults other than slowness. (A failed
/// write may leave a part of a chunk, and blocks appended after that are out of place for the
/// checker.) A missing majority is reported for every array that was started by force.
pub(crate) fn assert_no_damage(harness: &Harness, findings: &[Finding]) {
    let forced = harness.forced.get();
    let damage = |finding: &&Finding| {
        let expected = forced && finding.problem == Problem::NoMajority;
        finding.severity >= Severity::Damage && !expected
    };
    let found: Vec<_> = findings.iter().filter(damage).take(3).collect();
    assert!(
        found.is_empty() || !harness.drives.borrow().is_pristine(),
        "the checker finds damage on drives without a fault, such as {found:?}"
    );
}

/// Users have stopped: background work must end, and every zone must be accounted for.
pub(crate) async fn verify_quiet(harness: &Harness, volume: &Volume, handle: &Handle) {
    let found = {
        let began = harness.oracle.borrow_mut().begin_read();
        (began, read_all(harness, volume, |_, _| {}).await)
    };
    {
        let mut oracle = harness.oracle.borrow_mut();
        for (lba, version) in (0..).zip(&found.1) {
            let Some(version) = version else { continue };
            oracle.read(lba, *version, found.0).unwrap_or_else(|why| panic!("{why}"));
        }
        oracle.end_read(found.0);
    }
    if harness.may_fail() {
        return;
    }
    handle.sleep(harness.patience(SETTLING)).await;
    volume.assert_consistent();
    harness.seat_spares(volume);
    let drives = harness.drives.borrow();
    let sound = drives.undamaged() && drives.impaired().is_empty();
    if sound {
        account_for_zones(harness, volume);
    }
}

fn account_for_zones(harness: &Harness, volume: &Volume) {
    let status = volume.status();
    let segments = volume.segments();
    for member in &status.members {
        let slot = usize::from(member.slot);
        let held = segments.iter().filter(|segment| segment.zones[slot].is_some()).count() as u64;
        if harness.drives.borrow().lost_zones(slot) > 0 {
            continue;
        }
        let known = member.free_zones + held + u64::from(member.orphan_zones) + SUPERBLOCK_ZONES;
        assert!(
            known == u64::from(harness.shape.zones),
            "slot {slot} has {} zones, of which {} are free, {held} in segments, {} orphans",
            harness.shape.zones,
            member.free_zones,
            member.orphan_zones
        );
    }
}

/// The volume is closed: no task and no command is left.
pub(crate) async fn verify_ended(harness: &Harness, handle: &Handle) {
    handle.sleep(harness.patience(SETTLING)).await;
    let waiting = handle.task_names();
    assert!(waiting.is_empty(), "tasks outlive the volume: {}", waiting.join(", "));
    for (slot, drive) in harness.drives.borrow().in_slots.iter().enumerate() {
        let pending = drive.ram.in_flight();
        assert!(pending.is_empty(), "commands to slot {slot} outlive the volume: {pending:?}");
    }
}
