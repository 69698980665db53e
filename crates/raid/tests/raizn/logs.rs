//! Starts where blocks of a member's parity log are lost, or are not read.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::raizn::{OpenError, OpenOptions, Unread, UnreadPart, Volume, open};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAddress, ZoneId, ZoneState, ZonedDeviceExt,
};

use super::drives::{
    FIRST_COLUMN, LOG_ZONES, STRIPE, UNIT, create_on, drives, executor, offer, start, write,
};
use super::junk::leave_junk;
use super::model::block;
use super::stalling::Stalling;
use crate::support::life::assert_hit;

/// Blocks of a zone of the volume: two data units of each stripe.
const ZONE_BLOCKS: u32 = 2 * CAPACITY;
const CAPACITY: u32 = 240;

fn new_volume() -> Vec<RamDrive> {
    let drives = drives(OobKind::Separate, CAPACITY);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, UNIT));
    drives
}

/// Runs something on a volume that is closed afterwards.
pub(super) fn with_volume(drives: &[RamDrive], work: impl AsyncFnOnce(&Volume)) {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(drives, &handle).await;
        work(&volume).await;
        volume.close().await;
    });
}

/// Makes everything in the parity log of a member unreadable.
fn lose_log(drive: &RamDrive) {
    for zone in LOG_ZONES {
        let written = drive.zone(ZoneId(zone)).write_pointer;
        if written.0 > 0 {
            drive.set_unreadable(ZoneAddress::new(ZoneId(zone), 0), BlockCount(written.0));
        }
    }
}

/// Starts without the last member; checks that a zone is full, and returns how many of its blocks
/// cannot be read.
fn lost_of_full_zone(drives: &[RamDrive], zone: u32) -> usize {
    let mut lost = 0;
    with_volume(&drives[..2], async |volume| {
        let zones = volume.report().await.unwrap();
        assert_eq!(zones[zone as usize].state, ZoneState::Full, "{:?}", zones[zone as usize]);
        for at in 0..ZONE_BLOCKS {
            match volume.read(ZoneAddress::new(ZoneId(zone), at), BlockCount(1)).await {
                Ok(read) => assert_eq!(read.block(0), block(u64::from(at) + 1)),
                Err(status) => {
                    assert_eq!(status, Status::UnrecoveredRead);
                    lost += 1;
                }
            }
        }
    });
    lost
}

/// The start took the zone to end before the block, and the blocks behind it were lost for good.
#[test]
fn a_lost_log_block_costs_a_scrubbed_zone_no_other_block() {
    let drives = new_volume();
    with_volume(&drives, async |volume| write(volume, 0, 0, ZONE_BLOCKS).await.unwrap());
    drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 1), BlockCount(1));
    with_volume(&drives, async |volume| {
        assert_eq!(volume.scrub().await.unwrap().relocated, 1);
    });
    lose_log(&drives[0]);
    assert_eq!(lost_of_full_zone(&drives, 0), 1);
}

/// As above, where a crash left junk and the zone was filled later.
#[test]
fn a_lost_log_block_costs_a_full_zone_with_junk_no_other_block() {
    const JUNK_STRIPES: u32 = 3;
    let drives = new_volume();
    assert!(leave_junk(&drives, 3, STRIPE, JUNK_STRIPES, |_| 0).is_none());
    with_volume(&drives, async |volume| {
        write(volume, 3, STRIPE, ZONE_BLOCKS - STRIPE).await.unwrap();
    });
    // It is finished on record.
    with_volume(&drives, async |_| {});
    lose_log(&drives[0]);
    // A unit of each stripe, and of the one with parity on the second drive that of the third, too.
    assert_eq!(lost_of_full_zone(&drives, 3), ((JUNK_STRIPES + 1) * UNIT) as usize);
}

/// Complete stripes, and a part of the first data unit of another one.
const PARTIAL: u32 = 10 * STRIPE + 3;

