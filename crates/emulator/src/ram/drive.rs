//! The drive and the devices attached to it: submission, completion, crashes.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use zoneweave_runtime::{Alarm, Handle, Nanos, Reactor};
use zoneweave_zoned::{
    BlockCount, Command, Completion, Geometry, GeometryError, Payload, Status, ZoneAddress, ZoneId,
    ZoneInfo, ZonedDevice, completion,
};

use super::core::Core;
use super::pending::PendingCommand;
use crate::{CrashChoices, Damage, DriveCounters, FaultAction, FaultPlan, SeededCrash};
use crate::{Selector, Timing, WearError, WearReport, WearSettings};

/// A drive; clones are the same drive.
#[derive(Clone)]
pub struct RamDrive {
    pub(super) shared: Rc<Shared>,
}

pub(super) struct Shared {
    geometry: Geometry,
    pub(super) core: RefCell<Core>,
    /// When a timer will ask the timing about the commands it keeps, in which incarnation.
    decision: Cell<Option<(u64, Nanos)>>,
}

/// A process's handle of a drive.
struct AttachedDrive {
    shared: Rc<Shared>,
    handle: Handle,
    incarnation: u64,
}

impl RamDrive {
    /// A blank drive.
    ///
    /// # Errors
    /// If the geometry is impossible.
    pub fn new(geometry: Geometry, timing: impl Timing + 'static) -> Result<Self, GeometryError> {
        let core = Core::new(geometry.clone(), Box::new(timing))?;
        Ok(Self::of_core(geometry, core))
    }

    /// The device for a process. Devices given out before are dead; commands they left in flight
    /// that had not changed the drive never will.
    #[must_use]
    pub fn attach(&self, handle: &Handle) -> Rc<dyn ZonedDevice> {
        let dropped = self.shared.core.borrow_mut().abandon();
        drop(dropped);
        let incarnation = self.shared.core.borrow().incarnation();
        Rc::new(AttachedDrive { shared: self.shared.clone(), handle: handle.clone(), incarnation })
    }

    /// The process dies, the drive stays powered: commands in flight happen or not by the seed,
    /// and nothing that happened is lost. Open zones stay open.
    pub fn process_kill(&self, seed: u64) {
        self.process_kill_by(&mut SeededCrash::new(seed));
    }

    /// As [`RamDrive::process_kill`], with the choices of a search.
    pub fn process_kill_by(&self, choices: &mut dyn CrashChoices) {
        let dropped = self.shared.core.borrow_mut().process_kill(choices);
        drop(dropped);
    }

    /// The power fails and returns: see the module's head. Open zones are closed.
    pub fn power_loss(&self, seed: u64) {
        self.power_loss_by(&mut SeededCrash::new(seed));
    }

    /// As [`RamDrive::power_loss`], with the choices of a search.
    pub fn power_loss_by(&self, choices: &mut dyn CrashChoices) {
        let dropped = self.shared.core.borrow_mut().power_loss(choices);
        drop(dropped);
    }

    /// An orderly restart of the drive: the cache is written back and open zones are closed.
    ///
    /// # Panics
    /// If commands are in flight.
    pub fn restart(&self) {
        self.shared.core.borrow_mut().restart();
    }

    /// An independent copy of the drive, including its commands in flight (whose completions in the
    /// copy go nowhere). For crash states that branch off one history, and for drives that return
    /// stale.
    #[must_use]
    pub fn fork(&self, timing: impl Timing + 'static) -> Self {
        let core = self.shared.core.borrow().fork(Box::new(timing));
        Self::of_core(self.shared.geometry.clone(), core)
    }

    pub(super) fn of_core(geometry: Geometry, core: Core) -> Self {
        let (core, decision) = (RefCell::new(core), Cell::new(None));
        Self { shared: Rc::new(Shared { geometry, core, decision }) }
    }

    /// Commands in flight, in the order in which a crash decides about them.
    #[must_use]
    pub fn in_flight(&self) -> Vec<PendingCommand> {
        self.shared.core.borrow().pending()
    }

