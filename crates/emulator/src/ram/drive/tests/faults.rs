//! Faults of whole drives, and persistent faults.

use zoneweave_zoned::ReportOptions;

use super::*;
use crate::{FaultClass, FaultProfile, Preset, Return, SeededFaults};

#[test]
fn a_torn_write_takes_the_power_with_it() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let drive = blank(true);
        with_drive(&drive, async |device| {
            device.append(ZONE, filled([1]), true).await.unwrap();
            let torn = FaultAction::Torn(BlockCount(2));
            drive.inject(Selector::next(CommandKind::Append), torn);
            let answer = device.append(ZONE, filled([2, 3, 4]), false).await;
            assert_eq!(answer, Err(Status::DeviceGone));
            assert_eq!(device.flush().await, Err(Status::DeviceGone));
        });
        drive.power_loss(seed);
        drive.set_gone(false);
        kept.insert(stored(&drive));
    }
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [vec![1], vec![1, 2], vec![1, 2, 3]]);
}

#[test]
fn rot_stays_and_garbled_reads_do_not() {
    let drive = blank(false);
    let damage = Damage::BitFlip { part: BlockPart::Data, seed: 5 };
    with_drive(&drive, async |device| {
        let written = filled([1, 2]);
        device.write(at(0), written.clone(), false).await.unwrap();
        for (fault, lasts) in
            [(FaultAction::Garble(damage), false), (FaultAction::Rot(damage), true)]
        {
            drive.inject(Selector::next(CommandKind::Read), fault);
            let found = device.read(at(0), BlockCount(2)).await.unwrap();
            assert_ne!(found.data.concat(), written.data.concat());
            let again = device.read(at(0), BlockCount(2)).await.unwrap();
            assert_eq!(again.data.concat() != written.data.concat(), lasts);
            assert_eq!(again.block(1), written.block(1));
        }
    });
}

#[test]
fn a_slow_drive_takes_a_multiple_of_its_time() {
    let took = |slowness| {
        let executor = executor();
        let drive = RamDrive::new(geometry(false), Jitter::new(3, Nanos(1000))).unwrap();
        let device = drive.attach(&executor.handle());
        drive.set_slowness(slowness);
        let handle = executor.handle();
        executor.run(async {
            device.write(at(0), filled([1]), false).await.unwrap();
            handle.now()
        })
    };
    assert_eq!(took(100).0, took(1).0 * 100);
    let drive = blank(false);
    drive.inject(Selector::default(), FaultAction::SlowDrive(30));
    with_drive(&drive, async |device| device.flush().await.unwrap());
    assert_eq!(drive.shared.core.borrow().controller.slowness(), 30);
}

#[test]
fn drives_come_back_stale_or_blank() {
    let drive = blank(true);
    drive.set_wear(WearSettings::new(4)).unwrap();
    with_drive(&drive, async |device| {
        device.write(at(0), filled([1]), true).await.unwrap();
    });
    let earlier = drive.fork(Immediate);
    with_drive(&drive, async |device| {
        device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        device.write(at(0), filled([2, 3]), true).await.unwrap();
        drive.set_gone(true);
        drive.come_back_stale(&earlier);
        assert_eq!(device.flush().await, Err(Status::DeviceGone), "that device is of the past");
    });
    assert_eq!(stored(&drive), [1]);
    assert_eq!(drive.wear().unwrap().erase_blocks.total, 0);
    drive.power_loss(1);
    assert_eq!(stored(&drive), [1]);
    drive.set_gone(true);
    drive.come_back_blank();
    assert_eq!(drive.zone(ZONE).state, ZoneState::Empty);
    assert_eq!(drive.memory_bytes(), 0);
    with_drive(&drive, async |device| {
        device.write(at(0), filled([4]), true).await.unwrap();
    });
    assert_eq!(stored(&drive), [4]);
}

