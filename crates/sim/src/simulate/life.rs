//! One life of the engine: a start, recovery verified, work, and an end, wherever it comes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::rc::Rc;

use zoneweave_raid::log::{
    DriveRole, Hedging, OpenError, OpenOptions, OpenReport, PolicyError, Volume, WriteChoice,
    open_array,
};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};

use super::actor::Actor;
use super::apart;
use super::bay::Origin;
use super::oracle::Survives;
use super::scenario::{Action, Life, Since, Stop, Timed};
use super::strangers;
use super::strike::{go_back, keep_spare, pull, strike};
use super::verify::{check_offline, verify_ended, verify_quiet, verify_recovered};
use super::world::World;

/// Steps in which every life comes to its end: the longest of 20,000 lives took 48,026. A planted
/// bug that never gets anywhere should not cost more than needed.
const STEPS_MAX: u64 = 400_000;

/// Virtual time in which every life comes to its end, where no drive is slow altogether. The
/// slowest command takes a tenth of a second.
const TIME_MAX: Nanos = Nanos::from_secs(600);

/// Entries of a page of the index, where nothing is said.
const PAGE_ENTRIES: u32 = 960;

/// How long an idle engine is left alone before it is stopped, where it was to be stopped later.
const IDLE: Nanos = Nanos::from_secs(2);

/// Counts steps, lets happen what happens at some of them, and tells when to stop.
struct Steps<'a> {
    world: &'a World,
    timed: &'a [Timed],
    stop: Option<Stop>,
    handle: Handle,
    serving: Rc<Cell<bool>>,
    volume: &'a RefCell<Option<Volume>>,
    /// Since the start.
    taken: u64,
    /// Since users are served.
    served: u64,
}

