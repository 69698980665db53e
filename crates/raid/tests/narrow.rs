//! Writes that come one at a time: they go to narrow segments instead of being padded, and are as safe there.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use support::life::{assert_hit, assert_holds, one_life, put, put_all, refused};
use support::{Array, Shape, check_offline, new_drive, read_all, uuid};
use zoneweave_emulator::{BlockPart, Damage, RamDrive};
use zoneweave_raid::layout::Column;
use zoneweave_raid::log::format::{ArrayUuid, MemberUuid, Oob, Place, Seed, SegmentHeader};
use zoneweave_raid::log::{
    Lanes, OpenError, OpenOptions, SegmentStatus, Volume, WriteChoice, WritePolicy,
};
use zoneweave_raid::marks::Mark;
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
    let policy = WritePolicy { narrow: true, ..WritePolicy::adaptive(small, Lanes::default()) };
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
            // A stripe pads five blocks, and more, where it is not narrow.
            assert!(padding < 3 * BLOCKS, "{padding} blocks of padding for {data}+{parity}");
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
            // What is left goes on, as narrow as before.
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
            assert!(narrow.iter().any(|segment| segment.phase == "sealed"));
            let sealed = |segment: &SegmentStatus| segment.phase == "sealed";
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
        let narrow = on_slots(volume, 2).into_iter().filter(|segment| segment.phase == "sealed");
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

/// Both headers of a narrow segment are gone: it is not missing without a word, though the other drives have nothing of it.
#[test]
fn a_narrow_segment_without_headers_is_not_left_out_unasked() {
    let array = array_of(3, 1);
    lives(&array, &[], async |volume, _| {
        fill(volume, 1).await;
        let narrow = on_slots(volume, 2).into_iter().find(|segment| segment.phase == "open");
        for (drive, zone) in array.drives.iter().zip(narrow.unwrap().zones) {
            if let Some(zone) = zone {
                drive.set_unreadable(ZoneAddress::new(ZoneId(zone), 0), BlockCount(1));
            }
        }
    });
    let error = refused(&array, &[]);
    assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
    assert_hit(&[Mark::HiddenSegment]);
}

/// A zone of one drive is lost with the only header of the segment that the other one has: what was there before is not served for it.
#[test]
fn a_narrow_segment_with_a_lost_zone_and_no_header_is_not_left_out_unasked() {
    for phase in ["open", "sealed"] {
        let array = array_of(3, 1);
        lives(&array, &[], async |volume, _| {
            fill(volume, 1).await;
            fill(volume, 2).await;
            let full = |segment: &SegmentStatus| segment.phase == phase && segment.valid_blocks > 0;
            let zones = on_slots(volume, 2).into_iter().find(full).unwrap().zones;
            let (first, second) = two_of(&zones);
            array.drives[first.0].set_offline(first.1);
            array.drives[second.0].set_unreadable(ZoneAddress::new(second.1, 0), BlockCount(1));
        });
        let error = refused(&array, &[]);
        assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{phase}: {error}");
    }
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
        let sealed = on_slots(volume, 2).into_iter().find(|segment| segment.phase == "sealed");
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

/// A volume as large as it may be, written again and again one block at a time: there always is room.
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