    /// The geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// Counters since the drive was made.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.shared.core.borrow().controller.counters()
    }

    /// The current state of a zone.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn zone(&self, zone: ZoneId) -> ZoneInfo {
        self.shared.core.borrow().controller.zones().info(zone)
    }

    /// Stored blocks, without a command: zeros if none are stored, even if they are marked
    /// unreadable.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub fn peek(&self, at: ZoneAddress, blocks: BlockCount) -> Payload {
        self.shared.core.borrow().read(at, blocks)
    }

    /// Bytes of memory that the stored blocks take, those shared with buffers and forks included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.shared.core.borrow().media.memory_bytes()
    }

    /// Makes the drive count its erases from now on, and wear out if there is a limit.
    ///
    /// # Errors
    /// If the settings do not fit the drive's geometry.
    pub fn set_wear(&self, settings: WearSettings) -> Result<(), WearError> {
        self.shared.core.borrow_mut().controller.set_wear(settings)
    }

    /// The erases so far, if the drive counts them.
    #[must_use]
    pub fn wear(&self) -> Option<WearReport> {
        let core = self.shared.core.borrow();
        let written_blocks = core.controller.counters().written_blocks;
        core.controller.wear().map(|wear| wear.report(written_blocks))
    }

    /// Plans a fault.
    pub fn inject(&self, selector: Selector, action: FaultAction) {
        self.faults(|plan| {
            plan.add(selector, action);
        });
    }

    /// Looks at or changes the planned faults.
    pub fn faults<R>(&self, change: impl FnOnce(&mut FaultPlan) -> R) -> R {
        change(self.shared.core.borrow_mut().controller.plan_mut())
    }

    /// A stored block goes bad. Nothing happens where none is stored.
    pub fn corrupt(&self, at: ZoneAddress, damage: Damage) {
        self.shared.core.borrow_mut().corrupt(at, damage);
    }

    /// Stored blocks are replaced, as by a misdirected write of somebody else.
    pub fn overwrite(&self, at: ZoneAddress, payload: &Payload) {
        payload.assert_whole();
        self.shared.core.borrow_mut().media.overwrite(at, payload);
    }

    /// Blocks cannot be read until their zone is reset.
    pub fn set_unreadable(&self, at: ZoneAddress, blocks: BlockCount) {
        self.shared.core.borrow_mut().controller.set_unreadable(at, blocks);
    }

    /// The zone is worn: it can be read, never written again.
    pub fn set_read_only(&self, zone: ZoneId) {
        self.shared.core.borrow_mut().controller.zones_mut().set_read_only(zone);
    }

    /// The zone is lost.
    pub fn set_offline(&self, zone: ZoneId) {
        self.shared.core.borrow_mut().controller.zones_mut().set_offline(zone);
    }

    /// The drive takes that many times as long from the next command on; 1 is as usual.
    pub fn set_slowness(&self, factor: u32) {
        self.shared.core.borrow_mut().controller.set_slowness(factor);
    }

    /// Puts the drive back with its contents at the time of a [fork](RamDrive::fork). Attached
    /// devices are dead, as after [`RamDrive::attach`].
    ///
    /// # Panics
    /// If `fork` is a drive of another shape, or this one.
    pub fn come_back_stale(&self, fork: &Self) {
        let other = fork.shared.core.borrow();
        let mut core = self.shared.core.borrow_mut();
        let dropped = core.replace(Some(&*other));
        core.controller.set_gone(false);
        drop((core, other));
        drop(dropped);
    }

    /// Puts a blank drive of the same shape in this one's place. The devices given out before are
    /// dead, as after [`RamDrive::attach`].
    pub fn come_back_blank(&self) {
        let mut core = self.shared.core.borrow_mut();
        let dropped = core.replace(None);
        core.controller.set_gone(false);
        drop(core);
        drop(dropped);
    }

    /// Pulls the drive out (`true`) or puts it back with its contents. While it is out, every
    /// command is answered [`Status::DeviceGone`], also commands in flight. A drive that was lost
    /// by [`FaultAction::Torn`] must first go through a [power failure](RamDrive::power_loss).
    pub fn set_gone(&self, gone: bool) {
        self.shared.core.borrow_mut().set_gone(gone);
    }
}

