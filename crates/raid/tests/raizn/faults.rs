//! Faults on record: lost blocks, errors of members, and scrubs.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{LostStatus, MemberErrors, ScrubResult, ScrubRun};
use zoneweave_raid::raizn::{Volume, survey};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt,
};

use super::drives::{
    FIRST_COLUMN, STRIPE, UNIT, create_on, drives, executor, offer, start, timing, write,
};
use crate::support::life::assert_hit;

/// Complete stripes of the second zone.
const WRITTEN: u32 = 5 * STRIPE;

/// A life of a volume whose process is killed at its end.
fn live<T>(drives: &[RamDrive], act: impl AsyncFnOnce(&Volume, &Handle) -> T) -> T {
    let executor = executor();
    let handle = executor.handle();
    let done = executor.run(async {
        let volume = start(drives, &handle).await;
        act(&volume, &handle).await
    });
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    done
}

/// A volume with damage to two blocks of one place in each stripe unit.
fn damaged() -> Vec<RamDrive> {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        write(&volume, 1, 0, WRITTEN).await.unwrap();
        volume.close().await;
    });
    for drive in &drives[..2] {
        drive.set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + 1), 2), BlockCount(1));
    }
    drives
}

/// Reads every block of the second zone; returns the refused ones, once they are judged.
async fn refused(volume: &Volume, handle: &Handle) -> Vec<u32> {
    let mut refused = Vec::new();
    for at in 0..WRITTEN {
        let read = volume.read(ZoneAddress::new(ZoneId(1), at), BlockCount(1)).await;
        match read {
            Ok(_) => {}
            Err(Status::UnrecoveredRead) => refused.push(at),
            Err(status) => panic!("{status}"),
        }
    }
    judged(handle).await;
    refused
}

/// Waits until no block that was not read may still be listed.
async fn judged(handle: &Handle) {
    while handle.task_names().iter().any(|name| name.ends_with("lost blocks")) {
        handle.sleep(Nanos::from_millis(1)).await;
    }
}

/// The listed blocks, by their numbers in the second zone.
fn listed(volume: &Volume) -> Vec<u32> {
    let first = volume.geometry().zone_size.0;
    let number = |lba: u64| u32::try_from(lba).unwrap() - first;
    let blocks = |range: LostStatus| number(range.lba)..number(range.lba + range.blocks);
    volume.status().lost.into_iter().flat_map(blocks).collect()
}

fn errors(volume: &Volume) -> Vec<MemberErrors> {
    volume.status().members.iter().map(|member| member.errors).collect()
}

async fn recorded(volume: &Volume, handle: &Handle) {
    while volume.recorded_faults().is_none_or(|faults| faults.lost.is_empty()) {
        handle.sleep(Nanos(1_000)).await;
    }
}

/// A restart forgot that blocks were lost: the array was HEALTHY again.
#[test]
fn lost_blocks_are_listed_until_they_are_cleared() {
    let drives = damaged();
    let gone = live(&drives, async |volume, handle| {
        assert_eq!((listed(volume), volume.recorded_faults()), (vec![], None));
        let gone = refused(volume, handle).await;
        assert!((1..=2).contains(&gone.len()), "{gone:?}");
        assert_eq!(listed(volume), gone);
        recorded(volume, handle).await;
        assert_eq!(refused(volume, handle).await, gone);
        gone
    });
    for _ in 0..2 {
        live(&drives, async |volume, _| {
            assert_eq!(listed(volume), gone);
            let lost: Vec<_> = errors(volume).iter().map(|errors| errors.unrepairable).collect();
            assert_eq!(lost, [1, 1, 0], "each is counted once");
            // A scrub finds nothing new.
            volume.scrub().await.unwrap();
            assert_eq!(listed(volume), gone);
            assert!(errors(volume).iter().all(|errors| errors.unrepairable <= 1));
        });
    }
    let executor = executor();
    let found = executor.run(survey(offer(&drives, &executor.handle())));
    assert_eq!(found.faults.unwrap().lost.len(), gone.len());
    drop(executor);
    live(&drives, async |volume, handle| {
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), gone, "they are lost all the same");
        recorded(volume, handle).await;
    });
    live(&drives, async |volume, _| {
        assert_eq!(listed(volume), gone);
        volume.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
        volume.clear_faults().await.unwrap();
        assert_eq!((listed(volume), errors(volume)), (vec![], vec![MemberErrors::default(); 3]));
    });
    live(&drives, async |volume, _| {
        assert_eq!((listed(volume), errors(volume)), (vec![], vec![MemberErrors::default(); 3]));
    });
    assert_hit(&[Mark::FaultsRecorded, Mark::FaultsRead, Mark::ZonedLostListed]);
}

