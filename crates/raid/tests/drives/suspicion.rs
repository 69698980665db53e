//! One drive lies or fails; a start, or the running volume, must not do away with the rest for it.

use std::cell::Cell;
use std::ops::Range;

use crate::support::life::{assert_holds, live, one_life, put, put_all};
use crate::support::{Array, Shape, executor, kill, offer, read_all};
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, Immediate, Selector};
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{Health, OpenOptions, open_array};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, Status, ZoneAction, ZoneAddress, ZoneId};

fn shape(data: usize, parity: usize) -> Shape {
    Shape { data, parity, tabled: false, ..Shape::small() }
}

/// Starts the array and kills it after so many steps; whether it got as far as idling.
fn start_for(array: &Array, steps: u64) -> bool {
    let executor = executor();
    let handle = executor.handle();
    let life = async {
        let drives = offer(&array.drives, &handle, &[]);
        let started = open_array(&handle, drives, OpenOptions::default()).await;
        handle.sleep(Nanos::from_millis(2)).await;
        started.is_ok()
    };
    let mut left = steps;
    let ended = executor.run_until(life, || {
        left -= 1;
        left == 0
    });
    drop(executor);
    kill(array, &mut Random::new(7));
    ended.is_some()
}

/// A drive came back as it was earlier, with segments that were reset on all others since, and
/// another one was away, or had lost a zone: they were taken for segments that had lost their
/// parts.
#[test]
fn segments_that_only_a_stale_drive_has_do_not_keep_the_array_from_starting() {
    for (data, parity, away, worn) in [(2, 2, Some(1), false), (2, 1, None, true)] {
        let blocks = Some(90).filter(|_| worn);
        let shape = Shape { zones: 14, volume_blocks: blocks, ..shape(data, parity) };
        let array = Array::create(shape, &mut Random::new(3));
        live(&array, async |volume, _, _| put_all(volume, 60, 1).await);
        if worn {
            array.drives[1].set_offline(ZoneId(13));
        }
        live(&array, async |volume, _, _| put_all(volume, 60, 2).await);
        let before = array.drives[0].fork(Immediate);
        live(&array, async |volume, _, _| {
            for version in 3..20 {
                put_all(volume, 60, version).await;
            }
        });
        array.drives[0].come_back_stale(&before);
        let without: Vec<_> = away.into_iter().collect();
        let life = one_life(&array, &without, OpenOptions::default(), async |volume, _, _| {
            assert_holds(volume, 60, 19).await;
        });
        life.expect("the array starts");
    }
}

/// Of two versions of a block both were weak, with the same drive to blame. The segment of the
/// older, which had been acknowledged, was freed before the newer one was written again.
#[test]
fn a_weak_copy_is_kept_until_what_supersedes_it_is_whole() {
    let shape = Shape { zones: 12, volume_blocks: Some(60), ..shape(2, 1) };
    for crash in (1..60).step_by(3) {
        let mut steps = 1;
        loop {
            let array = Array::create(shape, &mut Random::new(2));
            let Some(zone) = interrupt_second_write(&array, crash) else { return };
            if array.drives[2].zone(zone).write_pointer.0 < 2 {
                break;
            }
            array.drives[2].set_unreadable(ZoneAddress::new(zone, 1), BlockCount(1));
            let idle = start_for(&array, steps);
            let life = one_life(&array, &[2], OpenOptions::default(), async |volume, _, _| {
                read_all(volume, 6).await.expect("everything is readable")[5]
            });
            let version = life.expect("the array starts");
            assert!([1, 2].contains(&version), "crash {crash}, steps {steps}: version {version}");
            if idle {
                break;
            }
            steps += 11;
        }
    }
}

