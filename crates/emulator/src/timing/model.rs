//! The interface of latency models, and the two for tests of logic.

use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::ZoneSet;

use crate::Request;

/// The two moments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// When it is admitted and changes the drive.
    pub applied: Nanos,
    /// When the host learns of it; not before `applied`.
    pub completed: Nanos,
}

/// The number of a command; a drive uses each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// A drive's latencies.
///
/// A command is planned when it is submitted, or kept and decided about later if that takes
/// something still to happen, such as room in a buffer.
pub trait Timing {
    /// Plans a command submitted at `now`, or keeps it. Writes to one zone are applied in
    /// submission order even if the plan says otherwise.
    fn schedule(
        &mut self,
        id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule>;

    /// When to ask [`Timing::decide`] next, if commands were kept. It may turn out too early.
    fn next_decision(&mut self) -> Option<Nanos> {
        None
    }

    /// The next kept command that can be planned at `now`. The drive carries it out when it is due,
    /// before it asks again.
    fn decide(&mut self, zones: &ZoneSet, now: Nanos) -> Option<(CommandId, Schedule)> {
        let _ = (zones, now);
        None
    }

    /// Forgets every command: the power failed, or the clock starts again.
    fn clear(&mut self) {}
}

impl Timing for Box<dyn Timing> {
    fn schedule(
        &mut self,
        id: CommandId,
        request: &Request,
        zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        (**self).schedule(id, request, zones, now)
    }

    fn next_decision(&mut self) -> Option<Nanos> {
        (**self).next_decision()
    }

    fn decide(&mut self, zones: &ZoneSet, now: Nanos) -> Option<(CommandId, Schedule)> {
        (**self).decide(zones, now)
    }

    fn clear(&mut self) {
        (**self).clear();
    }
}

/// Commands complete as they are submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Timing for Immediate {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        Some(Schedule { applied: now, completed: now })
    }
}

/// Commands complete after a random time, and take effect at a random point within it, so that
/// those in flight together pass each other in every order.
#[derive(Clone, Debug)]
pub struct Jitter {
    random: Random,
    longest: Nanos,
}

impl Jitter {
    /// Latencies from zero up to and including `longest`.
    #[must_use]
    pub fn new(seed: u64, longest: Nanos) -> Self {
        Self { random: Random::new(seed), longest }
    }
}

impl Timing for Jitter {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let latency = self.random.below(self.longest.0.saturating_add(1));
        let applied = now + Nanos(self.random.below(latency + 1));
        Some(Schedule { applied, completed: now + Nanos(latency) })
    }
}
