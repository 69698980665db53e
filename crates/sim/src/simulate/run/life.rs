//! One life of the engine: a start, verified recovery, work, and an end at any step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_raid::log::{
    DriveRole, Hedging, OpenError, OpenOptions, OpenReport, PolicyError, Volume, WriteChoice,
    open_array,
};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};

use crate::simulate::drives::slots::Origin;
use crate::simulate::oracle::Survives;
use crate::simulate::run::actor::Actor;
use crate::simulate::run::foreign_drives;
use crate::simulate::run::harness::Harness;
use crate::simulate::run::inject::{go_back, inject, keep_spare, pull};
use crate::simulate::run::split_brain;
use crate::simulate::run::verify::{check_offline, verify_ended, verify_quiet, verify_recovered};
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

/// Default entries of a page of the index.
const PAGE_ENTRIES: u32 = 960;

/// Time that an idle engine continues if its stop comes later.
const IDLE: Nanos = Nanos::from_secs(2);

/// Counts steps, injects timed faults, and decides about the stop.
struct Steps<'a> {
    harness: &'a Harness,
    timed: &'a [Timed],
    stop: Option<Stop>,
    handle: Handle,
    serving: Rc<Cell<bool>>,
    volume: &'a RefCell<Option<Volume>>,
    /// Upper bound of its steps.
    most: u64,
    /// Steps since the start.
    taken: u64,
    /// Steps since users are served.
    served: u64,
}

impl Steps<'_> {
    fn step(&mut self) -> bool {
        self.taken += 1;
        self.served += u64::from(self.serving.get());
        assert!(self.taken < self.most, "the life does not end: {} steps", self.taken);
        let now = self.handle.now();
        assert!(now < self.harness.patience(TIME_MAX), "the life does not end: virtual time {now}");
        for timed in self.timed {
            if self.since(timed.since) == timed.steps + 1 {
                if let Some(volume) = &*self.volume.borrow() {
                    self.harness.seat_spares(volume);
                }
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
    let mut steps = Steps {
        harness,
        timed: &life.timed,
        stop: life.stop,
        handle: handle.clone(),
        serving: serving.clone(),
        volume: &volume,
        most: if life.index_pages.is_some() { OFFLOADED_STEPS_MAX } else { STEPS_MAX },
        taken: 0,
        served: 0,
    };
    let main = Main { harness, life, away: &away, handle: &handle, serving: &serving };
    let ended = executor.run_until(main.run(&volume), || steps.step());
    harness.count(|tally| tally.steps += steps.taken);
    let started = volume.borrow().is_some();
    let by_itself = ended == Some(End::InOrder);
    end(harness, life, &away, by_itself, volume.into_inner());
    if !by_itself {
        harness.count(|tally| {
            tally.crashes += 1;
            tally.power_losses += u64::from(life.stop.is_some_and(|stop| stop.power));
            tally.crashes_in_recovery += u64::from(!started);
        });
    }
    drop(executor);
}

/// Events before the engine is started; returns the slots that stay away.
fn prepare(harness: &Harness, life: &Life) -> BTreeSet<usize> {
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

/// The end of a life, by a stop or by itself.
fn end(
    harness: &Harness,
    life: &Life,
    away: &BTreeSet<usize>,
    by_itself: bool,
    volume: Option<Volume>,
) {
    let mut drives = harness.drives.borrow_mut();
    match &volume {
        Some(volume) => {
            drop(drives);
            harness.observe(volume);
            let reclaimed = volume.status().counters.segments_reclaimed;
            harness.count(|tally| tally.segments_reclaimed += reclaimed);
            drives = harness.drives.borrow_mut();
        }
        None => drives.cut_short(away),
    }
    if harness.broken.get() {
        drives.unsettle();
    }
    // A closed volume loses nothing, even with the power.
    let power = life.order & 1 == 1;
    let stop = life.stop.filter(|_| !by_itself);
    let stop = stop.unwrap_or(Stop { since: Since::Start, steps: 0, power, seed: life.order });
    drives.crash(&stop);
    drop(drives);
    if !by_itself {
        harness.crashed.set(harness.crashed.get() + 1);
        harness.count(|tally| tally.deepest = tally.deepest.max(harness.crashed.get()));
    }
    if stop.power {
        harness.survives.set(Survives::Durable);
    }
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
            let forced =
                OpenOptions { force: true, lineage: self.life.order, ..OpenOptions::default() };
            opened = open_array(self.handle, drives, forced).await;
        }
        match opened {
            Ok((volume, report)) => {
                self.note_members(&origins, &report);
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
    fn note_members(&self, origins: &[Origin], report: &OpenReport) {
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
