//! One run of a trace on the real engine, and the state that a crash at each boundary would leave.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zoneweave_emulator::{
    CommandKind, FaultAction, Immediate, PendingCommand, RamDrive, Request, Selector,
};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{MemberHealth, OfferedDrive};
use zoneweave_runtime::{Executor, Gate, Handle, JoinHandle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BlockDevice, Command, Lba, Payload, Reply, Status, ZoneAction, ZoneAddress, ZoneId, ZonedDevice,
};

use super::engine::{Engine, Promises};
use super::space::{Operation, Step};
use super::timing::Ranked;
use crate::pattern::contents;
use crate::simulate::oracle::{Moment, Survives};
use crate::simulate::zoned::oracle::FlushBegun as ZonedFlush;

/// Upper bound of steps of a trace.
const STEPS_MAX: u64 = 1_000_000;

/// Virtual time in which background work ends.
const SETTLING: Nanos = Nanos::from_secs(1);

/// The state before a crash at one moment.
pub(super) struct Boundary {
    /// The drives by slot, commands in flight included.
    pub drives: Vec<RamDrive>,
    /// The same drives before the trace.
    pub before: Rc<Vec<RamDrive>>,
    /// The promises at that moment.
    pub oracle: Promises,
    /// The slot that may have lost its member: its drive was pulled or evicted.
    pub out: Option<usize>,
    /// The slot whose drive is being put back: it may be a member by then or not.
    pub returning: Option<usize>,
}

/// A trace and its drives.
pub(super) struct Run<'a> {
    pub drives: &'a [RamDrive],
    /// A slot whose drive is out from the start.
    pub out: Option<usize>,
    /// The kind of the volume.
    pub zoned: bool,
    pub oracle: Promises,
    pub survives: Survives,
    /// Whether acknowledged writes are durable.
    pub durable: bool,
    pub filling: &'a [Operation],
    pub trace: &'a [Step],
    /// The ranks of the drives by speed.
    pub order: [u8; 4],
}

/// Runs a trace; returns the boundaries since the start of its last operation. Earlier boundaries
/// belong to the shorter trace. An empty trace has all of them, from the start on.
///
/// # Panics
///
/// If a request fails, or the engine never becomes idle.
pub(super) fn record(run: Run<'_>) -> Vec<Boundary> {
    let drives = run.drives.iter().zip(run.order);
    let drives: Vec<_> = drives.map(|(ram, rank)| ram.fork(Ranked::new(rank))).collect();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let stage = Rc::new(Stage {
        before: RefCell::new(forks(&drives)),
        drives,
        away: Cell::new(run.out),
        suspect: Cell::new(run.out),
        oracle: RefCell::new(run.oracle),
        durable: run.durable,
        zoned: run.zoned,
        handle: executor.handle(),
        volume: RefCell::new(None),
        recording: Cell::new(run.trace.is_empty()),
        started: Gate::new(),
        returns: Cell::new(0),
        returning: Cell::new(None),
    });
    let mut watch = Watch { survives: run.survives, seen: None, steps: 0, found: Vec::new() };
    let main = play(stage.clone(), run.filling, run.trace);
    executor.run_until(main, || {
        watch.look(&stage);
        false
    });
    for ram in &stage.drives {
        ram.process_kill(0);
    }
    drop(executor);
    watch.found
}

fn forks(drives: &[RamDrive]) -> Rc<Vec<RamDrive>> {
    Rc::new(drives.iter().map(|ram| ram.fork(Immediate)).collect())
}

/// The context of operations.
struct Stage {
    drives: Vec<RamDrive>,
    before: RefCell<Rc<Vec<RamDrive>>>,
    /// A slot without a drive.
    away: Cell<Option<usize>>,
    /// A slot whose drive may be taken out of service.
    suspect: Cell<Option<usize>>,
    oracle: RefCell<Promises>,
    durable: bool,
    zoned: bool,
    handle: Handle,
    volume: RefCell<Option<Engine>>,
    recording: Cell<bool>,
    /// Opened when the volume has started.
    started: Gate,
    /// Number of times that a drive was put back.
    returns: Cell<u8>,
    /// The slot whose drive is being put back.
    returning: Cell<Option<usize>>,
}

