//! Ends of zones at starts: what drives say of the blocks there, and what they do not.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{MemberErrors, OfferedDrive};
use zoneweave_raid::raizn::{GivenUp, OpenError, OpenOptions, Unread, UnreadPart, Volume, open};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZoneState, ZonedDeviceExt,
};

use super::drives::{
    FIRST_COLUMN, LOG_ZONES, STRIPE, UNIT, create_on, drives, executor, offer, write,
};
use super::logs::{silence_log, with_volume};
use super::model::block;
use super::stalling::Stalling;
use crate::support::life::assert_hit;

/// Complete stripes, and a part of the first data unit of another one.
const PARTIAL: u32 = 10 * STRIPE + 3;
const COLUMN: ZoneId = ZoneId(FIRST_COLUMN);

/// A volume whose first zone has so many blocks.
fn written(blocks: u32) -> Vec<RamDrive> {
    let drives = drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, UNIT));
    drop(executor);
    with_volume(&drives, async |volume| write(volume, 0, 0, blocks).await.unwrap());
    drives
}

/// Fails reads of the first column of a drive.
fn silence(drive: &RamDrive) {
    let reads = Selector::next(CommandKind::Read).in_zone(COLUMN).always();
    drive.inject(reads, FaultAction::Fail(Status::Aborted));
}

fn hear(drive: &RamDrive) {
    drive.faults(|plan| *plan = FaultPlan::default());
}

fn opened(drives: &[RamDrive], force: bool) -> Result<u32, OpenError> {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let options = OpenOptions { force, lineage: Lineage(9) };
        let (volume, _) = open(&handle, offer(drives, &handle), options).await?;
        let end = volume.report().await.unwrap()[0].write_pointer.0;
        volume.close().await;
        Ok(end)
    })
}

async fn holds(volume: &Volume, blocks: u32) {
    let at = ZoneAddress::new(ZoneId(0), 0);
    let read = volume.read_in_pieces(at, BlockCount(blocks)).await.unwrap();
    assert!((1..).zip(read.iter_blocks()).all(|(tag, found)| found == block(tag)));
}

/// The drive with the first data unit of the last stripe, and the one with its parity.
fn last_stripe_of(drives: &[RamDrive]) -> (usize, usize) {
    let has_log = |at: &usize| {
        LOG_ZONES.into_iter().any(|zone| drives[*at].zone(ZoneId(zone)).write_pointer.0 > 0)
    };
    let data = (0..3).max_by_key(|at| drives[*at].zone(COLUMN).write_pointer).expect("drives");
    (data, (0..3).find(has_log).expect("its parity"))
}

/// Drives but one.
fn without(drives: &[RamDrive], away: usize) -> Vec<RamDrive> {
    (0..3).filter(|at| *at != away).map(|at| drives[at].clone()).collect()
}

/// A drive whose path failed for a moment while another one was away: the start took the zone to
/// end before the blocks that were not read, and the volume forgot them.
#[test]
fn a_start_without_a_member_that_lacks_answers_of_a_column_is_refused() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    silence(&drives[data]);
    let left = without(&drives, parity);
    let refused = opened(&left, false);
    let Err(OpenError::Unread(Unread { part, slot, status })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((part, slot.index(), status), (UnreadPart::Zone(0), data, Status::Aborted));
    hear(&drives[data]);
    with_volume(&left, async |volume| {
        assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, PARTIAL);
        holds(volume, PARTIAL).await;
    });
    assert_hit(&[Mark::ZonedTailUnread]);
}

/// A path that was down for a moment made a start fail.
#[test]
fn a_start_repeats_reads_without_an_answer() {
    for of_log in [false, true] {
        let drives = written(PARTIAL);
        let (data, parity) = last_stripe_of(&drives);
        let (silent, away) = if of_log { (parity, data) } else { (data, parity) };
        let zones = if of_log { LOG_ZONES } else { FIRST_COLUMN..FIRST_COLUMN + 1 };
        for zone in zones {
            let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).times(20);
            drives[silent].inject(reads, FaultAction::Fail(Status::Aborted));
        }
        with_volume(&without(&drives, away), async |volume| {
            assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, PARTIAL);
            holds(volume, PARTIAL).await;
        });
    }
    assert_hit(&[Mark::ZonedStartRepeated]);
}

