//! Spares take the place of lost drives, and rebuilds are as fast as the drive, or as they may be.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;

use crate::support::life::{assert_holds, live, one_life, put_all};
use crate::support::{Array, Shape, contents, new_drive, uuid};
use zoneweave_emulator::{CommandKind, FaultAction, Preset, RamDrive, Selector};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Health, MemberHealth, ReplaceError, SpareState, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba, OOB_BYTES, Payload, Status, ZoneAction,
    ZoneId, ZonedDeviceExt,
};

const BLOCKS: u64 = 60;

/// Waits until every member is in service, however long that takes.
async fn until_healthy(volume: &Volume, handle: &Handle) {
    while volume.status().health != Health::Healthy {
        handle.sleep(Nanos::from_millis(1)).await;
    }
}

fn spare(shape: &Shape, seed: u64) -> (RamDrive, MemberUuid) {
    (new_drive(shape, &mut Random::new(seed)), MemberUuid(uuid(seed, 40)))
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_vanishes_under_load() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let mut array = Array::create(shape, &mut Random::new(1));
    let (first, first_uuid) = spare(&shape, 2);
    let (second, second_uuid) = spare(&shape, 3);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.add_spare(first.attach(handle), first_uuid).unwrap();
        volume.add_spare(second.attach(handle), second_uuid).unwrap();
        assert_eq!(volume.status().spares.waiting, 2);
        let (writing, writer) = (Rc::new(Cell::new(true)), volume.clone());
        let goes_on = writing.clone();
        let load = handle.spawn("load", async move {
            let mut version = 2;
            while goes_on.get() {
                put_all(&writer, BLOCKS, version).await;
                version += 1;
            }
            version - 1
        });
        handle.sleep(Nanos::from_millis(3)).await;
        array.drives[2].set_gone(true);
        handle.sleep(Nanos::from_millis(3)).await;
        until_healthy(volume, handle).await;
        array.drives[0].set_gone(true);
        handle.sleep(Nanos::from_millis(3)).await;
        until_healthy(volume, handle).await;
        writing.set(false);
        let version = load.await;
        let spares = volume.status().spares;
        let taken = spares.taken.iter().map(|taken| (taken.slot, taken.state));
        assert_eq!(spares.waiting, 0);
        assert_eq!(taken.collect::<Vec<_>>(), [(2, SpareState::Rebuilt), (0, SpareState::Rebuilt)]);
        assert_eq!(volume.status().members[2].uuid, first_uuid.to_string());
        assert_eq!(volume.status().members[0].uuid, second_uuid.to_string());
        assert_holds(volume, BLOCKS, version).await;
        volume.scrub().await.unwrap();
        put_all(volume, BLOCKS, 1000).await;
    });
    // The next start knows them as members, and can do without another drive.
    (array.drives[2], array.drives[0]) = (first, second);
    for without in [vec![], vec![1]] {
        let life = one_life(&array, &without, Default::default(), async |volume, _, _| {
            assert_holds(volume, BLOCKS, 1000).await;
        });
        life.expect("the array starts");
    }
}

/// Where too much is lost nothing more is written, to spares neither.
#[test]
fn a_spare_does_not_bring_back_what_is_lost_for_good() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let (drive, uuid) = spare(&shape, 2);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.drive_lost(1, "pulled").unwrap();
        volume.drive_lost(2, "pulled").unwrap();
        volume.add_spare(drive.attach(handle), uuid).unwrap();
        handle.sleep(Nanos::from_millis(50)).await;
        let status = volume.status();
        assert_eq!((status.health, status.spares.waiting), (Health::Failed, 1));
    });
    assert_eq!(drive.counters().writes, 0);
}

#[test]
fn a_spare_that_fails_is_let_go_and_one_that_is_too_small_refused() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(5));
    let (broken, broken_uuid) = spare(&shape, 2);
    let (good, good_uuid) = spare(&shape, 3);
    let (small, small_uuid) = spare(&Shape { zones: 8, ..shape }, 6);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let refused = volume.add_spare(small.attach(handle), small_uuid);
        assert!(matches!(refused, Err(ReplaceError::TooSmall { zones: 8, .. })), "{refused:?}");
        let twice = broken.attach(handle);
        broken.set_gone(true);
        volume.add_spare(twice.clone(), broken_uuid).unwrap();
        assert_eq!(volume.add_spare(twice, broken_uuid), Err(ReplaceError::SpareAlready));
        volume.add_spare(good.attach(handle), good_uuid).unwrap();
        volume.fail(3).await.unwrap();
        handle.sleep(Nanos::from_millis(5)).await;
        until_healthy(volume, handle).await;
        assert_eq!(volume.status().members[3].uuid, good_uuid.to_string());
        let taken = volume.status().spares.taken;
        let states: Vec<_> = taken.iter().map(|taken| (taken.slot, taken.state)).collect();
        assert_eq!(states, [(3, SpareState::GivenUp), (3, SpareState::Rebuilt)]);
        assert!(taken[0].reason.is_some());
        assert_holds(volume, BLOCKS, 1).await;
    });
}

