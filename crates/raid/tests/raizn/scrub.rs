//! Scrubs: damage is moved to the parity log, and parity that differs is reported.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Jitter, RamDrive, Selector};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::raizn::{Mismatch, OpenOptions, ScrubReport, open};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, OobKind, Status, ZoneAddress, ZoneId, ZonedDeviceExt};

use super::drives::{
    FIRST_COLUMN, LOG_ZONES, STRIPE, UNIT, create_on, drives, executor, offer, start, write,
};
use super::model::block;
use super::stalling::Stalling;

/// Complete stripes and a part of another one.
const WRITTEN: u32 = STRIPES * STRIPE + 3;
const STRIPES: u32 = 10;

const FLIPPED: Damage = Damage::BitFlip { part: BlockPart::Data, seed: 7 };

/// A volume whose first zone is written.
fn written(oob: OobKind) -> Vec<RamDrive> {
    let drives = drives(oob, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        write(&volume, 0, 0, WRITTEN).await.unwrap();
        volume.close().await;
    });
    drives
}

fn scrubbed(drives: &[RamDrive]) -> ScrubReport {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(drives, &handle).await;
        let report = volume.scrub().await.unwrap();
        volume.close().await;
        report
    })
}

/// Checks that all data can be read without a member.
fn is_whole_without(drives: &[RamDrive], lost: usize) {
    let fork = |drive: &RamDrive| drive.fork(Jitter::new(3, Nanos(1_000)));
    let mut drives: Vec<_> = drives.iter().map(fork).collect();
    drives.remove(lost);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives, &handle).await;
        let at = ZoneAddress::new(ZoneId(0), 0);
        let read = volume.read_in_pieces(at, BlockCount(WRITTEN)).await.unwrap();
        let found = (1..).zip(read.iter_blocks());
        assert!(found.into_iter().all(|(tag, found)| found == block(tag)), "without {lost}");
    });
}

#[test]
fn an_intact_volume_is_clean() {
    for oob in [OobKind::Separate, OobKind::None] {
        let report = scrubbed(&written(oob));
        assert_eq!((report.zones, report.damaged, report.mismatches), (1, 0, 0), "{report:?}");
        // Complete stripes with parity, and the data of another one.
        assert_eq!(report.blocks, u64::from(STRIPES * 3 * UNIT + 3));
    }
}

#[test]
fn damaged_blocks_survive_the_loss_of_another_member() {
    for oob in [OobKind::Separate, OobKind::None] {
        let drives = written(oob);
        let column = |at| ZoneAddress::new(ZoneId(FIRST_COLUMN), at);
        // Data and parity of complete stripes, and the blocks of the last stripe's first write.
        drives[0].set_unreadable(column(1), BlockCount(9));
        let report = scrubbed(&drives);
        assert_eq!((report.damaged, report.relocated), (9, 9), "{report:?}");
        assert_eq!((report.left, report.unrepairable, report.mismatches), (0, 0, 0));
        assert_eq!(report.blocks, u64::from(STRIPES * 3 * UNIT + 3 - 9), "blocks that were read");
        for lost in 1..drives.len() {
            is_whole_without(&drives, lost);
        }
        let again = scrubbed(&drives);
        assert_eq!((again.damaged, again.mismatches), (0, 0), "{again:?}");
    }
}

#[test]
fn a_flipped_bit_is_damage_with_checksums() {
    let drives = written(OobKind::Separate);
    drives[1].corrupt(ZoneAddress::new(ZoneId(FIRST_COLUMN), 6), FLIPPED);
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.relocated, report.mismatches), (1, 1, 0), "{report:?}");
    is_whole_without(&drives, 0);
}

/// Nothing shows which block is wrong, so nothing is changed.
#[test]
fn a_flipped_bit_is_reported_without_checksums() {
    let drives = written(OobKind::None);
    // Second stripe, third block of each unit.
    drives[1].corrupt(ZoneAddress::new(ZoneId(FIRST_COLUMN), 6), FLIPPED);
    for _ in 0..2 {
        let report = scrubbed(&drives);
        assert_eq!((report.damaged, report.relocated, report.mismatches), (0, 0, 1), "{report:?}");
        assert_eq!(report.mismatched, [Mismatch { zone: 0, block: STRIPE + 2 }]);
    }
}

/// Were the place named first, a start without another member would end the zone there.
#[test]
fn a_place_is_recorded_once_its_block_is_in_the_log() {
    let drives = written(OobKind::Separate);
    drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 1), BlockCount(1));
    let executor = executor();
    let handle = executor.handle();
    let stalls = Rc::new(Cell::new(false));
    let offered = drives.iter().map(|drive| OfferedDrive {
        device: Stalling::of(drive.attach(&handle), LOG_ZONES, &stalls),
        label: "drive".to_owned(),
    });
    let offered = offered.collect();
    let clock = handle.clone();
    handle.spawn("clock", async move { clock.sleep(Nanos::from_secs(2)).await });
    let scrubbing = async {
        let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        stalls.set(true);
        volume.scrub().await
    };
    let ended = executor.run_until(scrubbing, || handle.now() > Nanos::from_secs(1));
    assert!(ended.is_none(), "the scrub waits for the log");
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    let executor = self::executor();
    let handle = executor.handle();
    executor.run(async {
        let offered = offer(&drives[..2], &handle);
        let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        let zones = volume.report().await.unwrap();
        assert_eq!(zones[0].write_pointer.0, WRITTEN, "one block is lost, and no more");
    });
}

