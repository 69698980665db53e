//! A reactor whose time passes only when nothing else can happen.

use std::cell::Cell;

use crate::{Nanos, Progress, Reactor, TimerQueue, Wait};

/// Discrete-event time: the clock jumps to the next timer as soon as every task waits.
///
/// Processing costs no time unless a task sleeps for it.
#[derive(Default)]
pub struct VirtualTime {
    now: Cell<Nanos>,
    timers: TimerQueue,
}

impl VirtualTime {
    /// A clock at zero with no timers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Reactor for VirtualTime {
    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn timers(&self) -> &TimerQueue {
        &self.timers
    }

    fn turn(&self, wait: Wait) -> Progress {
        if wait == Wait::Yes {
            let Some(deadline) = self.timers.next_deadline() else { return Progress::Idle };
            self.now.set(self.now.get().max(deadline));
        }
        self.timers.fire_due(self.now.get());
        Progress::Some
    }
}
