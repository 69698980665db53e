//! Writes that come one at a time: they go to narrow segments instead of being padded, and are as
//! safe there.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use crate::support::life::{assert_hit, assert_holds, one_life, put, put_all, refused};
use crate::support::{Array, Shape, check_offline, contents, new_drive, read_all, uuid};
use zoneweave_emulator::{BlockPart, Damage, Immediate, RamDrive};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{
    ArrayUuid, MemberUuid, Oob, Place, RecordBody, Seed, SegmentHeader, SegmentId,
};
use zoneweave_raid::log::{
    Lanes, OpenError, OpenOptions, SegmentPhase, SegmentStatus, Volume, WriteChoice, WritePolicy,
};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, Payload, ZoneAddress, ZoneId};

const BLOCKS: u64 = 240;

fn array_of(data: usize, parity: usize) -> Array {
    let shape = Shape {
        data,
        parity,
        zones: 24,
        zone_blocks: 80,
        chunk_blocks: 2,
        tabled: false,
        volume_blocks: Some(BLOCKS),
        ..Shape::small()
    };
    Array::create(shape, &mut Random::new(9))
}

fn adaptive(chunk_blocks: u32) -> OpenOptions {
    let small = Lanes { count: 1, chunk_blocks };
    let policy = WritePolicy::adaptive(small, Lanes::default());
    OpenOptions { writes: WriteChoice::Policy(policy), ..OpenOptions::default() }
}

fn lives(array: &Array, without: &[usize], test: impl AsyncFnOnce(&Volume, &Handle)) {
    let life = async |volume: &Volume, _: &_, handle: &Handle| test(volume, handle).await;
    one_life(array, without, adaptive(array.shape.chunk_blocks), life).expect("the array starts");
}

/// Writes a version of all blocks, one at a time.
async fn fill(volume: &Volume, version: u64) {
    put_all(volume, BLOCKS, version).await;
}

/// Segments on so many slots.
fn on_slots(volume: &Volume, slots: usize) -> Vec<SegmentStatus> {
    let on = |segment: &SegmentStatus| segment.zones.iter().flatten().count() == slots;
    volume.segments().into_iter().filter(on).collect()
}

#[test]
fn writes_that_come_one_at_a_time_are_not_padded() {
    for (data, parity) in [(3, 1), (4, 2), (4, 0)] {
        let array = array_of(data, parity);
        lives(&array, &[], async |volume, _| {
            for version in 1..=3 {
                fill(volume, version).await;
            }
            assert!(on_slots(volume, 1 + parity).len() > 1, "{data}+{parity}");
            let padding = volume.status().counters.padding_blocks;
            // A stripe pads five blocks, and more, where it is not narrow, as are those while a
            // segment is opened.
            assert!(padding < 6 * BLOCKS, "{padding} blocks of padding for {data}+{parity}");
            assert_holds(volume, BLOCKS, 3).await;
        });
        lives(&array, &[], async |volume, handle| {
            let found = read_all(volume, BLOCKS).await.unwrap();
            assert!(found.iter().all(|version| *version == 3), "{found:?}");
            check_offline(&array, handle, &[], &found).await;
        });
    }
    assert_hit(&[Mark::NarrowOpened, Mark::StripeNarrow, Mark::NarrowFound, Mark::NarrowLeftover]);
}

#[test]
fn any_drive_may_be_lost() {
    for (data, parity) in [(3, 1), (4, 2)] {
        for first in 0..data + parity {
            let lost = [first, (first + 1) % (data + parity)];
            let array = array_of(data, parity);
            lives(&array, &[], async |volume, _| fill(volume, 1).await);
            // The remaining segments go on, as narrow as before.
            lives(&array, &lost[..parity], async |volume, _| {
                assert_holds(volume, BLOCKS, 1).await;
                fill(volume, 2).await;
                assert!(!on_slots(volume, 1 + parity).is_empty());
                assert_holds(volume, BLOCKS, 2).await;
            });
            lives(&array, &lost[..parity], async |volume, _| {
                assert_holds(volume, BLOCKS, 2).await;
            });
        }
    }
}

