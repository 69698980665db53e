//! The automatic choice of a write policy: the choice for given drives, and the fallbacks.

use crate::support::life::{assert_holds, one_life, put, put_all};
use crate::support::{Array, Shape, new_drive, read_all};
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{
    AppendCost, Auto, LaneMode, LaneStatus, Lanes, MemberHealth, OpenError, OpenOptions,
    PolicyError, ReplaceError, Volume, WriteChoice, WriteCost, WriteProfile,
};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, Geometry, ZoneId};

fn auto() -> OpenOptions {
    chosen(Auto::default())
}

fn chosen(auto: Auto) -> OpenOptions {
    OpenOptions { writes: WriteChoice::Auto(auto), ..OpenOptions::default() }
}

/// Segments for users, the size of their chunks, and how these are written.
fn users(volume: &Volume) -> (u32, u32, LaneMode) {
    let lanes = volume.status().writing.lanes;
    let LaneStatus { segments, chunk_blocks, command, .. } = lanes[0].clone();
    (segments, chunk_blocks, command)
}

fn fell_back(volume: &Volume) -> String {
    volume.status().writing.fell_back.join("; ")
}

/// A drive with limits of its own.
fn drive_with(shape: &Shape, limits: impl Fn(&mut Geometry)) -> RamDrive {
    let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
    limits(&mut geometry);
    RamDrive::new(geometry, Jitter::new(5, Nanos::from_micros(100))).unwrap()
}

fn allowing(shape: &Shape, active: u32) -> RamDrive {
    drive_with(shape, |geometry| {
        (geometry.max_active, geometry.max_open) = (Some(active), Some(active));
    })
}

/// Writes and is killed; the next life chooses again, and finds everything.
fn is_written_through_crashes(array: &Array, options: &OpenOptions, blocks: u64) {
    for version in 1..=3 {
        let life = one_life(array, &[], options.clone(), async |volume, _, _| {
            if version > 1 {
                assert_holds(volume, blocks, version - 1).await;
            }
            put_all(volume, blocks, version).await;
            volume.assert_consistent();
        });
        life.expect("the array starts");
    }
}

/// Drives differ: the one that allows the fewest active zones decides how many segments are filled
/// at a time.
#[test]
fn no_drive_has_more_zones_active_than_it_allows() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    for (limit, segments) in [(8, 1), (10, 2), (12, 3), (14, 4), (40, 4)] {
        let drives = [40, limit, 14, 40].map(|active| allowing(&shape, active));
        let array = Array::on(shape, drives.into(), &mut Random::new(4));
        let life = one_life(&array, &[], auto(), async |volume, _, _| {
            assert_eq!(users(volume), (segments, 2, LaneMode::Gather), "{limit} active zones");
            let reason =
                format!("segments need {} active zones; a drive allows {limit}", 8 + 2 * segments);
            assert_eq!(fell_back(volume).contains(&reason), segments < 4, "{}", fell_back(volume));
        });
        life.expect("the array starts");
        is_written_through_crashes(&array, &auto(), 300);
    }
}

/// In zones so small, the blocks that a crash leaves in four segments, or with large chunks, do not
/// fit into one. Features are given up one by one, and the volume is as writable as with the
/// array's own policy.
#[test]
fn what_does_not_fit_the_zones_is_given_up() {
    let tiny = Shape { zones: 12, zone_blocks: 10, ..Shape::small() };
    let array = Array::create(tiny, &mut Random::new(4));
    let life = one_life(&array, &[], auto(), async |volume, _, _| {
        let (segments, chunk, _) = users(volume);
        assert!(segments < 4 || chunk < 2, "{segments} segments, chunks of {chunk}");
        assert!(
            fell_back(volume).contains("4 open segments are too many"),
            "{}",
            fell_back(volume)
        );
    });
    life.expect("the array starts");
    is_written_through_crashes(&array, &auto(), array.blocks);
    // As large as it may be with chunks of a block, and too large for any other.
    let full = Shape { zones: 40, ..tiny };
    let array = Array::create(full, &mut Random::new(4));
    let life = one_life(&array, &[], auto(), async |volume, _, _| {
        assert_eq!(users(volume).1, 1);
        assert!(fell_back(volume).contains("too large for chunks of 8 KiB"));
    });
    life.expect("the array starts");
    is_written_through_crashes(&array, &auto(), array.blocks);
}

