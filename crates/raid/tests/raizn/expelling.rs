//! A drive that is away is expelled only by a start, or an order, that then takes place: one that
//! is refused leaves all drives as they were.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::array::format::scrubs::ScrubRun;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::raizn::{OpenError, OpenOptions, ReplaceError, Unread, UnreadPart, open};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZonedDeviceExt,
};

use super::drives::{
    FIRST_COLUMN, LOG_ZONES, STRIPE, UNIT, create_as, drives as blank_drives, executor, offer,
    some_drives, start, write,
};
use super::logs::{silence_log, with_volume};
use super::returning::{
    AWAY, FULL, OPEN, PARTIAL, assert_whole, away_of, closed, copies, epoch_of, media, reads,
    start_without, without,
};
use crate::support::life::assert_hit;

/// Checks that no drive was written, and that each two of them start.
fn assert_untouched(drives: &[RamDrive], before: &[(ZoneInfo, Vec<u8>)]) {
    assert!(media(drives) == before, "a drive was written");
    for away in 0..drives.len() {
        without(drives, away, async |volume| {
            assert_eq!(reads(volume, OPEN, PARTIAL).await, Ok(true), "without drive {away}");
        });
    }
}

/// A second drive died unnoticed. The first change was recorded on the third drive alone, without
/// the one that was away: once that was back, the two had no majority for any membership.
#[test]
fn a_drive_that_died_before_the_first_change_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    without(&drives, AWAY, async |volume| {
        let all = Selector::default().always();
        drives[0].inject(all, FaultAction::Fail(Status::DeviceGone));
        assert!(write(volume, OPEN, PARTIAL, 1).await.is_err());
        assert!(volume.manage(ZoneId(FULL), ZoneAction::Reset).await.is_err());
        assert!(volume.status().stopped.is_some());
    });
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}

/// Starts without a drive, which is refused; returns why.
fn refused(drives: &[RamDrive], away: usize) -> OpenError {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let mut offered = offer(drives, &handle);
        offered.remove(away);
        let opened = open(&handle, offered, OpenOptions::default()).await;
        opened.err().expect("the start is refused")
    })
}

/// The start saw that a parity log was not read, expelled the drive that was away, and was refused
/// because of the log. That drive could not take the place of the one with the log any more.
#[test]
fn a_start_that_lacks_answers_of_a_log_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    silence_log(&drives[0]);
    let error = refused(&drives, AWAY);
    let OpenError::Unread(Unread { part: UnreadPart::ParityLog, slot, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(slot, Column::of(0));
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}

/// A drive died while the start read its parity log. The start recorded on the last drive that the
/// one that was away is out, and then met the death again.
#[test]
fn a_start_during_which_a_drive_dies_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    for zone in LOG_ZONES {
        let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
        drives[0].inject(reads, FaultAction::Fail(Status::DeviceGone));
    }
    let error = refused(&drives, AWAY);
    let OpenError::StoppedBy { slot, .. } = &error else { panic!("{error}") };
    assert_eq!(*slot, Column::of(0), "{error}");
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}

/// A block was lost that the drive that was away could restore. The start ended the zone before it,
/// for good, and expelled that drive: the write pointer moved back over flushed blocks.
#[test]
fn a_start_that_would_cut_a_zone_expels_nobody() {
    let drives = closed();
    let epoch = epoch_of(&drives);
    let last = ZoneAddress::new(ZoneId(FIRST_COLUMN + OPEN), 10 * UNIT);
    drives[1].set_unreadable(last, BlockCount(1));
    let before = media(&drives);
    let error = refused(&drives, AWAY);
    assert!(matches!(error, OpenError::WouldCut { zone: OPEN }), "{error}");
    assert!(media(&drives) == before, "a drive was written");
    assert_whole(&drives, epoch);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let mut offered = offer(&drives, &handle);
        offered.remove(AWAY);
        let options = OpenOptions { force: true, ..OpenOptions::default() };
        let (volume, _) = open(&handle, offered, options).await.unwrap();
        let end = volume.report().await.unwrap()[OPEN as usize].write_pointer.0;
        assert_eq!(end, 10 * STRIPE, "force gives the block up");
        volume.close().await;
    });
}

