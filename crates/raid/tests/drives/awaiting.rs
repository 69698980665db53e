//! Damaged blocks that only a drive that is out of service can restore: scrubs, relocations and
//! rebuilds leave them until it is back.

use std::ops::Range;

use crate::support::life::{assert_hit, assert_holds, live, put, put_all};
use crate::support::{Array, Shape, attach, new_drive, uuid, version_of};
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Health, LostStatus, ScrubReport, SegmentPhase, Volume};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba, ZoneAddress, ZoneId};

/// Blocks of the volume.
const BLOCKS: u64 = 100;

/// Blocks of a zone that are damaged.
const ROTTEN: Range<u32> = 3..12;

fn array(data: usize, parity: usize, tabled: bool) -> Array {
    let volume_blocks = Some(BLOCKS);
    let shape = Shape { data, parity, zones: 40, tabled, volume_blocks, ..Shape::small() };
    Array::create(shape, &mut Random::new(45))
}

/// Damages blocks of a drive in some of the full segments, from the oldest on.
fn rot(volume: &Volume, array: &Array, drive: usize, segments: usize) {
    let mut sealed = volume.segments();
    sealed.retain(|segment| segment.phase == SegmentPhase::Sealed);
    sealed.sort_by_key(|segment| segment.segment);
    for zone in sealed.iter().take(segments).map(|segment| segment.zones[drive].unwrap()) {
        for offset in ROTTEN {
            let how = Damage::Garbage { part: BlockPart::Data, seed: 7 };
            array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), offset), how);
        }
    }
}

/// Damages a block of a drive in each full segment.
fn rot_one(volume: &Volume, array: &Array, drive: usize) {
    let sealed = volume.segments().into_iter();
    let sealed = sealed.filter(|segment| segment.phase == SegmentPhase::Sealed);
    for zone in sealed.map(|segment| segment.zones[drive].unwrap()) {
        let how = Damage::Garbage { part: BlockPart::Data, seed: 9 };
        array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), ROTTEN.start), how);
    }
}

/// Damages a header of the oldest full segment, which any drive can restore.
fn rot_header(volume: &Volume, array: &Array, drive: usize) {
    let sealed = volume.segments().into_iter();
    let sealed = sealed.filter(|segment| segment.phase == SegmentPhase::Sealed);
    let zone = sealed.min_by_key(|segment| segment.segment).unwrap().zones[drive].unwrap();
    let how = Damage::Garbage { part: BlockPart::Data, seed: 8 };
    array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), 0), how);
}

/// Puts a drive back.
async fn bring_back(volume: &Volume, array: &Array, handle: &Handle, slot: usize) {
    let device = attach(&array.drives[slot], handle);
    volume.readd(slot, device, MemberUuid(uuid(7, slot + 1))).await.unwrap();
}

fn assert_none_lost(volume: &Volume) {
    let status = volume.status();
    let lost = status.members.iter().map(|member| member.errors.unrepairable).sum::<u64>();
    assert!(status.lost.is_empty() && lost == 0, "{:?}, {lost} blocks", status.lost);
}

/// A scrub that found damage while drives were out.
fn assert_left(report: &ScrubReport, damaged: u64) {
    assert_eq!((report.damaged, report.left, report.unrepairable), (damaged, damaged, 0));
    assert!(!report.is_complete(), "{report:?}");
}

