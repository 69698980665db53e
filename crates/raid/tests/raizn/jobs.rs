//! The scrub as a job: it can be stopped and paused, and gives way to a replacement.

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{JobState, ScrubOrder};
use zoneweave_raid::raizn::{ScrubReport, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, JoinHandle, Nanos};
use zoneweave_zoned::{BlockCount, OobKind, ZoneAddress, ZoneId, ZonedDevice};

use super::drives::{
    FIRST_COLUMN, LOG_ZONES, UNIT, create_on, drives, executor, start, timing, write,
};
use crate::support::life::assert_hit;

/// A volume in use with four zones, each of which takes many batches.
async fn volume(drives: &[RamDrive], handle: &Handle) -> Volume {
    create_on(drives, handle, UNIT).await;
    let volume = start(drives, handle).await;
    for zone in 0..4 {
        write(&volume, zone, 0, 400).await.unwrap();
    }
    volume
}

fn scrub(volume: &Volume, handle: &Handle) -> JoinHandle<ScrubReport> {
    let volume = volume.clone();
    handle.spawn("scrub", async move { volume.scrub().await.unwrap() })
}

async fn reaches(volume: &Volume, handle: &Handle, state: JobState) {
    while volume.status().scrub_state != Some(state) {
        handle.sleep(Nanos(1_000)).await;
    }
}

fn blank(handle: &Handle) -> Rc<dyn ZonedDevice> {
    let drive = drives(OobKind::Separate, 240).swap_remove(0).fork(timing(9));
    drive.attach(handle)
}

/// A scrub held the permit for changes of membership to its end: a replacement waited for hours.
#[test]
fn a_scrub_gives_way_to_a_replacement() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        let scrubbing = scrub(&volume, &handle);
        reaches(&volume, &handle, JobState::Running).await;
        let (of_replace, device) = (volume.clone(), blank(&handle));
        let replacing = handle.spawn("replace", async move {
            of_replace.replace(Column::of(2), device, MemberUuid([9; 16])).await
        });
        while volume.status().rebuild.is_none() {
            handle.sleep(Nanos(1_000)).await;
        }
        assert_eq!(volume.status().scrub_state, Some(JobState::Queued));
        replacing.await.unwrap();
        assert!(volume.status().scrub.is_some(), "the scrub goes on behind it");
        let report = scrubbing.await;
        assert_eq!((report.zones, report.damaged, report.mismatches), (4, 0, 0), "{report:?}");
        volume.close().await;
    });
}

#[test]
fn a_scrub_is_paused_and_resumed() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        assert!(!volume.order_scrub(ScrubOrder::Pause), "there is no scrub");
        let scrubbing = scrub(&volume, &handle);
        reaches(&volume, &handle, JobState::Running).await;
        assert!(volume.order_scrub(ScrubOrder::Pause));
        reaches(&volume, &handle, JobState::Paused).await;
        handle.sleep(Nanos::from_secs(1)).await;
        reaches(&volume, &handle, JobState::Paused).await;
        assert!(volume.order_scrub(ScrubOrder::Run));
        let report = scrubbing.await;
        assert!(report.is_complete() && report.zones == 4, "{report:?}");
    });
}

/// An order waited for the end of the zone, which may have millions of blocks.
#[test]
fn a_scrub_is_paused_within_a_zone() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        let whole = scrub(&volume, &handle).await;
        let scrubbing = scrub(&volume, &handle);
        reaches(&volume, &handle, JobState::Running).await;
        assert!(volume.order_scrub(ScrubOrder::Pause));
        reaches(&volume, &handle, JobState::Paused).await;
        assert_eq!(volume.status().scrub.unwrap().done, 0, "it is in the first zone");
        assert!(volume.order_scrub(ScrubOrder::Run));
        assert_eq!(scrubbing.await, whole, "each block is read once");
    });
    assert_hit(&[Mark::ScrubUnitInterrupted]);
}

