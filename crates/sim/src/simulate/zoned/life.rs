//! One life of the volume: a start, verified recovery, work, and an end at any step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_raid::log::DriveRole;
use zoneweave_raid::raizn::{OpenError, OpenReport, Volume, open};
use zoneweave_runtime::{Executor, Handle, VirtualTime};

use super::actor::Actor;
use super::harness::ZonedHarness;
use super::verify::{check_offline, find_all, verify_ended, verify_quiet, verify_recovered};
use super::zone::FoundZone;
use crate::simulate::drives::slots::Origin;
use crate::simulate::run::faults::Recorded;
use crate::simulate::run::stops::{Ended, IDLE, Steps, prepare, stop};
use crate::simulate::scenario::{Life, Since, Stop};

/// The end of a life that was not stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The volume was closed, or never started.
    InOrder,
    /// All actions were done before the stop, which comes now.
    Idle,
}

/// Runs one life.
///
/// # Panics
///
/// If the volume breaks a promise.
pub(super) fn live(harness: &Rc<ZonedHarness>, life: &Life) {
    for away in &life.refused {
        be_refused(harness, away);
    }
    let away = prepare(&harness.base, life);
    if life.checked {
        check_offline(harness, &away, &[]);
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let serving = Rc::new(Cell::new(false));
    let volume = RefCell::new(None);
    let mut steps = Steps::new(&harness.base, life, handle.clone(), serving.clone(), &|| {});
    let last = RefCell::default();
    let main = Main { harness, life, away: &away, handle: &handle, serving: &serving, last: &last };
    let ended = executor.run_until(main.run(&volume), || steps.step());
    harness.base.count(|tally| tally.steps += steps.taken());
    if let Some(volume) = &*volume.borrow() {
        harness.observe(volume);
        let recorded = Recorded::of(volume, &harness.base.orders);
        harness.base.recorded.replace(Some(recorded));
    }
    let started = volume.take().is_some();
    stop(&harness.base, life, &away, Ended { by_itself: ended == Some(End::InOrder), started });
    if started {
        // Members that have missed a write are out.
        harness.base.drives.borrow_mut().leave_out(&BTreeSet::new());
    }
    drop(executor);
    if ended == Some(End::InOrder) {
        check_offline(harness, &BTreeSet::new(), &last.take());
    }
}

/// Checks that a start with too few drives is refused.
fn be_refused(harness: &Rc<ZonedHarness>, away: &[usize]) {
    let (base, shape) = (&harness.base, &harness.base.shape);
    let away: BTreeSet<_> = away.iter().copied().filter(|slot| *slot < shape.columns()).collect();
    let offered = shape.columns() - away.len();
    let too_few = offered * 2 <= shape.columns() || !shape.survives(&away);
    if shape.beyond || !too_few || offered == 0 || !base.drives.borrow().undamaged() {
        return;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let offered = base.drives.borrow().offer(&handle, &away, false, 0);
    let offered = offered.into_iter().map(|(_, drive)| drive).collect();
    let opened = executor.run(open(&handle, offered, Default::default()));
    assert!(opened.is_err(), "the array starts without the drives in slots {away:?}");
    drop(opened);
    drop(executor);
    let kill = Stop { since: Since::Start, steps: 0, power: false, seed: 1 };
    base.drives.borrow_mut().crash(&kill);
    base.count(|tally| tally.refusals += 1);
}

/// The task of a life.
struct Main<'a> {
    harness: &'a Rc<ZonedHarness>,
    life: &'a Life,
    away: &'a BTreeSet<usize>,
    handle: &'a Handle,
    serving: &'a Cell<bool>,
    /// The zones before an orderly end.
    last: &'a RefCell<Vec<FoundZone>>,
}

impl Main<'_> {
    async fn run(&self, running: &RefCell<Option<Volume>>) -> End {
        let Some(volume) = self.start().await else { return End::InOrder };
        *running.borrow_mut() = Some(volume.clone());
        verify_recovered(self.harness, &volume).await;
        if let Some(recorded) = &*self.harness.base.recorded.borrow()
            && !self.harness.base.may_fail()
        {
            recorded.check(&volume, &self.harness.base.orders);
            recorded.check_cleared(&volume);
        }
        if self.harness.base.may_fail() {
            self.harness.base.orders.forget();
        }
        self.serving.set(true);
        let actors = self.life.actors.iter().map(|actions| {
            let actor = Actor {
                harness: self.harness.clone(),
                volume: volume.clone(),
                handle: self.handle.clone(),
            };
            self.handle.spawn("actor", actor.run(actions.clone()))
        });
        for actor in actors.collect::<Vec<_>>() {
            actor.await;
        }
        if self.life.stop.is_some() {
            self.handle.sleep(self.harness.base.patience(IDLE)).await;
            return End::Idle;
        }
        verify_quiet(self.harness, &volume).await;
        self.harness.observe(&volume);
        if !self.harness.base.may_fail() {
            *self.last.borrow_mut() = find_all(&volume).await;
        }
        let begun = self.harness.oracle.borrow().begin_flush();
        volume.close().await;
        if !self.harness.base.may_fail() {
            self.harness.oracle.borrow_mut().flushed(&begun);
        }
        verify_ended(self.harness, self.handle).await;
        End::InOrder
    }

    async fn start(&self) -> Option<Volume> {
        let offered = {
            let drives = self.harness.base.drives.borrow();
            drives.offer(self.handle, self.away, self.life.former_drives, self.life.order)
        };
        let (origins, drives): (Vec<_>, Vec<_>) = offered.into_iter().unzip();
        match open(self.handle, drives, self.harness.open_options()).await {
            Ok((volume, report)) => {
                self.record_members(&origins, &report);
                Some(volume)
            }
            Err(error) => {
                self.must_start(&error);
                None
            }
        }
    }

    /// A former drive is still a member if its replacement was never recorded.
    fn record_members(&self, origins: &[Origin], report: &OpenReport) {
        let mut drives = self.harness.base.drives.borrow_mut();
        for (origin, verdict) in origins.iter().zip(&report.drives) {
            if let (Origin::Former(at), DriveRole::Member { slot, .. }) = (origin, &verdict.role) {
                drives.put_back(*at, slot.index());
            }
        }
    }

    fn must_start(&self, error: &OpenError) {
        let impaired = self.harness.base.drives.borrow().impaired();
        assert!(
            self.harness.base.shape.beyond,
            "the array does not start without {:?} and with {impaired:?} impaired: {error}",
            self.away
        );
    }
}
