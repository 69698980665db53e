//! The interface between the executor and the world: a clock, timers, and a place to wait.

use crate::{Nanos, TimerQueue};

/// Whether a turn may wait for something to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Tasks are ready to run: deliver pending events and return.
    No,
    /// No task is ready: wait for an event.
    Yes,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// An event happened, or may happen later.
    Some,
    /// No timer is pending and no I/O is in flight: waiting longer would wait for ever.
    Idle,
}

/// A source of time and events.
pub trait Reactor {
    /// The current time. It never runs backwards.
    fn now(&self) -> Nanos;

    /// A time no earlier than the last turn, for measurements that need no better: reading a clock
    /// takes as long as some of the measured intervals.
    fn recent(&self) -> Nanos {
        self.now()
    }

    /// The timers this reactor fires.
    fn timers(&self) -> &TimerQueue;

    /// Delivers events and fires due timers, once.
    fn turn(&self, wait: Wait) -> Progress;
}
