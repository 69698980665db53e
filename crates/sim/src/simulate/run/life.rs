//! One life of the engine: a start, verified recovery, work, and an end at any step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{
    DriveRole, Hedging, OpenError, OpenOptions, OpenReport, PolicyError, Volume, WriteChoice,
    open_array,
};
use zoneweave_runtime::{Executor, Handle, VirtualTime};

use crate::simulate::drives::slots::Origin;
use crate::simulate::run::actor::Actor;
use crate::simulate::run::faults::Recorded;
use crate::simulate::run::foreign_drives;
use crate::simulate::run::harness::Harness;
use crate::simulate::run::inject::keep_spare;
use crate::simulate::run::split_brain;
use crate::simulate::run::stops::{Ended, IDLE, Steps, prepare, stop};
use crate::simulate::run::verify::{check_offline, verify_ended, verify_quiet, verify_recovered};
use crate::simulate::scenario::{Life, Since, Stop};

/// Default entries of a page of the index.
const PAGE_ENTRIES: u32 = 960;

/// Runs one life.
///
/// # Panics
///
/// If the engine breaks a promise.
pub(crate) fn live(harness: &Rc<Harness>, life: &Life) {
    for away in &life.refused {
        be_refused(harness, away);
    }
    let away = prepare(harness, life);
    if let Some(apart) = life.split_brain {
        split_brain::start(harness, apart);
    }
    if life.forced {
        foreign_drives::be_refused_without_force(harness, &away);
    }
    life.impostors.iter().for_each(|impostor| foreign_drives::refuse(harness, *impostor));
    if life.checked {
        check_offline(harness, &away, None);
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let serving = Rc::new(Cell::new(false));
    let volume = RefCell::new(None);
    let seat_spares = || {
        if let Some(volume) = &*volume.borrow() {
            harness.seat_spares(volume);
        }
    };
    let mut steps = Steps::new(harness, life, handle.clone(), serving.clone(), &seat_spares);
    let main = Main { harness, life, away: &away, handle: &handle, serving: &serving };
    let ended = executor.run_until(main.run(&volume), || steps.step());
    harness.count(|tally| tally.steps += steps.taken());
    let by_itself = ended == Some(End::InOrder);
    end(harness, life, &away, by_itself, volume.take());
    drop(executor);
}

/// The end of a life, by a stop or by itself.
fn end(
    harness: &Harness,
    life: &Life,
    away: &BTreeSet<usize>,
    by_itself: bool,
    volume: Option<Volume>,
) {
    if let Some(volume) = &volume {
        harness.observe(volume);
        harness.recorded.replace(Some(Recorded::of(volume, &harness.orders)));
        let reclaimed = volume.status().counters.segments_reclaimed;
        harness.count(|tally| tally.segments_reclaimed += reclaimed);
    }
    stop(harness, life, away, Ended { by_itself, started: volume.is_some() });
}

/// Checks that starts with too few drives are refused.
fn be_refused(harness: &Rc<Harness>, away: &[usize]) {
    let columns = harness.shape.columns();
    let away: BTreeSet<_> = away.iter().copied().filter(|slot| *slot < columns).collect();
    let offered = columns - away.len();
    let too_few = offered * 2 <= columns || !harness.shape.survives(&away);
    // Damage may turn more drives into foreign ones, which is correct but proves nothing.
    if harness.shape.beyond || !too_few || offered == 0 || !harness.drives.borrow().undamaged() {
        return;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let offered = harness.drives.borrow().offer(&handle, &away, false, 0);
    let offered = offered.into_iter().map(|(_, drive)| drive).collect();
    let opened = executor.run(open_array(&handle, offered, OpenOptions::default()));
    assert!(opened.is_err(), "the array starts without the drives in slots {away:?}");
    drop(opened);
    drop(executor);
    let kill = Stop { since: Since::Start, steps: 0, power: false, seed: 1 };
    harness.drives.borrow_mut().crash(&kill);
    harness.count(|tally| tally.refusals += 1);
}

/// The end of a life that was not stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The volume was closed, or never started.
    InOrder,
    /// All actions were done before the stop, which comes now.
    Idle,
}

/// The task of a life.
struct Main<'a> {
    harness: &'a Rc<Harness>,
    life: &'a Life,
    away: &'a BTreeSet<usize>,
    handle: &'a Handle,
    serving: &'a Cell<bool>,
}