/// As many blocks as half of the parity log's room for them, a sixteenth of a zone, and no more. A
/// scrub had taken all of it: the next crash then finished zones of users.
#[test]
fn damage_beyond_half_of_the_parity_log_stays() {
    let drives = written(OobKind::Separate);
    drives[2].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 0), BlockCount(40));
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.relocated, report.left), (40, 15, 25), "{report:?}");
    assert_eq!(report.unrepairable, 0);
}

/// A read that fails at first, such as by the way to the drive, was taken for damaged media, and
/// its block moved for good. Without checksums, a wrong rebuild would have become permanent.
#[test]
fn a_failure_that_passes_is_no_damage() {
    for oob in [OobKind::Separate, OobKind::None] {
        let drives = written(oob);
        // The read of the batch, and the one of the block.
        drives[0].inject(reads_of(1).times(2), FaultAction::Fail(Status::UnrecoveredRead));
        let report = scrubbed(&drives);
        assert_eq!((report.damaged, report.relocated), (0, 0), "{report:?}");
        assert!(report.is_complete() && report.blocks == u64::from(STRIPES * 3 * UNIT + 3));
    }
}

fn reads_of(at: u32) -> Selector {
    let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(FIRST_COLUMN));
    reads.touching(at..at + 1)
}

#[test]
fn a_block_that_is_not_read_is_neither_moved_nor_lost() {
    let drives = written(OobKind::Separate);
    drives[0].inject(reads_of(1).times(u64::MAX), FaultAction::Fail(Status::Aborted));
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.failed_reads), (0, 1), "{report:?}");
    assert!(!report.is_complete());
    // A damaged block that needs it is not lost.
    drives[1].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 1), BlockCount(1));
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.failed_reads), (1, 2), "{report:?}");
    assert_eq!((report.relocated, report.unrepairable), (0, 0));
}

/// A scrub without a member said that there was no damage.
#[test]
fn columns_without_a_drive_are_reported() {
    let mut drives = written(OobKind::Separate);
    drives.remove(1);
    let report = scrubbed(&drives);
    assert_eq!(report.unread.iter().map(|column| column.index()).collect::<Vec<_>>(), [1]);
    assert!(!report.is_complete() && report.damaged == 0, "{report:?}");
}

/// It was in service when the scrub began, so nothing shows how much of it was read.
#[test]
fn a_drive_that_is_lost_during_a_scrub_is_reported() {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    let report = executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        for zone in 0..4 {
            write(&volume, zone, 0, 400).await.unwrap();
        }
        let of_scrub = volume.clone();
        let scrubbing = handle.spawn("scrub", async move { of_scrub.scrub().await.unwrap() });
        while volume.status().scrub.is_none_or(|scrub| scrub.done == 0) {
            handle.sleep(Nanos(1_000)).await;
        }
        drives[1].set_gone(true);
        scrubbing.await
    });
    assert_eq!(report.unread.iter().map(|column| column.index()).collect::<Vec<_>>(), [1]);
    assert!(!report.is_complete(), "{report:?}");
    assert_eq!((report.damaged, report.unrepairable), (0, 0), "{report:?}");
}

/// Only the client of the scrub had known.
#[test]
fn lost_blocks_are_errors_of_their_members() {
    let drives = written(OobKind::Separate);
    for drive in &drives[..2] {
        drive.set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 2), BlockCount(1));
    }
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives, &handle).await;
        // Each of them finds the same two.
        for _ in 0..2 {
            let report = volume.scrub().await.unwrap();
            assert_eq!((report.damaged, report.unrepairable), (2, 2), "{report:?}");
            let members = volume.status().members;
            let lost: Vec<_> = members.iter().map(|member| member.errors.unrepairable).collect();
            assert_eq!(lost, [1, 1, 0]);
        }
    });
}

/// A block that the drive says it does not have was counted as unread, and never repaired.
#[test]
fn a_block_that_a_drive_has_forgotten_is_damaged() {
    let drives = written(OobKind::Separate);
    let read = Selector::next(CommandKind::Read).in_zone(ZoneId(FIRST_COLUMN)).touching(5..6);
    drives[0].inject(read.always(), FaultAction::Fail(Status::Deallocated));
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.relocated, report.failed_reads), (1, 1, 0), "{report:?}");
}

/// An offline zone is as many damaged blocks as it holds, and the parity log has no room for them.
#[test]
fn blocks_of_an_offline_zone_are_left() {
    let drives = written(OobKind::Separate);
    let executor = executor();
    let handle = executor.handle();
    let report = executor.run(async {
        let volume = start(&drives, &handle).await;
        drives[0].set_offline(ZoneId(FIRST_COLUMN));
        volume.scrub().await.unwrap()
    });
    assert!(report.damaged >= u64::from(STRIPES * UNIT), "{report:?}");
    assert_eq!((report.left, report.relocated, report.failed_reads), (report.damaged, 0, 0));
}
