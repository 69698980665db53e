//! The drive as its users see it: commands, caches, crashes and faults.

use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, OOB_BYTES, ZoneAction, ZoneState, ZonedDeviceExt};

use super::*;
use crate::{BlockPart, CommandKind, EraseMode, Immediate, Jitter};

mod areas;
mod crashes;
mod faults;

const ZONE: ZoneId = ZoneId(2);

fn geometry(volatile_cache: bool) -> Geometry {
    Geometry { volatile_cache, ..Geometry::new(8, BlockCount(60)) }
}

fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

/// Blocks whose data and metadata bytes are all the given ones.
fn filled(bytes: impl IntoIterator<Item = u8>) -> Payload {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    let data: Vec<u8> = bytes.iter().flat_map(|byte| [*byte; BLOCK_BYTES]).collect();
    let oob: Vec<u8> = bytes.iter().flat_map(|byte| [*byte; OOB_BYTES]).collect();
    Payload::new(data.into(), oob.into())
}

fn tags(payload: &Payload) -> Vec<u8> {
    let data: Vec<u8> = payload.iter_blocks().map(|block| block[BLOCK_BYTES - 1]).collect();
    let oob: Vec<u8> = payload.oob.iter().skip(OOB_BYTES - 1).step_by(OOB_BYTES).copied().collect();
    assert_eq!(data, oob, "metadata stays with its block");
    data
}

fn at(offset: u32) -> ZoneAddress {
    ZoneAddress { zone: ZONE, offset: zoneweave_zoned::ZoneOffset(offset) }
}

fn stored(drive: &RamDrive) -> Vec<u8> {
    tags(&drive.peek(at(0), BlockCount(drive.zone(ZONE).write_pointer.0)))
}

/// Runs a future against a drive without latency.
fn with_drive<R>(drive: &RamDrive, work: impl AsyncFnOnce(Rc<dyn ZonedDevice>) -> R) -> R {
    let executor = executor();
    let device = drive.attach(&executor.handle());
    executor.run(work(device))
}

fn blank(volatile_cache: bool) -> RamDrive {
    RamDrive::new(geometry(volatile_cache), Immediate).unwrap()
}

#[test]
fn what_was_written_is_read_and_zeros_above() {
    let drive = blank(false);
    with_drive(&drive, async |device| {
        device.write(at(0), filled([1, 2]), false).await.unwrap();
        assert_eq!(device.append(ZONE, filled([3]), false).await, Ok(at(2)));
        assert_eq!(tags(&device.read(at(1), BlockCount(3)).await.unwrap()), [2, 3, 0]);
        device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        assert_eq!(tags(&device.read(at(0), BlockCount(2)).await.unwrap()), [0, 0]);
        assert_eq!(device.report().await.unwrap()[2].resets, 1);
    });
    let counters = drive.counters();
    assert_eq!((counters.writes, counters.written_blocks, counters.resets), (2, 3, 1));
    assert_eq!(counters.read_bytes(), 5 * 4096);
}

#[test]
fn writes_keep_their_order_and_appends_lose_theirs() {
    let mut reordered = 0;
    for seed in 0..50 {
        let executor = executor();
        let drive = RamDrive::new(geometry(false), Jitter::new(seed, Nanos(1000))).unwrap();
        let device = drive.attach(&executor.handle());
        executor.run(async {
            let writes: Vec<_> =
                (0..10).map(|n| device.write(at(u32::from(n)), filled([n]), false)).collect();
            let appends: Vec<_> =
                (0..10).map(|n| device.append(ZoneId(3), filled([n]), false)).collect();
            for write in writes {
                write.await.unwrap();
            }
            let mut offsets = Vec::new();
            for (n, append) in (0..10).zip(appends) {
                let landed = append.await.unwrap();
                assert_eq!(tags(&drive.peek(landed, BlockCount(1))), [n]);
                offsets.push(landed.offset);
            }
            reordered += u32::from(!offsets.is_sorted());
        });
        assert_eq!(stored(&drive), Vec::from_iter(0..10));
    }
    assert!(reordered > 45, "ten appends in flight hardly ever stay in order");
}

#[test]
fn equal_seeds_give_equal_histories() {
    let history = |seed| {
        let executor = executor();
        let drive = RamDrive::new(geometry(true), Jitter::new(seed, Nanos(1000))).unwrap();
        let device = drive.attach(&executor.handle());
        let appends: Vec<_> = (0..9).map(|n| device.append(ZONE, filled([n]), false)).collect();
        let handle = executor.handle();
        executor.run(handle.sleep(Nanos(500)));
        drive.power_loss(seed);
        drop(appends);
        stored(&drive)
    };
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed));
    }
}