/// The slot was said to have lost its drive for the reason for which the spare failed.
#[test]
fn a_slot_keeps_its_reason_when_a_spare_fails_in_it() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(5));
    let (broken, broken_uuid) = spare(&shape, 2);
    let refused = Selector::next(CommandKind::Write).always();
    broken.inject(refused, FaultAction::Fail(Status::WriteFault));
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.drive_lost(3, "pulled").unwrap();
        volume.add_spare(broken.attach(handle), broken_uuid).unwrap();
        while volume.status().spares.taken.is_empty() {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        handle.sleep(Nanos::from_millis(5)).await;
        let status = volume.status();
        assert_eq!(status.members[3].reason.as_deref(), Some("pulled"));
        let taken = &status.spares.taken[0];
        assert_eq!(taken.state, SpareState::GivenUp);
        assert!(taken.reason.as_deref().is_some_and(|reason| reason.contains("failed")));
        put_all(volume, BLOCKS, 2).await;
    });
}

/// The request referred to the drive that had failed: the spare is not taken out again.
#[test]
fn a_replacement_that_comes_after_a_spare_is_refused() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(7));
    let (first, first_uuid) = spare(&shape, 2);
    let (second, second_uuid) = spare(&shape, 3);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.add_spare(first.attach(handle), first_uuid).unwrap();
        volume.fail(3).await.unwrap();
        // The spare's turn has come, and it is not yet on record.
        handle.sleep(Nanos(1)).await;
        let asked = volume.replace(3, second.attach(handle), second_uuid);
        let refused = Err(ReplaceError::FilledMeanwhile { slot: Column::of(3) });
        assert_eq!(asked.await, refused);
        assert_eq!(volume.status().health, Health::Healthy);
        assert_eq!(volume.status().members[3].uuid, first_uuid.to_string());
        // Now it is the spare that is meant.
        volume.replace(3, second.attach(handle), second_uuid).await.unwrap();
        assert_eq!(volume.status().members[3].uuid, second_uuid.to_string());
        assert_holds(volume, BLOCKS, 1).await;
    });
}

/// A drive in a file says so where its file system is full. It is one drive's failure, not the
/// volume's.
#[test]
fn a_drive_without_room_for_records_is_lost_alone() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(8));
    let (full, full_uuid) = spare(&shape, 2);
    let (good, good_uuid) = spare(&shape, 3);
    let has_no_room = |drive: &RamDrive| {
        let writes = Selector::next(CommandKind::Write).always();
        drive.inject(writes, FaultAction::Fail(Status::CapacityExceeded));
    };
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        has_no_room(&full);
        volume.add_spare(full.attach(handle), full_uuid).unwrap();
        volume.add_spare(good.attach(handle), good_uuid).unwrap();
        volume.fail(3).await.unwrap();
        handle.sleep(Nanos::from_millis(5)).await;
        until_healthy(volume, handle).await;
        assert_eq!(volume.status().members[3].uuid, good_uuid.to_string());
        let taken = volume.status().spares.taken.swap_remove(0);
        assert_eq!(taken.state, SpareState::GivenUp);
        // It was "Host Path Error": to its rebuild, the spare was gone.
        let reason = taken.reason.unwrap_or_default();
        assert!(reason.contains("no space left"), "{reason}");
    });
    let mut drives = array.drives.clone();
    drives[3] = good;
    let array = Array { drives, ..array };
    has_no_room(&array.drives[1]);
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 2).await;
        assert_eq!(volume.status().members[1].state, MemberHealth::Failed);
        assert_holds(volume, BLOCKS, 2).await;
    });
}