/// Whether anything is in the parity log of a member.
fn has_log(drive: &RamDrive) -> bool {
    LOG_ZONES.into_iter().any(|zone| drive.zone(ZoneId(zone)).write_pointer.0 > 0)
}

/// Fails reads of the parity log of a member.
pub(super) fn silence_log(drive: &RamDrive) {
    for zone in LOG_ZONES {
        let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
        drive.inject(reads, FaultAction::Fail(Status::Aborted));
    }
}

/// Checks that a start is refused because the parity log of a member is not read.
fn assert_refused(drives: &[RamDrive], silent: usize) {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let offered = offer(drives, &handle);
        let refused = open(&handle, offered, OpenOptions::default()).await.err();
        let Some(OpenError::Unread(unread)) = refused else { panic!("{refused:?}") };
        let Unread { part, slot, status } = unread;
        assert_eq!(part, UnreadPart::ParityLog);
        assert_eq!((slot.index(), status), (silent, Status::Aborted));
    });
}

/// A path that failed for a moment had the start take the zone to end with its last complete
/// stripe, and write something else behind that.
#[test]
fn a_start_that_lacks_answers_of_a_log_is_refused() {
    let drives = new_volume();
    with_volume(&drives, async |volume| write(volume, 0, 0, PARTIAL).await.unwrap());
    let silent = drives[..2].iter().position(has_log).expect("the parity of the last stripe");
    silence_log(&drives[silent]);
    assert_refused(&drives[..2], silent);
    drives[silent].faults(|plan| *plan = FaultPlan::default());
    with_volume(&drives[..2], async |volume| {
        assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, PARTIAL);
    });
}

/// The start wrote a checkpoint without a moved block that it had not read, and emptied the log.
#[test]
fn a_start_that_lacks_answers_of_moved_blocks_is_refused() {
    let drives = new_volume();
    with_volume(&drives, async |volume| write(volume, 0, 0, ZONE_BLOCKS).await.unwrap());
    drives[0].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN), 1), BlockCount(1));
    with_volume(&drives, async |volume| {
        assert_eq!(volume.scrub().await.unwrap().relocated, 1);
    });
    silence_log(&drives[0]);
    assert_refused(&drives, 0);
    drives[0].faults(|plan| *plan = FaultPlan::default());
    assert_eq!(lost_of_full_zone(&drives, 0), 0);
    assert_hit(&[Mark::ZonedRelocatedUnread]);
}

/// The start reset the zone that it had not read, and wrote its checkpoint there. Until the start
/// was published, nothing else had that parity.
#[test]
fn a_zone_of_a_log_that_is_not_read_is_kept_until_the_start_is_published() {
    let drives = new_volume();
    with_volume(&drives, async |volume| write(volume, 0, 0, PARTIAL).await.unwrap());
    let silent = drives.iter().position(has_log).expect("the parity of the last stripe");
    let column_end = |at: &usize| drives[*at].zone(ZoneId(FIRST_COLUMN)).write_pointer;
    let data = (0..3).max_by_key(column_end).expect("data of the last stripe");
    silence_log(&drives[silent]);
    let executor = executor();
    let handle = executor.handle();
    // The checkpoint has no answer.
    let stalls = Rc::new(Cell::new(true));
    let offered = drives.iter().map(|drive| OfferedDrive {
        device: Stalling::of(drive.attach(&handle), LOG_ZONES, &stalls),
        label: "drive".to_owned(),
    });
    let start = open(&handle, offered.collect(), OpenOptions::default());
    let end = Nanos::from_secs(1);
    let clock = handle.clone();
    handle.spawn("clock", async move { clock.sleep_until(end).await });
    assert!(executor.run_until(start, || handle.now() >= end).is_none(), "it is not published");
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    drives[silent].faults(|plan| *plan = FaultPlan::default());
    let left: Vec<_> = (0..3).filter(|at| *at != data).map(|at| drives[at].clone()).collect();
    with_volume(&left, async |volume| {
        assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, PARTIAL);
    });
}
