//! The seam between the executor and the world: a clock, timers, and a place to wait.

use crate::{Nanos, TimerQueue};

/// Whether a turn may wait for something to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Tasks are ready to run: deliver what has happened and return.
    No,
    /// Nothing can run before something happens: wait for it.
    Yes,
}

/// What a turn found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something happened, or may happen later.
    Some,
    /// No timer is pending and no I/O is in flight: waiting longer would wait for ever.
    Idle,
}

/// A source of time and events.
pub trait Reactor {
    /// The current time. It never runs backwards.
    fn now(&self) -> Nanos;

    /// A time that has been since the last turn began, for what needs no better: asking a clock takes as long as some
    /// of what is timed.
    fn recent(&self) -> Nanos {
        self.now()
    }

    /// The timers this reactor fires.
    fn timers(&self) -> &TimerQueue;

    /// Delivers events and fires due timers, once.
    fn turn(&self, wait: Wait) -> Progress;
}
