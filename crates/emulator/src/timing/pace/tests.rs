//! Moments are those of a virtual clock and a scripted model.

use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneAddress, ZoneId};

use super::*;
use crate::Preset;

/// Plans appends by their zone. In zone 0 they take effect at once and complete after as many
/// microseconds as blocks, in zone 1 they are kept until 50 us. Resets take effect after 20 us.
#[derive(Default)]
struct Script {
    kept: Vec<CommandId>,
    /// Write pointers that were seen when commands were planned.
    seen: Rc<RefCell<Vec<u32>>>,
}

const DECISION: Nanos = Nanos::from_micros(50);

impl Timing for Script {
    fn schedule(
        &mut self,
        id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        match *request {
            Request::Append { zone: ZoneId(1), .. } => {
                self.kept.push(id);
                None
            }
            Request::Append { zone, blocks, .. } => {
                self.seen.borrow_mut().push(zones.record(zone).write_pointer.0);
                let completed = now + Nanos::from_micros(blocks.0.into());
                Some(Schedule { applied: now, completed })
            }
            _ => {
                let done = now + Nanos::from_micros(20);
                Some(Schedule { applied: done, completed: done })
            }
        }
    }

    fn next_decision(&mut self) -> Option<Nanos> {
        (!self.kept.is_empty()).then_some(DECISION)
    }

    fn decide(&mut self, zones: &ZoneSet, now: Nanos) -> Option<(CommandId, Schedule)> {
        assert!(now >= DECISION, "asked when it said");
        let id = (!self.kept.is_empty()).then(|| self.kept.remove(0))?;
        self.seen.borrow_mut().push(zones.record(ZoneId(1)).write_pointer.0);
        Some((id, Schedule { applied: now, completed: now + Nanos::from_micros(7) }))
    }
}

struct Bench {
    executor: Executor,
    pace: Pace,
    /// The drive itself, without latency.
    drive: Controller,
    seen: Rc<RefCell<Vec<u32>>>,
}

impl Bench {
    fn new() -> Self {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let geometry = Geometry::new(4, BlockCount(100));
        let drive = Controller::new(geometry.clone()).unwrap();
        let script = Script::default();
        let seen = script.seen.clone();
        let pace = Pace::new(Box::new(script), &geometry, drive.zones(), &executor.handle());
        Self { executor, pace, drive, seen }
    }

    fn submit(&mut self, request: Request) -> Due {
        let due = self.pace.begin(&request, self.drive.zones());
        self.drive.admit(&request).outcome.unwrap();
        due
    }

    /// Waits; says when it is, in microseconds.
    fn wait(&self, due: Due) -> u64 {
        let handle = self.executor.handle();
        self.executor.run(async {
            due.wait(&handle).await;
            handle.now().0 / 1000
        })
    }
}

fn append(zone: u32, blocks: u32) -> Request {
    Request::Append { zone: ZoneId(zone), blocks: BlockCount(blocks), fua: false }
}

fn reset(zone: u32) -> Request {
    Request::Manage { zone: ZoneId(zone), action: ZoneAction::Reset }
}

#[test]
fn commands_are_due_when_the_model_says() {
    let mut bench = Bench::new();
    let (slow, fast) = (bench.submit(append(0, 30)), bench.submit(append(0, 10)));
    assert_eq!(bench.wait(fast), 10);
    assert_eq!(bench.wait(slow), 30);
    let late = bench.submit(append(0, 3));
    assert_eq!(bench.wait(late), 33, "from its own submission on");
}

#[test]
fn kept_commands_are_decided_about_by_a_timer() {
    let mut bench = Bench::new();
    let first = bench.submit(append(1, 4));
    let second = bench.submit(append(1, 4));
    let passing = bench.submit(append(0, 5));
    assert_eq!(bench.pace.kept(), 2);
    assert_eq!(bench.wait(passing), 5);
    assert_eq!(bench.wait(second), 57);
    assert_eq!(bench.wait(first), 57, "decided long ago, without being polled");
    assert_eq!(*bench.seen.borrow(), [0, 0, 4], "by the zones as the model sees them");
}

