//! Checks after a recovery, on an idle volume, after its end, and of the drives without it.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_check::{Finding, Options, Severity, check};
use zoneweave_emulator::{FaultPlan, Immediate};
use zoneweave_raid::raizn::Volume;
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Payload, Status, ZoneAddress, ZoneAttributes, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt,
};

use super::harness::{ZonedHarness, slots_missing};
use super::oracle::ZonedOracle;
use super::zone::FoundZone;
use crate::pattern::version_of;
use crate::simulate::drives::attach::attach_to;
use crate::simulate::oracle::Survives;
use crate::simulate::run::verify::assert_no_damage;

/// Virtual time in which background work ends.
const SETTLING: Nanos = Nanos::from_secs(10);

/// After a start: every zone is in an allowed state, which is pinned.
pub(crate) async fn verify_recovered(harness: &Rc<ZonedHarness>, volume: &Volume) {
    let geometry = volume.geometry().clone();
    if harness.geometry.borrow().is_none() {
        let oracle = ZonedOracle::new(geometry.zones, geometry.zone_capacity.0);
        *harness.oracle.borrow_mut() = oracle;
        *harness.geometry.borrow_mut() = Some(geometry);
    }
    let base = &harness.base;
    let survives = base.survives.get();
    let mut read = 0;
    for info in harness.expect("a report", volume.report().await).unwrap_or_default() {
        let Some(found) = find(harness, volume, &info).await else { continue };
        read += found.blocks.len() as u64;
        let settled = harness.oracle.borrow_mut().settle(info.zone.index(), &found, survives);
        settled.unwrap_or_else(|why| panic!("{why}"));
    }
    base.survives.set(Survives::Acknowledged);
    harness.confirm(volume);
    {
        let mut drives = base.drives.borrow_mut();
        drives.started();
        // Nothing is recorded of these before the first change.
        drives.leave_out(&slots_missing(volume));
    }
    let crashed = base.crashed.replace(0);
    let degraded = volume.status().members.iter().any(|member| !member.online);
    base.count(|tally| {
        tally.recoveries += u64::from(crashed > 0);
        tally.degraded_recoveries += u64::from(crashed > 0 && degraded);
        tally.blocks_read += read;
    });
}

/// The state and contents of a zone; `None` if it cannot be read and may be unreadable.
async fn find(harness: &ZonedHarness, volume: &Volume, info: &ZoneInfo) -> Option<FoundZone> {
    harness.expect("a read of a recovered zone", find_zone(volume, info).await)
}

/// The states and contents of all zones.
///
/// # Panics
///
/// If they cannot be read.
pub(crate) async fn find_all(volume: &Volume) -> Vec<FoundZone> {
    let mut found = Vec::new();
    let report = volume.report().await;
    for info in report.unwrap_or_else(|error| panic!("a report fails: {error}")) {
        let zone = find_zone(volume, &info).await;
        found.push(zone.unwrap_or_else(|error| panic!("{} cannot be read: {error}", info.zone)));
    }
    found
}

async fn find_zone(volume: &Volume, info: &ZoneInfo) -> Result<FoundZone, Status> {
    let length = volume.geometry().zone_capacity;
    let payload = volume.read_in_pieces(ZoneAddress::new(info.zone, 0), length).await?;
    let mut blocks = versions(info.zone.0, &payload);
    let end = blocks.iter().rposition(|version| *version > 0).map_or(0, |last| last + 1);
    blocks.truncate(end);
    Ok(FoundZone { blocks, ..found_in(info) })
}

/// A zone as it is reported, without its blocks.
pub(crate) fn found_in(info: &ZoneInfo) -> FoundZone {
    let is_full = info.state == ZoneState::Full;
    FoundZone {
        blocks: Vec::new(),
        is_full,
        pointer: (!is_full).then_some(info.write_pointer.index()),
        finished_by_volume: info.attributes.contains(ZoneAttributes::FINISHED_BY_DRIVE),
    }
}

