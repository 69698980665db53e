//! Drives with few active zones: segments left by crashes and failing drives must not use them up.

use crate::support::life::{assert_hit, assert_holds, live, put};
use crate::support::{Array, Shape, contents};
use zoneweave_emulator::{CommandKind, FaultAction, Jitter, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::Health;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Geometry, Lba, Status, ZoneAction};

/// An array of four drives, each of which lets eight zones be active.
fn array(shape: Shape, salt: u64) -> Array {
    let mut random = Random::new(salt);
    let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
    (geometry.max_active, geometry.max_open) = (Some(8), Some(8));
    let mut drive = || {
        let jitter = Jitter::new(random.next(), Nanos::from_micros(100));
        RamDrive::new(geometry.clone(), jitter).unwrap()
    };
    let drives = (0..4).map(|_| drive()).collect();
    Array::on(shape, drives, &mut random)
}

/// Crashes in a row left segments open until drives had no active zone left. The next start could
/// not go over to the other superblock zone, took that for failing drives, put them all out, and
/// stopped, as did every start after it. Leftovers are finished while there are zones for a start.
/// Here each life leaves a segment open, and reads are so slow that none is moved out.
#[test]
fn leftovers_of_many_crashes_are_finished_where_zones_get_scarce() {
    let array = array(Shape { zones: 24, tabled: false, ..Shape::small() }, 9);
    let finish = CommandKind::Manage(ZoneAction::Finish);
    array.drives[1].inject(Selector::next(finish), FaultAction::Fail(Status::InternalError));
    for drive in &array.drives {
        let slow = FaultAction::Slow(Nanos::from_millis(100));
        drive.inject(Selector::next(CommandKind::Read).always(), slow);
    }
    for life in 0..16 {
        live(&array, async |volume, _, _| put(volume, life, 1).await.unwrap());
    }
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, 16, 1).await;
    });
    assert_hit(&[Mark::LeftoverFinished, Mark::LeftoverNotFinished]);
    assert_hit(&[Mark::FullLeftoverKnownBySeal]);
}

/// Segments given up faster than their writes in flight end must not take the zones that the next
/// start needs.
#[test]
fn a_segment_waits_for_zones_of_those_given_up_before() {
    let array = array(Shape { zones: 24, ..Shape::small() }, 10);
    let stripe = array.drives.len() as u64 - 1;
    live(&array, async |volume, _, handle| {
        let next = |drive: usize, action| {
            array.drives[drive].inject(Selector::next(CommandKind::Append), action);
        };
        let stripe_at = |round: u64| {
            let (volume, lba) = (volume.clone(), round * stripe);
            let data = (lba..lba + stripe).map(|lba| contents(lba, 1)).collect();
            async move { volume.write(Lba(lba), data, false).await.unwrap() }
        };
        stripe_at(0).await;
        let mut slow = Vec::new();
        for round in 0..8 {
            let drive = usize::try_from(round % 4).unwrap();
            next(drive, FaultAction::Slow(Nanos::from_secs(1)));
            slow.push(handle.spawn("slow", stripe_at(1 + 2 * round)));
            handle.sleep(Nanos::from_millis(1)).await;
            next((drive + 1) % 4, FaultAction::Fail(Status::InternalError));
            stripe_at(2 + 2 * round).await;
        }
        for written in slow {
            written.await;
        }
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, 17 * stripe, 1).await;
    });
    live(&array, async |volume, _, _| assert_holds(volume, 17 * stripe, 1).await);
    assert_hit(&[Mark::ActiveZonesAwaited]);
}
