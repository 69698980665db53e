//! A clean stop records which stripes of open segments count, so that a start without a drive has
//! nothing to decide.

use crate::support::life::{assert_hit, assert_holds, live, one_life, open_segments, put, put_all};
use crate::support::{Array, Shape, read_all};
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{DriveRole, Health, MemberHealth, OpenOptions, SegmentPhase, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{Status, ZoneId};

/// Blocks of a volume with full segments too.
const BLOCKS: u64 = 60;

/// An array of four with free segments for twice its volume.
fn array() -> Array {
    let shape = Shape { zones: 60, volume_blocks: Some(1500), tabled: false, ..Shape::small() };
    Array::create(shape, &mut Random::new(11))
}

/// A server that stops leaves open segments. A drive that was late at the next start was expelled
/// for them, although nothing was written: with another drive late after that, the array did not
/// start any more.
#[test]
fn after_a_clean_stop_a_start_without_a_drive_writes_nothing() {
    let array = array();
    let written = || array.drives.iter().map(|drive| drive.counters().written_blocks);
    for (version, blocks) in [(1, 1), (2, BLOCKS)] {
        live(&array, async |volume, _, _| {
            put_all(volume, blocks, version).await;
            assert!(!open_segments(volume).is_empty());
            volume.close().await.unwrap();
        });
        let before: Vec<_> = written().collect();
        for without in [1, 2, 0, 3] {
            one_life(&array, &[without], OpenOptions::default(), async |volume, report, _| {
                assert!(report.leftover_segments > 0, "{report:?}");
                assert_eq!(volume.status().members[without].state, MemberHealth::Missing);
                assert_holds(volume, blocks, version).await;
                volume.close().await.unwrap();
            })
            .expect("no drive was expelled");
        }
        assert_eq!(written().collect::<Vec<_>>(), before);
    }
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, BLOCKS, 2).await;
    });
    assert_hit(&[Mark::CleanStopSealed, Mark::StartUnpublished, Mark::SealDecides]);
}

/// A stop that was not clean decides nothing: the next start evicts the missing drive, durably,
/// before it serves reads from its own decision.
#[test]
fn after_a_crash_a_start_without_a_drive_records_its_decision() {
    let array = array();
    live(&array, async |volume, _, _| put_all(volume, 1, 1).await);
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        assert_eq!(volume.status().members[1].state, MemberHealth::Failed);
        assert_holds(volume, 1, 1).await;
        volume.close().await.unwrap();
    })
    .unwrap();
    live(&array, async |_, report, _| {
        let stale = DriveRole::Stale { slot: Column::of(1) };
        assert!(report.drives.iter().any(|drive| drive.role == stale), "{report:?}");
    });
}

/// Has the next chunk fail that a drive is to write to an open segment, which is given up then.
fn fail_next_chunk(array: &Array, volume: &Volume) {
    for zone in open_segments(volume).iter().filter_map(|segment| segment.zones[1]) {
        let write = Selector::next(CommandKind::Write).in_zone(ZoneId(zone));
        array.drives[1].inject(write, FaultAction::Fail(Status::WriteFault));
    }
}

/// Makes reads so slow that they do not end in this life: nothing is relocated.
fn hold_up_reads(array: &Array) {
    for drive in &array.drives {
        let slow = FaultAction::Slow(Nanos::from_secs(1000));
        drive.inject(Selector::next(CommandKind::Read).always(), slow);
    }
}

fn no_faults(array: &Array) {
    array.drives.iter().for_each(|drive| drive.faults(FaultPlan::clear));
}