impl Main<'_> {
    async fn run(&self, running: &RefCell<Option<Volume>>) -> End {
        let Some(volume) = self.start().await else { return End::InOrder };
        *running.borrow_mut() = Some(volume.clone());
        verify_recovered(self.harness, &volume, self.away, self.life.checked).await;
        let apart = self.life.forced || self.life.split_brain.is_some();
        if let Some(recorded) = &*self.harness.recorded.borrow()
            && !apart
            && !self.harness.may_fail()
        {
            recorded.check(&volume, &self.harness.orders);
        }
        if apart || self.harness.may_fail() {
            self.harness.orders.forget();
        }
        self.life
            .spares
            .iter()
            .for_each(|spare| keep_spare(self.harness, &volume, self.handle, *spare));
        self.serving.set(true);
        let actors = self.life.actors.iter().map(|actions| {
            let (harness, volume) = (self.harness.clone(), volume.clone());
            let actor = Actor { harness, volume, handle: self.handle.clone() };
            self.handle.spawn("actor", actor.run(actions.clone()))
        });
        for actor in actors.collect::<Vec<_>>() {
            actor.await;
        }
        if self.life.stop.is_none() {
            self.finish(&volume).await;
            End::InOrder
        } else {
            // Background work continues until the stop.
            self.handle.sleep(self.harness.patience(IDLE)).await;
            End::Idle
        }
    }

    async fn start(&self) -> Option<Volume> {
        let offered = {
            let drives = self.harness.drives.borrow();
            drives.offer(self.handle, self.away, self.life.former_drives, self.life.order)
        };
        let (origins, mut drives): (Vec<_>, Vec<_>) = offered.into_iter().unzip();
        let others = foreign_drives::of_life(self.harness, self.life);
        drives.extend(others.iter().map(|other| other.offer(self.handle)));
        let writing = self.life.writing;
        let writes = writing.map(|writing| writing.choice()).unwrap_or_default();
        // Most lives hedge reads as often as possible, even around drives that are hardly slower.
        let hedging = match self.life.order % 2 {
            0 => Hedging::EAGER,
            _ => Hedging::default(),
        };
        let mut options = OpenOptions { writes, hedging, ..self.harness.start_options() };
        options.index_on_demand = self.life.index_on_demand;
        options.index_memory = self.life.index_pages.map(|pages| pages * self.page_bytes());
        if let Some(share) = self.life.checkpoint_share {
            options.checkpoint_share = Some(share).filter(|share| *share > 0);
        }
        let mut opened = open_array(self.handle, drives.clone(), options.clone()).await;
        for _ in 0..2 {
            match &opened {
                Err(OpenError::Policy(PolicyError::TooFullToOffload { .. })) => {
                    options.index_memory = None;
                }
                Err(OpenError::Policy(error)) => {
                    let up_to_engine = writing.is_some_and(|writing| writing.is_up_to_the_engine());
                    assert!(!up_to_engine, "the engine rejects its own write policy: {error}");
                    options.writes = WriteChoice::AsMade;
                }
                _ => break,
            }
            opened = open_array(self.handle, drives.clone(), options.clone()).await;
        }
        if self.harness.shape.beyond && matches!(opened, Err(OpenError::Unaccounted { .. })) {
            let forced = OpenOptions {
                force: true,
                lineage: Lineage(self.life.order),
                ..OpenOptions::default()
            };
            opened = open_array(self.handle, drives, forced).await;
        }
        match opened {
            Ok((volume, report)) => {
                self.record_members(&origins, &report);
                others.iter().for_each(|other| other.assert_left_alone(&report));
                Some(volume)
            }
            Err(error) => {
                self.must_start(&error);
                None
            }
        }
    }

    /// Memory of a page of the index.
    fn page_bytes(&self) -> u64 {
        let entries = self.harness.shape.page_entries.map_or(PAGE_ENTRIES, NonZeroU32::get);
        u64::from(entries) * 4 + 16
    }

    fn must_start(&self, error: &OpenError) {
        let impaired = self.harness.drives.borrow().impaired();
        assert!(
            self.harness.shape.beyond,
            "the array does not start without {:?} and with {impaired:?} impaired: {error}",
            self.away
        );
    }

    /// A former drive is still a member if its replacement was never recorded.
    fn record_members(&self, origins: &[Origin], report: &OpenReport) {
        let mut drives = self.harness.drives.borrow_mut();
        for (origin, verdict) in origins.iter().zip(&report.drives) {
            if let (Origin::Former(at), DriveRole::Member { slot, .. }) = (origin, &verdict.role) {
                drives.put_back(*at, slot.index());
            }
        }
    }

    /// Ends in order: nothing may remain.
    async fn finish(&self, volume: &Volume) {
        verify_quiet(self.harness, volume, self.handle).await;
        let began = self.harness.oracle.borrow_mut().tick();
        let closed = volume.close().await;
        if self.harness.expect("closing", closed).is_some() {
            self.harness.oracle.borrow_mut().flushed(began);
        }
        verify_ended(self.harness, self.handle).await;
    }
}
