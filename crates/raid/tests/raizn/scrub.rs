//! Scrubs: damage is moved to the parity log, and parity that differs is reported.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{BlockPart, Damage, Jitter, RamDrive};
use zoneweave_raid::array::format::envelope::ArrayUuid;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::raizn::{
    CreateOptions, Mismatch, OpenOptions, ScrubReport, Volume, create, open,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Payload, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use super::model::block;
use super::stalling::Stalling;

const UNIT: u32 = 4;
/// Two data units.
const STRIPE: u32 = 2 * UNIT;
/// Complete stripes and a part of another one.
const WRITTEN: u32 = STRIPES * STRIPE + 3;
const STRIPES: u32 = 10;
/// The first zone of each member that is a column: four of the superblock, three of the log.
const FIRST_COLUMN: u32 = 7;
const LOG_ZONES: Range<u32> = 4..FIRST_COLUMN;

const FLIPPED: Damage = Damage::BitFlip { part: BlockPart::Data, seed: 7 };

fn drives(oob: OobKind) -> Vec<RamDrive> {
    let geometry = Geometry { oob, ..Geometry::new(FIRST_COLUMN + 4, BlockCount(240)) };
    let new = |seed| RamDrive::new(geometry.clone(), Jitter::new(seed, Nanos(1_000))).unwrap();
    (0..3).map(new).collect()
}

fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let label = |at| format!("drive {at}");
    let offered = drives.iter().enumerate();
    offered
        .map(|(at, drive)| OfferedDrive { device: drive.attach(handle), label: label(at) })
        .collect()
}

fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

/// A volume whose first zone is written.
fn written(oob: OobKind) -> Vec<RamDrive> {
    crate::support::instrument();
    let drives = drives(oob);
    let executor = executor();
    let handle = executor.handle();
    let options = CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "zoned".to_owned(),
        members: (1..=3).map(|at| MemberUuid([at; 16])).collect(),
        lineage: 1,
        scheme: Scheme::new(2, 1).unwrap(),
        unit: BlockCount(UNIT),
        checksums: true,
        wipe: false,
    };
    executor.run(async {
        create(&offer(&drives, &handle), &options).await.unwrap();
        let volume = start(&drives, &handle).await;
        let data = (0..u64::from(WRITTEN)).map(|at| block(at + 1)).collect();
        let payload = Payload { data, oob: Bytes::new() };
        volume.write(ZoneAddress::new(ZoneId(0), 0), payload, true).await.unwrap();
        volume.close().await;
    });
    drives
}

async fn start(drives: &[RamDrive], handle: &Handle) -> Volume {
    open(handle, offer(drives, handle), OpenOptions::default()).await.unwrap().0
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

/// As many blocks as the parity log has room for, an eighth of a zone, and no more.
#[test]
fn damage_beyond_the_parity_log_stays() {
    let drives = written(OobKind::Separate);
    drives[2].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 0), BlockCount(40));
    let report = scrubbed(&drives);
    assert_eq!((report.damaged, report.relocated, report.left), (40, 30, 10), "{report:?}");
    assert_eq!(report.unrepairable, 0);
}
