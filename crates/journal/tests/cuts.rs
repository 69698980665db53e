//! A counter never loses an addition that was acknowledged, wherever the power is cut.

use zoneweave_emulator::{CommandKind, CrashChoices, FaultAction, Request, Selector};
use zoneweave_journal::{Event, Scan};
use zoneweave_zoned::{
    BlockCount, Status, ZoneAddress, ZoneId, ZoneOffset, ZonedDevice, ZonedDeviceExt,
};

use crate::support::{Counter, Drive, Step, Steps, assert_seen, encode, observe};

/// Additions of a life: enough for several switches.
const ADDITIONS: u64 = 24;

/// Adds until the power fails. `acknowledged` is the value that must be found, and `requested` the
/// largest that may be.
async fn life(device: &dyn ZonedDevice, acknowledged: &mut u64, requested: &mut u64) -> bool {
    let mut counter = match Counter::open(device).await {
        Ok(Some(counter)) => counter,
        // A drive that vanishes during the scan has unreadable blocks.
        Ok(None) if device.flush().await.is_err() => return false,
        Ok(None) => {
            assert_eq!(*acknowledged, 0, "acknowledged additions are lost");
            match Counter::create(device).await {
                Ok(counter) => counter,
                Err(_) => return false,
            }
        }
        Err(_) => return false,
    };
    assert!((*acknowledged..=*requested).contains(&counter.value), "{}", counter.value);
    for by in 1..=ADDITIONS {
        *requested = counter.value + by;
        if counter.add(device, by).await.is_err() {
            return false;
        }
        *acknowledged = *requested;
    }
    true
}

/// The ways in which power fails at a command.
fn cuts() -> Vec<FaultAction> {
    let mut cuts = vec![FaultAction::Gone, FaultAction::FailApplied(Status::DeviceGone)];
    cuts.extend((0..3).map(|blocks| FaultAction::Torn(BlockCount(blocks))));
    cuts
}

/// Cuts the power at the `at`-th command; returns whether the life reached its end before.
fn cut(drive: &Drive, action: FaultAction, at: u64, seed: u64, known: &mut (u64, u64)) -> bool {
    // The second fault is for commands that the first does not affect.
    drive.ram.inject(Selector::default().after(at), action);
    drive.ram.inject(Selector::default().after(at + 1).always(), FaultAction::Gone);
    let (acknowledged, requested) = (&mut known.0, &mut known.1);
    let ended = drive.run(async |device| life(device, acknowledged, requested).await);
    drive.ram.faults(|plan| plan.clear());
    drive.ram.set_gone(false);
    drive.ram.power_loss(seed);
    ended
}

#[test]
fn acknowledged_additions_survive_a_cut_at_any_command() {
    for (unit, volatile) in [(1, false), (1, true), (3, false), (3, true)] {
        for action in cuts() {
            for at in 0.. {
                let drive = Drive::new(unit, volatile);
                let mut known = (0, 0);
                let ended = cut(&drive, action, at, at, &mut known);
                // A second cut, within the first recovery and after it.
                for again in [0, 2, 3, 4, 5, 6, 7, 9, 40] {
                    let (copy, mut known) = (drive.fork(), known);
                    cut(&copy, action, again, at + again, &mut known);
                    if known.0 == 0 {
                        // Nothing was acknowledged, and remains of the first snapshot are in the
                        // way of a new one.
                        copy.empty();
                        known = (0, 0);
                    }
                    let (acknowledged, requested) = (&mut known.0, &mut known.1);
                    assert!(copy.run(async |device| life(device, acknowledged, requested).await));
                    copy.ram.power_loss(at);
                    let found = copy.run(async |device| Counter::open(device).await);
                    assert_eq!(found.unwrap().unwrap().value, known.0);
                }
                if ended {
                    break;
                }
            }
        }
    }
    assert_seen(&[Event::ResetLate, Event::TwinKept, Event::DamagedRecordSkipped]);
}

/// The zone before a switch is all that there is until the snapshot is closed.
#[test]
fn the_old_zone_is_not_touched_by_a_switch() {
    let drive = Drive::new(1, false);
    drive.run(async |device| {
        let mut counter = Counter::create(device).await.unwrap();
        counter.add(device, 5).await.unwrap();
        drive.ram.inject(Selector::next(CommandKind::Write).after(2), FaultAction::Gone);
        assert!(counter.switch(device).await.is_err());
    });
    drive.ram.set_gone(false);
    drive.ram.power_loss(1);
    let found = drive.run(async |device| Counter::open(device).await.unwrap().unwrap());
    assert_eq!(found.value, 5);
}

/// A process was killed while the snapshot of its switch was in the drive's cache. The next scan
/// finds that snapshot, and must not reset the older zone before it is durable.
#[test]
fn a_snapshot_in_the_cache_is_flushed_before_the_older_zone_is_reset() {
    let drive = Drive::new(1, true);
    drive.run(async |device| {
        let mut counter = Counter::create(device).await.unwrap();
        counter.add(device, 5).await.unwrap();
        for (offset, (kind, value)) in (0..).zip([(1, 3), (1, 2), (2, 0)]) {
            let step = Step { sequence: 5 + u64::from(offset), kind, value };
            let at = ZoneAddress::new(ZoneId(1), offset);
            device.write(at, encode(step), false).await.unwrap();
        }
    });
    drive.run(async |device| {
        let scan = Scan::read(device, &Steps, observe).await.unwrap();
        let mut log = scan.resume().unwrap();
        assert_eq!(log.current(), ZoneId(1));
        drive.ram.inject(Selector::next(CommandKind::Write), FaultAction::Gone);
        let end = Step { sequence: 8, kind: 2, value: 0 };
        assert!(log.switch(device, 3, |_| encode(end)).await.is_err());
    });
    drive.ram.set_gone(false);
    drive.ram.power_loss_by(&mut LosesAll);
    let found = drive.run(async |device| Counter::open(device).await.unwrap().unwrap());
    assert_eq!(found.value, 5);
}

/// A power failure that keeps as little as it may.
struct LosesAll;

impl CrashChoices for LosesAll {
    fn happens(&mut self, _: &Request) -> bool {
        false
    }

    fn kept(&mut self, _: ZoneId, promised: ZoneOffset, _: ZoneOffset) -> ZoneOffset {
        promised
    }
}
