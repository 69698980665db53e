//! Commands that fail while the power stays on.

use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Selector};
use zoneweave_journal::{Appended, Event, Scan};
use zoneweave_zoned::{BlockCount, Status, ZoneId};

use crate::support::{Counter, Drive, Step, Steps, assert_seen, encode, observe};

/// A write that fails now and then costs neither the log nor a record.
#[test]
fn one_failed_write_is_nothing_to_the_user() {
    let actions = [
        FaultAction::Fail(Status::WriteFault),
        FaultAction::FailApplied(Status::WriteFault),
        FaultAction::Partial(BlockCount(0)),
        FaultAction::Partial(BlockCount(1)),
        FaultAction::Partial(BlockCount(2)),
    ];
    for (unit, action) in [1, 3].into_iter().flat_map(|unit| actions.map(|action| (unit, action))) {
        for at in 0..30 {
            let drive = Drive::new(unit, true);
            drive.ram.inject(Selector::next(CommandKind::Write).after(at), action);
            drive.run(async |device| {
                let mut counter = Counter::create(device).await.unwrap();
                for by in 1..=20 {
                    counter.add(device, by).await.unwrap();
                }
            });
            drive.ram.power_loss(at);
            let found = drive.run(async |device| Counter::open(device).await.unwrap().unwrap());
            assert_eq!(found.value, 210, "unit {unit}, {action:?} at {at}");
        }
    }
    assert_seen(&[Event::RecordWrittenAgain, Event::RecordInPart]);
}

/// A failed operation leaves a log that can be used: the user switches zones, or tries again.
#[test]
fn a_log_goes_on_after_an_error() {
    for unit in [1, 3] {
        for at in 0..60 {
            let drive = Drive::new(unit, false);
            let failing = Selector::default().after(at).times(4);
            let value = drive.run(async |device| {
                let mut counter = Counter::create(device).await.unwrap();
                drive.ram.inject(failing, FaultAction::Fail(Status::InternalError));
                for by in 1..=20 {
                    if counter.add(device, by).await.is_err() {
                        while counter.switch(device).await.is_err() {}
                    }
                }
                drive.ram.faults(|plan| plan.clear());
                counter.value
            });
            let found = drive.run(async |device| Counter::open(device).await.unwrap().unwrap());
            assert_eq!((value, found.value), (210, 210), "unit {unit}, at {at}");
        }
    }
}

/// A reader must know that the newest record may be missing.
#[test]
fn an_unreadable_end_is_reported() {
    for unit in [1, 3] {
        let drive = Drive::new(unit, false);
        drive.run(async |device| {
            let mut counter = Counter::create(device).await.unwrap();
            counter.add(device, 5).await.unwrap();
        });
        let scan = |drive: &Drive| {
            drive.run(async |device| Scan::read(device, &Steps, observe).await.unwrap())
        };
        assert!(!scan(&drive).may_hide_newer());
        drive.ram.set_unreadable(drive.address(0, 3), BlockCount(1));
        let found = scan(&drive);
        assert!(found.may_hide_newer());
        assert_eq!(found.damaged.len(), 1);
        assert_eq!(found.damaged[0].0, drive.address(0, 3));
        assert_eq!(found.since_snapshot().unwrap().len(), 3);
    }
    assert_seen(&[Event::RecordsReadOneByOne, Event::NewerRecordMayBeHidden]);
}

/// A zone without a readable record may hold newer ones, unless it is known to be of other use.
#[test]
fn an_unreadable_zone_is_reported() {
    let drive = Drive::new(1, false);
    drive.run(async |device| {
        let mut counter = Counter::create(device).await.unwrap();
        counter.switch(device).await.unwrap();
    });
    drive.ram.set_unreadable(drive.address(1, 0), BlockCount(3));
    let found = drive.run(async |device| Scan::read(device, &Steps, observe).await.unwrap());
    assert!(found.may_hide_newer());
    assert_eq!((found.unknown_zones, found.undecoded.len()), (1, 3));
}

/// Half of a snapshot is no snapshot.
#[test]
fn a_snapshot_with_a_damaged_record_does_not_count() {
    for record in 0..3 {
        let drive = Drive::new(1, false);
        drive.run(async |device| {
            let mut counter = Counter::create(device).await.unwrap();
            counter.add(device, 5).await.unwrap();
            counter.switch(device).await.unwrap();
            counter.add(device, 1).await.unwrap();
        });
        let garbage = Damage::Garbage { part: BlockPart::Data, seed: 1 };
        drive.ram.corrupt(drive.address(1, record), garbage);
        let scan = drive.run(async |device| Scan::read(device, &Steps, observe).await.unwrap());
        let found = scan.since_snapshot().unwrap();
        assert_eq!(found[0].sequence, 1, "the snapshot before is the newest whole one");
        assert_eq!(found.len(), 3 + 1 + usize::from(record < 2), "with the changes that count");
        assert!(scan.log_zones() == Some([ZoneId(0), ZoneId(1)]));
    }
}

/// The end of the log is unknown after a failed write.
#[test]
fn nothing_is_appended_behind_an_error() {
    let drive = Drive::new(1, false);
    drive.run(async |device| {
        let mut counter = Counter::create(device).await.unwrap();
        let failing = Selector::next(CommandKind::Write).times(3);
        drive.ram.inject(failing, FaultAction::Fail(Status::WriteFault));
        assert_eq!(counter.add(device, 1).await, Err(Status::WriteFault));
        assert!(!counter.log.has_room(device.geometry()));
        let record = encode(Step { sequence: 9, kind: 0, value: 1 });
        assert_eq!(counter.log.append(device, record).await, Ok(Appended::NoRoom));
        counter.add(device, 2).await.unwrap();
    });
    let found = drive.run(async |device| Counter::open(device).await.unwrap().unwrap());
    assert_eq!(found.value, 3);
}