/// A start that takes long has the same time for a drive that gives no answer for a moment: the
/// last zone was cut short by force.
#[test]
fn a_start_repeats_reads_however_long_it_took_before() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    let slow = Selector::next(CommandKind::Report).times(1);
    drives[data].inject(slow, FaultAction::Slow(Nanos::from_secs(30)));
    let reads = Selector::next(CommandKind::Read).in_zone(COLUMN).times(20);
    drives[data].inject(reads, FaultAction::Fail(Status::Aborted));
    let left = without(&drives, parity);
    let executor = executor();
    let handle = executor.handle();
    let options = OpenOptions { force: true, lineage: Lineage(9) };
    let (volume, report) = executor.run(open(&handle, offer(&left, &handle), options)).unwrap();
    assert!(handle.now() > Nanos::from_secs(30) && report.given_up.is_empty());
    executor.run(holds(&volume, PARTIAL));
}

/// Force that was meant for a missing member gave up ends of zones as well, without a word.
#[test]
fn a_start_by_force_lists_what_it_gives_up() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    silence(&drives[data]);
    let left = without(&drives, parity);
    let executor = executor();
    let handle = executor.handle();
    let options = OpenOptions { force: true, lineage: Lineage(9) };
    let (_, report) = executor.run(open(&handle, offer(&left, &handle), options)).unwrap();
    let slot = Column::of(data);
    let unread = Unread { part: UnreadPart::Zone(0), slot, status: Status::Aborted };
    assert_eq!(report.given_up, [GivenUp { zone: 0, unread }]);
}

/// Checks that a start is refused for want of an answer.
fn assert_refused(drives: &[RamDrive], part: UnreadPart, slot: usize) {
    let refused = opened(drives, false);
    let Err(OpenError::Unread(unread)) = refused else { panic!("{refused:?}") };
    assert_eq!((unread.part, unread.slot.index()), (part, slot));
    assert_eq!(unread.status, Status::Aborted);
}

/// A worn zone counted for a column that is there. So the start took the zone to end, or to be
/// empty, because the log that could make up for the column was not read.
#[test]
fn a_start_that_lacks_answers_beside_an_offline_column_is_refused() {
    for blocks in [3, PARTIAL] {
        let drives = written(blocks);
        let (data, parity) = last_stripe_of(&drives);
        drives[data].set_offline(COLUMN);
        silence_log(&drives[parity]);
        assert_refused(&drives, UnreadPart::ParityLog, parity);
        hear(&drives[parity]);
        with_volume(&drives, async |volume| {
            assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, blocks);
            holds(volume, blocks).await;
        });
    }
}

/// A log that had lost blocks counted for one without records of the zone.
#[test]
fn a_start_that_lacks_answers_beside_a_damaged_log_is_refused() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    silence(&drives[data]);
    lose_log(&drives[parity]);
    assert_refused(&drives, UnreadPart::Zone(0), data);
    hear(&drives[data]);
    with_volume(&drives, async |volume| {
        assert_eq!(volume.report().await.unwrap()[0].write_pointer.0, PARTIAL);
        holds(volume, PARTIAL).await;
    });
}

/// An operator may decide that a drive will never answer.
#[test]
fn a_forced_start_gives_up_what_is_not_read() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    silence(&drives[data]);
    assert_eq!(opened(&without(&drives, parity), true).unwrap(), 10 * STRIPE);
}

/// The places of blocks were given up, because the path to them had failed once.
#[test]
fn blocks_that_are_not_read_keep_their_places() {
    let drives = written(PARTIAL);
    let (data, _) = last_stripe_of(&drives);
    silence(&drives[data]);
    assert_eq!(opened(&drives, false).unwrap(), PARTIAL);
    hear(&drives[data]);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let offered = offer(&drives, &handle);
        let (volume, report) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        assert_eq!(report.relocated_blocks, 0);
        holds(&volume, PARTIAL).await;
        volume.close().await;
    });
}