/// Each damaged block is read again, which failing drives take seconds for.
#[test]
fn a_scrub_of_failing_media_is_stopped_at_once() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 0), BlockCount(200));
        let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(FIRST_COLUMN)).always();
        drives[0].inject(reads, FaultAction::Slow(Nanos::from_secs(5)));
        let scrubbing = scrub(&volume, &handle);
        while volume.status().members[0].errors.repaired == 0 {
            handle.sleep(Nanos::from_millis(100)).await;
        }
        let ordered = handle.now();
        assert!(volume.order_scrub(ScrubOrder::Stop));
        let report = scrubbing.await;
        assert!(report.stopped && report.relocated > 0, "{report:?}");
        assert!(handle.now().since(ordered) < Nanos::from_secs(20), "{report:?}");
    });
}

/// The room of its record in the parity log was never given back, and writes waited for it.
#[test]
fn a_scrub_that_is_dropped_leaves_the_parity_log_in_order() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        for zone in LOG_ZONES {
            let writes = Selector::next(CommandKind::Write).in_zone(ZoneId(zone)).always();
            drives[0].inject(writes, FaultAction::Slow(Nanos::from_millis(10)));
        }
        drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 0), BlockCount(3));
        {
            let scrubbing = pin!(volume.scrub());
            let dropping = pin!(handle.sleep(Nanos::from_millis(15)));
            assert!(matches!(select(scrubbing, dropping).await, Either::Right(_)), "it goes on");
        }
        write(&volume, 1, 400, 80).await.unwrap();
        let report = scrub(&volume, &handle).await;
        assert_eq!((report.left, report.unrepairable), (0, 0), "{report:?}");
        volume.close().await;
    });
    assert_hit(&[Mark::ZonedLoggedForNone]);
}

/// A record that a dropped scrub has left was dropped with the member of the log, which woke none
/// of the writes that waited for its room.
#[test]
fn a_write_goes_on_once_the_record_of_a_dropped_scrub_is_gone_with_its_member() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        write(&volume, 0, 0, 400).await.unwrap();
        for zone in LOG_ZONES {
            let writes = Selector::next(CommandKind::Write).in_zone(ZoneId(zone)).always();
            drives[0].inject(writes, FaultAction::Slow(Nanos::from_secs(1)));
        }
        drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 0), BlockCount(1));
        // The record of the first is being written, and that of the second waits behind it.
        for _ in 0..2 {
            let scrubbing = pin!(volume.scrub());
            let dropping = pin!(handle.sleep(Nanos::from_millis(100)));
            assert!(matches!(select(scrubbing, dropping).await, Either::Right(_)), "it goes on");
        }
        let of_write = volume.clone();
        // So many stripes that the log has room for nothing else.
        let writing = async move { write(&of_write, 1, 0, 256).await };
        let writing = handle.spawn("write", writing);
        handle.sleep(Nanos::from_millis(100)).await;
        volume.drive_lost(Column::of(0), "it was pulled");
        writing.await.unwrap();
        volume.close().await;
    });
    assert_hit(&[Mark::ZonedLogAwaited, Mark::ZonedLoggedForNone]);
}

#[test]
fn a_scrub_is_stopped_with_what_it_has_found() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        let scrubbing = scrub(&volume, &handle);
        reaches(&volume, &handle, JobState::Running).await;
        assert!(volume.order_scrub(ScrubOrder::Stop));
        let report = scrubbing.await;
        assert!(report.stopped && !report.is_complete(), "{report:?}");
        assert!(report.blocks > 0 && report.zones < 4, "{report:?}");
        assert_eq!(volume.status().scrub_state, None);
    });
}

/// Nothing but the end of the volume wakes it.
#[test]
fn a_paused_scrub_ends_with_the_volume() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = volume(&drives, &handle).await;
        let of_scrub = volume.clone();
        let scrubbing = handle.spawn("scrub", async move { of_scrub.scrub().await });
        reaches(&volume, &handle, JobState::Running).await;
        assert!(volume.order_scrub(ScrubOrder::Pause));
        reaches(&volume, &handle, JobState::Paused).await;
        volume.close().await;
        assert!(scrubbing.await.is_err());
    });
}
