//! Rebuilds must not believe one bad answer, write incomplete summaries, take the last zones of a
//! drive, or cost a working drive.

use crate::support::life::{assert_hit, live, one_life, put};
use crate::support::{self, Array, Shape, contents, read_all, uuid, version_of};
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{Lineage, MemberUuid};
use zoneweave_raid::log::{MemberHealth, OpenOptions, ReplaceError, SegmentPhase, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, Status, ZoneAddress, ZoneId};

/// Data blocks of a segment of [`Shape::small`]: 21 rows of three.
const SEGMENT_BLOCKS: u64 = 63;

fn shaped(shape: Shape, salt: u64) -> Array {
    Array::create(Shape { tabled: false, ..shape }, &mut Random::new(salt))
}

fn fresh(array: &Array) -> RamDrive {
    support::new_drive(&array.shape, &mut Random::new(77))
}

/// Writes a version of consecutive blocks in one request, and waits until the segments that it
/// fills are sealed.
async fn put_run(volume: &Volume, handle: &Handle, blocks: std::ops::Range<u64>, version: u64) {
    let lba = Lba(blocks.start);
    let data = blocks.map(|lba| contents(lba, version)).collect();
    volume.write(lba, data, false).await.unwrap();
    handle.sleep(Nanos::from_millis(5)).await;
    volume.flush().await.unwrap();
}

/// The zones of the segment sealed last.
fn last_sealed(volume: &Volume) -> Vec<ZoneId> {
    let segments = volume.segments();
    let sealed = segments.iter().filter(|segment| segment.phase == SegmentPhase::Sealed);
    let last = sealed.max_by_key(|segment| segment.segment).unwrap();
    last.zones.iter().map(|zone| ZoneId(zone.unwrap())).collect()
}

fn put_in(array: &mut Array, slot: usize, drive: RamDrive) {
    drive.process_kill(1);
    array.drives[slot] = drive;
}

#[test]
fn one_bad_answer_makes_no_hole() {
    let mut array = shaped(Shape { volume_blocks: Some(200), ..Shape::small() }, 5);
    let new = fresh(&array);
    live(&array, async |volume, _, handle| {
        for lba in 0..150 {
            put(volume, lba, 1).await.unwrap();
        }
        volume.flush().await.unwrap();
        handle.sleep(Nanos::from_millis(20)).await;
        let zone = last_sealed(volume)[0];
        volume.fail(1).await.unwrap();
        let answer = Selector::next(CommandKind::Read).in_zone(zone).touching(5..6);
        let damage = Damage::BitFlip { part: BlockPart::Data, seed: 3 };
        array.drives[0].inject(answer, FaultAction::Garble(damage));
        volume.replace(1, new.attach(handle), MemberUuid(uuid(3, 51))).await.unwrap();
        assert_eq!(volume.status().members[1].errors.unrepairable, 0);
    });
    put_in(&mut array, 1, new);
    // Everything can be read without another drive.
    let without = one_life(&array, &[2], OpenOptions::default(), async |volume, _, _| {
        assert_eq!(read_all(volume, 150).await.unwrap(), [1; 150]);
    });
    without.unwrap();
}

/// Has a drive fail reads of a block that the rebuild of a written volume's slot 1 needs.
async fn silence(array: &Array, volume: &Volume, handle: &Handle, times: Option<u64>) {
    for lba in 0..150 {
        put(volume, lba, 1).await.unwrap();
    }
    volume.flush().await.unwrap();
    handle.sleep(Nanos::from_millis(20)).await;
    let reads = Selector::next(CommandKind::Read).in_zone(last_sealed(volume)[0]).touching(5..6);
    let reads = times.map_or_else(|| reads.clone().always(), |times| reads.clone().times(times));
    array.drives[0].inject(reads, FaultAction::Fail(Status::InternalError));
    volume.fail(1).await.unwrap();
}