impl Steps<'_> {
    fn step(&mut self) -> bool {
        self.taken += 1;
        self.served += u64::from(self.serving.get());
        assert!(self.taken < STEPS_MAX, "busy without getting anywhere: {} steps", self.taken);
        let now = self.handle.now();
        assert!(now < self.world.patience(TIME_MAX), "the engine takes for ever: {now}");
        for timed in self.timed {
            if self.since(timed.since) == timed.steps + 1 {
                if let Some(volume) = &*self.volume.borrow() {
                    self.world.seat_spares(volume);
                }
                happen(self.world, timed.action, self.serving.get());
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

/// Something happens to a drive. Only while users are served one too many may be pulled: a start
/// that fails would prove nothing.
fn happen(world: &World, action: Action, serving: bool) {
    match action {
        Action::Fault { slot, fault } => strike(world, slot, fault),
        Action::Pull { slot, too_many, forgetting } => {
            pull(world, slot, too_many && serving, forgetting, false);
        }
        _ => {}
    }
}

/// Lives one life.
///
/// # Panics
/// If the engine breaks a promise.
pub(super) fn live(world: &Rc<World>, life: &Life) {
    for away in &life.refused {
        be_refused(world, away);
    }
    let away = prepare(world, life);
    if let Some(apart) = life.apart {
        apart::start(world, apart);
    }
    if life.forced {
        strangers::be_refused_without_force(world, &away);
    }
    life.impostors.iter().for_each(|impostor| strangers::refuse(world, *impostor));
    if life.checked {
        check_offline(world, &away, None);
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let serving = Rc::new(Cell::new(false));
    let volume = RefCell::new(None);
    let mut steps = Steps {
        world,
        timed: &life.timed,
        stop: life.stop,
        handle: handle.clone(),
        serving: serving.clone(),
        volume: &volume,
        taken: 0,
        served: 0,
    };
    let main = Main { world, life, away: &away, handle: &handle, serving: &serving };
    let ended = executor.run_until(main.run(&volume), || steps.step());
    let started = volume.borrow().is_some();
    let by_itself = ended == Some(End::InOrder);
    end(world, life, &away, by_itself, volume.into_inner());
    if !by_itself {
        world.count(|tally| {
            tally.crashes += 1;
            tally.power_losses += u64::from(life.stop.is_some_and(|stop| stop.power));
            tally.crashes_in_recovery += u64::from(!started);
        });
    }
    drop(executor);
}

/// What happens before the engine is started; returns which slots stay away.
fn prepare(world: &World, life: &Life) -> BTreeSet<usize> {
    world.begin_life();
    let mut bay = world.bay.borrow_mut();
    for slot in bay.spare(&life.blanked) {
        bay.blank(slot);
    }
    drop(bay);
    for action in &life.meanwhile {
        match *action {
            Action::Keep { slot } if slot < world.shape.columns() => {
                world.bay.borrow_mut().keep(slot);
            }
            Action::GoBack { slot } => go_back(world, slot),
            action => happen(world, action, false),
        }
    }
    let mut bay = world.bay.borrow_mut();
    let away = match life.forced {
        true => {
            world.forced.set(true);
            bay.spare_by_force(&life.missing)
        }
        false => bay.spare(&life.missing),
    };
    bay.leave_out(&away);
    away
}

/// The engine is stopped, or has stopped by itself.
fn end(
    world: &World,
    life: &Life,
    away: &BTreeSet<usize>,
    by_itself: bool,
    volume: Option<Volume>,
) {
    let mut bay = world.bay.borrow_mut();
    match &volume {
        Some(volume) => {
            drop(bay);
            world.observe(volume);
            let reclaimed = volume.status().counters.segments_reclaimed;
            world.count(|tally| tally.segments_reclaimed += reclaimed);
            bay = world.bay.borrow_mut();
        }
        None => bay.cut_short(away),
    }
    if world.broken.get() {
        bay.unsettle();
    }
    // A volume that was closed lost nothing, power or not.
    let power = life.order & 1 == 1;
    let stop = life.stop.filter(|_| !by_itself);
    let stop = stop.unwrap_or(Stop { since: Since::Start, steps: 0, power, seed: life.order });
    bay.crash(&stop);
    drop(bay);
    if !by_itself {
        world.crashed.set(world.crashed.get() + 1);
        world.count(|tally| tally.deepest = tally.deepest.max(world.crashed.get()));
    }
    if stop.power {
        world.survives.set(Survives::Durable);
    }
}

/// Starts with too few drives, which must be refused.
fn be_refused(world: &Rc<World>, away: &[usize]) {
    let columns = world.shape.columns();
    let away: BTreeSet<_> = away.iter().copied().filter(|slot| *slot < columns).collect();
    let offered = columns - away.len();
    let too_few = offered * 2 <= columns || !world.shape.survives(&away);
    // Damage might make more of the drives strangers, which is no fault, but proves nothing.
    if world.shape.beyond || !too_few || offered == 0 || !world.bay.borrow().undamaged() {
        return;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let offered = world.bay.borrow().offer(&handle, &away, false, 0);
    let offered = offered.into_iter().map(|(_, drive)| drive).collect();
    let opened = executor.run(open_array(&handle, offered, OpenOptions::default()));
    assert!(opened.is_err(), "started without the drives in slots {away:?}");
    drop(opened);
    drop(executor);
    let kill = Stop { since: Since::Start, steps: 0, power: false, seed: 1 };
    world.bay.borrow_mut().crash(&kill);
    world.count(|tally| tally.refusals += 1);
}

/// How a life ended that was not stopped on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The volume was closed, or never started.
    InOrder,
    /// Everything was done before the stop, which comes now.
    Idle,
}

/// What runs in a life.
struct Main<'a> {
    world: &'a Rc<World>,
    life: &'a Life,
    away: &'a BTreeSet<usize>,
    handle: &'a Handle,
    serving: &'a Cell<bool>,
}

impl Main<'_> {
    async fn run(&self, running: &RefCell<Option<Volume>>) -> End {
        let Some(volume) = self.start().await else { return End::InOrder };
        *running.borrow_mut() = Some(volume.clone());
        verify_recovered(self.world, &volume, self.away, self.life.checked).await;
        self.life
            .spares
            .iter()
            .for_each(|spare| keep_spare(self.world, &volume, self.handle, *spare));
        self.serving.set(true);
        let actors = self.life.actors.iter().map(|actions| {
            let (world, volume) = (self.world.clone(), volume.clone());
            let actor = Actor { world, volume, handle: self.handle.clone() };
            self.handle.spawn("actor", actor.run(actions.clone()))
        });
        for actor in actors.collect::<Vec<_>>() {
            actor.await;
        }
        if self.life.stop.is_none() {
            self.finish(&volume).await;
            End::InOrder
        } else {
            // Whatever goes on in the background goes on until the stop.
            self.handle.sleep(self.world.patience(IDLE)).await;
            End::Idle
        }
    }

    async fn start(&self) -> Option<Volume> {
        let offered = {
            let bay = self.world.bay.borrow();
            bay.offer(self.handle, self.away, self.life.strangers, self.life.order)
        };
        let (origins, mut drives): (Vec<_>, Vec<_>) = offered.into_iter().unzip();
        let others = strangers::of_other_arrays(self.world, self.life);
        drives.extend(others.iter().map(|other| other.offer(self.handle)));
        let writing = self.life.writing;
        let writes = writing.map(|writing| writing.choice()).unwrap_or_default();
        // Most lives go around drives as often as can be, even around those that are hardly slower.
        let hedging = match self.life.order % 2 {
            0 => Hedging::EAGER,
            _ => Hedging::default(),
        };
        let mut options = OpenOptions { writes, hedging, ..self.world.start_options() };
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
                    assert!(!up_to_engine, "a start is refused for what nobody asked for: {error}");
                    options.writes = WriteChoice::AsMade;
                }
                _ => break,
            }
            opened = open_array(self.handle, drives.clone(), options.clone()).await;
        }
        if self.world.shape.beyond && matches!(opened, Err(OpenError::Unaccounted { .. })) {
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
        let entries = self.world.shape.page_entries.map_or(PAGE_ENTRIES, NonZeroU32::get);
        u64::from(entries) * 4 + 16
    }

    fn must_start(&self, error: &OpenError) {
        let impaired = self.world.bay.borrow().impaired();
        assert!(
            self.world.shape.beyond,
            "the array does not start without {:?} and with {impaired:?} impaired: {error}",
            self.away
        );
    }

    /// Former drives may still be members: their replacement never came to be on record.
    fn note_members(&self, origins: &[Origin], report: &OpenReport) {
        let mut bay = self.world.bay.borrow_mut();
        for (origin, verdict) in origins.iter().zip(&report.drives) {
            if let (Origin::Former(at), DriveRole::Member { slot, .. }) = (origin, &verdict.role) {
                bay.put_back(*at, slot.index());
            }
        }
    }

    /// Comes to an end in order: nothing may be left over.
    async fn finish(&self, volume: &Volume) {
        verify_quiet(self.world, volume, self.handle).await;
        let began = self.world.oracle.borrow_mut().tick();
        let closed = volume.close().await;
        if self.world.expect("closing", closed).is_some() {
            self.world.oracle.borrow_mut().flushed(began);
        }
        verify_ended(self.world, self.handle).await;
    }
}
