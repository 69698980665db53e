//! The scrub as a job: it can be stopped and paused, and gives way to a replacement.

use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::{JobState, ScrubOrder};
use zoneweave_raid::raizn::{ScrubReport, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, JoinHandle, Nanos};
use zoneweave_zoned::{OobKind, ZonedDevice};

use super::drives::{UNIT, create_on, drives, executor, start, timing, write};

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
