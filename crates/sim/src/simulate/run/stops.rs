//! The steps of a life: faults at some step, the stop of the engine, and the drives between lives.
//!
//! Nothing here depends on the kind of the volume.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos};

use crate::simulate::oracle::Survives;
use crate::simulate::run::harness::Harness;
use crate::simulate::run::inject::{go_back, inject, pull};
use crate::simulate::scenario::{Action, Life, Since, Stop, Timed};

/// Upper bound of steps of a life: the longest of 20,000 lives took 48,026. It is low, so that a
/// planted bug that hangs is cheap to detect.
const STEPS_MAX: u64 = 400_000;

/// The same where index pages leave memory: each costs a stripe, which relocation moves again. A
/// life with pages of 4 entries and chunks of 12 blocks took 644,950.
const OFFLOADED_STEPS_MAX: u64 = 4_000_000;

/// Upper bound of a life's virtual time without slow drives. The slowest command takes a tenth of a
/// second.
const TIME_MAX: Nanos = Nanos::from_secs(600);

/// Time that an idle engine continues if its stop comes later.
pub(crate) const IDLE: Nanos = Nanos::from_secs(2);

/// Counts steps, injects timed faults, and decides about the stop.
pub(crate) struct Steps<'a> {
    harness: &'a Harness,
    timed: &'a [Timed],
    stop: Option<Stop>,
    handle: Handle,
    serving: Rc<Cell<bool>>,
    /// Updates which drives sit in the slots, before something happens to one.
    seat: &'a dyn Fn(),
    /// Upper bound of its steps.
    most: u64,
    /// Steps since the start.
    taken: u64,
    /// Steps since users are served.
    served: u64,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(
        harness: &'a Harness,
        life: &'a Life,
        handle: Handle,
        serving: Rc<Cell<bool>>,
        seat: &'a dyn Fn(),
    ) -> Self {
        let (timed, stop) = (&life.timed, life.stop);
        let most = if life.index_pages.is_some() { OFFLOADED_STEPS_MAX } else { STEPS_MAX };
        Self { harness, timed, stop, handle, serving, seat, most, taken: 0, served: 0 }
    }

    /// Steps since the start.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Counts a step; returns whether the engine stops now.
    pub(crate) fn step(&mut self) -> bool {
        self.taken += 1;
        self.served += u64::from(self.serving.get());
        assert!(self.taken < self.most, "the life does not end: {} steps", self.taken);
        let now = self.handle.now();
        assert!(now < self.harness.patience(TIME_MAX), "the life does not end: virtual time {now}");
        for timed in self.timed {
            if self.since(timed.since) == timed.steps + 1 {
                (self.seat)();
                happen(self.harness, timed.action, self.serving.get());
            }
        }
        self.stop.is_some_and(|stop| self.since(stop.since) > stop.steps)
    }

    fn since(&self, since: Since) -> u64 {
        match since {
            Since::Start => self.taken,
            Since::Serving => self.served,
        }
    }
}

/// A timed fault of a drive. One drive too many may be pulled only while users are served: a
/// failing start would prove nothing.
fn happen(harness: &Harness, action: Action, serving: bool) {
    match action {
        Action::Fault { slot, fault } => inject(harness, slot, fault),
        Action::Pull { slot, too_many, forgetting } => {
            pull(harness, slot, too_many && serving, forgetting, false);
        }
        _ => {}
    }
}

/// Events before the engine is started; returns the slots that stay away.
pub(crate) fn prepare(harness: &Harness, life: &Life) -> BTreeSet<usize> {
    harness.begin_life();
    let mut drives = harness.drives.borrow_mut();
    for slot in drives.spare(&life.blanked) {
        drives.blank(slot);
    }
    drop(drives);
    for action in &life.meanwhile {
        match *action {
            Action::Keep { slot } if slot < harness.shape.columns() => {
                harness.drives.borrow_mut().keep(slot);
            }
            Action::GoBack { slot } => go_back(harness, slot),
            action => happen(harness, action, false),
        }
    }
    let mut drives = harness.drives.borrow_mut();
    let away = match life.forced {
        true => {
            harness.forced.set(true);
            drives.spare_by_force(&life.missing)
        }
        false => drives.spare(&life.missing),
    };
    drives.leave_out(&away);
    away
}

/// How a life ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// The volume was closed, or never started.
    pub by_itself: bool,
    /// Whether the volume was started.
    pub started: bool,
}

/// Stops the drives at the end of a life.
pub(crate) fn stop(harness: &Harness, life: &Life, away: &BTreeSet<usize>, ended: Ended) {
    let mut drives = harness.drives.borrow_mut();
    if !ended.started {
        drives.cut_short(away);
    }
    if harness.broken.get() {
        drives.unsettle();
    }
    // A closed volume loses nothing, even with the power.
    let power = life.order & 1 == 1;
    let stop = life.stop.filter(|_| !ended.by_itself);
    let stop = stop.unwrap_or(Stop { since: Since::Start, steps: 0, power, seed: life.order });
    drives.crash(&stop);
    drop(drives);
    if stop.power {
        harness.survives.set(Survives::Durable);
    }
    if ended.by_itself {
        return;
    }
    harness.crashed.set(harness.crashed.get() + 1);
    harness.count(|tally| {
        tally.deepest = tally.deepest.max(harness.crashed.get());
        tally.crashes += 1;
        tally.power_losses += u64::from(stop.power);
        tally.crashes_in_recovery += u64::from(!ended.started);
    });
}