impl ZonedDevice for AttachedDrive {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        if let Command::Write { payload, .. } | Command::Append { payload, .. } = &command {
            payload.assert_whole();
        }
        let mut core = self.shared.core.borrow_mut();
        if core.incarnation() != self.incarnation {
            return Completion::ready(Err(Status::DeviceGone));
        }
        let now = self.handle.now();
        let planned = core.plan(&command, now);
        if planned.applied <= now && !planned.behind {
            let (finished, completed) = core.apply_now(command, planned);
            if completed <= now {
                return Completion::ready(core.settle(finished));
            }
            let (responder, answer) = completion();
            let id = core.add_applied(finished, responder);
            drop(core);
            complete_at(&self.shared, &self.handle.reactor(), id, completed);
            return answer;
        }
        let (responder, answer) = completion();
        let (kept, applied) = (planned.is_kept(), planned.applied);
        let id = core.add(command, planned, responder);
        drop(core);
        if kept {
            decide_later(&self.shared, &self.handle.reactor());
        } else {
            apply_at(&self.shared, &self.handle.reactor(), id, applied);
        }
        answer
    }
}

/// The reactor is held weakly, since the timer is its own: a reactor that is dropped with timers
/// pending must go away.
fn apply_at(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>, id: u64, when: Nanos) {
    let (shared, weak): (_, Weak<dyn Reactor>) = (shared.clone(), Rc::downgrade(reactor));
    reactor.timers().call_at(when, move || {
        let applied = shared.core.borrow_mut().apply(id);
        let (Some(completed), Some(reactor)) = (applied, weak.upgrade()) else { return };
        if completed <= reactor.now() {
            complete(&shared, id);
        } else {
            complete_at(&shared, &reactor, id, completed);
        }
    });
}

/// Sees to it that kept commands are decided about when they can be.
fn decide_later(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>) {
    let Some(next) = shared.core.borrow_mut().next_decision() else { return };
    let incarnation = shared.core.borrow().incarnation();
    if shared.decision.get().is_some_and(|(of, when)| of == incarnation && when <= next) {
        return;
    }
    shared.decision.set(Some((incarnation, next)));
    let (shared, weak): (_, Weak<dyn Reactor>) = (shared.clone(), Rc::downgrade(reactor));
    reactor.timers().call_at(next, move || {
        let Some(reactor) = weak.upgrade() else { return };
        if shared.core.borrow().incarnation() != incarnation {
            return;
        }
        shared.decision.set(None);
        decide(&shared, &reactor);
        decide_later(&shared, &reactor);
    });
}

/// Carries kept commands on as far as they can be planned.
fn decide(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>) {
    loop {
        let now = reactor.now();
        let next = shared.core.borrow_mut().decide_next(now);
        let Some((id, applied)) = next else { return };
        if applied > now {
            apply_at(shared, reactor, id, applied);
            continue;
        }
        let completed = shared.core.borrow_mut().apply(id);
        if let Some(completed) = completed {
            complete_at(shared, reactor, id, completed);
        }
    }
}

fn complete_at(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>, id: u64, when: Nanos) {
    reactor.timers().ring_at(when, shared.clone(), id);
}

impl Alarm for Shared {
    /// The moment is that of a command's completion.
    fn ring(self: Rc<Self>, id: u64) {
        complete(&self, id);
    }
}

fn complete(shared: &Shared, id: u64) {
    let finished = shared.core.borrow_mut().complete(id);
    if let Some((Some(responder), outcome)) = finished {
        responder.complete(outcome);
    }
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
