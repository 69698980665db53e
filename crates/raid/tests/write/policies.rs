//! Several segments open at a time, of several shapes, and changed from one start to the next.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::life::{assert_holds, live, one_life, open_segments, put, put_many, with};
use crate::support::{Array, Shape, contents, executor, new_drive, offer};
use zoneweave_emulator::{CommandKind, CrashChoices, FaultAction, Request, Selector};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{
    Collection, LaneOptions, Lanes, MemberHealth, OpenError, PolicyError, SegmentPhase, Volume,
    WritePolicy, open_array,
};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba, ZoneId, ZoneOffset};

const SMALL: Lanes = Lanes { count: 2, chunk_blocks: 1 };
const LARGE: Lanes = Lanes { count: 1, chunk_blocks: 2 };

fn roomy() -> Array {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    Array::create(shape, &mut Random::new(4))
}

/// Small requests go to the segments with small chunks, to one of them by Zone Append; large ones
/// to those with large chunks.
#[test]
fn each_class_of_requests_has_segments_of_its_own() {
    let array = roomy();
    let policy = WritePolicy::zapraid(SMALL, LARGE, 4);
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put_many(volume, handle, 1, 40, 1).await;
        let shapes = |volume: &Volume| {
            let mut shapes: Vec<_> = open_segments(volume)
                .into_iter()
                .map(|segment| (segment.chunk_blocks, segment.appended))
                .collect();
            shapes.sort_unstable();
            shapes
        };
        assert_eq!(shapes(volume), [(1, false), (1, true)]);
        put_many(volume, handle, 2, 20, 2).await;
        assert_eq!(shapes(volume), [(1, false), (1, true), (2, false)]);
        assert_holds(volume, 40, 2).await;
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 40, 2).await);
}

/// Segments written under one policy are read, relocated and continued under others.
#[test]
fn policies_can_be_changed_at_every_start() {
    let array = roomy();
    let policies = [
        WritePolicy::zone_write(SMALL, LARGE),
        WritePolicy::zone_append(SMALL, LARGE),
        WritePolicy::zapraid(SMALL, LARGE, 8),
        WritePolicy::adaptive(SMALL, LARGE),
        WritePolicy::zapraid(Lanes { count: 1, chunk_blocks: 2 }, Lanes::default(), 256),
    ];
    let mut version = 0;
    for policy in policies.iter().cycle().take(15) {
        let life = one_life(&array, &[], with(policy.clone()), async |volume, _, handle| {
            if version > 0 {
                assert_holds(volume, 280, version).await;
            }
            for _ in 0..4 {
                version += 1;
                put_many(volume, handle, 1 + version % 4, 280 / (1 + version % 4), version).await;
            }
            volume.assert_consistent();
        });
        life.expect("the array starts");
    }
}

/// Where there is no room for a segment of each class, one serves both.
#[test]
fn a_full_volume_is_written_through_whatever_segment_is_open() {
    let shape = Shape { zones: 8, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let policy = WritePolicy {
        small: vec![LaneOptions::zone_write(1); 2],
        large: vec![LaneOptions::zone_append(1, 4)],
        relocation: LaneOptions::zone_write(1),
        collection: Collection::Greedy,
        lifetimes: false,
        spare_for_lifetimes: 1,
        large_from_blocks: 2,
        fast_drives: false,
        even_blocks: None,
        narrow: false,
    };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        for version in 1..12 {
            let blocks = 1 + version % 2;
            put_many(volume, handle, blocks, array.blocks / blocks, version).await;
        }
        assert!(open_segments(volume).len() <= 2, "one for users, one for what is moved");
    });
    life.expect("the array starts");
}

/// Pending blocks wait for no particular zone before a slow zone can be distinguished from a
/// hanging one.
#[test]
fn no_more_is_under_way_in_each_segment_than_keeps_drives_busy() {
    let array = roomy();
    let none = Lanes { count: 0, ..SMALL };
    // One more segment would make groups so small that they limit the writes in flight.
    let adaptive = WritePolicy::adaptive(SMALL, none);
    let policy = WritePolicy { even_blocks: Some(1), narrow: false, ..adaptive };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put_many(volume, handle, 1, 12, 1).await;
        assert_eq!(open_segments(volume).len(), 2);
        let hang = FaultAction::Slow(Nanos::from_secs(1));
        array.drives[1].inject(Selector::next(CommandKind::Write).times(1), hang);
        let done = Rc::new(Cell::new(0));
        let writes = (0..60).map(|lba| {
            let (volume, done) = (volume.clone(), done.clone());
            handle.spawn("write", async move {
                put(&volume, lba, 2).await.unwrap();
                done.set(done.get() + 1);
            })
        });
        let writes: Vec<_> = writes.collect();
        handle.sleep(Nanos::from_millis(500)).await;
        assert!(
            done.get() >= 60 - 4 * 3,
            "only {} of 60 are done: more than four stripes wait",
            done.get()
        );
        for write in writes {
            write.await;
        }
        assert_holds(volume, 60, 2).await;
    });
    life.expect("the array starts");
}

