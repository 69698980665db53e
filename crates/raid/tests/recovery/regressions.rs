//! Bugs that are not to come back: each test tells the story of one.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use crate::support::life::{assert_holds, live, member, one_life, put, put_all, refused, roles};
use crate::support::{Array, Shape, contents, executor, new_drive, offer, read_all, uuid};
use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::log::format::{Lineage, MemberUuid};
use zoneweave_raid::log::{
    AdminError, AssemblyError, DriveRole, Health, Lanes, MemberHealth, OpenError, OpenOptions,
    OpenReport, ReplaceError, SegmentPhase, Volume, WriteChoice, WritePolicy, open_array,
};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, JoinHandle, Nanos, Random};
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockError, Extent, ExtentState, Lba, Status, ZoneAddress, ZoneId,
};

/// The blocks of a zone of [`shape`] that hold the last index run.
const INDEX_RUN: std::ops::Range<u32> = 22..24;

fn shape(data: usize, parity: usize) -> Shape {
    Shape { data, parity, tabled: false, ..Shape::small() }
}

/// Blocks of earlier groups are identified by their metadata alone: it has to verify.
#[test]
fn metadata_of_earlier_groups_is_not_believed_unseen() {
    for tabled in [false, true] {
        let array = Array::create(Shape { tabled, ..Shape::small() }, &mut Random::new(15));
        live(&array, async |volume, _, _| put_all(volume, 12, 1).await);
        let drive = &array.drives[1];
        let open =
            (2..array.shape.zones).map(ZoneId).find(|zone| drive.zone(*zone).state.is_active());
        for row in 1..=array.shape.group_rows {
            let at = ZoneAddress::new(open.unwrap(), row);
            let mut block = drive.peek(at, BlockCount(1));
            let mut beside = block.oob.to_vec();
            // Its block of the volume becomes another one.
            beside[0] ^= 1;
            block.oob = beside.into();
            drive.overwrite(at, &block);
        }
        live(&array, async |volume, report, _| {
            assert_eq!(report.leftover_segments, 1);
            assert_holds(volume, 12, 1).await;
        });
    }
}

/// A drive was evicted, users went on writing, and at the next start a good drive was missing. The
/// start used the membership from before the eviction, as enough of its drives were there. The
/// stale drive was let in and served overwritten data, and the good drive was thrown out. A start
/// must never use a version older than one that may have counted.
#[test]
fn an_evicted_member_is_not_let_in_for_a_missing_one() {
    for (data, parity) in [(2, 1), (3, 1)] {
        let array = Array::create(shape(data, parity), &mut Random::new(7));
        let evicted = array.shape.columns() - 1;
        live(&array, async |volume, _, _| {
            put_all(volume, 12, 1).await;
            volume.fail(evicted).await.unwrap();
            put_all(volume, 12, 2).await;
            volume.close().await.unwrap();
        });
        let error = refused(&array, &[0]);
        let present = data - 1;
        assert!(
            matches!(&error, OpenError::Array(AssemblyError::TooFewMembers { present: p, .. }) if *p == present),
            "{error}"
        );
        live(&array, async |volume, report, _| {
            let mut expected: Vec<_> = (0..evicted).map(member).collect();
            expected.push(DriveRole::Stale { slot: Column::of(evicted) });
            assert_eq!(roles(report), expected);
            assert_holds(volume, 12, 2).await;
        });
    }
}

/// An array whose last slot's drive is new, and not in use yet.
fn full_array_with_a_new_drive(salt: u64) -> Array {
    let mut random = Random::new(salt);
    let mut array = Array::create(shape(3, 1), &mut random);
    live(&array, async |volume, _, _| {
        put_all(volume, array.blocks, 1).await;
        volume.close().await.unwrap();
    });
    array.drives[3] = new_drive(&array.shape, &mut random);
    array
}