#[test]
fn a_lost_column_is_rebuilt_where_there_was_one() {
    for slot in 0..4 {
        let mut array = array_of(3, 1);
        let new = new_drive(&array.shape, &mut Random::new(77));
        lives(&array, &[], async |volume, handle| {
            fill(volume, 1).await;
            let member = MemberUuid(uuid(3, 50));
            volume.replace(slot, new.attach(handle), member).await.unwrap();
            let narrow = on_slots(volume, 2);
            assert!(narrow.iter().any(|segment| segment.phase == SegmentPhase::Sealed));
            let sealed = |segment: &SegmentStatus| segment.phase == SegmentPhase::Sealed;
            assert!(
                !on_slots(volume, 1).iter().any(sealed) && !on_slots(volume, 3).iter().any(sealed)
            );
            assert_holds(volume, BLOCKS, 1).await;
        });
        new.process_kill(1);
        array.drives[slot] = new;
        let other = (slot + 1) % 4;
        lives(&array, &[other], async |volume, _| assert_holds(volume, BLOCKS, 1).await);
    }
}

#[test]
fn rot_in_a_narrow_segment_is_found_and_mended() {
    let array = array_of(3, 1);
    lives(&array, &[], async |volume, _| {
        for version in 1..=2 {
            fill(volume, version).await;
        }
        let narrow =
            on_slots(volume, 2).into_iter().filter(|segment| segment.phase == SegmentPhase::Sealed);
        let narrow = narrow.max_by_key(|segment| segment.segment);
        let zones = narrow.unwrap().zones;
        let (slot, zone) = (0..).zip(zones).find_map(|(slot, zone)| Some((slot, zone?))).unwrap();
        for offset in [0, 3, 4, 30] {
            let how = Damage::Garbage { part: BlockPart::Both, seed: offset.into() };
            let drive: &RamDrive = &array.drives[slot];
            drive.corrupt(ZoneAddress::new(ZoneId(zone), offset), how);
        }
        let report = volume.scrub().await.unwrap();
        assert!(report.damaged >= 4 && report.unrepairable == 0, "{report:?}");
        let report = volume.scrub().await.unwrap();
        assert_eq!((report.damaged, report.parity_mismatches), (0, 0), "{report:?}");
        assert_holds(volume, BLOCKS, 2).await;
    });
}

/// Both headers of a narrow segment are gone: the narrow list has their contents.
#[test]
fn a_narrow_segment_is_found_without_headers() {
    for phase in [SegmentPhase::Open, SegmentPhase::Sealed] {
        let array = array_of(3, 1);
        lives(&array, &[], async |volume, _| {
            fill(volume, 1).await;
            fill(volume, 2).await;
            for (slot, zone) in two_of_one(volume, phase) {
                spoil_header(&array, slot, zone);
            }
        });
        lives(&array, &[], async |volume, _| assert_holds(volume, BLOCKS, 2).await);
    }
    assert_hit(&[Mark::ListedWithoutHeader]);
}

/// A zone of one drive is lost, or all of the drive is away, and with it the only header of a
/// segment: the other one is enough.
#[test]
fn a_narrow_segment_is_found_by_what_one_drive_has_without_a_header() {
    use SegmentPhase::{Open, Sealed};
    for (phase, away) in [(Open, false), (Sealed, false), (Sealed, true)] {
        let array = array_of(3, 1);
        let mut without = Vec::new();
        lives(&array, &[], async |volume, _| {
            fill(volume, 1).await;
            fill(volume, 2).await;
            let [first, second] = two_of_one(volume, phase);
            if away {
                without.push(first.0);
            } else {
                array.drives[first.0].set_offline(first.1);
            }
            spoil_header(&array, second.0, second.1);
        });
        lives(&array, &without, async |volume, _| assert_holds(volume, BLOCKS, 2).await);
    }
}

/// Both zones of a narrow segment are lost: older contents are not served in their place.
#[test]
fn a_narrow_segment_is_not_missing_without_a_word() {
    for phase in [SegmentPhase::Open, SegmentPhase::Sealed] {
        let array = array_of(3, 1);
        lives(&array, &[], async |volume, handle| {
            fill(volume, 1).await;
            fill(volume, 2).await;
            for (slot, zone) in two_of_one(volume, phase) {
                array.drives[slot].set_offline(zone);
            }
            handle.yield_now().await;
        });
        let error = refused(&array, &[]);
        assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{phase}: {error}");
    }
    assert_hit(&[Mark::ListedLost]);
}

