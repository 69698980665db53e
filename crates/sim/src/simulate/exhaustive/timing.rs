//! Latencies under which no two commands complete together, so that every set of completed
//! commands that a history passes through can be seen.

use zoneweave_emulator::{CommandId, Request, Schedule, Timing};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::ZoneSet;

/// Ranks there are: drives of an array.
pub(super) const RANKS: u64 = 4;

/// What the fastest drive takes.
const FASTEST: Nanos = Nanos(1000);

/// How much slower each rank is than the one before it: enough to be passed several times.
const STEP: u64 = 4;

/// A drive of a rank: 0 is the fastest. Commands take effect as they complete: which of those in
/// flight have done so at a crash is for the search to choose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    rank: u64,
    last: u64,
}

impl Ranked {
    /// A drive of this rank.
    pub(super) fn new(rank: u8) -> Self {
        Self { rank: u64::from(rank), last: 0 }
    }
}

impl Timing for Ranked {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let rank = u32::try_from(self.rank).expect("a small number");
        let earliest = (now.0 + FASTEST.0 * STEP.pow(rank)).max(self.last + 1);
        // Each rank has moments of its own.
        let done = earliest.next_multiple_of(RANKS) + self.rank;
        self.last = done;
        Some(Schedule { applied: Nanos(done), completed: Nanos(done) })
    }

    fn clear(&mut self) {
        self.last = 0;
    }
}
