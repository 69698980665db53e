//! An array is destroyed or renamed, with a crash at any step: it is as it was, or it never starts
//! without members that are erased already.

use std::rc::Rc;

use crate::support::life::{assert_hit, assert_holds, live, one_life, put_all};
use crate::support::{Array, Shape, attach, executor};
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, RamDrive, Selector};
use zoneweave_raid::array::repair::destroy::DestroyError;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::log::recover::records::{
    check_markable, erase_alone, erase_destroyed, mark_destroyed, read_records,
};
use zoneweave_raid::log::{AssemblyError, MemberHealth, OpenError, OpenOptions};
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{Status, ZoneAction, ZoneState, ZonedDeviceExt};

/// Blocks that are written.
const BLOCKS: u64 = 40;

fn array() -> Array {
    let shape = Shape { parity: 2, volatile: true, volume_blocks: Some(100), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(5));
    live(&array, async |volume, _, _| put_all(volume, BLOCKS, 1).await);
    array
}

/// The newest record of each drive.
fn records(array: &Array) -> Vec<Option<MembershipRecord>> {
    let executor = executor();
    let newest = async |drive: &RamDrive| {
        let records = read_records(&*attach(drive, &executor.handle())).await.unwrap();
        records.newest().map(MembershipRecord::of)
    };
    executor.run(async {
        let mut found = Vec::new();
        for drive in &array.drives {
            found.push(newest(drive).await);
        }
        found
    })
}

fn uuid_of(array: &Array) -> ArrayUuid {
    records(array).into_iter().flatten().next().unwrap().config.array
}

/// Marks all drives that are members, then erases them.
async fn destroy(array: &Array, uuid: ArrayUuid, handle: &Handle) -> Result<(), DestroyError> {
    let mut members = Vec::new();
    for drive in &array.drives {
        let device = attach(drive, handle);
        match mark_destroyed(&*device, uuid).await {
            Ok(()) => members.push(device),
            Err(DestroyError::NotMember) => {}
            Err(error) => return Err(error),
        }
    }
    for device in &members {
        erase_destroyed(device, uuid).await?;
    }
    Ok(())
}

/// Runs until a power loss at a step; returns whether it ended before.
fn until_power_loss(array: &Array, step: u64, work: impl AsyncFnOnce(&Handle)) -> bool {
    let executor = executor();
    let handle = executor.handle();
    let mut left = step;
    let ended = executor.run_until(work(&handle), || {
        left = left.saturating_sub(1);
        left == 0
    });
    drop(executor);
    let mut random = Random::new(step);
    array.drives.iter().for_each(|drive| drive.power_loss(random.next()));
    ended.is_some()
}

fn is_destroyed(error: &OpenError) -> bool {
    matches!(error, OpenError::Array(AssemblyError::Destroyed { .. }))
}

#[test]
fn a_crash_while_an_array_is_destroyed_leaves_all_of_it_or_nothing_that_starts() {
    let (mut whole, mut half) = (0, 0);
    for step in 1.. {
        let array = array();
        let uuid = uuid_of(&array);
        let ended = until_power_loss(&array, step, async |handle| {
            destroy(&array, uuid, handle).await.unwrap();
        });
        let left = records(&array);
        let marked = left.iter().flatten().filter(|record| record.is_destroyed).count();
        if marked == 0 && left.iter().all(Option::is_some) {
            whole += 1;
            live(&array, async |volume, _, _| {
                let members = volume.status().members;
                assert!(members.iter().all(|member| member.state == MemberHealth::Online));
                assert_holds(volume, BLOCKS, 1).await;
            });
        } else {
            half += usize::from(!ended);
            // No erased drive is missed by members that are as they were.
            let erased = left.iter().any(Option::is_none);
            let unmarked = left.iter().flatten().any(|record| !record.is_destroyed);
            assert!(!(erased && unmarked), "step {step}: {left:?}");
            for force in [false, true] {
                let options = OpenOptions { force, ..OpenOptions::default() };
                let error = one_life(&array, &[], options, async |_, _, _| {}).unwrap_err();
                let none = matches!(error, OpenError::Array(AssemblyError::NoArray));
                assert!(if marked > 0 { is_destroyed(&error) } else { none }, "{error:?}");
            }
        }
        // The next attempt ends it, wherever the first was.
        let again = async |handle: &Handle| destroy(&array, uuid, handle).await.unwrap();
        assert!(until_power_loss(&array, u64::MAX, again));
        assert!(records(&array).iter().all(Option::is_none));
        let is_empty = |drive: &RamDrive| {
            let executor = executor();
            let zones = executor.run(attach(drive, &executor.handle()).report()).unwrap();
            zones.iter().all(|info| info.state == ZoneState::Empty)
        };
        assert!(array.drives.iter().all(is_empty));
        if ended {
            break;
        }
    }
    assert!(whole > 3 && half > 20, "{whole} crashes before the first mark, {half} behind it");
    assert_hit(&[Mark::DestroyedRefused]);
}

#[test]
fn a_drive_that_cannot_be_erased_keeps_its_mark_to_the_last() {
    let array = array();
    let uuid = uuid_of(&array);
    let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset));
    for skipped in 0.. {
        // What follows fails too: the second attempt passes over a single failure.
        let faults = resets.clone().after(skipped).always();
        array.drives[1].inject(faults, FaultAction::Fail(Status::InternalError));
        let executor = executor();
        let done = executor.run(destroy(&array, uuid, &executor.handle()));
        drop(executor);
        array.drives[1].faults(FaultPlan::clear);
        match done {
            Ok(()) => break,
            Err(error) => assert_eq!(error, DestroyError::Failed(Status::InternalError)),
        }
        assert!(records(&array)[1].as_ref().unwrap().is_destroyed, "after {skipped} resets");
    }
    assert!(records(&array).iter().all(Option::is_none));
}

