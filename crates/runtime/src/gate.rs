//! A condition that tasks wait for: "something changed, look again".
//!
//! A wait is registered at its first poll, and no other task runs between the check of the
//! condition and that poll. So `loop { if check() { break } gate.wait().await }` misses no change.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Wakes all waiting tasks each time it is opened.
#[derive(Clone, Default)]
pub struct Gate(Rc<Shared>);

#[derive(Default)]
struct Shared {
    openings: Cell<u64>,
    /// Tasks that wait for the next opening, in order; `None` for cancelled waits.
    waiters: RefCell<Vec<Option<Waker>>>,
    /// A spare vector for new waiters while those of the last opening are woken.
    spare: Cell<Vec<Option<Waker>>>,
}

impl Gate {
    /// A gate without waiting tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all tasks that wait now. Later waits need the next opening.
    pub fn open(&self) {
        let Shared { openings, waiters, spare } = &*self.0;
        openings.set(openings.get() + 1);
        let mut woken = waiters.replace(spare.take());
        woken.drain(..).flatten().for_each(Waker::wake);
        spare.set(woken);
    }

    /// Waits for the next opening after the first poll.
    pub fn wait(&self) -> impl Future<Output = ()> {
        Passage { gate: &self.0, place: None }
    }
}

/// A wait for an opening.
struct Passage<'a> {
    gate: &'a Shared,
    /// The number of the last opening before it, and its place in the queue once it is registered.
    place: Option<(u64, usize)>,
}

impl Future for Passage<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate;
        let openings = gate.openings.get();
        let mut waiters = gate.waiters.borrow_mut();
        match self.place {
            None => {
                self.place = Some((openings, waiters.len()));
                waiters.push(Some(context.waker().clone()));
            }
            Some((last, _)) if last < openings => return Poll::Ready(()),
            Some((_, place)) => match &mut waiters[place] {
                Some(known) => known.clone_from(context.waker()),
                given_up @ None => *given_up = Some(context.waker().clone()),
            },
        }
        Poll::Pending
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        // A cancelled wait wakes no task.
        if let Some((last, place)) = self.place
            && last == self.gate.openings.get()
        {
            let mut waiters = self.gate.waiters.borrow_mut();
            waiters[place] = None;
            // Repeated waits leave nothing behind.
            while waiters.last().is_some_and(Option::is_none) {
                waiters.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{Executor, VirtualTime};

    #[test]
    fn all_who_wait_are_woken_in_order_and_later_ones_by_the_next_opening() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let (handle, gate) = (executor.handle(), Gate::new());
        let woken: Rc<RefCell<Vec<u32>>> = Rc::default();
        for name in 0..3 {
            let (gate, woken) = (gate.clone(), woken.clone());
            handle.spawn("waits twice", async move {
                gate.wait().await;
                woken.borrow_mut().push(name);
                gate.wait().await;
                woken.borrow_mut().push(10 + name);
            });
        }
        executor.run(async {
            handle.yield_now().await;
            // One that gives up leaves the others where they are.
            let mut gives_up = Box::pin(gate.wait());
            let polled = std::future::poll_fn(|context| {
                Poll::Ready(gives_up.as_mut().poll(context).is_pending())
            });
            assert!(polled.await);
            drop(gives_up);
            for expected in [3, 6] {
                gate.open();
                handle.yield_now().await;
                handle.yield_now().await;
                assert_eq!(woken.borrow().len(), expected);
            }
        });
        assert_eq!(woken.take(), [0, 1, 2, 10, 11, 12]);
    }
}