/// The order waited for a reset when the volume was closed, and forgot the blocks of other zones.
/// Those of the zone that was being reset were listed anew.
#[test]
fn a_volume_that_closes_during_a_reset_lists_the_blocks_of_other_zones() {
    for reset_first in [false, true] {
        let drives = damaged();
        live(&drives, async |volume, _| {
            write(volume, 2, 0, WRITTEN).await.unwrap();
            volume.clone().close().await;
        });
        for drive in &drives[..2] {
            drive.set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + 2), 2), BlockCount(1));
        }
        let gone = live(&drives, async |volume, handle| {
            for at in (1..=2).flat_map(|zone| (0..WRITTEN).map(move |at| (zone, at))) {
                let at = ZoneAddress::new(ZoneId(at.0), at.1);
                let _read_or_lost = volume.read(at, BlockCount(1)).await;
            }
            judged(handle).await;
            let mut gone = listed(volume);
            gone.retain(|at| *at >= volume.geometry().zone_size.0);
            assert!(!gone.is_empty() && gone.len() < listed(volume).len(), "in both zones");
            recorded(volume, handle).await;
            for drive in &drives {
                let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset));
                let resets = resets.in_zone(ZoneId(FIRST_COLUMN + 1));
                drive.inject(resets.always(), FaultAction::Slow(Nanos::from_secs(5)));
            }
            for is_reset in [reset_first, !reset_first] {
                let volume = volume.clone();
                handle.spawn_alone("order", async move {
                    match is_reset {
                        true => volume.manage(ZoneId(1), ZoneAction::Reset).await.unwrap(),
                        false => volume.clear_faults().await.unwrap(),
                    }
                });
            }
            handle.sleep(Nanos::from_secs(1)).await;
            volume.clone().close().await;
            assert_eq!(listed(volume), gone);
            gone
        });
        live(&drives, async |volume, _| assert_eq!(listed(volume), gone));
    }
}

/// A volume that was closed while the order looked at the listed blocks forgot all of them.
#[test]
fn a_volume_that_closes_lists_what_was_not_looked_at_again() {
    let drives = damaged();
    let gone = live(&drives, async |volume, handle| {
        let gone = refused(volume, handle).await;
        recorded(volume, handle).await;
        for drive in &drives {
            let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(FIRST_COLUMN + 1));
            drive.inject(reads.always(), FaultAction::Slow(Nanos::from_secs(5)));
        }
        let cleared = volume.clone();
        handle.spawn_alone("clear", async move {
            let _cut_short = cleared.clear_faults().await;
        });
        handle.sleep(Nanos::from_secs(1)).await;
        assert!(listed(volume).is_empty(), "nothing is read yet");
        volume.clone().close().await;
        assert_eq!(listed(volume), gone);
        gone
    });
    drives.iter().for_each(|drive| drive.faults(|plan| plan.clear()));
    live(&drives, async |volume, _| assert_eq!(listed(volume), gone));
    assert_hit(&[Mark::ClearCutShort]);
}

/// Were it listed still, the blocks that are written next would count as lost.
#[test]
fn a_reset_takes_lost_blocks_off_the_list() {
    for scrubs in [false, true] {
        let drives = damaged();
        live(&drives, async |volume, handle| {
            match scrubs {
                true => assert_eq!(volume.scrub().await.unwrap().unrepairable, 2),
                false => assert!(!refused(volume, handle).await.is_empty()),
            }
            recorded(volume, handle).await;
            volume.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
            assert!(listed(volume).is_empty());
            assert!(volume.recorded_faults().unwrap().lost.is_empty());
            assert!(errors(volume)[0].unrepairable > 0, "the drive did lose a block");
        });
        live(&drives, async |volume, _| assert!(listed(volume).is_empty()));
    }
    assert_hit(&[Mark::ZonedLostForgotten]);
}