/// The first zone that could not be reset kept all later ones from being erased, for good.
#[test]
fn a_zone_that_cannot_be_reset_leaves_the_others_erased() {
    let array = array();
    let uuid = uuid_of(&array);
    let (drive, executor) = (&array.drives[1], executor());
    let device = attach(drive, &executor.handle());
    let written = || {
        let zones = executor.run(device.report()).unwrap();
        let written = zones.into_iter().filter(|info| info.state != ZoneState::Empty);
        written.map(|info| info.zone).collect::<Vec<_>>()
    };
    let scanned = || executor.run(read_records(&*device)).unwrap();
    executor.run(mark_destroyed(&*device, uuid)).unwrap();
    let of_mark = scanned().scan.log_zones().unwrap();
    let stuck = *written().iter().find(|zone| !of_mark.contains(zone)).unwrap();
    let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset)).in_zone(stuck);
    drive.inject(resets.clone().always(), FaultAction::Fail(Status::InternalError));
    let failed = executor.run(erase_destroyed(&device, uuid));
    assert_eq!(failed, Err(DestroyError::Failed(Status::InternalError)));
    assert!(written().iter().all(|zone| *zone == stuck || of_mark.contains(zone)));
    assert!(MembershipRecord::of(scanned().newest().unwrap()).is_destroyed);
    // Given up alone, it is a member no more, and all else of it is erased.
    assert!(executor.run(erase_alone(&device)).is_err());
    assert!(written() == [stuck] && scanned().newest().is_none());
    // A failure that passes is nothing.
    drive.faults(FaultPlan::clear);
    drive.inject(resets, FaultAction::Fail(Status::InternalError));
    executor.run(erase_alone(&device)).unwrap();
    assert!(written().is_empty());
}

#[test]
fn a_member_that_cannot_be_marked_is_found_before_the_first_is() {
    let array = array();
    let uuid = uuid_of(&array);
    let (drive, executor) = (&array.drives[2], executor());
    let device = attach(drive, &executor.handle());
    let checked = |array| executor.run(check_markable(&*device, array));
    assert_eq!(checked(uuid), Ok(()));
    assert_eq!(checked(ArrayUuid([7; 16])), Err(DestroyError::NotMember));
    let zones = executor.run(device.report()).unwrap();
    zones.iter().for_each(|info| drive.set_read_only(info.zone));
    assert_eq!(checked(uuid), Err(DestroyError::NoSuperblockZones));
    assert_eq!(executor.run(mark_destroyed(&*device, uuid)), checked(uuid));
}

/// The array went on without a drive that was marked apart from it.
#[test]
fn the_mark_of_a_former_member_counts_for_nothing() {
    let array = array();
    let uuid = uuid_of(&array);
    one_life(&array, &[2], OpenOptions::default(), async |volume, _, _| {
        put_all(volume, BLOCKS, 2).await;
    })
    .unwrap();
    let executor = executor();
    let former = attach(&array.drives[2], &executor.handle());
    executor.run(mark_destroyed(&*former, uuid)).unwrap();
    drop((former, executor));
    live(&array, async |volume, _, _| assert_holds(volume, BLOCKS, 2).await);
}

#[test]
fn a_blank_drive_and_one_of_another_array_are_not_marked() {
    let array = array();
    let executor = executor();
    let device = attach(&array.drives[0], &executor.handle());
    let other = executor.run(mark_destroyed(&*device, ArrayUuid([7; 16])));
    assert_eq!(other, Err(DestroyError::NotMember));
    let uuid = uuid_of(&array);
    executor.run(destroy(&array, uuid, &executor.handle())).unwrap();
    let device = attach(&array.drives[0], &executor.handle());
    assert_eq!(executor.run(mark_destroyed(&*device, uuid)), Err(DestroyError::NotMember));
    let erased = executor.run(erase_destroyed(&Rc::clone(&device), uuid));
    assert_eq!(erased, Err(DestroyError::NotMember));
}

#[test]
fn a_crash_while_an_array_is_renamed_leaves_it_either_name_and_all_of_its_data() {
    let mut names = [0, 0];
    for step in 1.. {
        let array = array();
        let mut ended = false;
        let rename = async |handle: &Handle| {
            let drives = crate::support::offer(&array.drives, handle, &[]);
            let options = OpenOptions::default();
            let (volume, _) =
                zoneweave_raid::log::open_array(handle, drives, options).await.unwrap();
            volume.rename("other".to_owned()).await.unwrap();
            volume.close().await.unwrap();
        };
        ended |= until_power_loss(&array, step * 3, rename);
        let newest = records(&array).into_iter().flatten();
        let newest = newest.max_by_key(|record| (record.epoch, record.record_sequence)).unwrap();
        let renamed = newest.config.name == "other";
        assert!(renamed || newest.config.name == "test");
        assert!(renamed || !ended, "the name is durable");
        names[usize::from(renamed)] += 1;
        live(&array, async |volume, _, _| {
            let members = volume.status().members;
            assert!(members.iter().all(|member| member.state == MemberHealth::Online));
            assert_holds(volume, BLOCKS, 1).await;
        });
        // The start has given all members one name.
        let same =
            records(&array).iter().flatten().all(|now| now.config.name == newest.config.name);
        assert!(same, "step {step}");
        if ended {
            break;
        }
    }
    assert!(names[0] > 20 && names[1] > 5, "{names:?}");
}