/// Zones are lost while the array is stopped. The rest is enough for the array's own policy, and
/// too little for the best one. If that is pinned the start is refused; otherwise it falls back to
/// the array's own.
#[test]
fn what_lost_zones_leave_no_room_for_gives_way() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(864), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let pinned =
        chosen(Auto { small: Some(Lanes { count: 2, chunk_blocks: 2 }), ..Auto::default() });
    for options in [auto(), pinned.clone()] {
        let life = one_life(&array, &[], options, async |volume, _, _| {
            assert_eq!(users(volume).1, 2);
            assert_eq!(fell_back(volume), "");
            put_all(volume, 300, 1).await;
        });
        life.expect("the array starts");
    }
    for zone in [14, 15] {
        array.drives[2].set_offline(ZoneId(zone));
    }
    let refused = one_life(&array, &[], pinned, async |_, _, _| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Policy(PolicyError::TooFull { chunk_blocks: 2, .. })));
    let life = one_life(&array, &[], auto(), async |volume, _, _| {
        assert_eq!(users(volume), (1, 1, LaneMode::Append));
        assert!(fell_back(volume).contains("too large for chunks of 8 KiB"));
        assert_eq!(volume.status().members[2].state, MemberHealth::Online);
        assert_holds(volume, 300, 1).await;
        put_all(volume, 864, 2).await;
        volume.assert_consistent();
    });
    life.expect("the array starts");
}

/// The policy is chosen for the present drives. A drive that allows less is refused under it,
/// accepted by an array with its own policy, and taken into account by the next start.
#[test]
fn a_drive_that_allows_less_is_taken_by_an_array_that_is_written_as_it_was_made() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    let mut array = Array::create(shape, &mut Random::new(4));
    let small = allowing(&shape, 8);
    let life = one_life(&array, &[1], auto(), async |volume, _, handle| {
        assert_eq!(users(volume), (4, 2, LaneMode::Gather), "degraded as well");
        put_all(volume, 300, 1).await;
        let refused = volume.replace(1, small.attach(handle), MemberUuid([7; 16])).await;
        let limit = PolicyError::ActiveZones { lanes: 4, needed: 14, limit: 8 };
        assert_eq!(refused, Err(ReplaceError::from(limit)));
        put_all(volume, 300, 2).await;
    });
    life.expect("the array starts");
    let as_made = OpenOptions::default();
    let life = one_life(&array, &[1], as_made, async |volume, _, handle| {
        volume.replace(1, small.attach(handle), MemberUuid([7; 16])).await.unwrap();
        put_all(volume, 300, 3).await;
    });
    life.expect("the array starts");
    array.drives[1] = small;
    let life = one_life(&array, &[], auto(), async |volume, _, _| {
        assert_eq!(users(volume), (1, 2, LaneMode::Gather));
        assert_holds(volume, 300, 3).await;
        put_all(volume, 300, 4).await;
        assert_eq!(volume.status().members[1].state, MemberHealth::Online);
        volume.assert_consistent();
    });
    life.expect("the array starts");
}