/// Starts with slot 3 empty, begins to rebuild it, and runs a test until the process is killed.
fn while_rebuilding(array: &Array, test: impl AsyncFnOnce(&Volume, &Handle)) {
    let life = async |volume: &Volume, _: &OpenReport, handle: &Handle| {
        let device = array.drives[3].attach(handle);
        let replace = async {
            let replaced = volume.replace(3, device, MemberUuid(uuid(1, 77))).await;
            assert_eq!(replaced.is_err(), volume.info().read_only, "{replaced:?}");
            futures_util::future::pending::<()>().await;
        };
        let meanwhile = async {
            // A rebuild is shown while the record with the drive's name is still being written.
            while volume.status().rebuild.is_none_or(|progress| progress.done == 0) {
                handle.sleep(Nanos::from_micros(10)).await;
            }
            assert_eq!(volume.status().members[3].state, MemberHealth::Rebuilding);
            test(volume, handle).await;
        };
        futures_util::future::select(Box::pin(replace), Box::pin(meanwhile)).await;
    };
    one_life(array, &[3], OpenOptions::default(), life).expect("the array starts");
}

/// A member under rebuild counted as redundancy from the moment it was put in: the administrator
/// could fail one of the drives it was rebuilt from, which lost every block not yet rebuilt.
/// Until the rebuild has come to its end, the member counts as lost.
#[test]
fn a_source_of_a_rebuild_cannot_be_failed() {
    let array = full_array_with_a_new_drive(14);
    while_rebuilding(&array, async |volume, handle| {
        let refusal = Err(AdminError::WouldLoseData { slot: Column::of(0) });
        assert_eq!(volume.fail(0).await, refusal);
        assert_eq!(volume.status().health, Health::Degraded);
        while volume.status().health != Health::Healthy {
            handle.sleep(Nanos::from_micros(10)).await;
        }
    });
    live(&array, async |volume, report, _| {
        assert_eq!(roles(report), (0..4).map(member).collect::<Vec<_>>());
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, array.blocks, 1).await;
    });
}

/// For the same reason writes went on when a source of a rebuild vanished, and the eviction was
/// recorded: when the drive came back it was stale, and its data gone. The rebuild continued with
/// the other drives, to a column without the source's entries. Now writes stop, nothing is
/// recorded, and with the drive back everything is there, whenever the process ended.
#[test]
fn writes_stop_when_a_source_of_a_rebuild_vanishes() {
    for pause in (0..60).map(|at| Nanos::from_micros(at * 100)) {
        let array = full_array_with_a_new_drive(16);
        while_rebuilding(&array, async |volume, handle| {
            array.drives[0].set_gone(true);
            // Drives are found gone when they are used.
            while !volume.info().read_only {
                let _ = put(volume, 0, 1).await;
                handle.sleep(Nanos::from_micros(10)).await;
            }
            assert!(matches!(put(volume, 0, 2).await, Err(BlockError::ReadOnly { .. })));
            assert_eq!(volume.status().health, Health::Failed);
            handle.sleep(pause).await;
        });
        array.drives[0].set_gone(false);
        goes_on_rebuilding(&array);
    }
}

/// With every drive back, nothing is lost, before and after the rest of the rebuild.
fn goes_on_rebuilding(array: &Array) {
    live(array, async |volume, report, _| {
        assert_eq!(roles(report)[..3], [member(0), member(1), member(2)]);
        assert_holds(volume, array.blocks, 1).await;
        volume.resume_rebuild().await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, array.blocks, 1).await;
    });
}

/// A start in the middle of a rebuild, without one of its sources, counted the half-built member
/// as a whole one, started, and evicted the source. Now it is refused and writes nothing.
#[test]
fn a_start_without_a_source_of_a_rebuild_is_refused() {
    let array = full_array_with_a_new_drive(15);
    while_rebuilding(&array, async |_, _| {});
    let error = refused(&array, &[0]);
    assert!(
        matches!(
            &error,
            OpenError::Stopped(_) | OpenError::Array(AssemblyError::TooFewMembers { .. })
        ),
        "{error}"
    );
    goes_on_rebuilding(&array);
}