/// A drive comes back as it was when a segment was alive that died since, and of which no record
/// tells any more.
#[test]
fn a_dead_narrow_segment_does_not_come_back_with_its_drive() {
    const TRIMMED: u64 = 100;
    for slot in 0..4 {
        let array = array_of(3, 1);
        lives(&array, &[], async |volume, _| fill(volume, 1).await);
        let before = array.drives[slot].fork(Immediate);
        lives(&array, &[], async |volume, _| {
            volume.trim(Lba(0), TRIMMED, true).await.unwrap();
        });
        for version in 2..12 {
            lives(&array, &[], async |volume, _| {
                for lba in TRIMMED..BLOCKS {
                    put(volume, lba, version).await.unwrap();
                }
                volume.flush().await.unwrap();
            });
        }
        array.drives[slot].come_back_stale(&before);
        lives(&array, &[], async |volume, _| {
            let trimmed = std::iter::repeat_n(0, Lba(TRIMMED).index());
            let expected: Vec<_> =
                trimmed.chain(std::iter::repeat_n(11, Lba(BLOCKS - TRIMMED).index())).collect();
            assert_eq!(read_all(volume, BLOCKS).await.unwrap(), expected, "slot {slot}");
        });
    }
    assert_hit(&[Mark::UnlistedReset]);
}

/// No more are alive than a record can list: beyond that, lone writes are padded.
#[test]
fn no_more_narrow_segments_are_opened_than_can_be_listed() {
    let shape = Shape {
        zones: 400,
        zone_blocks: 10,
        tabled: false,
        volume_blocks: Some(1500),
        ..Shape::small()
    };
    let array = Array::create(shape, &mut Random::new(5));
    let most = RecordBody::listed_most(Scheme::new(3, 1).unwrap());
    lives(&array, &[], async |volume, _| {
        put_all(volume, 1500, 1).await;
        assert_eq!(on_slots(volume, 2).len(), most);
    });
    lives(&array, &[], async |volume, _| {
        assert_holds(volume, 1500, 1).await;
        assert_eq!(on_slots(volume, 2).len(), most);
    });
}

/// A narrow segment has died, the newest narrow list has it still, and a wide one has one of its
/// zones: the slot and zone, another slot that the dead one was on, and the wide one.
async fn zone_of_a_dead_one(volume: &Volume, handle: &Handle) -> (usize, ZoneId, usize, SegmentId) {
    fill(volume, 1).await;
    let narrow = on_slots(volume, 2);
    for _ in 0..100 {
        for lba in (0..BLOCKS).step_by(12) {
            write_many(volume, lba..lba + 12, 2).await;
        }
        volume.flush().await.unwrap();
        for _ in 0..50 {
            handle.yield_now().await;
        }
        let all = volume.segments();
        let is_dead = |one: &&SegmentStatus| all.iter().all(|other| other.segment != one.segment);
        let full =
            |one: &&SegmentStatus| one.phase == SegmentPhase::Sealed && one.valid_blocks > 50;
        for dead in narrow.iter().filter(is_dead) {
            let [first, second] = <[_; 2]>::from(two_of(&dead.zones));
            for wide in all.iter().filter(full) {
                for ((slot, zone), other) in [(first, second.0), (second, first.0)] {
                    if wide.zones[slot] == Some(zone.0) {
                        return (slot, zone, other, wide.segment);
                    }
                }
            }
        }
    }
    panic!("no wide segment took the zone of a narrow one");
}

/// Nothing in the zone tells which segment it is of: it is not the dead one that it was listed for.
#[test]
fn a_zone_is_not_given_to_a_dead_segment_that_is_listed() {
    let array = array_of(3, 1);
    let mut found = None;
    lives(&array, &[], async |volume, handle| {
        let (slot, zone, _, wide) = zone_of_a_dead_one(volume, handle).await;
        array.drives[slot].set_unreadable(ZoneAddress::new(zone, 0), BlockCount(33));
        found = Some((slot, zone, wide));
    });
    let (slot, zone, wide) = found.unwrap();
    lives(&array, &[], async |volume, _| {
        let segment = volume.segments().into_iter().find(|one| one.segment == wide).unwrap();
        assert_eq!(segment.zones[slot], Some(zone.0), "its zone is kept");
        assert_holds(volume, BLOCKS, 2).await;
    });
}

/// One drive is away, and one header cannot be read: nothing is lost.
#[test]
fn a_dead_segment_that_is_listed_is_not_missed() {
    let array = array_of(3, 1);
    let mut away = 0;
    lives(&array, &[], async |volume, handle| {
        let (slot, zone, other, _) = zone_of_a_dead_one(volume, handle).await;
        spoil_header(&array, slot, zone);
        away = other;
    });
    lives(&array, &[away], async |volume, _| assert_holds(volume, BLOCKS, 2).await);
}

