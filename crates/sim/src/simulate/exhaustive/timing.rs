//! Latencies under which no two commands complete together, so that every set of completed commands
//! of a history is observed.

use zoneweave_emulator::{CommandId, Request, Schedule, Timing};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::ZoneSet;

/// Number of ranks: the drives of an array.
pub(super) const RANKS: u64 = 4;

/// Latency of the fastest drive.
const FASTEST: Nanos = Nanos(1000);

/// Factor between ranks: enough for several commands of a faster drive.
const STEP: u64 = 4;

/// A drive of a rank; 0 is the fastest. Commands take effect as they complete; the search chooses
/// which of those in flight took effect before a crash.
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
        // Each rank completes at moments of its own.
        let done = earliest.next_multiple_of(RANKS) + self.rank;
        self.last = done;
        Some(Schedule { applied: Nanos(done), completed: Nanos(done) })
    }

    fn clear(&mut self) {
        self.last = 0;
    }
}
