//! The pace of a drive whose media are in a file: no command completes earlier than in a timing
//! model.
//!
//! A model plans by the state of zones when a command takes effect, which may be long after it was
//! submitted, while a file carries it out at once. So the pace keeps a twin: zones without blocks,
//! to which commands happen at the model's times. The twin adopts deviations of the file (a zone
//! with a media error, or worn out) as soon as it has no command in flight.
//!
//! Invariants: each command is planned, or kept and planned later, exactly once. Only a timer of
//! the reactor plans kept commands, so there is no polling.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use zoneweave_runtime::{Handle, Nanos, Reactor, Receiver, Sender, oneshot};
use zoneweave_zoned::{Geometry, ZoneRecord, ZoneSet, ZoneState};

use crate::{CommandId, Controller, Request, Schedule, Timing};

/// When the commands of a drive may complete.
pub struct Pace {
    handle: Handle,
    model: Rc<RefCell<Model>>,
}

/// The moment before which a command must not complete.
pub enum Due {
    /// It is known.
    At(Nanos),
    /// The model has yet to decide.
    Undecided(Receiver<Nanos>),
}

struct Model {
    timing: Box<dyn Timing>,
    twin: Controller,
    commands: u64,
    /// Commands that the timing keeps.
    kept: BTreeMap<CommandId, (Request, Sender<Nanos>)>,
    /// Planned commands that have not happened to the twin yet.
    planned: BTreeMap<(Nanos, CommandId), Request>,
    /// When a timer will ask the timing about kept commands.
    alarm: Option<Nanos>,
}

impl Pace {
    /// The pace of a drive with the given zones. The cache is that of `geometry`, which may promise
    /// more than the file: then a flush takes as long as the model says for such a cache.
    ///
    /// # Panics
    /// If the zones are not those of a drive of this geometry.
    #[must_use]
    pub fn new(
        timing: Box<dyn Timing>,
        geometry: &Geometry,
        zones: &ZoneSet,
        handle: &Handle,
    ) -> Self {
        let model = Model {
            timing,
            twin: twin(geometry, zones),
            commands: 0,
            kept: BTreeMap::new(),
            planned: BTreeMap::new(),
            alarm: None,
        };
        Self { handle: handle.clone(), model: Rc::new(RefCell::new(model)) }
    }

    /// A command is submitted, and has not changed `zones` yet.
    #[must_use]
    pub fn begin(&self, request: &Request, zones: &ZoneSet) -> Due {
        let now = self.handle.now();
        let mut model = self.model.borrow_mut();
        model.advance(now);
        model.follow(request, zones);
        let id = CommandId(model.commands);
        model.commands += 1;
        let Model { timing, twin, .. } = &mut *model;
        if let Some(schedule) = timing.schedule(id, request, twin.zones(), now) {
            return Due::At(model.plan(id, *request, schedule, now));
        }
        let (sender, receiver) = oneshot();
        let former = model.kept.insert(id, (*request, sender));
        assert!(former.is_none(), "each command has a number of its own");
        drop(model);
        decide_later(&self.model, &self.handle.reactor());
        Due::Undecided(receiver)
    }

    /// Commands that the model keeps, because they wait for room in its buffer or the like.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.model.borrow().kept.len()
    }
}

impl Due {
    /// Waits for the moment.
    pub async fn wait(self, handle: &Handle) {
        let moment = match self {
            Self::At(moment) => Some(moment),
            Self::Undecided(decided) => decided.await,
        };
        // None: the drive is gone, and nothing holds its commands back.
        if let Some(moment) = moment.filter(|moment| *moment > handle.now()) {
            handle.sleep_until(moment).await;
        }
    }
}

impl Model {
    /// Applies due commands to the twin.
    fn advance(&mut self, now: Nanos) {
        while let Some(first) = self.planned.first_entry() {
            if first.key().0 > now {
                return;
            }
            let request = first.remove();
            self.happen(&request);
        }
    }

    /// A twin without commands in flight adopts the state of the drive's zones.
    fn follow(&mut self, request: &Request, zones: &ZoneSet) {
        let Some(zone) = request.zone().filter(|zone| zone.0 < zones.geometry().zones) else {
            return;
        };
        let idle = self.planned.is_empty() && self.kept.is_empty();
        if idle && !alike(self.twin.zones().record(zone), zones.record(zone)) {
            let geometry = self.twin.zones().geometry().clone();
            self.twin = twin(&geometry, zones);
        }
    }

    /// Enters a plan; returns when the command may complete.
    fn plan(&mut self, id: CommandId, request: Request, plan: Schedule, now: Nanos) -> Nanos {
        if plan.applied <= now {
            self.happen(&request);
        } else {
            let former = self.planned.insert((plan.applied, id), request);
            assert!(former.is_none(), "each command is planned once");
        }
        plan.completed.max(plan.applied)
    }

    /// Only the state of zones matters; the real drive decides about the answer.
    fn happen(&mut self, request: &Request) {
        let changes = !matches!(
            request,
            Request::Read { .. } | Request::Report { .. } | Request::ChangedZones | Request::Flush
        );
        if changes {
            self.twin.admit(request);
        }
    }

    /// The next kept command that can be planned, and when it may complete.
    fn decide(&mut self, now: Nanos) -> Option<(Sender<Nanos>, Nanos)> {
        self.advance(now);
        let (id, schedule) = self.timing.decide(self.twin.zones(), now)?;
        let (request, sender) = self.kept.remove(&id).expect("a command is decided about once");
        Some((sender, self.plan(id, request, schedule, now)))
    }
}

/// Sees to it that kept commands are decided about when they can be. The timer holds the model and
/// the reactor weakly, so that a drive that is closed and a reactor that is dropped go away.
fn decide_later(model: &Rc<RefCell<Model>>, reactor: &Rc<dyn Reactor>) {
    let mut borrowed = model.borrow_mut();
    if borrowed.kept.is_empty() {
        return;
    }
    let Some(next) = borrowed.timing.next_decision() else { return };
    if borrowed.alarm.is_some_and(|alarm| alarm <= next) {
        return;
    }
    borrowed.alarm = Some(next);
    drop(borrowed);
    let (weak, weak_reactor): (_, Weak<dyn Reactor>) =
        (Rc::downgrade(model), Rc::downgrade(reactor));
    reactor.timers().call_at(next, move || {
        let (Some(model), Some(reactor)) = (weak.upgrade(), weak_reactor.upgrade()) else { return };
        if model.borrow().alarm != Some(next) {
            return; // an earlier timer took its place
        }
        model.borrow_mut().alarm = None;
        loop {
            let decided = model.borrow_mut().decide(reactor.now());
            let Some((sender, moment)) = decided else { break };
            sender.send(moment);
        }
        decide_later(&model, &reactor);
    });
}

fn twin(geometry: &Geometry, zones: &ZoneSet) -> Controller {
    let records: Vec<ZoneRecord> = zones.export().collect();
    let zones = ZoneSet::import(geometry.clone(), &records);
    Controller::with_zones(zones.expect("the zones are those of an open drive"))
}

/// Whether a model plans the same for two zones, as far as it matters.
fn alike(one: ZoneRecord, other: ZoneRecord) -> bool {
    let is_writable = |state: ZoneState| state == ZoneState::Empty || state.is_active();
    let same = one.state == other.state || is_writable(one.state) && is_writable(other.state);
    same && one.write_pointer == other.write_pointer
}

#[cfg(test)]
mod tests;