/// A scrub of a degraded array wrote marks of lost blocks over what the drive that was offline
/// still had, and reported them as repaired.
#[test]
fn a_scrub_leaves_blocks_that_an_absent_drive_has() {
    let rotten = u64::from(ROTTEN.end - ROTTEN.start);
    let cases: [(_, _, &[usize], &[usize]); 4] =
        [(3, 1, &[0], &[1]), (3, 2, &[0, 4], &[1]), (3, 2, &[0], &[1, 2]), (1, 2, &[0], &[1, 2])];
    for (at, (data, parity, out, bad)) in cases.into_iter().enumerate() {
        let array = array(data, parity, at == 0);
        live(&array, async |volume, _, handle| {
            put_all(volume, BLOCKS, 1).await;
            for slot in out {
                volume.fail(*slot).await.unwrap();
            }
            bad.iter().for_each(|drive| rot(volume, &array, *drive, 1));
            let damaged = rotten * bad.len() as u64;
            for _ in 0..2 {
                assert_left(&volume.scrub().await.unwrap(), damaged);
                assert_none_lost(volume);
            }
            for slot in out {
                bring_back(volume, &array, handle, *slot).await;
            }
            let report = volume.scrub().await.unwrap();
            assert!(report.is_complete() && report.unrepairable == 0, "{report:?}");
            assert_eq!(report.damaged, 0, "case {at}: relocation has restored it");
            assert_holds(volume, BLOCKS, 1).await;
            assert_none_lost(volume);
            let repaired =
                volume.status().members.iter().map(|one| one.errors.repaired).sum::<u64>();
            // Relocation reads no parity.
            assert!(0 < repaired && repaired <= damaged, "case {at}: {repaired} blocks");
            assert_eq!(volume.status().health, Health::Healthy);
            let report = volume.scrub().await.unwrap();
            assert!(report.is_complete() && report.damaged == 0, "{report:?}");
        });
    }
    assert_hit(&[Mark::ScrubLeftDamage]);
}

/// A drive that was taken offline before the blocks that the scrub found were relocated.
#[test]
fn blocks_are_left_if_the_drive_goes_after_the_scrub_has_found_them() {
    let array = array(3, 1, false);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        rot(volume, &array, 1, 1);
        let slow = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(slow, FaultAction::Slow(Nanos::from_millis(10)));
        let scrub = volume.clone();
        let scrub = handle.spawn("scrub", async move { scrub.scrub().await.unwrap() });
        while volume.status().members[1].errors.repaired == 0 {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        volume.fail(0).await.unwrap();
        let report = scrub.await;
        assert!(report.left > 0 && report.unrepairable == 0, "{report:?}");
        assert!(!report.is_complete(), "{report:?}");
        assert_none_lost(volume);
        bring_back(volume, &array, handle, 0).await;
        let report = volume.scrub().await.unwrap();
        assert!(report.is_complete() && report.unrepairable == 0, "{report:?}");
        assert_holds(volume, BLOCKS, 1).await;
    });
    assert_hit(&[Mark::AwaitedBlockLeft]);
}

/// Writes the second half of the volume again and again, so that segments are relocated.
async fn overwrite(volume: &Volume, rounds: u64) {
    for version in 2..2 + rounds {
        for lba in BLOCKS / 2..BLOCKS {
            put(volume, lba, version).await.unwrap();
        }
    }
    volume.flush().await.unwrap();
}

async fn assert_first_half(volume: &Volume) {
    for lba in 0..BLOCKS / 2 {
        let data = volume.read(Lba(lba), 1).await.expect("it is readable");
        assert_eq!(version_of(lba, &data[0]), 1, "block {lba}");
    }
}

/// Relocation made such blocks lost as well, here of a segment with other damage.
#[test]
fn relocation_leaves_blocks_that_an_absent_drive_has() {
    let array = array(3, 1, false);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        rot_header(volume, &array, 2);
        let report = volume.scrub().await.unwrap();
        let rotten = u64::from(ROTTEN.end - ROTTEN.start);
        assert_eq!((report.damaged, report.left, report.unrepairable), (rotten + 1, rotten, 0));
        overwrite(volume, 40).await;
        assert_none_lost(volume);
        bring_back(volume, &array, handle, 0).await;
        assert_first_half(volume).await;
        let report = volume.scrub().await.unwrap();
        assert!(report.is_complete() && report.unrepairable == 0, "{report:?}");
        assert_none_lost(volume);
    });
    assert_hit(&[Mark::AwaitedBlockLeft]);
}

