//! Rebuilds that have stopped before their end go on by themselves, after a pause that grows: a
//! drive that gave no answer may give one by now.

use std::cell::Cell;

use zoneweave_runtime::Nanos;

/// The first pause. A drive has had its time to answer before.
const PAUSE_FIRST: Nanos = Nanos::from_secs(10);

/// The longest pause: an attempt reads, and leaves events.
const PAUSE_MOST: Nanos = Nanos::from_secs(600);

/// What there is to rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebuilds {
    /// No slot is being rebuilt.
    None,
    /// A rebuild runs, or is about to.
    Run,
    /// One has stopped, and could go on.
    Stopped,
}

/// When a rebuild that has stopped goes on.
#[derive(Clone, Copy, Debug)]
struct Waits {
    pause: Nanos,
    /// Once it has stopped.
    due: Option<Nanos>,
}

const UNTRIED: Waits = Waits { pause: PAUSE_FIRST, due: None };

/// The attempts of an array.
pub(super) struct Retries(Cell<Waits>);

impl Default for Retries {
    fn default() -> Self {
        Self(Cell::new(UNTRIED))
    }
}

impl Retries {
    /// Whether the rebuild that has stopped is to go on now.
    pub(super) fn is_due(&self, now: Nanos, rebuilds: Rebuilds) -> bool {
        let Waits { pause, due } = self.0.get();
        let (waits, is_due) = match (rebuilds, due) {
            (Rebuilds::None, _) => (UNTRIED, false),
            (Rebuilds::Run, _) => (Waits { pause, due: None }, false),
            (Rebuilds::Stopped, None) => (Waits { pause, due: Some(now + pause) }, false),
            (Rebuilds::Stopped, Some(due)) if now < due => return false,
            (Rebuilds::Stopped, Some(_)) => {
                let pause = Nanos(pause.0.saturating_mul(2)).min(PAUSE_MOST);
                (Waits { pause, due: None }, true)
            }
        };
        assert!(waits.pause >= PAUSE_FIRST && waits.pause <= PAUSE_MOST, "{waits:?}");
        self.0.set(waits);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds of the first day at which a rebuild goes on that stops again at once.
    fn attempts(retries: &Retries) -> Vec<u64> {
        let at = |second: u64| Nanos::from_secs(second);
        (0..86_400).filter(|second| retries.is_due(at(*second), Rebuilds::Stopped)).collect()
    }

    #[test]
    fn a_rebuild_that_stops_again_and_again_is_tried_less_often() {
        let retries = Retries::default();
        let found = attempts(&retries);
        let pauses: Vec<_> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(found[0], 10);
        assert_eq!(pauses[..3], [21, 41, 81]);
        assert!(pauses[6..].iter().all(|pause| *pause == 601), "{pauses:?}");
        // A rebuild that has ended says nothing of the next one.
        assert!(!retries.is_due(Nanos(0), Rebuilds::None));
        assert_eq!(attempts(&retries), found);
    }

    #[test]
    fn nothing_is_tried_while_a_rebuild_runs() {
        let retries = Retries::default();
        let second = Nanos::from_secs(1);
        assert!(!retries.is_due(second, Rebuilds::Stopped));
        assert!(!retries.is_due(Nanos::from_secs(60), Rebuilds::Run));
        // It has just stopped.
        assert!(!retries.is_due(Nanos::from_secs(61), Rebuilds::Stopped));
        assert!(retries.is_due(Nanos::from_secs(71), Rebuilds::Stopped));
    }
}