/// The versions of the blocks of a payload.
///
/// # Panics
///
/// If a block was never written to the zone.
pub(crate) fn versions(zone: u32, payload: &Payload) -> Vec<u64> {
    let version = |block: bytes::Bytes| {
        version_of(zone.into(), &block)
            .unwrap_or_else(|| panic!("zone {zone} has contents that were never written to it"))
    };
    payload.iter_blocks().map(version).collect()
}

/// Users have stopped: each zone is exactly as they left it.
pub(crate) async fn verify_quiet(harness: &ZonedHarness, volume: &Volume) {
    if harness.base.may_fail() {
        return;
    }
    let lost = volume.status().lost;
    assert!(lost.is_empty(), "{lost:?} of a volume whose contract holds were lost");
    let report: Result<_, Status> = volume.report().await;
    for info in report.unwrap_or_else(|error| panic!("a report fails: {error}")) {
        let Some(found) = find(harness, volume, &info).await else { continue };
        let oracle = harness.oracle.borrow();
        let exact = oracle.zones[info.zone.index()].is_exactly(&found, oracle.capacity);
        exact.unwrap_or_else(|why| panic!("{} of an idle volume is wrong: {why}", info.zone));
    }
}

/// The volume is closed: no task and no command is left.
pub(crate) async fn verify_ended(harness: &ZonedHarness, handle: &Handle) {
    handle.sleep(harness.base.patience(SETTLING)).await;
    let waiting = handle.task_names();
    assert!(waiting.is_empty(), "tasks outlive the volume: {}", waiting.join(", "));
    for (slot, drive) in harness.base.drives.borrow().in_slots.iter().enumerate() {
        let pending = drive.ram.in_flight();
        assert!(pending.is_empty(), "commands to slot {slot} outlive the volume: {pending:?}");
    }
}

/// Runs the offline checker, which shares no code with the engine. It must find no contradictions
/// on media, no damage on undamaged drives, and after an orderly end the zones as the engine
/// reported them.
pub(crate) fn check_offline(harness: &ZonedHarness, away: &BTreeSet<usize>, found: &[FoundZone]) {
    let base = &harness.base;
    let drives = base.drives.borrow();
    if base.shape.beyond || !drives.undamaged() || !drives.is_clean() {
        return;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    // Copies: attaching the drives themselves would detach them from the engine.
    let copies: Vec<_> = drives.in_slots.iter().map(|drive| drive.ram.fork(Immediate)).collect();
    let devices = copies.iter().enumerate().map(|(slot, copy)| {
        copy.faults(FaultPlan::clear);
        let copy = attach_to(&base.shape, copy, &handle);
        (!away.contains(&slot)).then_some(copy)
    });
    let options = Options { zone_blocks: true, ..Options::default() };
    let checked = executor.run(check(devices.collect(), options));
    let bad = |finding: &&Finding| finding.severity == Severity::Violation;
    let bad: Vec<_> = checked.report.findings.iter().filter(bad).take(3).collect();
    assert!(bad.is_empty(), "the checker finds contradictions, such as {bad:?}");
    assert!(checked.report.array.is_some(), "the checker finds no array");
    assert_no_damage(base, &checked.report.findings);
    for (zone, (found, checked)) in (0..).zip(found.iter().zip(checked.zones)) {
        let payload = Payload { data: checked.data, oob: bytes::Bytes::new() };
        let blocks = versions(zone, &payload);
        assert!(
            blocks == found.blocks && checked.is_full == found.is_full,
            "the checker finds {blocks:?} in zone {zone}, full: {}, and the engine {found:?}",
            checked.is_full
        );
    }
    base.count(|tally| tally.offline_checks += 1);
}

/// A length in blocks.
pub(crate) fn count(blocks: usize) -> BlockCount {
    BlockCount(u32::try_from(blocks).expect("a zone has 32 bits of blocks"))
}