/// A start panicked when a drive had lost blocks on both sides of one that a scrub had moved.
#[test]
fn a_drive_gets_back_what_it_lost_around_a_moved_block() {
    let drives = written(PARTIAL);
    drives[0].set_unreadable(ZoneAddress::new(COLUMN, 38), BlockCount(1));
    with_volume(&drives, async |volume| {
        assert_eq!(volume.scrub().await.unwrap().relocated, 1);
    });
    let start = ZoneAddress::new(COLUMN, 0);
    let kept = drives[0].peek(start, BlockCount(30));
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let device = drives[0].attach(&handle);
        device.manage(COLUMN, ZoneAction::Reset).await.unwrap();
        device.write(start, kept, true).await.unwrap();
    });
    drop(executor);
    with_volume(&drives, async |volume| {
        write(volume, 0, PARTIAL, STRIPE).await.unwrap();
        holds(volume, PARTIAL + STRIPE).await;
        assert_eq!(volume.scrub().await.unwrap().damaged, 0);
    });
    let left = without(&drives, 1);
    with_volume(&left, async |volume| holds(volume, PARTIAL + STRIPE).await);
    assert_hit(&[Mark::ZonedColumnFellBack]);
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

/// A scrub had moved a block of the last parity to the log, which lost it. The next start wrote the
/// rest of that parity again, behind the end of the drive's full zone, and evicted the member.
#[test]
fn parity_of_a_finished_zone_is_not_written_twice() {
    let drives = written(PARTIAL);
    let (_, parity) = last_stripe_of(&drives);
    with_volume(&drives, async |volume| {
        volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
    });
    drives[parity].set_unreadable(ZoneAddress::new(COLUMN, 10 * UNIT), BlockCount(1));
    // It is moved, by the start or by the scrub.
    with_volume(&drives, async |volume| {
        assert_eq!(volume.scrub().await.unwrap().unrepairable, 0);
    });
    lose_log(&drives[parity]);
    with_volume(&drives, async |volume| {
        assert!(volume.status().members.iter().all(|member| member.online));
        let report = volume.scrub().await.unwrap();
        assert_eq!(report.damaged, 0, "{report:?}");
    });
    let left = without(&drives, (parity + 1) % 3);
    with_volume(&left, async |volume| holds(volume, PARTIAL).await);
    assert_hit(&[Mark::ZonedLastParityRelocated]);
}

/// The finish of a zone was interrupted before its last parity was in place, and data of that
/// stripe was lost. The columns of the zone stayed active for good.
#[test]
fn a_finished_zone_whose_last_stripe_is_lost_takes_no_active_zone() {
    let drives = written(PARTIAL);
    let (data, parity) = last_stripe_of(&drives);
    let executor = executor();
    let handle = executor.handle();
    let stalls = Rc::new(Cell::new(false));
    let offered = drives.iter().map(|drive| OfferedDrive {
        device: Stalling::of(drive.attach(&handle), FIRST_COLUMN..u32::MAX, &stalls),
        label: "drive".to_owned(),
    });
    let offered = offered.collect();
    let end = Nanos::from_secs(1);
    let clock = handle.clone();
    handle.spawn("clock", async move { clock.sleep_until(end).await });
    let life = async {
        let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        stalls.set(true);
        volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
    };
    assert!(executor.run_until(life, || handle.now() >= end).is_none(), "its parity has no answer");
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    drives[data].set_unreadable(ZoneAddress::new(COLUMN, 10 * UNIT), BlockCount(1));
    lose_log(&drives[parity]);
    with_volume(&drives, async |volume| {
        assert_eq!(volume.report().await.unwrap()[0].state, ZoneState::Full);
    });
    assert!(drives.iter().all(|drive| !drive.zone(COLUMN).state.is_active()));
    assert_hit(&[Mark::ZonedFinishedWithLoss]);
}

/// A start read a finished zone up to the drives' write pointers, and counted the blocks behind the
/// zone's own end as errors of healthy members.
#[test]
fn what_lies_behind_a_finished_zone_is_no_error() {
    for blocks in [PARTIAL, 10 * STRIPE] {
        let drives = written(blocks);
        with_volume(&drives, async |volume| {
            volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
        });
        with_volume(&drives, async |volume| {
            holds(volume, blocks).await;
            for member in volume.status().members {
                assert_eq!(member.errors, MemberErrors::default(), "slot {}", member.slot);
            }
        });
    }
}