/// Acknowledges a version of block 5 and kills the volume some steps after the next was asked for,
/// of which one write fails. Returns where drive 2 has the first; `None` if the second was done.
fn interrupt_second_write(array: &Array, steps: u64) -> Option<ZoneId> {
    let executor = executor();
    let handle = executor.handle();
    let (zone, asked) = (Cell::new(ZoneId(0)), Cell::new(false));
    let life = async {
        let drives = offer(&array.drives, &handle, &[]);
        let (volume, _) = open_array(&handle, drives, OpenOptions::default()).await.unwrap();
        put(&volume, 5, 1).await.unwrap();
        let holds_it = |zone: &ZoneId| array.drives[2].zone(*zone).write_pointer.0 == 2;
        zone.set((2..12).map(ZoneId).find(holds_it).expect("a stripe was written"));
        let write = Selector::next(CommandKind::Write);
        array.drives[2].inject(write, FaultAction::Fail(Status::WriteFault));
        asked.set(true);
        put(&volume, 5, 2).await.unwrap();
    };
    let mut left = steps;
    let ended = executor.run_until(life, || {
        left -= u64::from(asked.get());
        left == 0
    });
    drop(executor);
    kill(array, &mut Random::new(steps));
    ended.is_none().then(|| zone.get())
}

/// A drive acknowledged the reset of a zone without doing it, in three copies, and reported that
/// the zone was empty. Its old blocks were as new as their relocated copies: the whole segment with
/// the copies was freed, and then the drive died.
#[test]
fn a_whole_segment_is_not_given_up_for_what_one_drive_still_has() {
    for rounds in [444, 488, 884] {
        try_the_liar(2, 20, rounds);
    }
}

/// The same, with the relocated copies in a segment that was still open when the process was
/// killed. Of two incomplete segments the older one was preferred, which only the faulty drive had.
#[test]
fn an_open_segment_is_not_given_up_for_what_one_drive_still_has() {
    for (parity, rounds) in [(1, 500), (2, 500), (2, 900)] {
        try_the_liar(parity, 24, rounds);
    }
}

fn try_the_liar(parity: usize, blocks: u64, rounds: u64) {
    let mut steps = 40;
    while !survives_the_liar(parity, blocks, rounds, steps) {
        steps += 48;
    }
}

/// Whether the start, killed after so many steps, had got as far as idling by then.
fn survives_the_liar(parity: usize, blocks: u64, rounds: u64, steps: u64) -> bool {
    let shape = Shape { zones: 14, volume_blocks: Some(40), ..shape(1, parity) };
    let array = Array::create(shape, &mut Random::new(3));
    live(&array, async |volume, _, _| {
        put_all(volume, blocks, 1).await;
        for lba in 20..blocks {
            put(volume, lba - 4, 2).await.unwrap();
        }
        array.drives[1].set_unreadable(ZoneAddress::new(ZoneId(2), 3), BlockCount(1));
        lose_resets(&array, ZoneId(2));
        let looks = Selector::next(CommandKind::Report).always();
        array.drives[0].inject(looks, FaultAction::MisreportEmpty(ZoneId(2)));
        volume.scrub().await.unwrap();
        for at in 0..rounds {
            put(volume, 16 + at % 24, 3 + at).await.unwrap();
        }
    });
    array.drives[0].faults(FaultPlan::clear);
    let idle = start_for(&array, steps);
    // Of two drives one is no majority.
    let options =
        OpenOptions { force: parity == 1, lineage: Lineage(77), ..OpenOptions::default() };
    let life = one_life(&array, &[0], options, async |volume, _, _| {
        let found = read_all(volume, 16).await.expect("everything is readable");
        assert!(found.iter().all(|version| *version == 1), "{rounds}, {steps} steps: {found:?}");
    });
    life.expect("the array starts");
    idle
}

fn lose_resets(array: &Array, zone: ZoneId) {
    let reset = Selector::next(CommandKind::Manage(ZoneAction::Reset)).in_zone(zone);
    array.drives[0].inject(reset.always(), FaultAction::Lost);
}