/// The identity of a moment for crashes: the commands in flight that a crash may apply or whose
/// completion makes a difference, the promises, and the slot that is out.
type Situation = (Vec<Vec<PendingCommand>>, Vec<(u64, Vec<u64>)>, Option<usize>);

/// Observes every moment, and keeps those that differ from the one before.
struct Watch {
    survives: Survives,
    seen: Option<Situation>,
    steps: u64,
    found: Vec<Boundary>,
}

impl Watch {
    fn look(&mut self, stage: &Stage) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the engine does not come to rest");
        if !stage.recording.get() {
            return;
        }
        let promises = stage.oracle.borrow().allowed(self.survives);
        let moment = (in_flight(&stage.drives), promises, stage.out());
        if self.seen.as_ref() == Some(&moment) {
            return;
        }
        self.seen = Some(moment);
        self.found.push(Boundary {
            drives: stage.drives.iter().map(|ram| ram.fork(Immediate)).collect(),
            before: stage.before.borrow().clone(),
            oracle: stage.oracle.borrow().clone(),
            out: stage.out(),
            returning: stage.returning.get(),
        });
    }
}

fn in_flight(drives: &[RamDrive]) -> Vec<Vec<PendingCommand>> {
    let matters = |command: &PendingCommand| {
        !matches!(command.request, Request::Read { .. } | Request::Report { .. })
    };
    drives.iter().map(|ram| ram.in_flight().into_iter().filter(matters).collect()).collect()
}

async fn play(stage: Rc<Stage>, filling: &[Operation], trace: &[Step]) {
    // Each operation is a task of its own, so that the watch sees its effects before a completion.
    stage.spawn(Operation::Restart).await;
    for operation in filling {
        stage.spawn(*operation).await;
    }
    if !filling.is_empty() {
        stage.handle.sleep(SETTLING).await;
    }
    let before = forks(&stage.drives);
    stage.before.replace(before);
    let mut under_way = Vec::new();
    for (left, step) in (0..trace.len()).rev().zip(trace) {
        if !step.together {
            for task in under_way.drain(..) {
                task.await;
            }
        }
        stage.recording.set(stage.recording.get() || left == 0);
        under_way.push(stage.spawn(step.operation));
    }
    for task in under_way {
        task.await;
    }
    stage.handle.sleep(SETTLING).await;
}

impl Stage {
    fn spawn(self: &Rc<Self>, operation: Operation) -> JoinHandle<()> {
        self.handle.spawn("operation", self.clone().perform(operation))
    }

    async fn perform(self: Rc<Self>, operation: Operation) {
        match operation {
            Operation::Write { lba, blocks, fua } => self.write(lba, blocks, fua).await,
            Operation::Trim { lba, blocks, fua } => self.trim(lba, blocks, fua).await,
            Operation::Flush => self.flush().await,
            Operation::Restart => self.restart(|_| {}).await,
            Operation::StartWithout { slot } => self.start_without(slot).await,
            Operation::StartWith { slot } => self.start_with(slot).await,
            Operation::Pull { slot } => self.pull(slot),
            Operation::FailingWrite { slot } => {
                self.fail_next(slot, &[CommandKind::Write, CommandKind::Append]);
                match self.zoned {
                    true => self.write_zone(0, 1, false).await,
                    false => self.write(0, 1, false).await,
                }
            }
            Operation::WriteZone { zone, blocks, fua } => {
                self.write_zone(zone, blocks, fua).await;
            }
            Operation::Reset { zone } => self.reset(zone).await,
            Operation::Finish { zone } => self.finish(zone).await,
            Operation::FailingFlush { slot } => {
                self.fail_next(slot, &[CommandKind::Flush]);
                self.flush().await;
            }
        }
    }