/// A hole took the place of a block that another drive had, and would have returned a moment later.
#[test]
fn a_drive_without_an_answer_makes_no_hole() {
    for times in [Some(30), None] {
        let mut array = shaped(Shape { volume_blocks: Some(200), ..Shape::small() }, 5);
        let new = fresh(&array);
        live(&array, async |volume, _, handle| {
            silence(&array, volume, handle, times).await;
            let replaced = volume.replace(1, new.attach(handle), MemberUuid(uuid(3, 51))).await;
            let (slot, status) = (Column::of(0), Status::InternalError);
            match times {
                Some(_) => assert_eq!(replaced, Ok(())),
                None => assert_eq!(replaced, Err(ReplaceError::SourceFailed { slot, status })),
            }
            let members = volume.status().members;
            let is_whole = members[1].state == MemberHealth::Online;
            assert!(is_whole || members[1].state == MemberHealth::Rebuilding, "{members:?}");
            assert!(members.iter().all(|member| member.errors.unrepairable == 0), "{members:?}");
            assert_eq!(is_whole, times.is_some());
            assert!(members[0].state == MemberHealth::Online && members[0].errors.read > 0);
            if !is_whole {
                array.drives[0].faults(|plan| plan.clear());
                volume.resume_rebuild().await.unwrap();
            }
        });
        put_in(&mut array, 1, new);
        let without = one_life(&array, &[2], OpenOptions::default(), async |volume, _, _| {
            assert_eq!(read_all(volume, 150).await.unwrap(), [1; 150]);
        });
        without.unwrap();
    }
    assert_hit(&[Mark::RebuildSourceAwaited, Mark::RebuildSourceFailed]);
}

/// Both summaries of a column are damaged, and so is a source for one of its blocks: nothing
/// identifies that block until its older version is found.
#[test]
fn a_block_that_no_list_names_is_lost_not_old() {
    for row in 4..8 {
        let mut array = shaped(Shape { volume_blocks: Some(189), zones: 14, ..Shape::small() }, 5);
        let new = fresh(&array);
        live(&array, async |volume, _, handle| {
            put_run(volume, handle, 0..SEGMENT_BLOCKS, 1).await;
            put_run(volume, handle, 1..SEGMENT_BLOCKS + 1, 2).await;
            let zones = last_sealed(volume);
            for (slot, offset) in [(2, 22), (2, 23), (0, 1 + row)] {
                let at = ZoneAddress::new(zones[slot], offset);
                array.drives[slot].set_unreadable(at, BlockCount(1));
            }
            volume.fail(1).await.unwrap();
            volume.replace(1, new.attach(handle), MemberUuid(uuid(3, 51))).await.unwrap();
        });
        put_in(&mut array, 1, new);
        live(&array, async |volume, _, _| {
            for lba in 1..SEGMENT_BLOCKS {
                let read = volume.read(Lba(lba), 1).await;
                let version = read.ok().map(|data| version_of(lba, &data[0]));
                assert!(matches!(version, None | Some(2)), "block {lba} is {version:?}");
            }
        });
    }
    assert_hit(&[Mark::ListsIncomplete]);
}

/// Users write while it is rebuilt; afterwards they still can.
#[test]
fn a_rebuild_leaves_zones_to_move_what_is_live() {
    for seed in 1..=3 {
        let blocks = 1350;
        let mut array =
            shaped(Shape { zones: 40, volume_blocks: Some(blocks), ..Shape::small() }, seed);
        let worn = support::new_drive(&array.shape, &mut Random::new(77 + seed));
        (30..40).for_each(|zone| worn.set_offline(ZoneId(zone)));
        live(&array, async |volume, _, handle| {
            let mut random = Random::new(seed);
            for lba in 0..blocks {
                put(volume, lba, 1).await.unwrap();
            }
            for version in 2..2 + blocks {
                put(volume, random.below(blocks), version).await.unwrap();
            }
            volume.flush().await.unwrap();
            volume.fail(1).await.unwrap();
            let (inside, device) = (volume.clone(), worn.attach(handle));
            handle.spawn("replace", async move {
                let _ = inside.replace(1, device, MemberUuid(uuid(3, 51))).await;
            });
            for writer in 0..8 {
                let inside = volume.clone();
                let mut random = Random::new(seed * 31 + writer);
                handle.spawn("writer", async move {
                    for version in 0.. {
                        let lba = random.below(blocks);
                        if put(&inside, lba, 10_000 + version * 8 + writer).await.is_err() {
                            break;
                        }
                    }
                });
            }
            handle.sleep(Nanos::from_millis(60)).await;
        });
        put_in(&mut array, 1, worn);
        live(&array, async |volume, _, handle| {
            let inside = volume.clone();
            let rebuilt = handle.spawn("resume", async move { inside.resume_rebuild().await });
            let mut random = Random::new(seed + 5);
            for version in 0..300 {
                put(volume, random.below(blocks), 50_000 + version).await.unwrap();
            }
            rebuilt.await.unwrap();
        });
    }
    assert_hit(&[Mark::RebuildLeavesReserve]);
}

