//! CPU counters of this thread: cycles and instructions.
//!
//! Many virtual machines have no counters, and `kernel.perf_event_paranoid` may forbid them:
//! reports then leave these figures out.

use std::io;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use serde::Serialize;

/// Two running counters.
pub(super) struct Counters {
    cycles: Counter,
    instructions: Counter,
}

/// Counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Counted {
    pub(super) cycles: f64,
    pub(super) instructions: f64,
}

impl Counters {
    /// Starts the counters, if there are any.
    pub(super) fn start() -> Option<Self> {
        Self::of(Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS).ok()
    }

    fn of(cycles: impl Into<Event>, instructions: impl Into<Event>) -> io::Result<Self> {
        // User mode only: counting the kernel needs a privilege.
        let mut counters = Self {
            cycles: Builder::new().kind(cycles).build()?,
            instructions: Builder::new().kind(instructions).build()?,
        };
        counters.cycles.enable()?;
        counters.instructions.enable()?;
        Ok(counters)
    }

    /// Counts since the start, divided by `parts`; `None` if the counters were shared meanwhile.
    pub(super) fn stop(mut self, parts: f64) -> Option<Counted> {
        let cycles = count(&mut self.cycles)? / parts;
        let instructions = count(&mut self.instructions)? / parts;
        Some(Counted { cycles, instructions })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53 for weeks")]
fn count(counter: &mut Counter) -> Option<f64> {
    counter.disable().ok()?;
    let counted = counter.read_count_and_time().ok()?;
    let always = counted.time_running == counted.time_enabled && counted.count > 0;
    always.then_some(counted.count as f64)
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    /// Uses software counters of the kernel: few test machines count cycles.
    #[test]
    fn counts_are_told_for_each_part() {
        let Ok(counters) = Counters::of(Software::TASK_CLOCK, Software::CPU_CLOCK) else {
            eprintln!("SKIPPED: this kernel lets no user count");
            return;
        };
        let mut sum = 0_u64;
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let counted = counters.stop(2.0).expect("a clock goes on");
        assert!(counted.cycles > 0.0 && counted.instructions > 0.0, "{counted:?}");
    }
}