/// On failing media, each answer takes seconds. A read waited for the judgement of every block that
/// it did not get, and a reset waited for the read.
#[test]
fn neither_reads_nor_resets_wait_for_the_judgement_of_blocks() {
    const SLOW: Nanos = Nanos::from_secs(5);
    for resets in [false, true] {
        let drives = damaged();
        let column = ZoneId(FIRST_COLUMN + 1);
        for drive in &drives[..2] {
            drive.set_unreadable(ZoneAddress::new(column, 0), BlockCount(UNIT));
            let reads = Selector::next(CommandKind::Read).in_zone(column).touching(0..UNIT);
            drive.inject(reads.always(), FaultAction::Slow(SLOW));
        }
        live(&drives, async |volume, handle| {
            let begun = handle.now();
            let read = volume.read(ZoneAddress::new(ZoneId(1), 0), BlockCount(UNIT)).await;
            assert_eq!(read.err(), Some(Status::UnrecoveredRead));
            // The unit and the parity, each as a whole and by blocks.
            let reads = 2 * (1 + u64::from(UNIT));
            let took = handle.now().since(begun);
            assert!(took < Nanos(SLOW.0 * reads + SLOW.0 / 2), "it took {took}");
            match resets {
                true => {
                    let begun = handle.now();
                    volume.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
                    let took = handle.now().since(begun);
                    assert!(took < Nanos(2 * SLOW.0), "it waits for one place at most: {took}");
                    judged(handle).await;
                    assert!(listed(volume).is_empty());
                }
                false => {
                    judged(handle).await;
                    assert_eq!(listed(volume), [0, 1, 2, 3]);
                }
            }
        });
    }
}

/// The end of a volume waited for judgements that nobody needs any more.
#[test]
fn a_volume_that_ends_judges_no_more_blocks() {
    let drives = damaged();
    let column = ZoneId(FIRST_COLUMN + 1);
    for drive in &drives[..2] {
        drive.set_unreadable(ZoneAddress::new(column, 0), BlockCount(UNIT));
        let reads = Selector::next(CommandKind::Read).in_zone(column).touching(0..UNIT);
        drive.inject(reads.always(), FaultAction::Slow(Nanos::from_secs(5)));
    }
    live(&drives, async |volume, handle| {
        let read = volume.read(ZoneAddress::new(ZoneId(1), 0), BlockCount(UNIT)).await;
        assert_eq!(read.err(), Some(Status::UnrecoveredRead));
        let begun = handle.now();
        volume.clone().close().await;
        assert!(handle.now().since(begun) < Nanos::from_secs(10));
        let tasks = handle.task_names();
        assert!(!tasks.iter().any(|name| name.ends_with("lost blocks")), "{tasks:?}");
    });
}

/// A start that ends a zone before a listed block left that on the list, and the host writes there
/// without a reset: a good block counted as lost.
#[test]
fn a_start_that_cuts_a_zone_takes_what_it_cuts_off_the_list() {
    let drives = damaged();
    let gone = live(&drives, async |volume, handle| {
        let gone = refused(volume, handle).await;
        assert_eq!(listed(volume), gone);
        recorded(volume, handle).await;
        gone
    });
    // The other drive loses what its cache held, so the zone is judged from its begin.
    let executor = executor();
    let device = drives[2].attach(&executor.handle());
    let column = ZoneId(FIRST_COLUMN + 1);
    executor.run(async { device.manage(column, ZoneAction::Reset).await.unwrap() });
    drop(executor);
    live(&drives, async |volume, handle| {
        let end = volume.report().await.unwrap()[1].write_pointer.0;
        assert_eq!(gone, [end], "the zone ends before the block");
        assert!(listed(volume).is_empty());
        write(volume, 1, end, WRITTEN - end).await.unwrap();
        assert!(refused(volume, handle).await.is_empty());
        assert!(listed(volume).is_empty());
    });
    live(&drives, async |volume, handle| {
        assert!(refused(volume, handle).await.is_empty());
        assert!(listed(volume).is_empty());
    });
}

/// Nothing was listed: a scrub said that reads rebuild these blocks.
#[test]
fn blocks_of_offline_zones_are_lost_beyond_the_redundancy() {
    let drives = damaged();
    for (offline, drive) in (1..).zip(&drives[..2]) {
        drive.set_offline(ZoneId(FIRST_COLUMN + 1));
        live(&drives, async |volume, handle| {
            let report = volume.scrub().await.unwrap();
            // Two blocks are lost without it: each of them on one of the two drives.
            assert_eq!(report.unrepairable > 2, offline > 1, "{report:?}");
            assert_eq!(report.left > 0, offline == 1, "{report:?}");
            let gone = refused(volume, handle).await;
            assert_eq!(listed(volume), gone, "the scrub has listed them");
            assert!(offline == 1 || gone.len() >= WRITTEN as usize / 2, "{} blocks", gone.len());
        });
    }
}