#[test]
fn power_loss_keeps_the_durable_prefix_and_any_tail() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let drive = blank(true);
        with_drive(&drive, async |device| {
            device.write(at(0), filled([1, 2]), false).await.unwrap();
            device.flush().await.unwrap();
            device.write(at(2), filled([3]), true).await.unwrap();
            device.write(at(3), filled([4, 5, 6]), false).await.unwrap();
        });
        drive.power_loss(seed);
        let info = drive.zone(ZONE);
        assert_eq!(info.state, ZoneState::Closed);
        assert_eq!(stored(&drive), [1, 2, 3, 4, 5, 6][..info.write_pointer.index()]);
        kept.insert(info.write_pointer.0);
    }
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn a_protected_cache_keeps_what_completed() {
    for seed in 0..100 {
        let executor = executor();
        let drive = RamDrive::new(geometry(false), Jitter::new(seed, Nanos(1000))).unwrap();
        let device = drive.attach(&executor.handle());
        let completed = Rc::new(RefCell::new(Vec::new()));
        for n in 0..10 {
            let (device, log) = (device.clone(), completed.clone());
            executor.handle().spawn("append", async move {
                let landed = device.append(ZONE, filled([n, n]), false).await.unwrap();
                log.borrow_mut().push((n, landed));
            });
        }
        let handle = executor.handle();
        executor.run(handle.sleep(Nanos(500)));
        drop((executor, handle, device));
        drive.power_loss(seed);
        for (n, landed) in completed.take() {
            assert_eq!(tags(&drive.peek(landed, BlockCount(2))), [n, n]);
        }
    }
}

#[test]
fn a_flush_covers_only_what_completed_before_it() {
    let executor = executor();
    let drive = RamDrive::new(geometry(true), Immediate).unwrap();
    let device = drive.attach(&executor.handle());
    drive.inject(Selector::next(CommandKind::Write), FaultAction::Slow(Nanos(10)));
    executor.run(async {
        let write = device.write(at(0), filled([1]), false);
        device.flush().await.unwrap();
        write.await.unwrap();
    });
    let losses: Vec<_> = (0..20)
        .map(|seed| {
            let copy = drive.fork(Immediate);
            copy.power_loss(seed);
            stored(&copy).len()
        })
        .collect();
    assert!(losses.contains(&0), "the write was in flight when the flush was sent");
}

#[test]
fn a_killed_process_leaves_commands_that_happened_or_not() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let old = executor();
        let drive = RamDrive::new(geometry(true), Jitter::new(seed, Nanos(1000))).unwrap();
        let device = drive.attach(&old.handle());
        drop(device.append(ZONE, filled([7]), false));
        drop(device.append(ZONE, filled([8]), false));
        assert!(drive.in_flight().len() <= 2);
        drive.process_kill(seed);
        outcomes.insert(stored(&drive));
        let before = stored(&drive);
        let new = executor();
        let again = drive.attach(&new.handle());
        // The dead process's timers fire; nothing of it reaches the drive any more.
        let handle = old.handle();
        old.run(handle.sleep(Nanos(2000)));
        assert_eq!(stored(&drive), before);
        let refused = old.run(device.append(ZONE, filled([9]), false));
        assert_eq!(refused, Err(Status::DeviceGone));
        new.run(again.flush()).unwrap();
        drive.power_loss(seed);
        assert_eq!(stored(&drive), before, "the new process's flush covered them");
    }
    assert_eq!(outcomes.len(), 5, "none, each alone, both in either order: {outcomes:?}");
}

#[test]
fn a_fork_goes_its_own_way() {
    let drive = blank(true);
    with_drive(&drive, async |device| {
        device.write(at(0), filled([1]), true).await.unwrap();
    });
    let stale = drive.fork(Immediate);
    with_drive(&drive, async |device| {
        device.write(at(1), filled([2]), true).await.unwrap();
    });
    assert_eq!((stored(&stale), stored(&drive)), (vec![1], vec![1, 2]));
}

#[test]
fn every_write_fault_does_what_it_says() {
    let run = |action| {
        let drive = blank(false);
        let answer = with_drive(&drive, async |device| {
            device.append(ZONE, filled([1]), false).await.unwrap();
            drive.inject(Selector::next(CommandKind::Append).in_zone(ZONE), action);
            device.append(ZONE, filled([2, 3]), false).await.map(|at| at.offset.0)
        });
        (answer, stored(&drive))
    };
    let fault = Status::WriteFault;
    assert_eq!(run(FaultAction::Fail(fault)), (Err(fault), vec![1]));
    assert_eq!(run(FaultAction::FailApplied(fault)), (Err(fault), vec![1, 2, 3]));
    assert_eq!(run(FaultAction::Partial(BlockCount(1))), (Err(fault), vec![1, 2]));
    assert_eq!(run(FaultAction::Lost), (Ok(1), vec![1, 0, 0]));
    assert_eq!(run(FaultAction::Misdirect(at(0))), (Ok(1), vec![2, 3, 0]));
    assert_eq!(run(FaultAction::AppendTwice), (Ok(1), vec![1, 2, 3, 2, 3]));
    assert_eq!(run(FaultAction::RepeatOffset), (Ok(0), vec![1, 2, 3]));
    assert_eq!(run(FaultAction::ReadOnly), (Err(Status::ZoneReadOnly), vec![1]));
    assert_eq!(run(FaultAction::Offline), (Err(Status::ZoneOffline), vec![1]));
    assert_eq!(run(FaultAction::Gone), (Err(Status::DeviceGone), vec![1]));
}