/// A drive that cannot be erased is refused before the one that works is taken out for it.
#[test]
fn a_working_drive_is_not_taken_out_for_one_that_cannot_be_erased() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(9));
    let (stuck, stuck_uuid) = spare(&shape, 2);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let new = stuck.attach(handle);
        let written = vec![0; BLOCK_BYTES].into();
        new.append(ZoneId(5), Payload::new(written, vec![0; OOB_BYTES].into()), false)
            .await
            .unwrap();
        let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset)).always();
        stuck.inject(resets, FaultAction::Fail(Status::WriteFault));
        let failed = volume.replace(2, new, stuck_uuid).await;
        assert_eq!(failed, Err(ReplaceError::DriveFailed(Status::WriteFault)));
        assert_eq!(volume.status().health, Health::Healthy);
        assert_eq!(volume.status().members[2].errors.write, 0);
    });
}

/// MiB/s that a rebuild writes to its drive.
fn rebuild_rate(limit: Option<u64>) -> u64 {
    const ZONES: u32 = 24;
    const ZONE_BLOCKS: u32 = 8_192;
    let written: u64 = 14 * 3 * 7_500;
    let drive = |seed| {
        let mut geometry = Geometry::new(ZONES, BlockCount(ZONE_BLOCKS));
        geometry.volatile_cache = false;
        geometry.max_transfer = BlockCount(256);
        let timing = Preset::by_name("zn540-4tb").unwrap().timing_of(&geometry, seed);
        RamDrive::new(geometry, timing).unwrap()
    };
    let shape = Shape {
        zones: ZONES,
        zone_blocks: ZONE_BLOCKS,
        group_rows: 256,
        tabled: false,
        volume_blocks: Some(written),
        ..Shape::small()
    };
    let array = Array::on(shape, (1..=4).map(drive).collect(), &mut Random::new(5));
    let new = drive(9);
    live(&array, async |volume, _, handle| {
        let data: Vec<_> = (0..300).map(|_| contents(1, 1)).collect();
        for lba in (0..written).step_by(300) {
            volume.write(Lba(lba), data.clone(), false).await.unwrap();
        }
        volume.flush().await.unwrap();
        volume.limit_rebuild(limit.and_then(NonZeroU64::new));
        volume.fail(1).await.unwrap();
        handle.sleep(Nanos::from_secs(1)).await;
        let begun = handle.now();
        volume.replace(1, new.attach(handle), MemberUuid(uuid(8, 8))).await.unwrap();
        let took = handle.now().since(begun).0 / 1000;
        // With the blocks of open segments, which are relocated.
        new.counters().written_blocks * 1_000_000 / 256 / took
    })
}

#[test]
fn a_rebuild_is_as_fast_as_the_new_drive_or_as_it_may_be() {
    // This model takes 1,780 MiB/s, one zone of it 1,050.
    let rate = rebuild_rate(None);
    println!("a rebuild writes {rate} of 1,780 MiB/s");
    assert!(rate >= 1_602, "{rate} MiB/s");
    let limited = rebuild_rate(Some(100 << 20));
    assert!((80..=101).contains(&limited), "{limited} MiB/s");
}

#[test]
fn a_rebuild_that_may_hardly_go_on_ends_when_its_drive_is_taken_out() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(8));
    let (new, new_uuid) = spare(&shape, 2);
    let (next, next_uuid) = spare(&shape, 3);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.limit_rebuild(NonZeroU64::new(4096));
        volume.fail(1).await.unwrap();
        let (rebuilding, device) = (volume.clone(), new.attach(handle));
        let rebuilt =
            handle.spawn("replace", async move { rebuilding.replace(1, device, new_uuid).await });
        handle.sleep(Nanos::from_secs(2)).await;
        let begun = handle.now();
        volume.fail(1).await.unwrap();
        assert!(rebuilt.await.is_err());
        assert!(handle.now().since(begun) < Nanos::from_secs(1), "it waited for its turn to write");
        volume.limit_rebuild(None);
        volume.replace(1, next.attach(handle), next_uuid).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, BLOCKS, 1).await;
    });
}

#[test]
fn a_spare_is_kept_if_somebody_else_fills_the_place_first() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(6));
    let (kept, kept_uuid) = spare(&shape, 2);
    let (new, new_uuid) = spare(&shape, 3);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.add_spare(kept.attach(handle), kept_uuid).unwrap();
        volume.drive_lost(1, "pulled").unwrap();
        volume.replace(1, new.attach(handle), new_uuid).await.unwrap();
        handle.sleep(Nanos::from_millis(5)).await;
        let status = volume.status();
        assert_eq!((status.health, status.spares.waiting), (Health::Healthy, 1));
        assert_eq!(status.members[1].uuid, new_uuid.to_string());
        assert_holds(volume, BLOCKS, 1).await;
    });
    assert_eq!(kept.counters().writes, 0);
}
