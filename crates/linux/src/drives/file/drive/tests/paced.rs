//! Drives that behave like a preset. Nothing here depends on how fast the machine is: completions
//! are held against the moments that the model gave, and against events that the test lets happen.

use std::cell::RefCell;

use zoneweave_emulator::{CommandId, Schedule, Timing};
use zoneweave_zoned::ZoneSet;

use super::*;

type Moments = Rc<RefCell<Vec<Nanos>>>;

/// Lets the n-th command take n milliseconds, the first ones longest, and notes when they are due.
struct Backwards {
    left: u64,
    due: Moments,
}

impl Timing for Backwards {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let completed = now + Nanos::from_millis(self.left);
        self.left = self.left.saturating_sub(1);
        self.due.borrow_mut().push(completed);
        Some(Schedule { applied: now, completed })
    }
}

/// Keeps appends until it is told to let them go.
struct Gatekeeper {
    open: Rc<RefCell<bool>>,
    kept: Vec<CommandId>,
    asked: Nanos,
}

impl Timing for Gatekeeper {
    fn schedule(
        &mut self,
        id: CommandId,
        request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        if matches!(request, Request::Append { .. }) {
            self.kept.push(id);
            self.asked = now;
            return None;
        }
        Some(Schedule { applied: now, completed: now })
    }

    fn next_decision(&mut self) -> Option<Nanos> {
        Some(self.asked + Nanos::from_millis(1))
    }

    fn decide(&mut self, _zones: &ZoneSet, now: Nanos) -> Option<(CommandId, Schedule)> {
        self.asked = now;
        if !*self.open.borrow() {
            return None;
        }
        let id = self.kept.pop()?;
        Some((id, Schedule { applied: now, completed: now }))
    }
}

fn paced(bench: &Bench, timing: impl Timing + 'static) -> FileDrive {
    FileDrive::create(&bench.path(), geometry(), UUID).unwrap();
    let handle = bench.executor.handle();
    let timing = Box::new(timing);
    FileDrive::open_with_timing(&bench.ring, &handle, &bench.path(), timing, true).unwrap()
}

#[test]
fn no_command_completes_before_it_is_due() {
    let (bench, due) = (Bench::new(), Moments::default());
    let drive = paced(&bench, Backwards { left: 12, due: due.clone() });
    let handle = bench.executor.handle();
    let command = |index: u32| match index % 4 {
        0 => Command::Append { zone: ZoneId(index % 3), payload: payload(1, 2), fua: false },
        1 => Command::Read { at: ZoneAddress::new(ZoneId(index % 3), 0), blocks: BlockCount(1) },
        2 => Command::Flush,
        // Refused, and that takes its time too.
        _ => Command::Read { at: ZoneAddress::new(ZoneId(99), 0), blocks: BlockCount(1) },
    };
    let waits: Vec<_> = (0..16)
        .map(|index| {
            let (answer, handle) = (drive.submit(command(index)), handle.clone());
            bench.executor.handle().spawn("wait", async move {
                let outcome = answer.await;
                (outcome.is_ok(), handle.now())
            })
        })
        .collect();
    let due = due.borrow().clone();
    assert_eq!(due.len(), waits.len());
    for (index, (wait, due)) in waits.into_iter().zip(due).enumerate() {
        let (succeeded, completed) = bench.run(wait);
        assert_eq!(succeeded, index % 4 != 3, "command {index}");
        assert!(completed >= due, "command {index} at {completed:?}, due at {due:?}");
    }
}

#[test]
fn what_the_model_keeps_does_not_complete() {
    let (bench, open) = (Bench::new(), Rc::new(RefCell::new(false)));
    let timing = Gatekeeper { open: open.clone(), kept: Vec::new(), asked: Nanos(0) };
    let drive = paced(&bench, timing);
    let completed = Rc::new(RefCell::new(false));
    let answer =
        drive.submit(Command::Append { zone: ZoneId(0), payload: payload(1, 3), fua: false });
    let done = completed.clone();
    let wait = bench.executor.handle().spawn("wait", async move {
        let outcome = answer.await;
        *done.borrow_mut() = true;
        outcome
    });
    bench.run(async {
        // It is stored already: reads find it, and flushes cover it.
        let read = drive.read(ZoneAddress::new(ZoneId(0), 0), BlockCount(3)).await.unwrap();
        assert_eq!(read.block(2), payload(1, 3).block(2));
        drive.flush().await.unwrap();
        assert!(!*completed.borrow(), "the model has not decided about it");
        *open.borrow_mut() = true;
        wait.await.unwrap();
        assert!(*completed.borrow());
    });
}

#[test]
fn the_preset_is_remembered() {
    let bench = Bench::new();
    let preset = PresetName::new("femu-wa-zone").unwrap();
    let shape = Geometry::new(4, BlockCount(512));
    FileDrive::create_as(&bench.path(), shape, preset, UUID).unwrap();
    let drive = bench.open();
    assert!(drive.drive.pace.is_some());
    let start = bench.executor.handle().now();
    bench.run(async {
        drive.append(ZoneId(0), payload(1, 2), false).await.unwrap();
        // 2 pages are programmed by 2 dies in parallel.
        let taken = bench.executor.handle().now().since(start);
        assert!(taken >= Nanos::from_micros(200), "{taken:?}");
        drive.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
    });
    drop(drive);
    bench.settle();
    let info = FileDrive::inspect(&bench.path()).unwrap();
    assert_eq!(info.preset.as_deref(), Some("femu-wa-zone"));
    let wear = info.wear.unwrap().report(0);
    assert_eq!((wear.erase_blocks.max, wear.zones[0].spread.total), (1, 256));
    let handle = bench.executor.handle();
    let look = FileDrive::open_read_only(&bench.ring, &handle, &bench.path()).unwrap();
    assert!(look.drive.pace.is_none(), "looking takes no time");
}

#[test]
fn without_latency_there_is_no_pace() {
    let bench = Bench::new();
    assert!(bench.create().drive.pace.is_none());
    std::fs::remove_file(bench.path()).unwrap();
    let instant = PresetName::new("instant").unwrap();
    FileDrive::create_as(&bench.path(), geometry(), instant, UUID).unwrap();
    assert!(bench.open().drive.pace.is_none());
}

#[test]
fn a_preset_that_is_not_known_is_an_error_except_for_looking() {
    use zoneweave_emulator::media_format::DriveLayout;
    let bench = Bench::new();
    let later = PresetName::new("of-a-later-version").unwrap();
    let made = FileDrive::create_as(&bench.path(), geometry(), later.clone(), UUID);
    assert!(matches!(made, Err(FileDriveError::UnknownPreset { .. })));
    assert!(!bench.path().exists());
    let extension = Extension { wear: None, preset: Some(later) };
    open::create(&bench.path(), geometry(), Some(extension.clone()), UUID).unwrap();
    assert!(DriveLayout::extended(geometry(), UUID, extension).is_ok());
    let handle = bench.executor.handle();
    let refused = FileDrive::open(&bench.ring, &handle, &bench.path()).err().unwrap();
    assert!(refused.to_string().contains("`of-a-later-version`"), "{refused}");
    let info = FileDrive::inspect(&bench.path()).unwrap();
    assert_eq!(info.preset.as_deref(), Some("of-a-later-version"));
    FileDrive::open_read_only(&bench.ring, &handle, &bench.path()).unwrap();
    let timing = Box::new(zoneweave_emulator::Immediate);
    FileDrive::open_with_timing(&bench.ring, &handle, &bench.path(), timing, true).unwrap();
}