#[test]
fn damaged_and_unreadable_blocks() {
    let drive = blank(false);
    with_drive(&drive, async |device| {
        let written = filled([1, 2, 3]);
        device.write(at(0), written.clone(), false).await.unwrap();
        drive.corrupt(at(1), Damage::BitFlip { part: BlockPart::Oob, seed: 1 });
        let found = device.read(at(0), BlockCount(3)).await.unwrap();
        assert_eq!(found.block(1), written.block(1));
        assert_ne!(found.block_oob(1), written.block_oob(1));
        assert_eq!(found.block_oob(2), written.block_oob(2));
        drive.set_unreadable(at(2), BlockCount(1));
        let refused = device.read(at(1), BlockCount(2)).await;
        assert_eq!(refused, Err(Status::UnrecoveredRead));
        assert!(device.read(at(0), BlockCount(2)).await.is_ok());
        device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        assert!(device.read(at(1), BlockCount(2)).await.is_ok());
    });
}

#[test]
fn an_ineffective_flush_and_a_lying_report() {
    let drive = blank(true);
    with_drive(&drive, async |device| {
        drive.inject(Selector::next(CommandKind::Flush), FaultAction::Ineffective);
        device.write(at(0), filled([1]), false).await.unwrap();
        device.flush().await.unwrap();
        drive.inject(Selector::next(CommandKind::Report), FaultAction::Misreport(at(9)));
        assert_eq!(device.report().await.unwrap()[2].write_pointer, at(9).offset);
        assert_eq!(device.report().await.unwrap()[2].write_pointer, at(1).offset);
    });
    let lost = (0..20).any(|seed| {
        let copy = drive.fork(Immediate);
        copy.power_loss(seed);
        stored(&copy).is_empty()
    });
    assert!(lost);
}

#[test]
fn commands_in_flight_fail_when_the_drive_is_pulled_out() {
    let executor = executor();
    let drive = RamDrive::new(geometry(false), Jitter::new(1, Nanos(1000))).unwrap();
    let device = drive.attach(&executor.handle());
    executor.run(async {
        let write = device.write(at(0), filled([1]), false);
        drive.set_gone(true);
        assert_eq!(write.await, Err(Status::DeviceGone));
        drive.set_gone(false);
        assert!(device.report().await.is_ok());
    });
}

#[test]
fn a_finished_zone_stays_finished_and_may_lose_its_tail() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let drive = blank(true);
        with_drive(&drive, async |device| {
            device.write(at(0), filled([1, 2]), false).await.unwrap();
            device.manage(ZONE, ZoneAction::Finish).await.unwrap();
        });
        drive.power_loss(seed);
        assert_eq!(drive.zone(ZONE).state, ZoneState::Full);
        kept.insert(stored(&drive).len());
    }
    assert_eq!(kept.len(), 3);
}

#[test]
fn a_zone_wears_out_under_resets() {
    let drive = blank(true);
    let settings = WearSettings {
        endurance_cycles: Some(3),
        reset: EraseMode::Partial,
        ..WearSettings::new(6)
    };
    drive.set_wear(settings).unwrap();
    with_drive(&drive, async |device| {
        for round in 0..3 {
            device.manage(ZONE, ZoneAction::Reset).await.unwrap();
            device.write(at(0), filled([round; 15]), true).await.unwrap();
            device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        }
        device.write(at(0), filled([7]), true).await.unwrap();
        let refused = device.manage(ZONE, ZoneAction::Reset).await;
        assert_eq!(refused, Err(Status::WriteFault));
        assert_eq!(tags(&device.read(at(0), BlockCount(1)).await.unwrap()), [7]);
        let refused = device.write(at(1), filled([8]), false).await;
        assert_eq!(refused, Err(Status::ZoneReadOnly));
        device.manage(ZONE, ZoneAction::Offline).await.unwrap();
        assert_eq!(device.read(at(0), BlockCount(1)).await, Err(Status::ZoneOffline));
    });
    let report = drive.wear().unwrap();
    assert_eq!(report.zones[ZONE.index()].erase_counts, [3, 3, 0, 0, 0, 0]);
    assert_eq!(report.written_bytes, 46 * 4096);
}

#[test]
fn blocks_lost_with_the_power_are_erased_all_the_same() {
    for seed in 0..20 {
        let drive = blank(true);
        let settings = WearSettings { reset: EraseMode::Partial, ..WearSettings::new(60) };
        drive.set_wear(settings).unwrap();
        with_drive(&drive, async |device| {
            device.write(at(0), filled([1]), true).await.unwrap();
            device.write(at(1), filled([2; 20]), false).await.unwrap();
        });
        drive.power_loss(seed);
        with_drive(&drive, async |device| {
            device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        });
        assert_eq!(drive.wear().unwrap().erase_blocks.total, 21);
    }
}