/// A policy that does not fit is refused before anything is written.
#[test]
fn a_policy_that_does_not_fit_is_refused() {
    let array = roomy();
    let before: Vec<_> =
        array.drives.iter().map(|drive| drive.zone(zoneweave_zoned::ZoneId(0))).collect();
    let huge = WritePolicy::zone_write(SMALL, Lanes { count: 1, chunk_blocks: 39 });
    let refused = one_life(&array, &[], with(huge), async |_, _, _| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Policy(PolicyError::Shape)));
    let after: Vec<_> =
        array.drives.iter().map(|drive| drive.zone(zoneweave_zoned::ZoneId(0))).collect();
    assert_eq!(before, after);
}

/// A write in flight when the process was killed: executed, or not.
struct UnderWay(bool);

impl CrashChoices for UnderWay {
    fn happens(&mut self, _: &Request) -> bool {
        self.0
    }

    fn kept(&mut self, _: ZoneId, promised: ZoneOffset, written: ZoneOffset) -> ZoneOffset {
        if self.0 { written } else { promised }
    }
}

/// A drive stalls while seven segments are filled, and the process is killed: every stripe in
/// flight lacks a chunk. The rewrites of recovery have to fit into the free space, or the array
/// would never start again.
#[test]
fn stripes_under_way_in_many_segments_are_written_again() {
    let shape = Shape { zones: 14, zone_blocks: 40, volume_blocks: Some(864), ..Shape::small() };
    let array = Array::without_limits(shape);
    let policy = WritePolicy::zone_append(Lanes { count: 7, chunk_blocks: 1 }, Lanes::default());
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let drives = offer(&array.drives, &handle, &[]);
        let (volume, _) = open_array(&handle, drives, with(policy)).await.unwrap();
        put(&volume, 0, 1).await.unwrap();
        handle.sleep(Nanos::from_millis(50)).await;
        array.drives[3].set_slowness(1_000_000);
        for at in 1..736 {
            let volume = volume.clone();
            handle.spawn("write", async move { put(&volume, at, 1).await });
        }
        handle.sleep(Nanos::from_millis(50)).await;
    });
    for (at, drive) in array.drives.iter().enumerate() {
        drive.process_kill_by(&mut UnderWay(at < 3));
    }
    array.drives[3].set_slowness(1);
    drop(executor);
    live(&array, async |volume, report, _| {
        assert!(report.rescued_stripes > 0);
        volume.assert_consistent();
    });
}

/// One zone of a drive is lost. The array has zones enough as it was made, not for chunks so large:
/// that is no reason to put the drive out of service.
#[test]
fn a_policy_does_not_cost_a_member() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(792), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    array.drives[2].set_offline(ZoneId(12));
    let one = |chunk_blocks| Lanes { count: 1, chunk_blocks };
    let large = with(WritePolicy::zone_write(one(1), one(4)));
    let refused = one_life(&array, &[], large, async |_, _, _| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Policy(PolicyError::TooFull { chunk_blocks: 4, .. })));
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().members[2].state, MemberHealth::Online)
    });
}

/// If both classes share a segment, the one that has waited longest is next.
#[test]
fn large_requests_do_not_wait_for_ever() {
    let array = Array::create(Shape { zones: 8, ..Shape::small() }, &mut Random::new(4));
    let policy = WritePolicy {
        small: vec![LaneOptions::zone_write(1)],
        large: vec![LaneOptions::zone_write(1)],
        relocation: LaneOptions::zone_write(1),
        collection: Collection::Greedy,
        lifetimes: false,
        spare_for_lifetimes: 1,
        large_from_blocks: 2,
        fast_drives: false,
        even_blocks: None,
        narrow: false,
    };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put_many(volume, handle, 1, array.blocks, 1).await;
        let done = Rc::new(Cell::new(0));
        let small = (0..16).map(|worker| {
            let (volume, done, blocks) = (volume.clone(), done.clone(), array.blocks);
            let mut random = Random::new(worker);
            handle.spawn("small", async move {
                for version in 2..202 {
                    put(&volume, random.below(blocks), version).await.unwrap();
                    done.set(done.get() + 1);
                }
            })
        });
        let small: Vec<_> = small.collect();
        while done.get() < 100 {
            handle.sleep(Nanos::from_micros(100)).await;
        }
        let before = done.get();
        volume.write(Lba(0), vec![contents(0, 9), contents(1, 9)], false).await.unwrap();
        let waited = done.get() - before;
        for one in small {
            one.await;
        }
        assert!(waited < 300, "{waited} small requests went first");
    });
    life.expect("the array starts");
}

