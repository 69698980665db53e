//! Timers: actions at given nanoseconds.
//!
//! Entries due at the same nanosecond fire in the order in which they were added, so that a history
//! depends on the program only. A cancelled entry leaves its place in the heap, which is skipped.
//! The first place is always that of a pending timer, so that a clock never stops for a cancelled
//! one.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;

use slab::Slab;

use crate::Nanos;

/// Cancelled places below this number are not removed from the heap.
const CANCELLED_FEW: usize = 64;

/// The receiver of timers. Such a timer needs no allocation of its own.
pub trait Alarm {
    /// The timer with this `tag` is due.
    fn ring(self: Rc<Self>, tag: u64);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    deadline: Nanos,
    serial: u64,
    slot: usize,
}

enum Action {
    Wake(Waker),
    Call(Box<dyn FnOnce()>),
    Ring(Rc<dyn Alarm>, u64),
}

struct Entry {
    serial: u64,
    action: Action,
}

#[derive(Default)]
struct Pending {
    order: BinaryHeap<Reverse<Key>>,
    entries: Slab<Entry>,
    added: u64,
}

/// The pending timers of one reactor.
#[derive(Default)]
pub struct TimerQueue {
    pending: RefCell<Pending>,
}

impl Pending {
    fn add(&mut self, deadline: Nanos, action: Action) -> Key {
        let serial = self.added;
        self.added += 1;
        let slot = self.entries.insert(Entry { serial, action });
        let key = Key { deadline, serial, slot };
        self.order.push(Reverse(key));
        key
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.order.peek().map(|first| first.0.deadline)
    }

    fn take_due(&mut self, now: Nanos) -> Option<Action> {
        let due = self.order.peek().is_some_and(|first| first.0.deadline <= now);
        let Reverse(key) = if due { self.order.pop()? } else { return None };
        let entry = self.entries.remove(key.slot);
        self.skip_cancelled();
        Some(entry.action)
    }

    fn cancel(&mut self, key: Key) -> Option<Action> {
        if !is_pending(&self.entries, &key) {
            return None;
        }
        let entry = self.entries.remove(key.slot);
        self.skip_cancelled();
        if self.order.len() > 2 * self.entries.len() + CANCELLED_FEW {
            let entries = &self.entries;
            self.order.retain(|key| is_pending(entries, &key.0));
        }
        Some(entry.action)
    }

    fn skip_cancelled(&mut self) {
        while self.order.peek().is_some_and(|first| !is_pending(&self.entries, &first.0)) {
            self.order.pop();
        }
    }
}

fn is_pending(entries: &Slab<Entry>, key: &Key) -> bool {
    entries.get(key.slot).is_some_and(|entry| entry.serial == key.serial)
}

impl TimerQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The deadline of the next timer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.pending.borrow().next_deadline()
    }

    /// The number of pending timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.borrow().entries.len()
    }

    /// Whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `action` at `deadline`, outside of any task: for devices that complete commands.
    pub fn call_at(&self, deadline: Nanos, action: impl FnOnce() + 'static) {
        self.add(deadline, Action::Call(Box::new(action)));
    }

    /// As [`TimerQueue::call_at`], for a device with many timers: needs no allocation.
    pub fn ring_at(&self, deadline: Nanos, alarm: Rc<dyn Alarm>, tag: u64) {
        self.add(deadline, Action::Ring(alarm, tag));
    }

    /// Fires everything due at `now`; returns how many fired.
    pub fn fire_due(&self, now: Nanos) -> usize {
        let mut fired = 0;
        loop {
            let first = self.pending.borrow_mut().take_due(now);
            match first {
                Some(Action::Wake(waker)) => waker.wake(),
                Some(Action::Call(call)) => call(),
                Some(Action::Ring(alarm, tag)) => alarm.ring(tag),
                None => return fired,
            }
            fired += 1;
        }
    }

    /// Wakes `waker` at `deadline`, unless the timer is cancelled.
    pub(crate) fn wake_at(&self, deadline: Nanos, waker: Waker) -> Key {
        self.add(deadline, Action::Wake(waker))
    }

    fn add(&self, deadline: Nanos, action: Action) -> Key {
        self.pending.borrow_mut().add(deadline, action)
    }

    pub(crate) fn cancel(&self, key: Key) {
        // The drop of an action may use the timers.
        let cancelled = self.pending.borrow_mut().cancel(key);
        drop(cancelled);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Log(RefCell<Vec<u64>>);

    impl Alarm for Log {
        fn ring(self: Rc<Self>, tag: u64) {
            self.0.borrow_mut().push(tag);
        }
    }

    #[test]
    fn timers_fire_by_deadline_and_then_in_the_order_they_were_added() {
        let (timers, log) = (TimerQueue::new(), Rc::new(Log(RefCell::default())));
        for (tag, deadline) in [(1, 30), (2, 10), (3, 10), (4, 20)] {
            timers.ring_at(Nanos(deadline), log.clone(), tag);
        }
        assert_eq!(timers.fire_due(Nanos(25)), 3);
        assert_eq!((timers.len(), timers.next_deadline()), (1, Some(Nanos(30))));
        assert_eq!(timers.fire_due(Nanos(30)), 1);
        assert_eq!(*log.0.borrow(), [2, 3, 4, 1]);
    }

    #[test]
    fn cancelled_timers_leave_nothing_behind() {
        let (timers, log) = (TimerQueue::new(), Rc::new(Log(RefCell::default())));
        let add = |deadline| timers.add(Nanos(deadline), Action::Ring(log.clone(), deadline));
        let last = add(1_000_000);
        for round in 0..1000 {
            let (early, late) = (add(round), add(2_000_000));
            timers.cancel(early);
            assert_eq!(timers.next_deadline(), Some(Nanos(1_000_000)));
            timers.cancel(late);
            timers.cancel(late);
        }
        assert_eq!(timers.len(), 1);
        assert!(timers.pending.borrow().order.len() <= 2 + CANCELLED_FEW);
        timers.cancel(last);
        assert!(timers.is_empty() && timers.next_deadline().is_none());
        assert_eq!(timers.fire_due(Nanos(u64::MAX)), 0);
    }
}
