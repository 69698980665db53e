//! Members' zones that do not finish at once: they would stay active, although the volume gives
//! their place to others.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::raizn::Volume;
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneId, ZoneState, ZonedDevice, ZonedDeviceExt,
};

use super::drives::{FIRST_COLUMN, UNIT, create_on, drives, executor, start, write};

/// A member's zone has one block behind its column.
const CAPACITY: u32 = 241;

/// Fails finishes of a member, so many in a row, while a zone is filled and another one finished.
/// Returns whether the member is in service afterwards.
fn finished_in_spite_of(failures: u64) -> (Vec<RamDrive>, bool) {
    let drives = drives(OobKind::Separate, CAPACITY);
    let executor = executor();
    let handle = executor.handle();
    let online = executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        for zone in 0..2 {
            let finish = Selector::next(CommandKind::Manage(ZoneAction::Finish));
            let finish = finish.in_zone(ZoneId(FIRST_COLUMN + zone)).times(failures);
            drives[0].inject(finish, FaultAction::Fail(Status::WriteFault));
        }
        fill(&volume).await;
        let online = volume.status().members[0].online;
        volume.close().await;
        online
    });
    (drives, online)
}

async fn fill(volume: &Volume) {
    let BlockCount(capacity) = volume.geometry().zone_capacity;
    write(volume, 0, 0, capacity).await.unwrap();
    write(volume, 1, 0, 3).await.unwrap();
    volume.manage(ZoneId(1), ZoneAction::Finish).await.unwrap();
}

#[test]
fn a_finish_that_fails_is_repeated() {
    let (drives, online) = finished_in_spite_of(2);
    assert!(online);
    for drive in &drives {
        for zone in 0..2 {
            assert_eq!(drive.zone(ZoneId(FIRST_COLUMN + zone)).state, ZoneState::Full);
        }
    }
}

/// It kept an active zone for each, until it refused writes and superblock records.
#[test]
fn a_member_that_finishes_no_zone_is_evicted() {
    let (_, online) = finished_in_spite_of(u64::MAX);
    assert!(!online);
}