/// The last resort: users wait for space that only such segments yield.
#[test]
fn writes_go_on_when_only_blocks_of_an_absent_drive_are_in_the_way() {
    let shape = Shape { tabled: false, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(47));
    live(&array, async |volume, _, _| {
        put_all(volume, array.blocks, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, usize::MAX);
        for version in 2..12 {
            for lba in (0..array.blocks).filter(|lba| lba % 4 > 0) {
                put(volume, lba, version).await.unwrap();
            }
        }
        assert_eq!(volume.status().stopped, None);
    });
    assert_hit(&[Mark::AwaitedBlockLeft, Mark::AwaitedBlocksGivenUp]);
}

/// Each segment has one block that only the absent drive can restore, and is almost full when it is
/// relocated: what stays takes space and yields none. The reserve of relocation was spent, and
/// writes failed, also once the drive was back.
#[test]
fn segments_that_wait_leave_relocation_its_reserve() {
    for lbas_kept in [4, 8] {
        let shape = Shape { tabled: false, zone_blocks: 200, zones: 24, ..Shape::small() };
        let array = Array::create(shape, &mut Random::new(48));
        live(&array, async |volume, _, handle| {
            put_all(volume, array.blocks, 1).await;
            volume.fail(0).await.unwrap();
            rot_one(volume, &array, 1);
            let mut random = Random::new(49);
            for _ in 0..3 * array.blocks {
                let lba = random.below(array.blocks / lbas_kept) * lbas_kept;
                put(volume, lba, 2).await.unwrap();
            }
            assert_eq!(volume.status().stopped, None);
            bring_back(volume, &array, handle, 0).await;
            for lba in (0..array.blocks).step_by(4) {
                put(volume, lba, 3).await.unwrap();
            }
        });
    }
    assert_hit(&[Mark::AwaitedBlockLeft, Mark::AwaitedBlocksGivenUpEarly]);
}

/// A rebuild made blocks lost that another absent drive has.
#[test]
fn a_rebuild_leaves_blocks_that_another_absent_drive_has() {
    let array = array(3, 2, false);
    let shape = Shape { data: 3, parity: 2, zones: 40, tabled: false, ..Shape::small() };
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        volume.fail(1).await.unwrap();
        rot(volume, &array, 2, 1);
        let new = attach(&new_drive(&shape, &mut Random::new(46)), handle);
        volume.replace(1, new, MemberUuid(uuid(9, 1))).await.unwrap();
        assert_none_lost(volume);
        bring_back(volume, &array, handle, 0).await;
        assert_holds(volume, BLOCKS, 1).await;
        let report = volume.scrub().await.unwrap();
        assert!(report.is_complete() && report.unrepairable == 0, "{report:?}");
        assert_none_lost(volume);
    });
    assert_hit(&[Mark::HoleAwaitsMember]);
}

/// The slot gets another drive: nothing can bring the blocks back any more.
#[test]
fn blocks_of_a_drive_that_was_replaced_are_lost() {
    let array = array(3, 1, false);
    let shape = Shape { zones: 40, tabled: false, ..Shape::small() };
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        overwrite(volume, 40).await;
        assert_none_lost(volume);
        let new = attach(&new_drive(&shape, &mut Random::new(46)), handle);
        volume.replace(0, new, MemberUuid(uuid(9, 1))).await.unwrap();
        let report = volume.scrub().await.unwrap();
        assert!(report.is_complete() && report.left == 0, "{report:?}");
        assert!(!volume.status().lost.is_empty(), "{report:?}");
        assert_eq!(volume.status().health, Health::Healthy);
    });
}

/// Blocks of the volume that cannot be read.
async fn unreadable(volume: &Volume) -> Vec<u64> {
    let mut unreadable = Vec::new();
    for lba in 0..BLOCKS {
        if volume.read(Lba(lba), 1).await.is_err() {
            unreadable.push(lba);
        }
    }
    unreadable
}