fn for_fast_drives() -> WritePolicy {
    let (small, large) = (Lanes { count: 1, chunk_blocks: 1 }, Lanes { count: 1, chunk_blocks: 4 });
    WritePolicy { fast_drives: true, ..WritePolicy::adaptive(small, large) }
}

/// Many small requests fill stripes of larger chunks; few are not padded to one.
#[test]
fn small_requests_go_to_larger_chunks_as_long_as_they_fill_them() {
    let array = roomy();
    let chunks = |volume: &Volume| {
        let mut chunks: Vec<_> =
            open_segments(volume).iter().map(|segment| segment.chunk_blocks).collect();
        chunks.sort_unstable();
        chunks
    };
    let life = one_life(&array, &[], with(for_fast_drives()), async |volume, _, handle| {
        put_many(volume, handle, 1, 5, 1).await;
        assert_eq!(chunks(volume), [1]);
        let before = volume.status().counters.padding_blocks;
        put_many(volume, handle, 1, 120, 2).await;
        assert_eq!(chunks(volume), [1, 4]);
        let padding = volume.status().counters.padding_blocks - before;
        assert!(padding < 8, "{padding} blocks of padding for 120");
        assert_holds(volume, 120, 2).await;
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 120, 2).await);
}

/// The pending chunks of a zone are not all written at once, and all of them are there afterwards.
#[test]
fn writes_of_a_zone_are_of_like_size() {
    let array = roomy();
    let lanes = Lanes { count: 1, chunk_blocks: 1 };
    let adaptive = WritePolicy::adaptive(lanes, Lanes::default());
    let policy = WritePolicy { even_blocks: Some(1), ..adaptive };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        for version in 1..4 {
            put_many(volume, handle, 1, 120, version).await;
        }
        assert_holds(volume, 120, 3).await;
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 120, 3).await);
}

/// Small requests wait while a stripe of larger chunks is under way, but not for a pause in these.
#[test]
fn small_requests_do_not_wait_for_ever_for_larger_ones() {
    let array = roomy();
    let policy = WritePolicy { large_from_blocks: 4, ..for_fast_drives() };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        let done = Rc::new(Cell::new(0));
        let large = (0..16).map(|worker| {
            let (volume, done) = (volume.clone(), done.clone());
            let mut random = Random::new(worker);
            handle.spawn("large", async move {
                for version in 2..102 {
                    let lba = random.below(70) * 4;
                    let data = (lba..lba + 4).map(|lba| contents(lba, version)).collect();
                    volume.write(Lba(lba), data, false).await.unwrap();
                    done.set(done.get() + 1);
                }
            })
        });
        let large: Vec<_> = large.collect();
        while done.get() < 100 {
            handle.sleep(Nanos::from_micros(100)).await;
        }
        let before = done.get();
        put(volume, 299, 9).await.unwrap();
        let waited = done.get() - before;
        for one in large {
            one.await;
        }
        assert!(waited < 300, "{waited} large requests went first");
    });
    life.expect("the array starts");
}

/// Blocks that share the lanes of others do not wait for a pause in these, which may never come
/// with two segments that do not end their groups together. Here, blocks are written for the first
/// time, to two segments, and one block repeatedly, which is likely to be short-lived: for that
/// there is a lane, but no room.
#[test]
fn what_has_no_segment_of_its_own_does_not_wait_for_a_pause_in_the_others() {
    let shape =
        Shape { zones: 10, zone_blocks: 2000, volume_blocks: Some(11_000), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let lanes = Lanes { count: 3, chunk_blocks: 1 };
    let policy =
        WritePolicy { lifetimes: true, ..WritePolicy::zone_append(lanes, Lanes::default()) };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put(volume, 0, 1).await.unwrap();
        let next = Rc::new(Cell::new(1));
        let others = (0..48).map(|_| {
            let (volume, next) = (volume.clone(), next.clone());
            handle.spawn("other", async move {
                while next.get() < 10_000 {
                    let lba = next.replace(next.get() + 3);
                    let data = (lba..lba + 3).map(|lba| contents(lba, 1)).collect();
                    volume.write(Lba(lba), data, false).await.unwrap();
                }
            })
        });
        let others: Vec<_> = others.collect();
        let mut longest = 0;
        while next.get() < 9_000 {
            handle.sleep(Nanos::from_millis(1)).await;
            assert_eq!(open_segments(volume).len(), 2);
            let before = next.get();
            put(volume, 0, 2).await.unwrap();
            longest = longest.max((next.get() - before) / 3);
        }
        for one in others {
            one.await;
        }
        assert!(longest <= 150, "{longest} others went first");
    });
    life.expect("the array starts");
}