/// One drive of three was started by force and written to. Later all three were offered, and the
/// two left behind, being more, won: flushed writes since the forced start were gone. The forced
/// history has the higher epoch and continues; the other drives do not belong to it. One drive of
/// three is still no majority, so its next start takes force again, but it cannot be outvoted.
#[test]
fn a_forced_history_is_not_outvoted_by_those_left_behind() {
    let array = Array::create(shape(1, 2), &mut Random::new(8));
    live(&array, async |volume, _, _| {
        put_all(volume, 9, 1).await;
        volume.close().await.unwrap();
    });
    let no_quorum = |error: &OpenError| {
        assert!(
            matches!(error, OpenError::Array(AssemblyError::NoQuorum { present: 1, total: 3, .. })),
            "{error}"
        );
    };
    no_quorum(&refused(&array, &[1, 2]));
    let force =
        |lineage| OpenOptions { force: true, lineage: Lineage(lineage), ..OpenOptions::default() };
    let forced = one_life(&array, &[1, 2], force(4242), async |volume, _, _| {
        put_all(volume, 9, 2).await;
        volume.close().await.unwrap();
    });
    forced.expect("the array starts");
    no_quorum(&refused(&array, &[]));
    let again = one_life(&array, &[], force(4243), async |volume, report, _| {
        assert_eq!(roles(report)[0], member(0));
        for role in &roles(report)[1..] {
            assert!(matches!(role, DriveRole::Foreign { .. }), "{role:?}");
        }
        assert_holds(volume, 9, 2).await;
    });
    again.expect("the array starts");
}

/// The collector queued listed blocks in batches and waited for a batch's stripes to fill. Where
/// users overwrote or trimmed most of the later batches, the blocks that were left filled none,
/// and the collector waited for ever. A batch that is short is written as it is.
#[test]
fn reclaiming_ends_though_what_is_listed_dies() {
    for salt in 0..4 {
        let zone_blocks = 2100;
        let shape = Shape { zone_blocks, group_rows: 256, ..Shape::small() };
        let array = Array::create(shape, &mut Random::new(10 + salt));
        live(&array, async |volume, _, handle| {
            let total = 5900;
            let data = (0..total).map(|lba| contents(lba, 1)).collect();
            volume.write(Lba(0), data, false).await.unwrap();
            let trims = trim_most(volume, handle, total, salt);
            let (scrubbed, ()) = futures_util::future::join(volume.scrub(), trims).await;
            scrubbed.unwrap();
            while volume.segments().iter().any(|segment| segment.phase == SegmentPhase::Leftover) {
                handle.sleep(Nanos::from_millis(1)).await;
            }
            volume.assert_consistent();
        });
    }
}

/// Trims all but a few blocks, once reclaiming has begun.
async fn trim_most(volume: &Volume, handle: &Handle, total: u64, salt: u64) {
    while volume.status().counters.relocated_blocks == 0 {
        handle.sleep(Nanos::from_micros(50)).await;
    }
    let kept = |lba: &u64| *lba == total || Random::new(lba * 7919 + salt).per_mille(2 + salt % 20);
    let mut trims = Vec::new();
    let mut start = 0;
    for lba in (0..=total).filter(kept) {
        if lba > start {
            trims.push(volume.trim(Lba(start), lba - start, false));
        }
        start = lba + 1;
    }
    for trimmed in futures_util::future::join_all(trims).await {
        trimmed.unwrap();
    }
}

/// A member vanished while another was slow with its summary. The segment was abandoned, relocated,
/// reset and its slot used again, all while the summary was in flight, which then hit a segment
/// that was not there. A task that writes a header or a summary pins the segment.
#[test]
fn a_segment_is_held_while_its_index_run_is_written() {
    let array = Array::create(shape(3, 1), &mut Random::new(11));
    live(&array, async |volume, _, handle| {
        let run = || Selector::next(CommandKind::Write).in_zone(ZoneId(2)).touching(INDEX_RUN);
        array.drives[0].inject(run(), FaultAction::Gone);
        array.drives[1].inject(run(), FaultAction::Slow(Nanos::from_millis(1000)));
        for at in 0..70 {
            put(volume, at % 9, at).await.unwrap();
        }
        assert_eq!(volume.status().members[0].state, MemberHealth::Failed);
        assert!(volume.status().counters.segments_abandoned > 0);
        handle.sleep(Nanos::from_millis(3000)).await;
        for at in 0..200 {
            put(volume, at % 9, at / 9 + 1).await.unwrap();
        }
        put_all(volume, 9, 99).await;
        assert_holds(volume, 9, 99).await;
        volume.assert_consistent();
    });
}