/// As above, where nothing of the zone could be read: the start reset it.
#[test]
fn a_start_that_would_empty_a_zone_expels_nobody() {
    let drives = closed();
    with_volume(&drives, async |volume| {
        volume.manage(ZoneId(FULL), ZoneAction::Reset).await.unwrap();
        write(volume, FULL, 0, 1).await.unwrap();
    });
    // The parity of the block is in the log of the first drive.
    drives[1].set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + FULL), 0), BlockCount(1));
    let before = media(&drives);
    let error = refused(&drives, 0);
    assert!(matches!(error, OpenError::WouldCut { zone: FULL }), "{error}");
    assert!(media(&drives) == before, "a drive was written");
    with_volume(&drives, async |volume| assert_eq!(reads(volume, FULL, 1).await, Ok(true)));
}

/// The replacement had a zone that cannot be written. The order was refused, but the drive that it
/// was to replace was out, though it was on its way.
#[test]
fn a_replacement_that_is_refused_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    let blank = blank_drives(OobKind::Separate, 120).swap_remove(0);
    blank.set_read_only(ZoneId(FIRST_COLUMN));
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start_without(&drives, AWAY, &handle).await;
        let device = blank.attach(&handle);
        let refused = volume.replace(Column::of(AWAY), device, MemberUuid([9; 16])).await;
        assert_eq!(refused, Err(ReplaceError::UnusableZone { zone: FIRST_COLUMN }));
        assert!(away_of(&volume).missing);
        volume.close().await;
    });
    drop(executor);
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}

/// Blocks of the first zone of [`volume_of`]: complete stripes, and a part of another one.
const WRITTEN: u32 = 101;

/// A volume of so many data units and parity units, which was closed.
fn volume_of(data: usize, parity: usize) -> Vec<RamDrive> {
    let drives = some_drives(data + parity, 120);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_as(&drives, &handle, UNIT, Scheme::new(data, parity).unwrap()));
    drop(executor);
    with_volume(&drives, async |volume| write(volume, OPEN, 0, WRITTEN).await.unwrap());
    drives
}

/// Has a drive refuse every write, and answer everything else.
fn make_unwritable(drive: &RamDrive) {
    for kind in [CommandKind::Write, CommandKind::Append] {
        drive.inject(Selector::next(kind).always(), FaultAction::Fail(Status::WriteFault));
    }
}

/// Checks that a volume starts with all drives, and without each of them, with its first blocks.
fn assert_all_start(drives: &[RamDrive], epoch: u64, blocks: u32) {
    for away in 0..=drives.len() {
        let drives = copies(drives);
        without(&drives, away, async |volume| {
            let members = volume.status().members;
            let online = members.iter().filter(|member| member.online).count();
            assert_eq!(online, drives.len() - usize::from(away < drives.len()));
            assert_eq!(volume.status().epoch.0, epoch, "without drive {away}");
            assert_eq!(reads(volume, OPEN, blocks).await, Ok(true), "without drive {away}");
        });
    }
}

/// A second drive answered, and took no write. The others recorded that the first one is out, and
/// then could not do without the second: no start had both any more.
#[test]
fn a_drive_that_takes_no_write_expels_nobody() {
    for (data, parity) in [(2, 1), (4, 1)] {
        let drives = volume_of(data, parity);
        let epoch = epoch_of(&drives);
        make_unwritable(&drives[0]);
        for _ in 0..2 {
            without(&drives, AWAY, async |volume| {
                assert!(away_of(volume).missing);
                assert_eq!(reads(volume, OPEN, WRITTEN).await, Ok(true));
                assert!(write(volume, OPEN, WRITTEN, 1).await.is_err());
                assert!(volume.status().stopped.is_some());
            });
        }
        // With all others there, it is taken out itself.
        with_volume(&copies(&drives)[1..], async |volume| {
            assert_eq!(reads(volume, OPEN, WRITTEN).await, Ok(true));
        });
        let forks = copies(&drives);
        make_unwritable(&forks[0]);
        with_volume(&forks, async |volume| {
            assert_eq!(reads(volume, OPEN, WRITTEN).await, Ok(true));
            write(volume, OPEN, WRITTEN, 1).await.unwrap();
        });
        drives[0].faults(|plan| plan.clear());
        assert_all_start(&drives, epoch, WRITTEN);
    }
    assert_hit(&[Mark::ProbeRefused]);
}