/// Relocated blocks go to two segments while one zone of every drive is spare, and to one when none
/// is: otherwise users might wait for the space in a half-full segment.
#[test]
fn what_is_moved_goes_to_two_segments_while_there_is_one_to_spare() {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(950), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let one = Lanes { count: 1, chunk_blocks: 1 };
    let policy =
        WritePolicy { spare_for_lifetimes: 1, ..WritePolicy::adaptive(one, Lanes::default()) };
    let moved = async |volume: &Volume, handle: &Handle| {
        while volume.segments().iter().any(|segment| segment.phase == SegmentPhase::Leftover) {
            handle.sleep(Nanos::from_millis(1)).await;
        }
    };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put_many(volume, handle, 3, 40, 1).await;
        // Open segments are given up and relocated: their blocks have not outlived anything yet.
        volume.fail(3).await.unwrap();
        moved(volume, handle).await;
        put_many(volume, handle, 3, 20, 2).await;
        assert_eq!(open_segments(volume).len(), 2);
        // Once more: in addition to the blocks relocated before.
        let new = new_drive(&array.shape, &mut Random::new(5));
        volume.replace(3, new.attach(handle), MemberUuid([7; 16])).await.unwrap();
        moved(volume, handle).await;
        put(volume, 0, 2).await.unwrap();
        assert_eq!(open_segments(volume).len(), 3);
        let full = |volume: &Volume| {
            volume.segments().into_iter().find(|segment| segment.phase == SegmentPhase::Sealed)
        };
        put_many(volume, handle, 3, 60, 3).await;
        let zone = full(volume).expect("a segment is full").zones[2].unwrap();
        array.drives[2].set_offline(ZoneId(zone));
        put_many(volume, handle, 3, 60, 4).await;
        handle.sleep(Nanos::from_millis(50)).await;
        put(volume, 0, 4).await.unwrap();
        assert_eq!(open_segments(volume).len(), 2);
        assert_holds(volume, 180, 4).await;
        volume.assert_consistent();
    });
    life.expect("the array starts");
}

/// Before lifetimes are known, all writes go to both segments alike, although first writes are
/// expected to live long, and overwrites to be short-lived.
#[test]
fn no_segment_idles_before_lives_are_known() {
    let array = roomy();
    let two = Lanes { count: 2, chunk_blocks: 1 };
    // Groups would be smaller with one segment more, and end sooner.
    let policy = WritePolicy { narrow: false, ..WritePolicy::adaptive(two, Lanes::default()) };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        let rows = |volume: &Volume| -> Vec<u32> {
            open_segments(volume).iter().map(|segment| segment.rows_started).collect()
        };
        // The first segment takes all writes until the second one is open.
        put_many(volume, handle, 1, 30, 1).await;
        let first = rows(volume);
        assert_eq!(first.len(), 2, "one segment is filled alone");
        put_many(volume, handle, 1, 60, 2).await;
        let grown: Vec<_> =
            rows(volume).iter().zip(first).map(|(rows, first)| rows - first).collect();
        assert!(grown.iter().all(|rows| *rows >= 6), "{grown:?} rows more");
        assert_holds(volume, 60, 2).await;
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 60, 2).await);
}

/// Eight requests of one block are in flight, and six fill a stripe. Clients answered by a stripe
/// send their next requests before another stripe is closed. Otherwise it would be closed for the
/// two that are left, and so every other one, for ever, with 596 blocks of padding here.
#[test]
fn who_was_answered_runs_before_a_stripe_is_closed() {
    let shape = Shape { zone_blocks: 400, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let one = Lanes { count: 1, chunk_blocks: 2 };
    let policy = WritePolicy::adaptive(one, Lanes::default());
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put(volume, 0, 1).await.unwrap();
        let before = volume.status().counters.padding_blocks;
        write_in_turn(volume, handle, 8, 1200).await;
        let padded = volume.status().counters.padding_blocks - before;
        assert!(padded <= 12, "{padded} blocks of padding beside 1200 of users");
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 1200, 1).await);
}

/// So many writers, each of which waits for its answer, write so many blocks.
async fn write_in_turn(volume: &Volume, handle: &Handle, writers: u64, blocks: u64) {
    let next = Rc::new(Cell::new(0));
    let writers = (0..writers).map(|_| {
        let (volume, next, turns) = (volume.clone(), next.clone(), handle.clone());
        handle.spawn("writer", async move {
            while next.get() < blocks {
                let lba = next.replace(next.get() + 1);
                put(&volume, lba, 1).await.unwrap();
                // The task that passes the answer on, and the next request.
                turns.yield_now().await;
                turns.yield_now().await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await;
    }
}