/// A spare that allows less than the members is one of those to choose for: it can take any place.
#[test]
fn a_spare_that_allows_less_decides_as_well() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let spare = allowing(&shape, 10);
    let spares = vec![spare.geometry().clone()];
    let with_it = chosen(Auto { spares, ..Auto::default() });
    let life = one_life(&array, &[], auto(), async |volume, _, handle| {
        let refused = volume.add_spare(spare.attach(handle), MemberUuid([7; 16])).unwrap_err();
        assert!(refused.to_string().contains("how the array is being written"), "{refused}");
    });
    life.expect("the array starts");
    let life = one_life(&array, &[], with_it, async |volume, _, handle| {
        assert_eq!(users(volume), (2, 2, LaneMode::Gather));
        volume.add_spare(spare.attach(handle), MemberUuid([7; 16])).unwrap();
        put_all(volume, 300, 1).await;
        volume.fail(2).await.unwrap();
        while volume.status().members[2].state != MemberHealth::Online {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        assert_holds(volume, 300, 1).await;
    });
    life.expect("the array starts");
}

/// Appends are chosen where a profile says that they pay, and a drive that cannot do them decides
/// for all.
#[test]
fn chunks_are_appended_where_that_pays_and_every_drive_can() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    let profile = WriteProfile {
        writes: vec![WriteCost { blocks: 1, nanos: 100_000 }],
        appends: vec![AppendCost { depth: 16, nanos: 1_000 }],
    };
    let told = chosen(Auto { profile: Some(profile), ..Auto::default() });
    let array = Array::create(shape, &mut Random::new(4));
    let life = one_life(&array, &[], told.clone(), async |volume, _, _| {
        assert_eq!(users(volume), (4, 2, LaneMode::Append));
    });
    life.expect("the array starts");
    is_written_through_crashes(&array, &told, 300);
    let limited = |at| {
        drive_with(&shape, |geometry| {
            geometry.append_limit = BlockCount(if at == 3 { 1 } else { 32 });
        })
    };
    let array = Array::on(shape, (0..4).map(limited).collect(), &mut Random::new(4));
    let life = one_life(&array, &[], told.clone(), async |volume, _, _| {
        assert_eq!(users(volume), (4, 2, LaneMode::Gather));
        assert!(fell_back(volume).contains("append limit"), "{}", fell_back(volume));
    });
    life.expect("the array starts");
    is_written_through_crashes(&array, &told, 300);
}

/// A drive like the others takes the place of one that failed, while an array is written as was
/// chosen.
#[test]
fn an_array_is_rebuilt_as_it_was_chosen_to_be_written() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    let mut array = Array::create(shape, &mut Random::new(4));
    let new = new_drive(&shape, &mut Random::new(9));
    let life = one_life(&array, &[], auto(), async |volume, _, handle| {
        put_all(volume, 300, 1).await;
        volume.fail(2).await.unwrap();
        put_all(volume, 150, 2).await;
        volume.replace(2, new.attach(handle), MemberUuid([7; 16])).await.unwrap();
        put_all(volume, 300, 3).await;
        volume.assert_consistent();
    });
    life.expect("the array starts");
    array.drives[2] = new;
    let life = one_life(&array, &[0], auto(), async |volume, _, _| {
        assert_holds(volume, 300, 3).await;
    });
    life.expect("the array starts without a drive");
}

/// Zones are lost under a running volume, as many as it can do without as it was made. It goes on
/// being written as was chosen for it, though nothing would choose that now.
#[test]
fn zones_that_are_lost_meanwhile_do_not_stop_what_was_chosen() {
    for seed in 0..3 {
        let shape =
            Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(864), ..Shape::small() };
        let array = Array::create(shape, &mut Random::new(seed));
        let life = one_life(&array, &[], auto(), async |volume, _, _| {
            put_all(volume, 864, 1).await;
            for zone in [12, 15] {
                array.drives[2].set_offline(ZoneId(zone));
            }
            let mut random = Random::new(seed);
            let mut newest = vec![1; 864];
            for version in 2..3_000 {
                let lba = random.below(864);
                put(volume, lba, version).await.unwrap();
                newest[usize::try_from(lba).unwrap()] = version;
            }
            assert_eq!(read_all(volume, 864).await.unwrap(), newest);
            assert_eq!(volume.status().members[2].state, MemberHealth::Online);
            volume.assert_consistent();
        });
        life.expect("the array starts");
    }
}