/// A member took headers and resets but failed every chunk. Each header that it took ended the
/// row of failures after which a member is evicted, so it never was, and each write was tried in
/// one new segment after the other. Only a chunk that arrives ends the row.
#[test]
fn a_member_that_takes_headers_but_no_chunks_is_evicted() {
    let array = Array::create(shape(3, 1), &mut Random::new(9));
    live(&array, async |volume, _, _| {
        for zone in (2..array.shape.zones).map(ZoneId) {
            let chunks = Selector::next(CommandKind::Write).touching(1..array.shape.zone_blocks);
            let fault = FaultAction::Fail(Status::WriteFault);
            array.drives[2].inject(chunks.in_zone(zone).always(), fault);
        }
        put_all(volume, 9, 1).await;
        assert_eq!(volume.status().members[2].state, MemberHealth::Failed);
        assert_holds(volume, 9, 1).await;
    });
}

/// Two members failed within one superblock commit. The commit stopped the array without waking any
/// task: writes and flushes that waited for the membership to settle waited for ever. Every stop of
/// the array opens the gate.
#[test]
fn a_commit_that_stops_the_array_wakes_everybody() {
    let array = Array::create(shape(3, 1), &mut Random::new(12));
    live(&array, async |volume, _, handle| {
        put_all(volume, 9, 1).await;
        let records = || Selector::next(CommandKind::Write).in_zone(ZoneId(1));
        let fail = FaultAction::Fail(Status::WriteFault);
        // As often as a record is tried.
        array.drives[0].inject(records().times(3), fail);
        array.drives[1].inject(records().after(1).times(3), fail);
        array.drives[2].inject(records().after(1), FaultAction::Slow(Nanos::from_millis(50)));
        // It records deaths, which fails the first member.
        let _ = volume.scrub().await;
        while volume.status().members[0].state == MemberHealth::Online {
            handle.sleep(Nanos::from_micros(20)).await;
        }
        let flush = volume.flush();
        let write = put(volume, 3, 5);
        let (flushed, written) = futures_util::future::join(flush, write).await;
        assert!(flushed.is_err(), "a flush that could not be promised is an error");
        assert!(matches!(written, Err(BlockError::ReadOnly { .. })), "{written:?}");
        assert_eq!(volume.status().health, Health::Failed);
    });
}

/// Users of an array without caches are told that they need not flush. A replacement that had a
/// cache was never flushed: a power loss took acknowledged writes. Now each write to such a member
/// is durable by itself.
#[test]
fn a_replacement_with_a_cache_keeps_the_promise() {
    let mut random = Random::new(13);
    let mut array = Array::create(shape(3, 1), &mut random);
    array.drives[3] = new_drive(&Shape { volatile: true, ..array.shape }, &mut random);
    let life = one_life(&array, &[3], OpenOptions::default(), async |volume, _, handle| {
        let device = array.drives[3].attach(handle);
        volume.replace(3, device, MemberUuid(uuid(1, 77))).await.unwrap();
        assert!(!volume.info().volatile_cache, "the promise stands");
        for version in 1..=8 {
            for lba in 0..30 {
                put(volume, lba, version).await.unwrap();
            }
        }
    });
    life.expect("the array starts");
    array.drives.iter().for_each(|drive| drive.power_loss(5));
    // Without one of the others, the blocks on the replacement are needed.
    let without = one_life(&array, &[0], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, 30, 8).await;
    });
    without.expect("the array starts");
}