/// A drive that is smaller than the others, and has no narrow segment, loses zones: relocating
/// narrow segments frees no scarce zone.
#[test]
fn where_a_drive_loses_zones_there_is_room_still() {
    const LEFT: u32 = 80;
    let shape = Shape {
        data: 3,
        parity: 1,
        zones: LEFT,
        zone_blocks: 80,
        chunk_blocks: 2,
        tabled: false,
        ..Shape::small()
    };
    // As large as the remaining zones of the drive allow.
    let blocks = Array::create(shape, &mut Random::new(9)).blocks;
    let shape = Shape { zones: 130, volume_blocks: Some(blocks), ..shape };
    let mut array = Array::create(shape, &mut Random::new(9));
    let mut random = Random::new(6);
    for slot in 1..4 {
        let new = new_drive(&Shape { zones: 180, ..shape }, &mut random);
        lives(&array, &[], async |volume, handle| {
            let member = MemberUuid(uuid(50 + slot as u64, 50));
            volume.replace(slot, new.attach(handle), member).await.unwrap();
        });
        new.process_kill(1);
        array.drives[slot] = new;
    }
    let alone = 3000;
    let mut versions = vec![1; Lba(blocks).index()];
    lives(&array, &[], async |volume, _| {
        put_all(volume, alone, 1).await;
        for lba in (alone..blocks).step_by(12) {
            write_many(volume, lba..blocks.min(lba + 12), 1).await;
        }
        volume.flush().await.unwrap();
        assert!(on_slots(volume, 2).iter().all(|segment| segment.zones[0].is_none()));
        let segments = volume.segments();
        let used: Vec<_> = segments.iter().filter_map(|segment| segment.zones[0]).collect();
        let lost = (2..shape.zones).rev().filter(|zone| !used.contains(zone));
        lost.take((shape.zones - LEFT) as usize)
            .for_each(|zone| array.drives[0].set_offline(ZoneId(zone)));
    });
    lives(&array, &[], async |volume, _| {
        for version in 2..3000 {
            let lba = alone + random.below(blocks - alone - 12);
            write_many(volume, lba..lba + 12, version).await;
            versions[Lba(lba).index()..][..12].fill(version);
        }
        volume.flush().await.unwrap();
        assert_eq!(read_all(volume, blocks).await.unwrap(), versions);
    });
}

async fn write_many(volume: &Volume, blocks: Range<u64>, version: u64) {
    let data = blocks.clone().map(|lba| contents(lba, version)).collect();
    volume.write(Lba(blocks.start), data, false).await.unwrap();
}

/// The slots and zones of a narrow segment of two in which something is live.
fn two_of_one(volume: &Volume, phase: SegmentPhase) -> [(usize, ZoneId); 2] {
    let fits = |segment: &SegmentStatus| segment.phase == phase && segment.valid_blocks > 0;
    let zones = on_slots(volume, 2).into_iter().find(fits).unwrap().zones;
    let (first, second) = two_of(&zones);
    [first, second]
}

fn spoil_header(array: &Array, slot: usize, zone: ZoneId) {
    array.drives[slot].set_unreadable(ZoneAddress::new(zone, 0), BlockCount(1));
}

/// The slots and zones of a narrow segment of two.
fn two_of(zones: &[Option<u32>]) -> ((usize, ZoneId), (usize, ZoneId)) {
    let mut zones = (0..).zip(zones).filter_map(|(slot, zone)| Some((slot, ZoneId((*zone)?))));
    (zones.next().unwrap(), zones.next().unwrap())
}

/// A zone tells that it is of a segment that is not on its drive: it is left alone.
#[test]
fn a_header_where_its_segment_is_not_is_not_believed() {
    let mut random = Random::new(9);
    // As the array is made.
    for _ in 0..4 {
        random.next();
    }
    let id = ArrayUuid(uuid(random.next(), 99));
    let array = array_of(3, 1);
    lives(&array, &[], async |volume, _| {
        fill(volume, 1).await;
        let segments = volume.segments();
        let sealed =
            on_slots(volume, 2).into_iter().find(|segment| segment.phase == SegmentPhase::Sealed);
        let zones = sealed.unwrap().zones;
        let (first, _) = two_of(&zones);
        let absent = zones.iter().position(Option::is_none).unwrap();
        let other = segments.iter().find(|segment| segment.zones[absent].is_some()).unwrap();
        let at = ZoneAddress::new(ZoneId(other.zones[absent].unwrap()), 0);
        let real = array.drives[first.0].peek(ZoneAddress::new(first.1, 0), BlockCount(1));
        let header = SegmentHeader::decode(&real.block(0), id).unwrap();
        let columns = [first.0, absent].into_iter().map(Column::of).collect();
        let mut zones = vec![None; 4];
        zones[absent] = Some(at.zone);
        let geometry = header.geometry.on(columns);
        let forged = SegmentHeader { geometry, zones, ..header };
        let (column, not_on) = (Column::of(absent), geometry.scheme().absent());
        let oob = Oob::of_structure(Place::Header, forged.generation, column, not_on);
        let block = forged.encode(id);
        let oob = oob.encode(Seed::of(id), &block, false);
        array.drives[absent].overwrite(at, &Payload::new(block, oob.to_vec().into()));
    });
    lives(&array, &[], async |volume, _| {
        volume.scrub().await.unwrap();
        assert_holds(volume, BLOCKS, 1).await;
    });
}

