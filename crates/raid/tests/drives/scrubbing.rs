//! Scrubs as jobs: a scrub gives way to a rebuild, pauses and stops on order, and names the slots
//! that it did not read.

use crate::support::life::{assert_hit, assert_holds, live, put, put_all};
use crate::support::{Array, Shape, attach, new_drive, uuid};
use futures_util::future::join;
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{
    AdminError, Health, JobState, ScrubOrder, ScrubReport, SegmentPhase, StopReason, Volume,
};
use zoneweave_raid::scheme::{Column, ColumnSet};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba, ZoneAddress, ZoneId};

/// Blocks of the volume.
const BLOCKS: u64 = 900;

fn shape() -> Shape {
    Shape { zones: 40, volume_blocks: Some(BLOCKS), tabled: false, ..Shape::small() }
}

fn array() -> Array {
    Array::create(shape(), &mut Random::new(31))
}

/// Waits until the scrub has read some segments.
async fn begun(volume: &Volume, handle: &Handle) {
    while volume.status().scrub.is_none_or(|scrub| scrub.done < 2) {
        handle.sleep(Nanos::from_micros(20)).await;
    }
}

/// A scrub and tasks beside it.
async fn beside(volume: &Volume, other: impl Future<Output = ()>) -> ScrubReport {
    let (report, ()) = join(volume.scrub(), other).await;
    report.unwrap()
}

/// A replacement waited for the whole scrub, on large drives for hours without redundancy.
#[test]
fn a_rebuild_goes_before_a_scrub() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let replacing = async {
            begun(volume, handle).await;
            let new = attach(&new_drive(&shape(), &mut Random::new(32)), handle);
            volume.replace(1, new, MemberUuid(uuid(9, 1))).await.unwrap();
            let left = volume.status().scrub.expect("the scrub waits");
            assert!(left.done < left.total, "{left:?}");
        };
        let report = beside(volume, replacing).await;
        assert!(report.is_complete(), "{report:?}");
        assert_eq!((report.damaged, report.unrepairable), (0, 0));
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, BLOCKS, 1).await;
    });
    assert_hit(&[Mark::ScrubGaveWay]);
}

#[test]
fn a_scrub_is_paused_and_stopped() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        assert!(!volume.order_scrub(ScrubOrder::Pause), "none runs");
        let ordering = async {
            begun(volume, handle).await;
            assert!(volume.order_scrub(ScrubOrder::Pause));
            assert_eq!(volume.status().scrub_state, Some(JobState::Pausing));
            handle.sleep(Nanos::from_secs(1)).await;
            let status = volume.status();
            assert_eq!(status.scrub_state, Some(JobState::Paused));
            handle.sleep(Nanos::from_secs(1)).await;
            assert_eq!(volume.status().scrub, status.scrub, "it goes on");
            assert!(volume.order_scrub(ScrubOrder::Run));
            handle.sleep(Nanos::from_micros(20)).await;
            assert_eq!(volume.status().scrub_state, Some(JobState::Running));
            assert!(volume.order_scrub(ScrubOrder::Stop));
        };
        let report = beside(volume, ordering).await;
        assert!(report.stopped && !report.is_complete(), "{report:?}");
        assert_eq!(volume.status().scrub_state, None);
        assert!(volume.scrub().await.unwrap().is_complete());
    });
    assert_hit(&[Mark::ScrubPaused, Mark::ScrubStopped]);
}

#[test]
fn a_scrub_that_waits_for_a_rebuild_can_be_stopped() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let new = attach(&new_drive(&shape(), &mut Random::new(32)), handle);
        let replacing = async {
            volume.replace(1, new, MemberUuid(uuid(9, 1))).await.unwrap();
            assert_eq!(volume.status().scrub_state, None, "it has ended before");
        };
        let scrubbing = async {
            while volume.status().rebuild.is_none_or(|rebuild| rebuild.done == 0) {
                handle.sleep(Nanos::from_micros(20)).await;
            }
            let ordering = async {
                handle.sleep(Nanos::from_micros(1)).await;
                assert_eq!(volume.status().scrub_state, Some(JobState::Queued));
                assert!(volume.order_scrub(ScrubOrder::Pause));
                assert_eq!(volume.status().scrub_state, Some(JobState::Paused));
                handle.sleep(Nanos::from_micros(1)).await;
                assert_eq!(volume.status().scrub_state, Some(JobState::Paused));
                assert!(volume.order_scrub(ScrubOrder::Run));
                handle.sleep(Nanos::from_micros(1)).await;
                assert_eq!(volume.status().scrub_state, Some(JobState::Queued));
                assert!(volume.order_scrub(ScrubOrder::Stop));
                assert_eq!(volume.status().scrub_state, Some(JobState::Stopping));
            };
            let report = beside(volume, ordering).await;
            assert!(report.stopped && report.segments == 0, "{report:?}");
        };
        join(replacing, scrubbing).await;
    });
}