/// Where every write is durable by itself nothing is ever flushed. The lists that close a segment
/// were not written durably: with the power all segments sealed so far became unfinished ones, each
/// with an active zone of every drive, and at the limit of those the next start evicted members.
#[test]
fn sealed_segments_stay_sealed_without_power_where_nothing_is_flushed() {
    let shape = Shape { volatile: true, writethrough: Some(true), ..Shape::small() };
    let blocks = 198;
    for seed in 0..4 {
        let array = Array::create(shape, &mut Random::new(14 + seed));
        let sealed = live(&array, async |volume, _, _| {
            for lba in (0..blocks).step_by(6) {
                let data = (lba..lba + 6).map(|lba| contents(lba, 1)).collect();
                volume.write(Lba(lba), data, false).await.unwrap();
            }
            volume.segments().iter().filter(|segment| segment.phase == SegmentPhase::Sealed).count()
        });
        assert!(sealed >= 3, "{sealed} sealed segments");
        array.drives.iter().for_each(|drive| drive.power_loss(seed));
        live(&array, async |volume, report, _| {
            assert!(report.leftover_segments <= 1, "{report:?}");
            assert_holds(volume, blocks, 1).await;
        });
    }
}

/// Writes of so many stripes, all under way.
fn sixty_stripes(volume: &Volume, handle: &Handle) -> Vec<JoinHandle<Result<(), BlockError>>> {
    let write = |lba| {
        let volume = volume.clone();
        handle.spawn("write", async move { put(&volume, lba, 2).await })
    };
    (0..180).map(write).collect()
}

fn wide(salt: u64) -> (Array, RamDrive) {
    let mut random = Random::new(salt);
    let shape = Shape { zones: 14, zone_blocks: 128, group_rows: 64, ..shape(3, 1) };
    let array = Array::create(shape, &mut random);
    let new = new_drive(&array.shape, &mut random);
    (array, new)
}

/// Pending chunks of a zone were still written to an evicted drive, one after the other, and users
/// waited for it.
#[test]
fn nothing_more_is_written_to_a_drive_that_was_taken_out() {
    let (array, _) = wide(6);
    let one = Lanes { count: 1, chunk_blocks: 1 };
    let writes = WriteChoice::Policy(WritePolicy::zone_write(one, Lanes::default()));
    let options = OpenOptions { writes, ..OpenOptions::default() };
    let life = one_life(&array, &[], options, async |volume, _, handle| {
        put_all(volume, 6, 1).await;
        let writes = Selector::next(CommandKind::Write).in_zone(ZoneId(2)).always();
        array.drives[1].inject(writes, FaultAction::Slow(Nanos::from_millis(1000)));
        let users = sixty_stripes(volume, handle);
        handle.sleep(Nanos::from_millis(5)).await;
        let before = array.drives[1].counters().writes;
        volume.fail(1).await.unwrap();
        for user in users {
            user.await.unwrap();
        }
        assert_eq!(array.drives[1].counters().writes, before);
        assert_holds(volume, 180, 2).await;
    });
    life.expect("the array starts");
}

/// A drive was pulled while a write hung, and replaced; when the write failed at last, that was
/// held against the new drive, which was taken out of service.
#[test]
fn what_a_drive_answers_late_is_not_held_against_its_replacement() {
    let (array, new) = wide(5);
    live(&array, async |volume, _, handle| {
        put_all(volume, 6, 1).await;
        let write = || Selector::next(CommandKind::Write);
        array.drives[1].inject(write(), FaultAction::Slow(Nanos::from_millis(300)));
        array.drives[1].inject(write(), FaultAction::Fail(Status::DeviceGone));
        let users = sixty_stripes(volume, handle);
        handle.sleep(Nanos::from_millis(2)).await;
        volume.drive_lost(1, "pulled").unwrap();
        volume.replace(1, new.attach(handle), MemberUuid(uuid(1, 77))).await.unwrap();
        for user in users {
            user.await.unwrap();
        }
        handle.sleep(Nanos::from_millis(500)).await;
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, 180, 2).await;
    });
}

