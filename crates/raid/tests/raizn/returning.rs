//! Starts of a zoned volume without one of its drives, which is back later: it is expelled before
//! the first change that it misses, and not before.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;

use futures_util::future::{join, join4};
use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::array::format::scrubs::ScrubRun;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::DriveRole;
use zoneweave_raid::raizn::{MemberStatus, OpenOptions, Volume, open};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Executor, Handle};
use zoneweave_zoned::{
    BlockCount, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt,
};

use super::drives::{
    FIRST_COLUMN, STRIPE, UNIT, create_on, drives, executor, offer, timing, write,
};
use super::logs::with_volume;
use super::model::block;
use crate::support::life::assert_hit;

/// Complete stripes, and a part of the second data unit of another one.
pub(super) const PARTIAL: u32 = 10 * STRIPE + UNIT + 1;
/// The zones of the volume: one in the middle of a stripe, one that is full, one that was finished
/// early, and one that was finished before it had a block.
pub(super) const OPEN: u32 = 0;
pub(super) const FULL: u32 = 1;
pub(super) const FINISHED: u32 = 2;
pub(super) const NOTHING: u32 = 3;
/// The drive that is away.
pub(super) const AWAY: usize = 2;

/// A volume that was closed, on drives with caches.
pub(super) fn closed() -> Vec<RamDrive> {
    let drives = drives(OobKind::Separate, 120);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, UNIT));
    drop(executor);
    with_volume(&drives, async |volume| {
        let capacity = volume.geometry().zone_capacity.0;
        for (zone, blocks) in [(OPEN, PARTIAL), (FULL, capacity), (FINISHED, STRIPE + 1)] {
            write(volume, zone, 0, blocks).await.unwrap();
        }
        for zone in [FINISHED, NOTHING] {
            volume.manage(ZoneId(zone), ZoneAction::Finish).await.unwrap();
        }
    });
    assert_hit(&[Mark::ZonedStopRecorded]);
    drives
}

/// All zones of a drive, and everything that is stored in them.
pub(super) fn media(drives: &[RamDrive]) -> Vec<(ZoneInfo, Vec<u8>)> {
    let mut media = Vec::new();
    for drive in drives {
        for zone in (0..drive.geometry().zones).map(ZoneId) {
            let stored = drive.peek(ZoneAddress::new(zone, 0), drive.geometry().zone_capacity);
            let blocks = stored.iter_blocks().flat_map(|block| block.to_vec());
            media.push((drive.zone(zone), blocks.chain(stored.oob.to_vec()).collect()));
        }
    }
    media
}

/// The same drives, to be used apart.
pub(super) fn copies(drives: &[RamDrive]) -> Vec<RamDrive> {
    (0..).zip(drives).map(|(at, drive)| drive.fork(timing(at))).collect()
}

/// Starts without a drive.
pub(super) async fn start_without(drives: &[RamDrive], away: usize, handle: &Handle) -> Volume {
    let offered = offer(drives, handle).into_iter().enumerate();
    let left = offered.filter(|(at, _)| *at != away).map(|(_, drive)| drive);
    open(handle, left.collect(), OpenOptions::default()).await.unwrap().0
}

/// Runs something on a volume without a drive, which is closed afterwards.
pub(super) fn without(drives: &[RamDrive], away: usize, work: impl AsyncFnOnce(&Volume)) {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start_without(drives, away, &handle).await;
        work(&volume).await;
        volume.close().await;
    });
}

pub(super) fn away_of(volume: &Volume) -> MemberStatus {
    volume.status().members[AWAY].clone()
}

pub(super) async fn reads(volume: &Volume, zone: u32, blocks: u32) -> Result<bool, Status> {
    let read = volume.read_in_pieces(ZoneAddress::new(ZoneId(zone), 0), BlockCount(blocks)).await?;
    Ok((1..).zip(read.iter_blocks()).all(|(tag, found)| found == block(tag)))
}

/// Checks that all zones are as they were left.
async fn assert_kept(volume: &Volume) {
    let zones = volume.report().await.unwrap();
    let states: Vec<_> = zones.iter().map(|zone| zone.state).collect();
    assert_eq!(states, [ZoneState::Closed, ZoneState::Full, ZoneState::Full, ZoneState::Full]);
    assert_eq!(zones[OPEN as usize].write_pointer.0, PARTIAL);
    let capacity = volume.geometry().zone_capacity.0;
    for (zone, blocks) in [(OPEN, PARTIAL), (FULL, capacity), (FINISHED, STRIPE + 1)] {
        assert_eq!(reads(volume, zone, blocks).await, Ok(true), "zone {zone}");
    }
}