/// With parity, too: others may be unable to tell that they have nothing of a segment.
#[test]
fn a_drive_that_cannot_be_erased_is_not_taken_for_one_that_works() {
    for shape in [Shape { data: 1, parity: 2, ..Shape::small() }, Shape::small()] {
        let array = shaped(Shape { volume_blocks: Some(126), zones: 14, ..shape }, 2);
        let new = fresh(&array);
        live(&array, async |volume, _, handle| {
            put_run(volume, handle, 0..SEGMENT_BLOCKS, 1).await;
            let zone = last_sealed(volume)[0];
            array.drives[0].set_read_only(zone);
            volume.fail(0).await.unwrap();
            volume.replace(0, new.attach(handle), MemberUuid(uuid(3, 50))).await.unwrap();
            let back = volume.replace(1, array.drives[0].attach(handle), MemberUuid(uuid(3, 51)));
            assert_eq!(back.await, Err(ReplaceError::KeepsSegments { zone }));
            assert_eq!(volume.status().members[1].state, MemberHealth::Online);
        });
    }
}

/// A superblock that cannot be erased, of a history that went on apart and came further.
#[test]
fn a_former_superblock_of_another_history_counts_for_nothing() {
    let shape = Shape { data: 1, parity: 3, volume_blocks: Some(63), zones: 14, ..Shape::small() };
    let array = shaped(shape, 2);
    live(&array, async |volume, _, handle| put_run(volume, handle, 0..10, 1).await);
    let apart = |missing: &[usize], lineage, version| {
        let options =
            OpenOptions { force: true, lineage: Lineage(lineage), ..OpenOptions::default() };
        let life = one_life(&array, missing, options, async |volume, _, handle| {
            put_run(volume, handle, 0..10, version).await;
        });
        life.unwrap();
    };
    apart(&[2, 3], 70, 2);
    (0..6).for_each(|_| apart(&[1, 2, 3], 71, 2));
    apart(&[0, 1], 90, 3);
    let mut superblocks = [ZoneId(0), ZoneId(1)].into_iter();
    let is_written = |zone: &ZoneId| array.drives[0].zone(*zone).write_pointer.0 > 0;
    array.drives[0].set_read_only(superblocks.find(is_written).unwrap());
    let options = OpenOptions { force: true, lineage: Lineage(90), ..OpenOptions::default() };
    let life = one_life(&array, &[0, 1], options, async |volume, _, handle| {
        let back = volume.replace(0, array.drives[0].attach(handle), MemberUuid(uuid(3, 51)));
        back.await.unwrap();
    });
    life.unwrap();
    let started = one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        assert_eq!(read_all(volume, 10).await.unwrap(), [3; 10]);
    });
    started.unwrap();
}

/// The same of a former membership, by the engine and by the checker.
#[test]
fn a_former_superblock_is_no_fault() {
    let shape = Shape { data: 1, parity: 2, volume_blocks: Some(63), ..Shape::small() };
    let array = shaped(shape, 2);
    live(&array, async |volume, _, handle| {
        put_run(volume, handle, 0..21, 1).await;
        let mut superblocks = [ZoneId(0), ZoneId(1)].into_iter();
        let is_written = |zone: &ZoneId| array.drives[0].zone(*zone).write_pointer.0 > 0;
        let zone = superblocks.find(is_written).unwrap();
        volume.fail(0).await.unwrap();
        array.drives[0].set_read_only(zone);
        let back = volume.replace(0, array.drives[0].attach(handle), MemberUuid(uuid(3, 51)));
        back.await.unwrap();
    });
    let found = live(&array, async |volume, _, _| read_all(volume, array.blocks).await.unwrap());
    let executor = support::executor();
    let handle = executor.handle();
    executor.run(support::check_offline(&array, &handle, &[], &found));
}

/// The largest volume is limited by the drive that has lost the most zones.
#[test]
fn an_array_of_drives_with_lost_zones_can_be_written() {
    for (drives, lost) in [(1, 1), (4, 1), (2, 3)] {
        let shape = Shape { zones: 14, tabled: false, ..Shape::small() };
        let mut random = Random::new(3);
        let made: Vec<_> = (0..4).map(|_| support::new_drive(&shape, &mut random)).collect();
        for drive in &made[..drives] {
            (14 - lost..14).for_each(|zone| drive.set_offline(ZoneId(zone)));
        }
        let array = Array::on(shape, made, &mut Random::new(5));
        live(&array, async |volume, _, _| {
            let mut random = Random::new(9);
            for version in 1..800 {
                put(volume, random.below(array.blocks), version).await.unwrap();
            }
            assert!(
                volume.status().members.iter().all(|member| member.state == MemberHealth::Online)
            );
        });
    }
}