#[test]
fn the_model_sees_changes_when_they_take_effect() {
    let mut bench = Bench::new();
    let written = bench.submit(append(0, 8));
    let cleared = bench.submit(reset(0));
    let next = bench.submit(append(0, 2));
    assert_eq!(bench.wait(written), 8);
    assert_eq!(bench.wait(next), 8, "due at 2");
    assert_eq!(bench.wait(cleared), 20);
    let last = bench.submit(append(0, 1));
    assert_eq!(bench.wait(last), 21);
    assert_eq!(*bench.seen.borrow(), [0, 8, 2], "the last one by what the drive holds");
}

#[test]
fn a_zone_that_went_its_own_way_is_followed() {
    let mut bench = Bench::new();
    let written = bench.submit(append(0, 8));
    bench.wait(written);
    bench.drive.zones_mut().restart();
    bench.drive.zones_mut().truncate(ZoneId(0), zoneweave_zoned::ZoneOffset(3)).unwrap();
    let next = bench.submit(append(0, 1));
    bench.wait(next);
    assert_eq!(*bench.seen.borrow(), [0, 3]);
}

#[test]
fn a_closed_drive_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let kept = bench.submit(append(1, 4));
    let Bench { executor, pace, .. } = bench;
    drop(pace);
    let handle = executor.handle();
    executor.run(async {
        kept.wait(&handle).await;
        assert_eq!(handle.now(), Nanos::ZERO, "nothing holds it back");
        handle.sleep(Nanos::from_millis(1)).await;
    });
}

/// The pace of a preset is that of a RAM drive with the preset, command by command, also while the
/// write buffer is full.
#[test]
fn a_preset_has_the_pace_of_its_ram_drive() {
    let preset = Preset::by_name("zn540-1tb").unwrap().with_zones(16, BlockCount(4096)).unwrap();
    let geometry = preset.geometry().clone();
    let requests: Vec<Request> = (0..3000)
        .map(|index| match index % 10 {
            9 => {
                Request::Read { at: ZoneAddress::new(ZoneId(index % 8), 0), blocks: BlockCount(1) }
            }
            _ => append(index % 8, 8),
        })
        .chain([reset(0), append(0, 1)])
        .collect();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let mut drive = Controller::new(geometry.clone()).unwrap();
    let pace = Pace::new(preset.timing(7), &geometry, drive.zones(), &handle);
    let dues: Vec<Due> = requests
        .iter()
        .map(|request| {
            let due = pace.begin(request, drive.zones());
            drive.admit(request);
            due
        })
        .collect();
    assert!(pace.kept() > 100, "the buffer of 40 MiB is full, {} wait", pace.kept());
    let waits = dues.into_iter().map(|due| {
        let handle = handle.clone();
        executor.handle().spawn("wait", async move {
            due.wait(&handle).await;
            handle.now()
        })
    });
    let waits: Vec<_> = waits.collect();
    let found: Vec<Nanos> = waits.into_iter().map(|wait| executor.run(wait)).collect();
    assert_eq!(found, of_ram_drive(&preset, &requests));
}

/// When a RAM drive completes commands that are submitted together.
fn of_ram_drive(preset: &Preset, requests: &[Request]) -> Vec<Nanos> {
    use zoneweave_zoned::{Command, Payload, zero_blocks};
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let drive = crate::RamDrive::new(preset.geometry().clone(), preset.timing(7)).unwrap();
    let device = drive.attach(&executor.handle());
    let command = |request: &Request| match *request {
        Request::Read { at, blocks } => Command::Read { at, blocks },
        Request::Append { zone, blocks, fua } => {
            let payload = Payload::new(zero_blocks(blocks), bytes::Bytes::new());
            Command::Append { zone, payload, fua }
        }
        Request::Manage { zone, action } => Command::Manage { zone, action },
        _ => unreachable!("not in this test"),
    };
    let waits: Vec<_> = requests
        .iter()
        .map(|request| {
            let (answer, handle) = (device.submit(command(request)), executor.handle());
            executor.handle().spawn("wait", async move {
                answer.await.unwrap();
                handle.now()
            })
        })
        .collect();
    waits.into_iter().map(|wait| executor.run(wait)).collect()
}