/// All members are in service, and no membership was ever changed.
pub(super) fn assert_whole(drives: &[RamDrive], epoch: u64) {
    with_volume(&copies(drives), async |volume| {
        assert!(volume.status().members.iter().all(|member| member.online));
        assert_eq!(volume.status().epoch.0, epoch);
        assert_kept(volume).await;
    });
}

pub(super) fn epoch_of(drives: &[RamDrive]) -> u64 {
    let mut epoch = 0;
    with_volume(&copies(drives), async |volume| epoch = volume.status().epoch.0);
    epoch
}

/// Four starts in a row, each without another drive: reads, reports, flushes and what is done
/// already change nothing on any drive, and nobody is expelled.
#[test]
fn a_start_without_a_drive_writes_nothing_before_a_change() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    for away in [2, 0, 1, 2] {
        without(&drives, away, async |volume| {
            let members = volume.status().members;
            let missing: Vec<_> = members.iter().map(|member| member.missing).collect();
            assert_eq!(missing, [away == 0, away == 1, away == 2]);
            assert!(members.iter().all(|member| member.online != member.missing));
            assert_kept(volume).await;
            volume.flush().await.unwrap();
            volume.resume_rebuilds().await.unwrap();
            for action in [ZoneAction::Open, ZoneAction::Close] {
                volume.manage(ZoneId(OPEN), action).await.unwrap();
            }
            volume.manage(ZoneId(FULL), ZoneAction::Finish).await.unwrap();
            assert!(write(volume, FULL, 0, 1).await.is_err());
            // Another slot than that of the drive that is away: an order that is refused.
            assert!(volume.fail(Column::of((away + 1) % 3)).await.is_err());
            assert!(volume.status().members[away].missing);
        });
        assert!(media(&drives) == before, "a start without drive {away} wrote");
    }
    assert_whole(&drives, epoch);
    assert_hit(&[Mark::ZonedStartUnpublished, Mark::ZonedClosedUnpublished]);
}

/// A new volume, which was never started: each start lacks another drive, and nobody is expelled.
#[test]
fn a_new_volume_waits_for_a_drive_that_is_away() {
    let drives = drives(OobKind::Separate, 120);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, UNIT));
    drop(executor);
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    for away in [2, 0, 1] {
        without(&drives, away, async |volume| {
            assert!(volume.status().members[away].missing);
            volume.flush().await.unwrap();
        });
        assert!(media(&drives) == before, "a start without drive {away} wrote");
    }
    with_volume(&copies(&drives), async |volume| {
        assert!(volume.status().members.iter().all(|member| member.online));
        assert_eq!(volume.status().epoch.0, epoch);
    });
    // The first write does expel it.
    without(&drives, AWAY, async |volume| {
        write(volume, OPEN, 0, STRIPE).await.unwrap();
        assert!(!away_of(volume).missing && !away_of(volume).online);
    });
    assert_hit(&[Mark::ZonedStartUnpublished]);
}

/// A clean stop whose record begins a snapshot, as the zone of the superblock was full.
#[test]
fn a_clean_stop_counts_where_a_superblock_zone_is_full() {
    let drives = closed();
    for records in 90..120 {
        with_volume(&drives, async |volume| {
            for run in 0..records {
                volume.record_scrub(ScrubRun::begin(run)).await.unwrap();
            }
        });
        without(&drives, AWAY, async |volume| assert!(away_of(volume).missing));
    }
    assert_hit(&[Mark::SuperblockZoneFull]);
}

type Change = for<'a> fn(&'a Volume) -> Pin<Box<dyn Future<Output = bool> + 'a>>;