/// A paused scrub waits for an order only: neither may the end of the volume wait for one.
#[test]
fn a_paused_scrub_ends_with_the_volume() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let closing = async {
            begun(volume, handle).await;
            assert!(volume.order_scrub(ScrubOrder::Pause));
            handle.sleep(Nanos::from_secs(1)).await;
            volume.close().await.unwrap();
        };
        let (report, ()) = join(volume.scrub(), closing).await;
        assert!(matches!(report, Err(AdminError::Stopped(StopReason::ShuttingDown))), "{report:?}");
        assert_eq!(volume.status().scrub_state, None);
    });
}

/// Such a scrub reported that there was no damage.
#[test]
fn a_scrub_without_a_drive_is_incomplete() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let losing = async {
            begun(volume, handle).await;
            array.drives[2].set_gone(true);
        };
        let report = beside(volume, losing).await;
        assert_eq!(report.unread, ColumnSet::default().with(Column::of(2)));
        assert!(!report.is_complete());
    });
    assert_hit(&[Mark::ScrubIncomplete]);
}

/// A scrub waits until the segments that a crash left are relocated. It held the members meanwhile
/// and heeded no order, so that a lost drive could not be replaced.
#[test]
fn a_scrub_that_waits_for_relocations_gives_way_and_stops() {
    let array = array();
    live(&array, async |volume, _, _| put_all(volume, BLOCKS - 1, 1).await);
    live(&array, async |volume, _, handle| {
        let left = volume.segments().into_iter();
        let left = left.filter(|one| one.phase == SegmentPhase::Leftover);
        for zone in left.filter_map(|one| one.zones[0]) {
            let slow = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
            array.drives[0].inject(slow, FaultAction::Slow(Nanos::from_secs(1)));
        }
        let is_left = || volume.segments().iter().any(|one| one.phase == SegmentPhase::Leftover);
        let ordering = async {
            handle.sleep(Nanos::from_millis(1)).await;
            assert_eq!(volume.status().scrub_state, Some(JobState::Running));
            let new = attach(&new_drive(&shape(), &mut Random::new(32)), handle);
            let replacing = async {
                volume.replace(1, new, MemberUuid(uuid(9, 1))).await.unwrap();
            };
            let stopping = async {
                while volume.status().rebuild.is_none() {
                    handle.sleep(Nanos::from_millis(1)).await;
                }
                assert_eq!(volume.status().scrub_state, Some(JobState::Queued));
                assert!(volume.order_scrub(ScrubOrder::Stop));
                handle.sleep(Nanos::from_millis(1)).await;
                assert_eq!(volume.status().scrub_state, None);
                assert!(is_left(), "relocations have ended");
            };
            join(replacing, stopping).await;
        };
        let report = beside(volume, ordering).await;
        assert!(report.stopped && report.segments == 0, "{report:?}");
    });
    assert_hit(&[Mark::ScrubAwaitedRelocation, Mark::ScrubStopped]);
}

/// The block of a trim is on no drive any more: what the trim hid does not come back.
#[test]
fn a_trim_that_is_lost_uncovers_nothing() {
    let shape = Shape { data: 2, parity: 0, zones: 24, volume_blocks: Some(100), ..shape() };
    let array = Array::create(shape, &mut Random::new(33));
    live(&array, async |volume, _, _| {
        put_all(volume, 100, 1).await;
        volume.trim(Lba(0), 10, false).await.unwrap();
        for (version, lba) in (2..6).flat_map(|version| (60..100).map(move |lba| (version, lba))) {
            put(volume, lba, version).await.unwrap();
        }
        volume.flush().await.unwrap();
        let mut sealed = volume.segments();
        sealed.retain(|segment| segment.phase == SegmentPhase::Sealed);
        for (drive, offset) in (0..2).flat_map(|drive| (1..17).map(move |offset| (drive, offset))) {
            for zone in sealed.iter().filter_map(|segment| segment.zones[drive]) {
                let how = Damage::Garbage { part: BlockPart::Data, seed: 7 };
                array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), offset), how);
            }
        }
        let report = volume.scrub().await.unwrap();
        assert!(report.unrepairable > 0, "{report:?}");
        for lba in 0..10 {
            let read = volume.read(Lba(lba), 1).await;
            assert!(read.is_err(), "block {lba} is not known to be trimmed");
        }
    });
    assert_hit(&[Mark::TombstoneLost]);
}