/// Neither a drive whose path is down has lost a block, nor are those lost that need it.
#[test]
fn a_drive_that_gives_no_answer_has_not_lost_a_block() {
    let drives = damaged();
    let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(FIRST_COLUMN + 1));
    drives[1].inject(reads.touching(2..3).always(), FaultAction::Fail(Status::Aborted));
    live(&drives, async |volume, handle| {
        assert!(!refused(volume, handle).await.is_empty());
        let report = volume.scrub().await.unwrap();
        assert_eq!((report.unrepairable, listed(volume)), (0, vec![]), "{report:?}");
        let errors = errors(volume);
        assert!(errors[1].read > 0 && errors.iter().all(|errors| errors.unrepairable == 0));
    });
}

/// The drive that has the blocks was late, and back at the next start: they counted as lost.
#[test]
fn a_drive_that_missed_nothing_may_have_what_another_one_lost() {
    let drives = damaged();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives[1..], &handle).await;
        assert!(!refused(&volume, &handle).await.is_empty());
        assert!(volume.status().members[0].missing);
        assert!(listed(&volume).is_empty());
        assert_eq!(errors(&volume)[1].unrepairable, 0);
        // Behind the first change, it has missed that.
        write(&volume, 0, 0, 1).await.unwrap();
        let gone = refused(&volume, &handle).await;
        assert!(!gone.is_empty());
        assert_eq!(listed(&volume), gone);
        volume.close().await;
    });
}

/// A drive whose column is being written has the block that another one lost: it is not in service
/// yet.
#[test]
fn a_block_that_a_rebuild_has_copied_is_not_lost() {
    let members = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    let column = ZoneId(FIRST_COLUMN + 1);
    executor.run(async {
        create_on(&members, &handle, UNIT).await;
        let volume = start(&members, &handle).await;
        write(&volume, 1, 0, WRITTEN).await.unwrap();
        let blank = drives(OobKind::Separate, 240).swap_remove(0).fork(timing(9));
        let writes = Selector::next(CommandKind::Write).in_zone(column).always();
        blank.inject(writes, FaultAction::Slow(Nanos::from_secs(1)));
        let (of_replace, device) = (volume.clone(), blank.attach(&handle));
        let replacing = handle.spawn("replace", async move {
            of_replace.replace(Column::of(2), device, MemberUuid([9; 16])).await
        });
        while volume.status().rebuild.is_none() {
            handle.sleep(Nanos(1_000)).await;
        }
        handle.sleep(Nanos::from_millis(300)).await;
        members[0].set_unreadable(ZoneAddress::new(column, 2), BlockCount(1));
        assert!(!refused(&volume, &handle).await.is_empty());
        assert!(listed(&volume).is_empty());
        replacing.await.unwrap();
        assert!(refused(&volume, &handle).await.is_empty());
        assert!(listed(&volume).is_empty());
        volume.close().await;
    });
}

/// A drive whose reads fail is found by its errors, also after a restart.
#[test]
fn errors_of_a_drive_outlive_a_restart() {
    let drives = damaged();
    let before = live(&drives, async |volume, handle| {
        refused(volume, handle).await;
        handle.sleep(Nanos::from_secs(3)).await;
        errors(volume)
    });
    assert!(before[0].read > 0 && before[1].read > 0, "{before:?}");
    live(&drives, async |volume, handle| {
        assert!(errors(volume)[0].read * 2 > before[0].read, "at least since they last doubled");
        refused(volume, handle).await;
        let closing = errors(volume);
        volume.clone().close().await;
        assert_eq!(volume.recorded_faults().unwrap().errors, closing);
    });
}

#[test]
fn scrubs_are_on_record() {
    let drives = damaged();
    let ended =
        ScrubRun { ended_s: 9, blocks: 7, result: ScrubResult::Complete, ..ScrubRun::begin(5) };
    live(&drives, async |volume, _| {
        volume.record_scrub(ScrubRun::begin(5)).await.unwrap();
        volume.record_scrub(ended).await.unwrap();
        volume.record_scrub(ScrubRun::begin(11)).await.unwrap();
    });
    live(&drives, async |volume, _| {
        assert_eq!(volume.status().scrubs, [ended, ScrubRun::begin(11)]);
        volume.clear_faults().await.unwrap();
        volume.clone().close().await;
        assert!(volume.record_scrub(ScrubRun::begin(12)).await.is_err(), "it is closed");
    });
    let executor = executor();
    let found = executor.run(survey(offer(&drives, &executor.handle())));
    assert_eq!(found.scrubs.0, [ended, ScrubRun::begin(11)]);
}
