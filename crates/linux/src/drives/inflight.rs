//! Commands of a real drive from submission to answer, its counters, and its loss.
//!
//! Invariant: a lost drive answers every command, in flight or later, with [`Status::DeviceGone`],
//! for good.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Weak;

use thiserror::Error;
use zoneweave_emulator::DriveCounters;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{Command, Completion, Outcome, Responder, Status, ZoneAction, completion};

/// After which a command that not even the kernel has ended means that the drive is lost: aborting,
/// and resetting the controller, may each take as long as the command.
const SILENCE: Nanos = Nanos::from_secs(120);

/// How often a drive is looked after.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

/// Why a real drive that was open answers no more.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DriveLoss {
    /// Its device is gone.
    #[error("the drive was removed, or its driver was unbound")]
    Gone,
    /// A command did not complete, although the kernel should have aborted it.
    #[error("the drive did not answer a command for {seconds} s, and the kernel did not abort it")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// An operator or a test took it out of service.
    #[error("the drive was taken out of service")]
    PulledOut,
}

/// The number of a command, or of one part of it that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Serial(u64);

/// The books of one drive.
pub(crate) struct InFlight {
    handle: Handle,
    /// Commands without an answer.
    waiting: RefCell<BTreeMap<Serial, Responder>>,
    /// Requests in the kernel, and when each was sent.
    sent: RefCell<BTreeMap<Serial, Nanos>>,
    /// The overdue request of the last examination.
    overdue: Cell<Option<Serial>>,
    serials: Cell<u64>,
    counters: RefCell<DriveCounters>,
    loss: Cell<Option<DriveLoss>>,
}

impl InFlight {
    pub(crate) fn new(handle: &Handle) -> Self {
        Self {
            handle: handle.clone(),
            waiting: RefCell::default(),
            sent: RefCell::default(),
            overdue: Cell::new(None),
            serials: Cell::new(0),
            counters: RefCell::default(),
            loss: Cell::new(None),
        }
    }

    pub(crate) fn counters(&self) -> DriveCounters {
        *self.counters.borrow()
    }

    pub(crate) fn loss(&self) -> Option<DriveLoss> {
        self.loss.get()
    }

    /// Answers a command at once with the status of its refusal.
    pub(crate) fn refuse(&self, status: Status) -> Completion {
        Completion::ready(self.counted(Err(status)))
    }

    /// Takes a command up.
    pub(crate) fn begin(&self) -> (Serial, Completion) {
        let (responder, completion) = completion();
        let serial = self.next_serial();
        self.waiting.borrow_mut().insert(serial, responder);
        (serial, completion)
    }

    /// Answers a command, unless it was given up meanwhile.
    pub(crate) fn answer(&self, serial: Serial, outcome: Outcome) {
        let waiting = self.waiting.borrow_mut().remove(&serial);
        if outcome == Err(Status::DeviceGone) {
            self.die(DriveLoss::Gone);
        }
        if let Some(responder) = waiting {
            responder.complete(self.counted(outcome));
        }
    }

    /// Ends the drive.
    pub(crate) fn die(&self, loss: DriveLoss) {
        if self.loss.get().is_some() {
            return;
        }
        self.loss.set(Some(loss));
        for responder in self.waiting.take().into_values() {
            responder.complete(Err(Status::DeviceGone));
        }
    }

    /// Times `work`, which the kernel must answer. Queueing time must not be included: it does not
    /// show that the drive is silent.
    pub(crate) async fn asked<T>(&self, work: impl Future<Output = T>) -> T {
        let serial = self.next_serial();
        self.sent.borrow_mut().insert(serial, self.handle.now());
        let answer = work.await;
        self.sent.borrow_mut().remove(&serial);
        answer
    }

    /// Whether the drive answers, as far as can be told.
    pub(crate) fn answers(&self) -> bool {
        if self.loss.get().is_some() {
            return false;
        }
        let oldest = self.sent.borrow().first_key_value().map(|(sent, since)| (*sent, *since));
        let overdue = oldest.filter(|(_, since)| self.handle.now().since(*since) > SILENCE);
        let overdue = overdue.map(|(sent, _)| sent);
        // If this process was stopped, answers may be there that no task has taken yet. So a
        // request must be overdue in two examinations.
        if self.overdue.replace(overdue) == overdue && overdue.is_some() {
            self.die(DriveLoss::Silent { seconds: SILENCE.0 / 1_000_000_000 });
            return false;
        }
        true
    }

    /// Counts a command that is taken up.
    pub(crate) fn count(&self, command: &Command) {
        let mut counters = self.counters.borrow_mut();
        match command {
            Command::Read { blocks, .. } => {
                counters.reads += 1;
                counters.read_blocks += u64::from(blocks.0);
            }
            Command::Write { payload, .. } | Command::Append { payload, .. } => {
                counters.writes += 1;
                counters.written_blocks += u64::from(payload.blocks().0);
            }
            Command::Manage { action: ZoneAction::Reset, .. } => counters.resets += 1,
            Command::Manage { .. } | Command::ManageAll { .. } | Command::SetExtension { .. } => {
                counters.zone_changes += 1;
            }
            Command::Report { .. } | Command::ChangedZones => counters.reports += 1,
            Command::Flush => counters.flushes += 1,
        }
    }

    fn counted(&self, outcome: Outcome) -> Outcome {
        self.counters.borrow_mut().failures += u64::from(outcome.is_err());
        outcome
    }

    fn next_serial(&self) -> Serial {
        let serial = self.serials.get();
        self.serials.set(serial + 1);
        Serial(serial)
    }
}

/// A drive that is looked after.
pub(crate) trait Watched {
    /// Whether it is still there and answers; it dies if not.
    fn examine(&self) -> bool;
}

/// Looks after a drive for as long as it is open.
pub(crate) async fn watch<D: Watched>(handle: Handle, drive: Weak<D>) {
    loop {
        handle.sleep(WATCH_PERIOD).await;
        match drive.upgrade() {
            Some(drive) if drive.examine() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::{Executor, VirtualTime};
    use zoneweave_zoned::Reply;

    use super::*;

    #[test]
    fn a_drive_that_does_not_answer_is_lost() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let inflight = InFlight::new(&handle);
        executor.run(async {
            let (_, waiting) = inflight.begin();
            let asked = inflight.asked(std::future::pending::<()>());
            let looking = async {
                handle.sleep(Nanos::from_secs(120)).await;
                assert!(inflight.answers());
                handle.sleep(Nanos::from_secs(1)).await;
                // Once is not enough: this process may have stood still.
                assert!(inflight.answers());
                handle.sleep(Nanos::from_secs(1)).await;
                assert!(!inflight.answers());
            };
            assert!(crate::host::timeout::unless(looking, asked).await.is_none());
            assert_eq!(waiting.await, Err(Status::DeviceGone));
            assert_eq!(inflight.loss(), Some(DriveLoss::Silent { seconds: 120 }));
        });
    }

    #[test]
    fn an_answer_that_the_device_is_gone_ends_the_drive() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let inflight = InFlight::new(&executor.handle());
        executor.run(async {
            let (one, first) = inflight.begin();
            let (two, second) = inflight.begin();
            let (_, third) = inflight.begin();
            inflight.answer(one, Ok(Reply::Done));
            assert_eq!(first.await, Ok(Reply::Done));
            inflight.answer(two, Err(Status::DeviceGone));
            assert_eq!(second.await, Err(Status::DeviceGone));
            assert_eq!(third.await, Err(Status::DeviceGone));
            assert_eq!(inflight.loss(), Some(DriveLoss::Gone));
        });
    }
}