    /// The slot whose drive is out. A drive that the engine reports as a working member is one,
    /// since the redundancy covers only one drive.
    fn out(&self) -> Option<usize> {
        let suspect = self.suspect.get()?;
        let volume = self.volume.borrow();
        let online = |volume: &Engine| volume.online()[suspect];
        // Being put back ends with a record that it is a member.
        let is_there = self.away.get().is_none() && self.returning.get().is_none();
        let works = is_there && volume.as_ref().is_some_and(online);
        (!works).then_some(suspect)
    }

    /// Whether a drive may have a fault: at most one may.
    fn may_impair(&self, slot: usize) -> bool {
        let free = self.suspect.get().is_none_or(|suspect| suspect == slot);
        if free {
            self.suspect.set(Some(slot));
        }
        free
    }

    fn pull(&self, slot: usize) {
        if self.may_impair(slot) {
            self.away.set(Some(slot));
            self.drives[slot].set_gone(true);
        }
    }

    /// The next command of these kinds to a drive will fail.
    fn fail_next(&self, slot: usize, kinds: &[CommandKind]) {
        if self.may_impair(slot) {
            let next = Selector { kinds: kinds.to_vec(), ..Selector::default() };
            self.drives[slot].inject(next, FaultAction::Fail(Status::WriteFault));
        }
    }

    /// The volume, as soon as it has started.
    async fn volume(&self) -> Engine {
        loop {
            if let Some(volume) = &*self.volume.borrow() {
                return volume.clone();
            }
            self.started.wait().await;
        }
    }

    async fn write(&self, lba: u64, blocks: u64, fua: bool) {
        let version = self.oracle.borrow_mut().log().submit(lba, blocks, false);
        let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
        let Engine::Log(volume) = self.volume().await else { return };
        let written = volume.write(Lba(lba), data, fua).await;
        written.unwrap_or_else(|error| panic!("a write failed: {error}"));
        self.oracle.borrow_mut().log().acknowledge(version, fua || self.durable);
    }

    async fn trim(&self, lba: u64, blocks: u64, fua: bool) {
        let version = self.oracle.borrow_mut().log().submit(lba, blocks, true);
        let Engine::Log(volume) = self.volume().await else { return };
        let trimmed = volume.trim(Lba(lba), blocks, fua).await;
        trimmed.unwrap_or_else(|error| panic!("a trim failed: {error}"));
        self.oracle.borrow_mut().log().acknowledge(version, fua || self.durable);
    }

    /// Writes at the write pointer of a zone.
    async fn write_zone(&self, zone: u32, blocks: usize, fua: bool) {
        let Engine::Zoned(volume) = self.volume().await else { return };
        let (zone, index) = (ZoneId(zone), zone as usize);
        let (command, write) = {
            let mut oracle = self.oracle.borrow_mut();
            let oracle = oracle.zoned();
            if oracle.room(index) < blocks {
                return;
            }
            let versions = oracle.next_versions(blocks).into_iter();
            let data = versions.map(|version| contents(zone.0.into(), version)).collect();
            let write = oracle.submit(index, blocks);
            let offset = u32::try_from(write.end - blocks).expect("an offset in a zone");
            let payload = Payload { data, oob: bytes::Bytes::new() };
            (Command::Write { at: ZoneAddress::new(zone, offset), payload, fua }, write)
        };
        let written = volume.submit(command).await;
        assert!(matches!(written, Ok(Reply::Written(_))), "a write failed: {written:?}");
        self.oracle.borrow_mut().zoned().acknowledge(write, fua || self.durable);
    }