/// On mirrors one copy is enough: a zone that a drive had not reset brought trimmed blocks back,
/// when the death was no longer recorded. The engine verifies that a zone is empty.
#[test]
fn a_reset_that_is_not_done_brings_nothing_back() {
    let shape = Shape { zones: 14, volume_blocks: Some(40), ..shape(1, 1) };
    let array = Array::create(shape, &mut Random::new(3));
    live(&array, async |volume, _, _| {
        put_all(volume, 22, 1).await;
        volume.trim(Lba(0), 16, false).await.unwrap();
        lose_resets(&array, ZoneId(2));
        for at in 0..1000 {
            put(volume, 16 + at % 24, 2 + at).await.unwrap();
        }
        // The segment that tells of the trim is moved out: nothing older is left, as far as is
        // known.
        array.drives[1].set_unreadable(ZoneAddress::new(ZoneId(3), 3), BlockCount(1));
        volume.scrub().await.unwrap();
    });
    for without in [None, Some(1)] {
        let options = OpenOptions { force: true, lineage: Lineage(7), ..OpenOptions::default() };
        let without: Vec<_> = without.into_iter().collect();
        let life = one_life(&array, &without, options, async |volume, _, _| {
            assert_holds(volume, 16, 0).await;
        });
        life.expect("the array starts");
    }
}

/// A drive that never writes a header, or the lists that close a segment, is put out.
#[test]
fn a_drive_that_spoils_every_segment_is_put_out() {
    for (status, offsets) in
        [(Status::ZoneReadOnly, 0..1), (Status::ZoneReadOnly, 22..24), (Status::WriteFault, 22..24)]
    {
        let array = Array::create(shape(3, 1), &mut Random::new(3));
        live(&array, async |volume, _, _| {
            put(volume, 0, 1).await.unwrap();
            for zone in (2..10).map(ZoneId) {
                fail_writes(&array, zone, offsets.clone(), status);
            }
            for version in 2..12 {
                for lba in 0..array.blocks {
                    put(volume, lba, version).await.unwrap();
                }
            }
            assert_eq!(volume.status().health, Health::Degraded);
            assert_holds(volume, array.blocks, 11).await;
        });
    }
}

/// One that never writes a header where it cannot be spared, for there are only two or another one
/// is away: segments were opened and given up for ever.
#[test]
fn writes_end_where_a_drive_that_spoils_every_segment_is_needed() {
    for (data, parity, away) in [(1, 1, None), (3, 1, Some(3))] {
        let array = Array::create(shape(data, parity), &mut Random::new(3));
        let without: Vec<_> = away.into_iter().collect();
        let life = one_life(&array, &without, OpenOptions::default(), async |volume, _, _| {
            put(volume, 0, 1).await.unwrap();
            for zone in (2..10).map(ZoneId) {
                fail_writes(&array, zone, 0..1, Status::ZoneReadOnly);
            }
            let mut version = 2;
            while put(volume, version % array.blocks, version).await.is_ok() {
                version += 1;
            }
            assert_eq!(volume.status().health, Health::Failed);
            read_all(volume, array.blocks).await.expect("everything is readable");
        });
        life.expect("the array starts");
    }
}

fn fail_writes(array: &Array, zone: ZoneId, offsets: Range<u32>, status: Status) {
    let writes = Selector {
        kinds: vec![CommandKind::Write],
        zone: Some(zone),
        offsets: Some(offsets),
        ..Selector::default()
    };
    array.drives[0].inject(writes.always(), FaultAction::Fail(status));
}

/// A drive of which a write fails now and then spoils a segment now and then, and stays.
#[test]
fn a_drive_that_errs_now_and_then_stays() {
    let shape = Shape { zones: 14, volume_blocks: Some(40), ..shape(2, 1) };
    let array = Array::create(shape, &mut Random::new(3));
    live(&array, async |volume, _, handle| {
        for week in 0..12 {
            let write = Selector::next(CommandKind::Write);
            array.drives[1].inject(write, FaultAction::Fail(Status::WriteFault));
            for lba in 0..6 {
                put(volume, lba, week + 1).await.unwrap();
            }
            volume.scrub().await.unwrap();
            handle.sleep(Nanos::from_secs(7 * 24 * 3600)).await;
        }
        assert_eq!(volume.status().health, Health::Healthy);
    });
}
