//! Timers: what is to happen at which nanosecond.
//!
//! Entries due at the same nanosecond fire in the order in which they were added, so that a
//! history depends on nothing but the program.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::Nanos;

type Key = (Nanos, u64);

enum Action {
    Wake(Waker),
    Call(Box<dyn FnOnce()>),
}

/// The pending timers of one reactor.
#[derive(Default)]
pub struct TimerQueue {
    entries: RefCell<BTreeMap<Key, Action>>,
    added: Cell<u64>,
}

impl TimerQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When the next timer is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.entries.borrow().first_key_value().map(|(key, _)| key.0)
    }

    /// How many timers are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Runs `action` at `deadline`, outside of any task: for devices that complete commands.
    pub fn call_at(&self, deadline: Nanos, action: impl FnOnce() + 'static) {
        self.add(deadline, Action::Call(Box::new(action)));
    }

    /// Fires everything due at `now`; returns how many fired.
    pub fn fire_due(&self, now: Nanos) -> usize {
        let mut fired = 0;
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let first = self.entries.borrow_mut().pop_first();
            match first {
                Some((_, Action::Wake(waker))) => waker.wake(),
                Some((_, Action::Call(call))) => call(),
                None => break,
            }
            fired += 1;
        }
        fired
    }

    fn add(&self, deadline: Nanos, action: Action) -> Key {
        let key = (deadline, self.added.get());
        self.added.set(key.1 + 1);
        self.entries.borrow_mut().insert(key, action);
        key
    }
}

/// A future that is ready at a deadline; dropping it cancels the timer.
pub struct Sleep {
    reactor: Rc<dyn crate::Reactor>,
    deadline: Nanos,
    key: Option<Key>,
}

impl Sleep {
    pub(crate) fn new(reactor: Rc<dyn crate::Reactor>, deadline: Nanos) -> Self {
        Self { reactor, deadline, key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(key) = self.key.take() {
            self.reactor.timers().entries.borrow_mut().remove(&key);
        }
        if self.reactor.now() >= self.deadline {
            return Poll::Ready(());
        }
        let action = Action::Wake(context.waker().clone());
        self.key = Some(self.reactor.timers().add(self.deadline, action));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.reactor.timers().entries.borrow_mut().remove(&key);
        }
    }
}
