//! Members' zones that do not finish at once: they would stay active, although the volume gives
//! their place to others.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::raizn::{MemberStatus, Volume};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneId, ZoneState, ZonedDevice, ZonedDeviceExt,
};

use super::drives::{FIRST_COLUMN, UNIT, create_on, drives, drives_with, executor, start, write};
use super::logs::with_volume;
use crate::support::life::assert_hit;

/// A member's zone has one block behind its column.
const CAPACITY: u32 = 241;

/// Fails finishes of a member, so many in a row, while a zone is filled and another one finished.
/// Returns whether the member is in service afterwards, and how long it took.
fn finished_in_spite_of(failures: u64, status: Status) -> (Vec<RamDrive>, bool, Nanos) {
    let drives = drives(OobKind::Separate, CAPACITY);
    let executor = executor();
    let handle = executor.handle();
    let (online, took) = executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        for zone in 0..2 {
            let finish = Selector::next(CommandKind::Manage(ZoneAction::Finish));
            let finish = finish.in_zone(ZoneId(FIRST_COLUMN + zone)).times(failures);
            drives[0].inject(finish, FaultAction::Fail(status));
        }
        let begun = handle.now();
        fill(&volume).await;
        let (online, took) = (volume.status().members[0].online, handle.now().since(begun));
        volume.close().await;
        (online, took)
    });
    (drives, online, took)
}

async fn fill(volume: &Volume) {
    let BlockCount(capacity) = volume.geometry().zone_capacity;
    write(volume, 0, 0, capacity).await.unwrap();
    write(volume, 1, 0, 3).await.unwrap();
    volume.manage(ZoneId(1), ZoneAction::Finish).await.unwrap();
}

#[test]
fn a_finish_that_fails_is_repeated() {
    let (drives, online, took) = finished_in_spite_of(2, Status::WriteFault);
    assert!(online);
    // A controller that is being reset fails three commands in no time.
    assert!(took > Nanos::from_secs(1), "it took {took}");
    for drive in &drives {
        for zone in 0..2 {
            assert_eq!(drive.zone(ZoneId(FIRST_COLUMN + zone)).state, ZoneState::Full);
        }
    }
}

/// It kept an active zone for each, until it refused writes and superblock records.
#[test]
fn a_member_that_finishes_no_zone_is_evicted() {
    let (_, online, _) = finished_in_spite_of(u64::MAX, Status::WriteFault);
    assert!(!online);
}

/// The drives of a volume would all be evicted, one after the other.
#[test]
fn a_member_that_finds_fault_with_the_command_is_not_evicted() {
    for status in [Status::InvalidField, Status::TooManyActive] {
        let (drives, online, _) = finished_in_spite_of(u64::MAX, status);
        assert!(online, "{status}");
        assert!(drives[0].zone(ZoneId(FIRST_COLUMN)).state.is_active());
    }
}

/// Runs something on a volume of drives that have no active zone to spare.
fn on_short_drives(work: impl AsyncFnOnce(&[RamDrive], &Volume)) -> Vec<RamDrive> {
    let drives = drives_with(OobKind::Separate, CAPACITY, 7);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, UNIT));
    drop(executor);
    with_volume(&drives, async |volume| work(&drives, volume).await);
    drives
}

/// Fills a zone and finishes another one on drives that have just enough active zones, of which
/// some reject every finish. Returns the members afterwards.
fn filled_where_some_reject(rejecting: usize) -> Vec<MemberStatus> {
    let mut members = Vec::new();
    on_short_drives(async |drives, volume| {
        for drive in &drives[..rejecting] {
            let finish = Selector::next(CommandKind::Manage(ZoneAction::Finish)).always();
            drive.inject(finish, FaultAction::Fail(Status::InvalidField));
        }
        fill(volume).await;
        assert_eq!(volume.status().stopped, None);
        members = volume.status().members;
    });
    members
}

/// A drive that rejects every finish kept an active zone for each filled zone, until opens were
/// refused and writes evicted it at any moment. It is evicted with the second zone that the others
/// do not leave.
#[test]
fn a_member_that_leaves_zones_active_is_evicted_before_the_volume_needs_them() {
    let members = filled_where_some_reject(1);
    let online: Vec<_> = members.iter().map(|member| member.online).collect();
    assert_eq!(online, [false, true, true]);
    assert!(members[1..].iter().all(|member| member.zones_unfinished == 0));
    assert_hit(&[Mark::ZoneLeftActive, Mark::ZonedShortOfActive]);
}

/// As many drives of a model that rejects the command as the redundancy covers were evicted with
/// the first full zone, and the others left as many zones active.
#[test]
fn members_that_all_leave_zones_active_stay() {
    let members = filled_where_some_reject(3);
    for member in members {
        assert!(member.online && member.errors.write > 0, "{member:?}");
        assert_eq!(member.zones_unfinished, 2, "{member:?}");
    }
}

/// Such drives have no active zone to spare, so their first rejection puts the member at stake.
#[test]
fn a_member_that_rejects_one_finish_stays_although_the_volume_needs_the_zone() {
    let drives = on_short_drives(async |drives, volume| {
        let finish = Selector::next(CommandKind::Manage(ZoneAction::Finish));
        drives[0].inject(finish, FaultAction::Fail(Status::InvalidField));
        fill(volume).await;
        let member = volume.status().members.swap_remove(0);
        assert_eq!((member.online, member.zones_unfinished), (true, 0));
    });
    assert_eq!(drives[0].zone(ZoneId(FIRST_COLUMN)).state, ZoneState::Full);
    assert_hit(&[Mark::ZonedShortOfActive]);
}

/// Every start without a drive expelled it, where another one had left zones active.
#[test]
fn a_start_without_a_drive_finishes_zones_left_active_with_the_first_change() {
    let drives = drives(OobKind::Separate, CAPACITY);
    let executor = executor();
    let handle = executor.handle();
    let finish = Selector::next(CommandKind::Manage(ZoneAction::Finish)).always();
    drives[0].inject(finish, FaultAction::Fail(Status::InvalidField));
    executor.run(create_on(&drives, &handle, UNIT));
    drop(executor);
    with_volume(&drives, async |volume| fill(volume).await);
    drives[0].faults(|plan| plan.clear());
    let columns = || (0..2).map(|zone| drives[0].zone(ZoneId(FIRST_COLUMN + zone)).state);
    assert!(columns().all(ZoneState::is_active));
    with_volume(&drives[..2], async |volume| {
        assert!(volume.status().members[2].missing);
        assert!(columns().all(ZoneState::is_active), "nothing is written yet");
        write(volume, 2, 0, 1).await.unwrap();
        assert!(!volume.status().members[2].missing);
        assert!(columns().all(|state| state == ZoneState::Full));
    });
}