/// Starts without each drive in turn, after a clean stop with leftovers that have stripes which do
/// not count: nothing is written, and no drive is expelled. The volume reads as these versions.
fn start_without_each(array: &Array, versions: &[u64]) {
    let written = || array.drives.iter().map(|drive| drive.counters().written_blocks);
    let before: Vec<_> = written().collect();
    for without in [1, 3, 0, 2] {
        one_life(array, &[without], OpenOptions::default(), async |volume, report, _| {
            assert!(report.discarded_stripes > 0, "{report:?}");
            assert_eq!(volume.status().members[without].state, MemberHealth::Missing);
            assert_eq!(read_all(volume, versions.len() as u64).await.unwrap(), versions);
            volume.close().await.unwrap();
        })
        .expect("no drive was expelled");
    }
    assert_eq!(written().collect::<Vec<_>>(), before);
    live(array, async |volume, _, _| {
        assert_eq!(volume.status().health, Health::Healthy);
        assert_eq!(read_all(volume, versions.len() as u64).await.unwrap(), versions);
    });
}

/// A segment that was given up had a stripe without one of its chunks. The seal of the stop said
/// that it does not count, and a start without a drive decided so again, and expelled the drive.
#[test]
fn a_stripe_that_was_discarded_before_is_no_decision() {
    let array = array();
    live(&array, async |volume, _, _| {
        put_all(volume, 2, 1).await;
        fail_next_chunk(&array, volume);
        hold_up_reads(&array);
        put_all(volume, 2, 2).await;
        assert!(volume.segments().iter().any(|segment| segment.phase == SegmentPhase::Leftover));
        volume.close().await.unwrap();
    });
    no_faults(&array);
    start_without_each(&array, &[2, 2]);
    assert_hit(&[Mark::CleanStopSealed, Mark::StartUnpublished, Mark::SealOverruledChunks]);
}

/// The same, where the leftovers are those of a crash: a start with all drives had decided, and was
/// stopped before they were relocated.
#[test]
fn what_a_start_decided_after_a_crash_is_no_decision_of_the_next() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, 2, 1).await;
        fail_next_chunk(&array, volume);
        // The stripe is not written elsewhere before the crash.
        let segments = open_segments(volume);
        let is_open = |zone: u32| segments.iter().any(|segment| segment.zones[1] == Some(zone));
        for zone in (0..60).filter(|zone| !is_open(*zone)) {
            let write = Selector::next(CommandKind::Write).in_zone(ZoneId(zone)).always();
            array.drives[1].inject(write, FaultAction::Slow(Nanos::from_secs(1000)));
        }
        let writer = volume.clone();
        handle.spawn_alone("write", async move {
            let _crashed = put(&writer, 0, 2).await;
        });
        handle.sleep(Nanos::from_secs(1)).await;
    });
    no_faults(&array);
    live(&array, async |volume, report, _| {
        hold_up_reads(&array);
        assert!(report.rescued_stripes > 0, "{report:?}");
        volume.close().await.unwrap();
    });
    no_faults(&array);
    start_without_each(&array, &[2, 1]);
    assert_hit(&[Mark::StartUnpublished, Mark::SealOverruledChunks]);
}

/// A drive on a full file system, or one that was lost first when a machine shut down, was out of
/// service for a record on which nothing depends.
#[test]
fn a_drive_that_does_not_take_the_seals_of_a_stop_stays_a_member() {
    for status in [Status::WriteFault, Status::DeviceGone] {
        let array = array();
        live(&array, async |volume, _, _| {
            put_all(volume, 1, 1).await;
            for kind in [CommandKind::Write, CommandKind::Append] {
                array.drives[1].inject(Selector::next(kind).always(), FaultAction::Fail(status));
            }
            volume.close().await.unwrap();
            assert_eq!(volume.status().health, Health::Healthy);
        });
        array.drives[1].faults(|plan| plan.clear());
        live(&array, async |volume, report, _| {
            let is_member = |role: &DriveRole| matches!(role, DriveRole::Member { .. });
            assert!(report.drives.iter().all(|drive| is_member(&drive.role)), "{report:?}");
            assert_eq!(volume.status().health, Health::Healthy);
            assert_holds(volume, 1, 1).await;
        });
    }
    assert_hit(&[Mark::CleanStopSealed, Mark::ReportRefused]);
}