/// Every way to change something.
const CHANGES: [(&str, Change); 9] = [
    ("write", |volume| Box::pin(async { write(volume, OPEN, PARTIAL, 2).await.is_ok() })),
    ("reset", |volume| {
        Box::pin(async { volume.manage(ZoneId(FULL), ZoneAction::Reset).await.is_ok() })
    }),
    ("finish", |volume| {
        Box::pin(async { volume.manage(ZoneId(OPEN), ZoneAction::Finish).await.is_ok() })
    }),
    ("reset of all zones", |volume| {
        Box::pin(async { volume.manage_all(ZoneAction::Reset).await.is_ok() })
    }),
    ("scrub", |volume| Box::pin(async { volume.scrub().await.is_ok() })),
    ("scrub record", |volume| {
        Box::pin(async { volume.record_scrub(ScrubRun::begin(1)).await.is_ok() })
    }),
    ("clear", |volume| Box::pin(async { volume.clear_faults().await.is_ok() })),
    ("rename", |volume| Box::pin(async { volume.rename("other".to_owned()).await.is_ok() })),
    ("fail", |volume| Box::pin(async { volume.fail(Column::of(AWAY)).await.is_ok() })),
];

#[test]
fn the_first_change_expels_the_drive_that_is_away() {
    let volume = closed();
    let epoch = epoch_of(&volume);
    for (name, change) in CHANGES {
        let drives = copies(&volume);
        without(&drives, AWAY, async |volume| {
            assert!(change(volume).await, "{name} failed");
            let member = away_of(volume);
            assert!(!member.missing && !member.online, "{name} leaves {member:?}");
            assert_eq!(volume.status().epoch.0, epoch + 1, "{name} expels once");
        });
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let offered = offer(&drives, &handle);
            let (volume, report) = open(&handle, offered, OpenOptions::default()).await.unwrap();
            let stale = DriveRole::Stale { slot: Column::of(AWAY) };
            assert_eq!(report.drives[AWAY].role, stale, "{name}");
            assert!(reads(&volume, FINISHED, STRIPE).await.is_ok(), "{name}");
            volume.close().await;
        });
    }
    assert_hit(&[Mark::ZonedPublishedLate]);
}

/// Commands that arrive before the start is published are answered in order, and each takes place.
#[test]
fn changes_that_wait_for_the_publication_keep_their_order() {
    let drives = closed();
    without(&drives, AWAY, async |volume| {
        let first = write(volume, OPEN, PARTIAL, 2);
        let second = write(volume, OPEN, PARTIAL + 2, STRIPE);
        let reset = volume.manage(ZoneId(FULL), ZoneAction::Reset);
        let rest = async {
            let read = reads(volume, OPEN, PARTIAL + 2 + STRIPE).await;
            assert_eq!(volume.report().await.unwrap()[FULL as usize].state, ZoneState::Empty);
            read
        };
        let (first, second, reset, read) = join4(first, second, reset, rest).await;
        assert_eq!((first, second, reset.is_ok(), read), (Ok(()), Ok(()), true, Ok(true)));
        write(volume, FULL, 0, 5).await.unwrap();
    });
    without(&drives, AWAY, async |volume| {
        assert_eq!(reads(volume, OPEN, PARTIAL + 2 + STRIPE).await, Ok(true));
        assert_eq!(reads(volume, FULL, 5).await, Ok(true));
    });
}

/// A volume that is closed while its first change waits publishes, and does it.
#[test]
fn a_close_waits_for_the_first_change() {
    let drives = closed();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start_without(&drives, AWAY, &handle).await;
        let (written, ()) = join(write(&volume, OPEN, PARTIAL, 2), volume.clone().close()).await;
        assert_eq!(written, Ok(()));
        assert!(volume.clear_faults().await.is_err(), "it is closed");
    });
    drop(executor);
    without(&drives, AWAY, async |volume| {
        assert_eq!(reads(volume, OPEN, PARTIAL + 2).await, Ok(true));
    });
}

