//! Zones with junk: what crashes left in columns behind the readable part.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::raizn::{OpenOptions, Volume, open};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, OobKind, ZoneAddress, ZoneAttributes, ZoneId, ZoneInfo, ZoneState, ZonedDeviceExt,
};

use super::drives::{FIRST_COLUMN, STRIPE, UNIT, create_on, drives, executor, start, write};
use super::model::block;
use super::stalling::Stalling;

async fn info(volume: &Volume, zone: u32) -> ZoneInfo {
    volume.report().await.unwrap().swap_remove(zone as usize)
}

/// Writes a zone to the end of a stripe, and then stripes of which the drive `on` alone stores its
/// part; then the process is killed. Returns the zone's state if it is full.
pub(super) fn leave_junk(
    drives: &[RamDrive],
    zone: u32,
    stripe: u32,
    stripes: u32,
    on: impl Fn(u32) -> usize,
) -> Option<ZoneInfo> {
    let executor = executor();
    let handle = executor.handle();
    let stalls: Vec<_> = drives.iter().map(|_| Rc::new(Cell::new(false))).collect();
    let offered = drives.iter().zip(&stalls).map(|(drive, stalls)| OfferedDrive {
        device: Stalling::of(drive.attach(&handle), FIRST_COLUMN..u32::MAX, stalls),
        label: "drive".to_owned(),
    });
    let offered = offered.collect();
    let end = Nanos::from_secs(1);
    let clock = handle.clone();
    handle.spawn("clock", async move { clock.sleep_until(end).await });
    let life = async {
        let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        let before = info(&volume, zone).await;
        if before.state == ZoneState::Full {
            return before;
        }
        let (written, next) = (before.write_pointer.0, before.write_pointer.0 / stripe + 1);
        write(&volume, zone, written, next * stripe - written).await.unwrap();
        let on = on(next);
        stalls.iter().enumerate().for_each(|(at, stalls)| stalls.set(at != on));
        write(&volume, zone, next * stripe, stripes * stripe).await.unwrap();
        unreachable!("the write waits for the other drives");
    };
    let ended = executor.run_until(life, || handle.now() >= end);
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    ended
}

fn new_volume(capacity: u32, unit: u32) -> Vec<RamDrive> {
    let drives = drives(OobKind::Separate, capacity);
    let executor = executor();
    let handle = executor.handle();
    executor.run(create_on(&drives, &handle, unit));
    drives
}

/// Checks the blocks of a zone, read without a member.
fn assert_written(drives: &[RamDrive], zone: u32, blocks: u32) {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives[1..], &handle).await;
        let at = ZoneAddress::new(ZoneId(zone), 0);
        let read = volume.read_in_pieces(at, BlockCount(blocks)).await.unwrap();
        assert!((1..).zip(read.iter_blocks()).all(|(tag, found)| found == block(tag)));
    });
}

/// Each crash leaves a range of junk in another place of a zone. The record of a zone had no room
/// for 240 of them, and the start after the next crash panicked.
#[test]
fn a_zone_with_many_ranges_of_junk_is_finished() {
    let drives = new_volume(800, 1);
    // The second data unit: without the first one, it is not readable.
    let second = |stripe: u32| (stripe as usize + 1) % 3;
    let life = |life| Some((life, leave_junk(&drives, 0, 2, 1, second)?));
    let (lives, full) = (0..250).find_map(life).expect("the zone is finished");
    assert!(full.attributes.contains(ZoneAttributes::FINISHED_BY_DRIVE), "{full:?}");
    assert_eq!(lives, 129, "the first one with more than 128 ranges");
    assert_written(&drives, 0, 2 * lives);
}

/// Between the switch of a parity log to another zone and the checkpoint, writes met junk. The
/// space left for the checkpoint was for blocks relocated before the switch.
#[test]
fn a_checkpoint_has_room_for_blocks_relocated_before_it() {
    let drives = new_volume(240, UNIT);
    let (zone_with_junk, slow_zone) = (3, 2);
    assert!(leave_junk(&drives, zone_with_junk, STRIPE, 7, |_| 0).is_none());
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives, &handle).await;
        // The checkpoint waits for this write.
        let slow = Selector::next(CommandKind::Write).in_zone(ZoneId(FIRST_COLUMN + slow_zone));
        drives[2].inject(slow, FaultAction::Slow(Nanos::from_secs(10)));
        let of_writer = volume.clone();
        let slow = async move { write(&of_writer, slow_zone, 0, 1).await };
        let slow = handle.spawn("slow write", slow);
        // Partial parity fills the zone of the first member's log.
        for at in 0..52 * STRIPE {
            write(&volume, 1, at, 1).await.unwrap();
        }
        write(&volume, zone_with_junk, STRIPE, 7 * STRIPE).await.unwrap();
        // And the next zone, as far as it is not left to the checkpoint.
        let of_writer = volume.clone();
        let rest = async move {
            for at in 0..60 * STRIPE {
                write(&of_writer, 0, at, 1).await.unwrap();
            }
        };
        let rest = handle.spawn("rest", rest);
        slow.await.unwrap();
        rest.await;
        volume.close().await;
    });
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    assert_written(&drives, zone_with_junk, 8 * STRIPE);
}
