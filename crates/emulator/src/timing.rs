//! When commands take effect and when they complete.

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

/// A drive's latencies.
pub trait Timing {
    /// Plans a command submitted at `now`. Writes to one zone are applied in submission order even
    /// if the plan says otherwise.
    fn schedule(&mut self, request: &Request, zones: &ZoneSet, now: Nanos) -> Schedule;
}

/// Commands complete as they are submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Timing for Immediate {
    fn schedule(&mut self, _request: &Request, _zones: &ZoneSet, now: Nanos) -> Schedule {
        Schedule { applied: now, completed: now }
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
    fn schedule(&mut self, _request: &Request, _zones: &ZoneSet, now: Nanos) -> Schedule {
        let latency = self.random.below(self.longest.0.saturating_add(1));
        let applied = now + Nanos(self.random.below(latency + 1));
        Schedule { applied, completed: now + Nanos(latency) }
    }
}