    async fn reset(&self, zone: u32) {
        let Engine::Zoned(volume) = self.volume().await else { return };
        let era = self.oracle.borrow_mut().zoned().zones[zone as usize].submit_reset();
        let reset = Command::Manage { zone: ZoneId(zone), action: ZoneAction::Reset };
        let done = volume.submit(reset).await;
        assert!(done.is_ok(), "a reset failed: {done:?}");
        self.oracle.borrow_mut().zoned().zones[zone as usize].acknowledge_reset(era);
    }

    async fn finish(&self, zone: u32) {
        let Engine::Zoned(volume) = self.volume().await else { return };
        let era = self.oracle.borrow_mut().zoned().zones[zone as usize].submit_finish();
        let finish = Command::Manage { zone: ZoneId(zone), action: ZoneAction::Finish };
        let done = volume.submit(finish).await;
        assert!(done.is_ok(), "a finish failed: {done:?}");
        self.oracle.borrow_mut().zoned().zones[zone as usize].acknowledge_finish(era);
    }

    async fn flush(&self) {
        let volume = self.volume().await;
        let begun = self.begin_flush();
        volume.flush().await;
        begun.end(&self.oracle);
    }

    fn begin_flush(&self) -> FlushBegun {
        match &mut *self.oracle.borrow_mut() {
            Promises::Log(oracle) => FlushBegun::Log(oracle.tick()),
            Promises::Zoned(oracle) => FlushBegun::Zoned(oracle.begin_flush()),
        }
    }

    /// Closes the volume, and starts it without a drive.
    async fn start_without(&self, slot: usize) {
        let leave = |stage: &Self| {
            if stage.may_impair(slot) {
                stage.away.set(Some(slot));
            }
        };
        self.restart(leave).await;
    }

    /// Closes the volume, and starts it with the drive that was missing. One that missed a write is
    /// put back.
    async fn start_with(&self, slot: usize) {
        self.restart(|stage| stage.away.set(None)).await;
        let Engine::Log(volume) = self.volume().await else { return };
        if volume.status().members[slot].state == MemberHealth::Failed {
            self.returns.set(self.returns.get() + 1);
            self.returning.set(Some(slot));
            let uuid = MemberUuid([self.returns.get(); 16]);
            let back = volume.readd(slot, self.drives[slot].attach(&self.handle), uuid).await;
            back.unwrap_or_else(|error| {
                panic!("the drive in slot {slot} does not return: {error}")
            });
            self.returning.set(None);
        }
    }

    /// Closes the volume if it is open, and starts it, with the drives that are there by then.
    async fn restart(&self, meanwhile: impl FnOnce(&Self)) {
        let running = self.volume.borrow_mut().take();
        if let Some(volume) = running {
            let begun = self.begin_flush();
            volume.close().await;
            begun.end(&self.oracle);
            self.handle.sleep(SETTLING).await;
        }
        meanwhile(self);
        let offered = offer(&self.drives, self.away.get(), &self.handle);
        let volume = Engine::start(self.zoned, &self.handle, offered).await;
        assert!(self.volume.borrow().is_none(), "an array is started once at a time");
        *self.volume.borrow_mut() = Some(volume);
        self.started.open();
    }
}

/// A flush that has begun.
enum FlushBegun {
    Log(Moment),
    Zoned(ZonedFlush),
}

impl FlushBegun {
    /// It was acknowledged.
    fn end(&self, oracle: &RefCell<Promises>) {
        match self {
            Self::Log(began) => oracle.borrow_mut().log().flushed(*began),
            Self::Zoned(begun) => oracle.borrow_mut().zoned().flushed(begun),
        }
    }
}

/// Attaches all drives except the one that is out.
pub(super) fn offer(drives: &[RamDrive], out: Option<usize>, handle: &Handle) -> Vec<OfferedDrive> {
    let present = drives.iter().enumerate().filter(|(slot, _)| Some(*slot) != out);
    let offer = |(slot, ram): (usize, &RamDrive)| OfferedDrive {
        device: ram.attach(handle),
        label: format!("drive {slot}"),
    };
    present.map(offer).collect()
}