/// A crash at each step of the first change. The drive that was away may be back, or not; what was
/// acknowledged is there, and so is everything from before.
#[test]
fn a_crash_while_the_first_change_is_published_loses_nothing() {
    let volume = closed();
    let mut ended = false;
    let mut expelled = [false; 2];
    for steps in 0_u64.. {
        if ended {
            break;
        }
        let drives = copies(&volume);
        let acknowledged = Cell::new(false);
        let executor = executor();
        let handle = executor.handle();
        let taken = Cell::new(0);
        let life = async {
            let volume = start_without(&drives, AWAY, &handle).await;
            taken.set(1);
            write(&volume, OPEN, PARTIAL, 2).await.unwrap();
            acknowledged.set(true);
        };
        let stop = || {
            let at = taken.get();
            taken.set(at + u64::from(at > 0));
            at > steps
        };
        ended = executor.run_until(life, stop).is_some();
        drop(executor);
        drives.iter().for_each(|drive| drive.power_loss(steps));
        for with_all in [true, false] {
            let drives = copies(&drives);
            let away = if with_all { usize::MAX } else { AWAY };
            without(&drives, away, async |volume| {
                let end = volume.report().await.unwrap()[OPEN as usize].write_pointer.0;
                assert!(end == PARTIAL + 2 || !acknowledged.get() && end >= PARTIAL, "{end}");
                assert_eq!(reads(volume, OPEN, end).await, Ok(true), "after {steps} steps");
                assert_eq!(reads(volume, FINISHED, STRIPE + 1).await, Ok(true));
                expelled[usize::from(with_all && !away_of(volume).online)] = true;
                assert!(!acknowledged.get() || !away_of(volume).online, "it missed a write");
            });
        }
    }
    assert_eq!(expelled, [true; 2], "crashes before and behind the eviction");
}

/// Runs a volume until the process is killed.
fn killed(drives: &[RamDrive], blocks: u32) {
    let executor: Executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = super::drives::start(drives, &handle).await;
        write(&volume, OPEN, PARTIAL, blocks).await.unwrap();
    });
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
}

/// After a kill, each set of drives may have another end of a zone: a start decides, for good.
#[test]
fn a_start_without_a_drive_after_a_kill_publishes_at_once() {
    let drives = closed();
    killed(&drives, 1);
    without(&drives, AWAY, async |volume| {
        assert!(!away_of(volume).missing);
        assert_eq!(reads(volume, OPEN, PARTIAL + 1).await, Ok(true));
    });
    assert_hit(&[Mark::ZonedMissingAfterKill]);
}

/// Parity of a finished zone was lost since the clean stop: it goes to the parity log.
#[test]
fn a_start_without_a_drive_publishes_at_once_where_parity_is_lost() {
    let drives = closed();
    // The third drive has the parity of the partial stripe, the first one its data.
    let at = ZoneAddress::new(ZoneId(FIRST_COLUMN + FINISHED), UNIT);
    drives[2].set_unreadable(at, BlockCount(1));
    without(&drives, 1, async |volume| {
        assert!(!volume.status().members[1].missing);
        assert_eq!(reads(volume, FINISHED, STRIPE + 1).await, Ok(true));
    });
    assert_hit(&[Mark::ZonedWaitGivenUp]);
}

/// A clean stop of which a drive has no record: its newest record may be of any moment.
#[test]
fn a_clean_stop_that_a_drive_did_not_record_counts_for_nothing() {
    let drives = closed();
    // A start counts errors of blocks behind the ends of these, which the next close records.
    with_volume(&drives, async |volume| {
        for zone in [FINISHED, NOTHING] {
            volume.manage(ZoneId(zone), ZoneAction::Reset).await.unwrap();
        }
    });
    with_volume(&drives, async |volume| {
        write(volume, OPEN, PARTIAL, 1).await.unwrap();
        for zone in (0..4).map(ZoneId) {
            for kind in [CommandKind::Write, CommandKind::Append] {
                let records = Selector::next(kind).in_zone(zone).always();
                drives[0].inject(records, FaultAction::Fail(Status::WriteFault));
            }
        }
    });
    drives[0].faults(|plan| plan.clear());
    without(&drives, AWAY, async |volume| {
        assert!(!away_of(volume).missing);
        assert_eq!(reads(volume, OPEN, PARTIAL + 1).await, Ok(true));
    });
}

/// A second drive is lost before the first change: the volume stops, and writes nothing. Both are
/// back at the next start.
#[test]
fn a_drive_that_is_lost_before_the_first_change_is_not_expelled_either() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    without(&drives, AWAY, async |volume| {
        volume.drive_lost(Column::of(0), "it was pulled");
        assert!(volume.status().stopped.is_some());
        assert!(reads(volume, OPEN, PARTIAL).await.is_err());
        assert!(volume.flush().await.is_err());
        assert!(write(volume, OPEN, PARTIAL, 1).await.is_err());
        assert!(volume.manage(ZoneId(FULL), ZoneAction::Reset).await.is_err());
        assert!(volume.scrub().await.is_err());
    });
    assert!(media(&drives) == before, "a volume that stopped wrote");
    assert_whole(&drives, epoch);
}
