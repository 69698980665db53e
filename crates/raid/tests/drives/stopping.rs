//! A clean stop records which stripes of open segments count, so that a start without a drive has
//! nothing to decide.

use crate::support::life::{assert_hit, assert_holds, live, one_life, open_segments, put_all};
use crate::support::{Array, Shape};
use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{DriveRole, Health, MemberHealth, OpenOptions};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::Random;
use zoneweave_zoned::Status;

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