/// A volume as large as it may be, written again and again one block at a time: there always is
/// room.
#[test]
fn narrow_segments_are_moved_out_for_room() {
    for parity in [1, 2] {
        let shape = Shape { zones: 12, zone_blocks: 24, parity, tabled: false, ..Shape::small() };
        let array = Array::create(shape, &mut Random::new(5));
        let mut random = Random::new(6);
        let mut versions = vec![0; Lba(array.blocks).index()];
        for life in 0..4 {
            lives(&array, &[], async |volume, handle| {
                for at in 0..1500 {
                    let (lba, version) = (random.below(array.blocks), life * 10_000 + at + 1);
                    put(volume, lba, version).await.unwrap();
                    versions[Lba(lba).index()] = version;
                }
                volume.flush().await.unwrap();
                let found = read_all(volume, array.blocks).await.unwrap();
                assert_eq!(found, versions);
                handle.yield_now().await;
            });
        }
    }
    assert_hit(&[Mark::StripeNarrow, Mark::MovedForRoom]);
}

/// Requests that come beside others go to a narrow segment only where nothing else is open, however
/// little room there is.
#[test]
fn what_does_not_come_alone_keeps_to_wide_segments() {
    let shape = Shape { zones: 16, zone_blocks: 400, tabled: false, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(5));
    let lanes = |chunk_blocks| Lanes { count: 1, chunk_blocks };
    let policy = WritePolicy { large_from_blocks: 6, ..WritePolicy::adaptive(lanes(1), lanes(2)) };
    let writes = WriteChoice::Policy(policy);
    let options = OpenOptions { writes, checkpoint_share: None, ..OpenOptions::default() };
    // Only small requests go to chunks of one block.
    let small = |volume: &Volume| {
        let open = |segment: &SegmentStatus| {
            segment.phase == SegmentPhase::Open && segment.chunk_blocks == 1
        };
        let open = volume.segments().into_iter().filter(open);
        let (narrow, wide): (Vec<_>, Vec<_>) =
            open.partition(|segment| segment.zones.iter().flatten().count() == 2);
        let rows: Vec<_> = narrow.iter().map(|one| (one.segment, one.rows_started)).collect();
        (wide.iter().map(|one| one.segment).collect::<Vec<_>>(), rows)
    };
    let life = one_life(&array, &[], options, async |volume, _, handle| {
        let write = async |lba: u64, blocks: u64, version: u64| {
            let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
            volume.write(Lba(lba), data, false).await.unwrap();
        };
        put_all(volume, 10, 1).await;
        for lba in (10..array.blocks).step_by(3) {
            write(lba, 3.min(array.blocks - lba), 1).await;
        }
        let over = Rc::new(Cell::new(false));
        let beside = (0..8).map(|at| {
            let (volume, over, blocks) = (volume.clone(), over.clone(), array.blocks);
            let mut random = Random::new(at);
            handle.spawn("small", async move {
                while !over.get() {
                    put(&volume, random.below(blocks), 2).await.unwrap();
                }
            })
        });
        let beside: Vec<_> = beside.collect();
        let (mut random, mut compared) = (Random::new(6), 0);
        for version in 2..60 {
            let before = small(volume);
            write(random.below(array.blocks - 12), 12, version).await;
            let after = small(volume);
            if before.0 == after.0 && !before.0.is_empty() && !before.1.is_empty() {
                assert_eq!(before.1, after.1, "with {before:?} open");
                compared += 1;
            }
        }
        assert!(compared > 5, "{compared} times both kinds were open");
        over.set(true);
        for one in beside {
            one.await;
        }
    });
    life.expect("the array starts");
}