fn awaited(volume: &Volume) -> Vec<u64> {
    let blocks = |range: LostStatus| range.lba..range.lba + range.blocks;
    volume.status().awaited.into_iter().flat_map(blocks).collect()
}

/// Clients got errors that no counter and no status told of.
#[test]
fn blocks_that_cannot_be_read_for_now_leave_a_trace() {
    let array = array(3, 1, false);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        let found = unreadable(volume).await;
        assert!(!found.is_empty());
        assert_eq!(awaited(volume), found);
        let rotten = u64::from(ROTTEN.end - ROTTEN.start);
        let checksums = volume.status().members.iter().map(|one| one.errors.checksum).sum::<u64>();
        assert!((1..=rotten).contains(&checksums), "{checksums}");
        assert_eq!(unreadable(volume).await, found);
        let scrubbed = volume.scrub().await.unwrap();
        assert_eq!(volume.status().members[1].errors.checksum, rotten, "each place once");
        assert_eq!((awaited(volume), scrubbed.left), (found.clone(), rotten));
        put(volume, found[0], 2).await.unwrap();
        assert_eq!(awaited(volume), found[1..], "one is written again");
        bring_back(volume, &array, handle, 0).await;
        assert_eq!(awaited(volume), []);
        assert_eq!(unreadable(volume).await, []);
        assert_none_lost(volume);
    });
}

/// A drive that returned while a segment was relocated lost its column of it, and with it what only
/// that column could restore.
#[test]
fn a_drive_that_returns_during_a_relocation_brings_its_blocks() {
    let array = array(3, 1, false);
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        rot_header(volume, &array, 2);
        let slow = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(slow, FaultAction::Slow(Nanos::from_millis(500)));
        let scrub = volume.clone();
        let scrub = handle.spawn("scrub", async move { scrub.scrub().await.unwrap() });
        while volume.status().members[2].errors.repaired == 0 {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        bring_back(volume, &array, handle, 0).await;
        let report = scrub.await;
        assert_eq!(report.unrepairable, 0, "{report:?}");
        assert_holds(volume, BLOCKS, 1).await;
        assert_none_lost(volume);
    });
}

/// Another drive is in the slot: what waited is found lost without a read or a scrub.
#[test]
fn blocks_that_nothing_can_bring_back_are_listed_at_once() {
    let array = array(3, 1, false);
    let shape = Shape { zones: 40, tabled: false, ..Shape::small() };
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        let found = unreadable(volume).await;
        assert_none_lost(volume);
        let new = attach(&new_drive(&shape, &mut Random::new(46)), handle);
        volume.replace(0, new, MemberUuid(uuid(9, 1))).await.unwrap();
        while !awaited(volume).is_empty() || volume.status().lost.is_empty() {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        let blocks = |range: LostStatus| range.lba..range.lba + range.blocks;
        while volume.status().lost.into_iter().flat_map(blocks).collect::<Vec<_>>() != found {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        assert_eq!(unreadable(volume).await, found);
    });
}

/// Users wait for space, and it comes from elsewhere: nothing is given up.
#[test]
fn blocks_of_an_absent_drive_are_kept_while_other_segments_yield_space() {
    let shape = Shape { tabled: false, zones: 40, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(47));
    live(&array, async |volume, _, handle| {
        let kept = array.blocks / 4;
        put_all(volume, array.blocks, 1).await;
        volume.fail(0).await.unwrap();
        rot(volume, &array, 1, 1);
        for version in 2..12 {
            for lba in kept..array.blocks {
                put(volume, lba, version).await.unwrap();
            }
        }
        volume.flush().await.unwrap();
        assert_none_lost(volume);
        bring_back(volume, &array, handle, 0).await;
        for lba in 0..kept {
            let data = volume.read(Lba(lba), 1).await.expect("it is readable");
            assert_eq!(version_of(lba, &data[0]), 1, "block {lba}");
        }
    });
}