/// The same, of the very drive that was pulled: it was taken for the member that it had been.
#[test]
fn what_a_drive_answers_late_is_not_held_against_it_when_it_is_put_in_again() {
    let (array, _) = wide(5);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let drives = offer(&array.drives, &handle, &[]);
        let same = drives[1].device.clone();
        let (volume, _) = open_array(&handle, drives, OpenOptions::default()).await.unwrap();
        put_all(&volume, 6, 1).await;
        let write = || Selector::next(CommandKind::Write);
        array.drives[1].inject(write(), FaultAction::Slow(Nanos::from_millis(300)));
        array.drives[1].inject(write(), FaultAction::FailApplied(Status::DeviceGone));
        let users = sixty_stripes(&volume, &handle);
        handle.sleep(Nanos::from_millis(2)).await;
        volume.drive_lost(1, "pulled").unwrap();
        let pulled = handle.now();
        volume.replace(1, same.clone(), MemberUuid(uuid(1, 77))).await.unwrap();
        assert!(handle.now().since(pulled) > Nanos::from_millis(250), "the write is awaited");
        let refused = volume.replace(2, same, MemberUuid(uuid(1, 78))).await;
        assert_eq!(refused, Err(ReplaceError::InService { slot: Column(1) }));
        for user in users {
            user.await.unwrap();
        }
        handle.sleep(Nanos::from_millis(500)).await;
        let status = volume.status();
        assert_eq!(status.health, Health::Healthy);
        assert_eq!(status.members[1].errors.write, 0);
        assert_holds(&volume, 180, 2).await;
        volume.close().await.unwrap();
    });
}

/// A block-by-block trim was relocated: hundreds of extents fit into a few blocks, but were counted
/// as one block each, enough to fill a stripe. The relocation waited for that stripe for ever.
#[test]
fn many_extents_that_are_moved_fill_no_stripe() {
    let shape = Shape { zones: 10, zone_blocks: 2400, chunk_blocks: 4, ..shape(3, 1) };
    let array = Array::create(shape, &mut Random::new(8));
    live(&array, async |volume, _, handle| {
        put_all(volume, 1100, 1).await;
        // The segment with the data is given up and relocated: the trims have a segment for
        // themselves.
        volume.scrub().await.unwrap();
        for lba in 0..530 {
            volume.trim(Lba(lba * 2), 1, false).await.unwrap();
        }
        volume.fail(3).await.unwrap();
        while volume.segments().iter().any(|segment| segment.phase == SegmentPhase::Leftover) {
            handle.sleep(Nanos::from_millis(10)).await;
        }
        let found = read_all(volume, 1100).await.unwrap();
        let expected = |lba: u64| u64::from(lba >= 1060 || lba % 2 == 1);
        assert!((0..).zip(&found).all(|(lba, version)| *version == expected(lba)));
    });
}

/// How often another task that is always ready runs during a request.
async fn turns_during<T>(handle: &Handle, request: impl Future<Output = T>) -> (T, u64) {
    let (turns, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (counted, seen, inner) = (turns.clone(), done.clone(), handle.clone());
    let other = handle.spawn("another", async move {
        while !seen.get() {
            counted.set(counted.get() + 1);
            inner.yield_now().await;
        }
    });
    let result = request.await;
    done.set(true);
    other.await;
    (result, turns.get())
}

/// All that one request asks about was looked at in one go as far as the index was in memory, and
/// nobody else was served meanwhile.
#[test]
fn others_run_while_a_request_looks_at_much_of_the_index() {
    const BLOCKS: u64 = 120_000;
    let zones = Shape { zones: 40, zone_blocks: 2048, group_rows: 64, ..Shape::small() };
    let shape = Shape { volume_blocks: Some(BLOCKS), ..zones };
    let array = Array::create(shape, &mut Random::new(40));
    live(&array, async |volume, _, handle| {
        put(volume, BLOCKS - 1, 1).await.unwrap();
        volume.flush().await.unwrap();
        let told = volume.extents(Lba(0), BLOCKS, 8);
        let (told, while_told) = turns_during(handle, told).await;
        let hole = Extent { blocks: BLOCKS - 1, state: ExtentState::Hole };
        assert_eq!(told.unwrap(), [hole, Extent { blocks: 1, state: ExtentState::Data }]);
        let trim = volume.trim(Lba(0), BLOCKS - 1, false);
        let (trimmed, while_trimmed) = turns_during(handle, trim).await;
        trimmed.unwrap();
        assert!(while_told >= 7 && while_trimmed >= 7, "{while_told} {while_trimmed}");
    });
}