/// As above, where the records before the first change begin a zone of the superblock.
#[test]
fn a_drive_that_takes_no_write_expels_nobody_where_superblock_zones_are_full() {
    let drives = volume_of(2, 1);
    let epoch = epoch_of(&drives);
    for records in 90..120 {
        with_volume(&drives, async |volume| {
            for run in 0..records {
                volume.record_scrub(ScrubRun::begin(run)).await.unwrap();
            }
        });
        make_unwritable(&drives[0]);
        without(&drives, AWAY, async |volume| {
            assert!(write(volume, OPEN, WRITTEN, 1).await.is_err());
        });
        drives[0].faults(|plan| plan.clear());
        // The clean stop counts all the same.
        without(&drives, 1, async |volume| {
            assert!(volume.status().members[1].missing, "{records} records");
        });
    }
    assert_all_start(&drives, epoch, WRITTEN);
}

/// As above, after a kill: the start does not wait for the first change.
#[test]
fn a_drive_that_takes_no_write_expels_nobody_after_a_kill() {
    for (data, parity) in [(2, 1), (4, 1)] {
        let drives = volume_of(data, parity);
        let epoch = epoch_of(&drives);
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let volume = start(&drives, &handle).await;
            write(&volume, OPEN, WRITTEN, 1).await.unwrap();
        });
        drop(executor);
        drives.iter().for_each(|drive| drive.process_kill(1));
        make_unwritable(&drives[0]);
        for _ in 0..2 {
            let error = refused(&drives, AWAY);
            let OpenError::StoppedBy { slot, .. } = &error else { panic!("{error}") };
            assert_eq!(*slot, Column::of(0), "{error}");
        }
        drives[0].faults(|plan| plan.clear());
        with_volume(&drives, async |volume| {
            assert_eq!(volume.status().epoch.0, epoch);
            assert!(volume.status().members.iter().all(|member| member.online));
        });
        assert_all_start(&drives, epoch, WRITTEN + 1);
    }
}

/// The redundancy covers two drives. One was away, and another one stopped answering while the
/// start read it: the start recorded both as out at once.
#[test]
fn a_second_drive_that_dies_during_a_start_is_not_expelled_either() {
    let drives = volume_of(4, 2);
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    // One with partial parity in its log, which the start reads.
    let has_log = |at: &usize| {
        let zone = |zone| drives[*at].zone(ZoneId(zone));
        *at != AWAY && LOG_ZONES.into_iter().any(|at| zone(at).write_pointer.0 > 0)
    };
    let dying = (0..drives.len()).find(has_log).unwrap();
    let die = || {
        for zone in LOG_ZONES {
            let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
            drives[dying].inject(reads, FaultAction::Fail(Status::DeviceGone));
        }
    };
    die();
    without(&drives, AWAY, async |volume| {
        let members = volume.status().members;
        assert!(!members[dying].online && !members[AWAY].online, "{members:?}");
        assert_eq!(reads(volume, OPEN, WRITTEN).await, Ok(true));
        assert_eq!(volume.status().epoch.0, epoch);
    });
    drives[dying].faults(|plan| plan.clear());
    assert!(media(&drives) == before, "a drive was written");
    assert_hit(&[Mark::ZonedWaitsWithoutMore]);
    assert_all_start(&drives, epoch, WRITTEN);
    // The first change records both.
    die();
    without(&drives, AWAY, async |volume| {
        write(volume, OPEN, WRITTEN, 1).await.unwrap();
        assert_eq!(volume.status().epoch.0, epoch + 1);
    });
    drives[dying].faults(|plan| plan.clear());
    with_volume(&drives, async |volume| {
        for (at, member) in volume.status().members.iter().enumerate() {
            assert_eq!(member.online, at != AWAY && at != dying, "{member:?}");
        }
        assert_eq!(reads(volume, OPEN, WRITTEN + 1).await, Ok(true));
    });
}
