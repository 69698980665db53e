//! Deaths of segments are kept for zones that cannot be read: as long as needed, and no more of
//! them than there are such zones.

use std::collections::BTreeSet;

use crate::support::life::{assert_hit, assert_holds, live, put};
use crate::support::{self, Array, Shape, contents, executor, uuid};
use bytes::Bytes;
use futures_util::future::{Either, select};
use zoneweave_emulator::{CommandKind, FaultAction, Immediate, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{MemberUuid, RecordBody, SegmentId};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{MemberHealth, ReplaceError, SegmentPhase, Volume};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{
    BlockCount, BlockDevice, Lba, Payload, Status, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt,
    zero_blocks,
};

/// Data blocks of a segment of [`copies`].
const SEGMENT_BLOCKS: u64 = 21;

/// An array of three copies: any one zone makes up a segment, regardless of the others.
fn copies(salt: u64) -> Array {
    copies_of(3, salt)
}

/// The same with a volume of so many segments.
fn copies_of(segments: u64, salt: u64) -> Array {
    let volume_blocks = Some(segments * SEGMENT_BLOCKS);
    let shape = Shape { data: 1, parity: 2, volume_blocks, ..Shape::small() };
    Array::create(Shape { tabled: false, ..shape }, &mut Random::new(salt))
}

/// Segments recorded dead in the newest snapshot of a drive.
fn deaths_in_snapshot(array: &Array, drive: usize) -> usize {
    let executor = executor();
    let copy = array.drives[drive].fork(Immediate);
    let found = executor.run(read_records(&*copy.attach(&executor.handle()))).unwrap();
    let mut records: Vec<_> = found.scan.records.iter().map(|(_, record)| record).collect();
    records.sort_by_key(|record| record.record_sequence);
    let is_end = |body: &RecordBody| matches!(body, RecordBody::SnapshotEnd { .. });
    let end = records.iter().rposition(|record| is_end(&record.body)).unwrap();
    let RecordBody::SnapshotEnd { records: count } = records[end].body else { unreachable!() };
    let bodies = records[end - count as usize..end].iter().map(|record| &record.body);
    let dead = bodies.map(|body| match body {
        RecordBody::Deaths(deaths) => deaths.iter().map(|death| death.generation).collect(),
        RecordBody::Dead(generations) => generations.clone(),
        _ => Vec::new(),
    });
    dead.flatten().collect::<BTreeSet<_>>().len()
}

/// Writes a version of consecutive blocks in one request.
async fn put_run(volume: &Volume, handle: &Handle, blocks: u64, version: u64) {
    let data = (0..blocks).map(|lba| contents(lba, version)).collect();
    volume.write(Lba(0), data, false).await.unwrap();
    handle.sleep(Nanos::from_millis(5)).await;
    volume.flush().await.unwrap();
}

/// Starts the array again and again, each time with segments dying; a drive has a zone that cannot
/// be read. No trim is remembered of blocks of which nothing older is left.
fn live_on(array: &Array, drive: usize, lives: u64) {
    for version in 10..10 + lives {
        let reclaimed = live(array, async |volume, _, _| {
            assert_eq!(volume.status().members[drive].orphan_zones, 1);
            for _ in 0..4 {
                for lba in SEGMENT_BLOCKS..2 * SEGMENT_BLOCKS {
                    put(volume, lba, version).await.unwrap();
                }
            }
            assert_holds(volume, SEGMENT_BLOCKS, 0).await;
            volume.status().counters.segments_reclaimed
        });
        assert!(reclaimed > 1, "{reclaimed} segments died");
        // The zone may be one of one segment's, and a kill may have come between a death and the
        // resets.
        let deaths = deaths_in_snapshot(array, drive);
        assert!(deaths <= 4, "{deaths} segments are recorded dead after {version} lives");
    }
}

/// Makes a zone of a drive unreadable until its faults are cleared.
fn hide(array: &Array, drive: usize, zone: ZoneId) {
    let reads = Selector::next(CommandKind::Read).in_zone(zone).always();
    array.drives[drive].inject(reads, FaultAction::Fail(Status::UnrecoveredRead));
}

/// Lets a zone of a dead segment be read again: its contents count for nothing, and it is reset.
fn assert_stays_dead(array: &Array, drive: usize, zone: ZoneId, segment: SegmentId) {
    array.drives[drive].faults(|plan| {
        plan.clear();
    });
    assert!(array.drives[drive].zone(zone).write_pointer.0 > 0, "nobody has touched the zone");
    live(array, async |volume, _, _| {
        assert_holds(volume, SEGMENT_BLOCKS, 0).await;
        assert!(volume.segments().iter().all(|known| known.segment != segment));
        assert_eq!(volume.status().members[drive].orphan_zones, 0);
        assert_eq!(array.drives[drive].zone(zone).write_pointer.0, 0);
    });
    live(array, async |volume, _, _| assert_holds(volume, SEGMENT_BLOCKS, 0).await);
    assert_eq!(deaths_in_snapshot(array, drive), 0);
}

/// Once it was some 5 to 16 a start, until superblock zones did not hold them.
#[test]
fn a_zone_that_nobody_can_read_costs_nothing_with_each_start() {
    let array = copies(1);
    let executor = executor();
    let device = array.drives[0].attach(&executor.handle());
    let oob = Bytes::from(vec![0; BlockCount(3).oob_bytes()]);
    let zeros = Payload::new(zero_blocks(BlockCount(3)), oob);
    executor.run(device.write(ZoneAddress::new(ZoneId(8), 0), zeros, true)).unwrap();
    drop((device, executor));
    array.drives[0].process_kill(1);
    hide(&array, 0, ZoneId(8));
    live_on(&array, 0, 40);
}

#[test]
fn a_segment_stays_dead_however_late_its_zone_can_be_read() {
    let array = copies(2);
    let (zone, segment) = live(&array, async |volume, _, handle| {
        put_run(volume, handle, SEGMENT_BLOCKS, 1).await;
        let segments = volume.segments();
        let first = segments.iter().find(|segment| segment.phase == SegmentPhase::Sealed).unwrap();
        let zone = ZoneId(first.zones[0].unwrap());
        // A reset that fails is tried three times.
        let reset = Selector::next(CommandKind::Manage(ZoneAction::Reset)).in_zone(zone).times(3);
        array.drives[0].inject(reset, FaultAction::Fail(Status::WriteFault));
        volume.trim(Lba(0), SEGMENT_BLOCKS, false).await.unwrap();
        while volume.status().counters.segments_reclaimed == 0 {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        (zone, first.segment)
    });
    hide(&array, 0, zone);
    live_on(&array, 0, 30);
    assert_stays_dead(&array, 0, zone, segment);
    assert_hit(&[Mark::ZoneNotReset, Mark::DeadKeptForUnread, Mark::DeadSegmentResetAgain]);
}

/// Cuts a rebuild of the second drive short: a zone with part of a copy, and the segment that is
/// copied.
fn cut_short(array: &Array) -> (ZoneId, SegmentId) {
    live(array, async |volume, _, handle| {
        // So that zones are free which no header lists.
        for version in 1..4 {
            put_run(volume, handle, SEGMENT_BLOCKS, version).await;
        }
        while volume.status().counters.segments_reclaimed < 2 {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        let segments = volume.segments();
        let sealed =
            segments.iter().find(|segment| segment.phase == SegmentPhase::Sealed).unwrap().segment;
        let listed: Vec<_> = segments.iter().filter_map(|segment| segment.zones[1]).collect();
        volume.fail(1).await.unwrap();
        let rebuild = volume.replace(1, array.drives[1].attach(handle), MemberUuid(uuid(3, 50)));
        let is_copy = |zone: &u32| {
            let written = array.drives[1].zone(ZoneId(*zone)).write_pointer;
            !listed.contains(zone) && written.0 >= 10
        };
        let copied = async {
            loop {
                match (2..10).find(is_copy) {
                    Some(zone) => return ZoneId(zone),
                    None => handle.sleep(Nanos::from_micros(10)).await,
                }
            }
        };
        let (rebuild, copied) = (std::pin::pin!(rebuild), std::pin::pin!(copied));
        match select(rebuild, copied).await {
            Either::Left(_) => panic!("the rebuild is not cut short"),
            Either::Right((zone, _)) => (zone, sealed),
        }
    })
}

/// Nothing tells of which segment the copy is: it may die without anybody knowing of that zone.
#[test]
fn a_copy_that_was_cut_short_dies_with_its_segment() {
    let array = copies(3);
    let (zone, segment) = cut_short(&array);
    hide(&array, 1, zone);
    live(&array, async |volume, _, handle| {
        volume.resume_rebuild().await.unwrap();
        assert!(volume.segments().iter().any(|known| known.segment == segment));
        volume.trim(Lba(0), SEGMENT_BLOCKS, false).await.unwrap();
        gone(volume, handle, segment).await;
    });
    live_on(&array, 1, 10);
    assert_stays_dead(&array, 1, zone, segment);
}

async fn gone(volume: &Volume, handle: &Handle, segment: SegmentId) {
    while volume.segments().iter().any(|known| known.segment == segment) {
        handle.sleep(Nanos::from_millis(1)).await;
    }
}

/// Other segments die until every superblock zone was switched.
async fn churn(volume: &Volume) {
    let before = volume.status().counters.segments_reclaimed;
    let mut version = 100;
    while volume.status().counters.segments_reclaimed < before + 60 {
        for lba in SEGMENT_BLOCKS..2 * SEGMENT_BLOCKS {
            put(volume, lba, version).await.unwrap();
        }
        version += 1;
    }
    volume.flush().await.unwrap();
}

/// Trims the blocks of a segment until it is dead and its death is no longer recorded.
async fn trim_until_forgotten(volume: &Volume, handle: &Handle, segment: SegmentId) {
    volume.trim(Lba(0), SEGMENT_BLOCKS, false).await.unwrap();
    gone(volume, handle, segment).await;
    churn(volume).await;
    assert_holds(volume, SEGMENT_BLOCKS, 0).await;
}

/// Trimmed blocks have not come back with a start.
fn assert_trimmed(array: &Array) {
    live(array, async |volume, _, _| {
        assert_holds(volume, SEGMENT_BLOCKS, 0).await;
    });
}

/// A start finds a copy that was cut short, and cannot reset it: its segment is alive, and dies
/// later.
#[test]
fn a_copy_that_a_start_cannot_reset_dies_with_its_segment() {
    let array = copies(3);
    let (zone, segment) = cut_short(&array);
    // It can be read, but not be reset any more.
    array.drives[1].set_read_only(zone);
    live(&array, async |volume, _, handle| {
        volume.resume_rebuild().await.unwrap();
        assert!(volume.segments().iter().any(|known| known.segment == segment));
        trim_until_forgotten(volume, handle, segment).await;
    });
    assert_trimmed(&array);
}

/// A drive out of service does not learn of deaths; a zone that cannot be erased would bring a
/// segment back.
#[test]
fn a_drive_that_cannot_be_erased_does_not_come_back() {
    let array = copies(2);
    let (zone, segment) = live(&array, async |volume, _, handle| {
        put_run(volume, handle, SEGMENT_BLOCKS, 1).await;
        let segments = volume.segments();
        let first = segments.iter().find(|segment| segment.phase == SegmentPhase::Sealed).unwrap();
        let (zone, segment) = (ZoneId(first.zones[0].unwrap()), first.segment);
        array.drives[0].set_read_only(zone);
        volume.fail(0).await.unwrap();
        let back = volume.replace(0, array.drives[0].attach(handle), MemberUuid(uuid(3, 51)));
        assert_eq!(back.await, Err(ReplaceError::KeepsSegments { zone }));
        (zone, segment)
    });
    // Nor if its first block, or the blocks behind it, cannot be read.
    for offset in [0, 1] {
        live(&array, async |volume, _, handle| {
            let at = Selector::next(CommandKind::Read)
                .in_zone(zone)
                .touching(offset..offset + 1)
                .always();
            array.drives[0].inject(at, FaultAction::Fail(Status::UnrecoveredRead));
            let back = volume.replace(0, array.drives[0].attach(handle), MemberUuid(uuid(3, 51)));
            assert_eq!(back.await, Err(ReplaceError::KeepsSegments { zone }));
            array.drives[0].faults(|plan| plan.clear());
        });
    }
    live(&array, async |volume, _, handle| {
        trim_until_forgotten(volume, handle, segment).await;
    });
    assert_trimmed(&array);
    assert_hit(&[Mark::FormerMemberRefused]);
}

/// A zone that holds nothing of this array may stay as it is.
#[test]
fn a_drive_with_read_only_zones_of_others_is_taken() {
    let mut array = copies_of(1, 2);
    let used = copies(9);
    let zone = live(&used, async |volume, _, handle| {
        put_run(volume, handle, SEGMENT_BLOCKS, 1).await;
        // Its membership has changed more often than that of the array the drive comes to.
        for byte in 60..64 {
            volume.fail(1).await.unwrap();
            let back = volume.replace(1, used.drives[1].attach(handle), MemberUuid([byte; 16]));
            back.await.unwrap();
        }
        let segments = volume.segments();
        let first = segments.iter().find(|segment| segment.phase == SegmentPhase::Sealed).unwrap();
        ZoneId(first.zones[0].unwrap())
    });
    let other = used.drives.into_iter().next().unwrap();
    let superblock = [ZoneId(0), ZoneId(1)].into_iter();
    let mut superblock = superblock.filter(|zone| other.zone(*zone).write_pointer.0 > 0);
    for zone in [superblock.next().unwrap(), zone] {
        other.set_read_only(zone);
    }
    live(&array, async |volume, _, handle| {
        put_run(volume, handle, SEGMENT_BLOCKS, 1).await;
        volume.fail(0).await.unwrap();
        let put = volume.replace(0, other.attach(handle), MemberUuid(uuid(3, 51)));
        put.await.unwrap();
    });
    other.process_kill(1);
    array.drives[0] = other;
    for version in 2..5 {
        live(&array, async |volume, _, handle| {
            assert_eq!(volume.status().members[0].state, MemberHealth::Online);
            assert_holds(volume, SEGMENT_BLOCKS, version - 1).await;
            // Records until all superblock zones were filled.
            for _ in 0..60 {
                put_run(volume, handle, SEGMENT_BLOCKS, version).await;
            }
        });
    }
    assert_hit(&[Mark::FormerRecordsLeftOut]);
}

/// Headers of a dead segment that are left list a zone of a former drive, where the new one has a
/// column of a live segment.
#[test]
fn a_dead_segment_takes_no_zone_that_cannot_be_read() {
    let mut array = copies(2);
    let fresh = support::new_drive(&array.shape, &mut Random::new(77));
    let zone = live(&array, async |volume, _, handle| {
        for lba in 0..60 {
            put(volume, lba, 1).await.unwrap();
        }
        volume.flush().await.unwrap();
        handle.sleep(Nanos::from_millis(20)).await;
        let segments = volume.segments();
        let mut sealed = segments.iter().filter(|segment| segment.phase == SegmentPhase::Sealed);
        let (alive, dying) = (sealed.next().unwrap(), sealed.next().unwrap());
        array.drives[0].set_read_only(ZoneId(dying.zones[0].unwrap()));
        // Everything that is not of the first segment goes.
        volume.trim(Lba(20), 40, false).await.unwrap();
        gone(volume, handle, dying.segment).await;
        volume.fail(1).await.unwrap();
        let back = volume.replace(1, fresh.attach(handle), MemberUuid(uuid(3, 51)));
        back.await.unwrap();
        let now = volume.segments();
        let now = now.iter().find(|known| known.segment == alive.segment).unwrap();
        ZoneId(now.zones[1].unwrap())
    });
    fresh.process_kill(1);
    array.drives[1] = fresh;
    let array = array;
    let before = array.drives[1].zone(zone).write_pointer;
    hide(&array, 1, zone);
    live(&array, async |volume, _, _| {
        assert_holds(volume, 20, 1).await;
    });
    assert_eq!(array.drives[1].zone(zone).write_pointer, before, "a live column was reset");
}