/// A write that took effect and was answered with an error is there when the drive returns. A flush
/// did not cover it once, so that a power failure took blocks that had been read and flushed.
#[test]
fn flushes_cover_what_a_drive_held_when_it_came_back() {
    for seed in 0..20 {
        let drive = blank(true);
        with_drive(&drive, async |device| {
            drive.inject(Selector::next(CommandKind::Append), FaultAction::Slow(Nanos(100)));
            let append = device.append(ZONE, filled([1, 2]), false);
            drive.set_gone(true);
            assert_eq!(append.await, Err(Status::DeviceGone));
        });
        drive.set_gone(false);
        with_drive(&drive, async |device| device.flush().await.unwrap());
        drive.power_loss(seed);
        assert_eq!(stored(&drive), [1, 2]);
    }
}

#[test]
fn a_management_command_is_not_lost_by_a_zone_that_is_not_there() {
    let drive = blank(false);
    with_drive(&drive, async |device| {
        drive.inject(Selector::default(), FaultAction::Lost);
        let reset = device.manage(ZoneId(8), ZoneAction::Reset).await;
        assert_eq!(reset, Err(Status::LbaOutOfRange));
    });
}

/// A finish was kept until the last program of its padding, and a zone that was written to its end
/// before it became read-only has nothing to pad: the command was never answered.
#[test]
fn a_finish_of_a_full_zone_that_became_read_only_is_refused_in_time() {
    let preset = Preset::by_name("zn540-1tb").unwrap().with_zones(8, BlockCount(96)).unwrap();
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(1)).unwrap();
    with_drive(&drive, async |device| {
        for _ in 0..3 {
            device.append(ZONE, filled([1; 32]), false).await.unwrap();
        }
        drive.set_read_only(ZONE);
        let finish = device.manage(ZONE, ZoneAction::Finish).await;
        assert_eq!(finish, Err(Status::InvalidTransition));
    });
}

#[test]
fn faults_of_a_seed_give_one_history() {
    let history = |seed| {
        let executor = executor();
        let drive = RamDrive::new(geometry(true), Jitter::new(seed, Nanos(1000))).unwrap();
        let everything = FaultClass::ALL
            .into_iter()
            .fold(FaultProfile::default(), |profile, class| profile.with(class, 20_000));
        let faults = SeededFaults::new(everything.swarm(seed), seed, drive.geometry());
        drive.faults(|plan| plan.set_seeded(Some(faults)));
        let mut log = Vec::new();
        let mut device = drive.attach(&executor.handle());
        for number in 0..200_u8 {
            let zone = ZoneId(u32::from(number % 5));
            let command = match number % 7 {
                0 => Command::Flush,
                1 => Command::Report {
                    first: ZoneId(0),
                    count: 8,
                    options: ReportOptions::default(),
                },
                2 => Command::Read { at: ZoneAddress::new(zone, 0), blocks: BlockCount(2) },
                3 if number > 100 => Command::Manage { zone, action: ZoneAction::Reset },
                _ => Command::Append { zone, payload: filled([number]), fua: number % 4 == 0 },
            };
            log.push(executor.run(device.submit(command)));
            if log.last() == Some(&Err(Status::DeviceGone)) {
                drive.power_loss(seed);
                let back = drive.faults(|plan| plan.seeded_mut().expect("set").comes_back());
                match back {
                    Return::Blank => drive.come_back_blank(),
                    _ => drive.set_gone(false),
                }
                device = drive.attach(&executor.handle());
            }
        }
        (log, executor.handle().now(), stored_everywhere(&drive))
    };
    let mut histories = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let first = history(seed);
        assert_eq!(first, history(seed));
        histories.insert(first.1);
    }
    assert!(histories.len() > 6, "seeds differ");
}

fn stored_everywhere(drive: &RamDrive) -> Vec<Payload> {
    let all = |zone| drive.peek(ZoneAddress::new(ZoneId(zone), 0), BlockCount(60));
    (0..8).map(all).collect()
}
