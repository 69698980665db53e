//! A counting semaphore: how many of something may be under way.
//!
//! Waiters are served in order of arrival; a large request at the head is not overtaken by small
//! ones behind it, so nobody starves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::{Receiver, Sender, oneshot};

struct Waiter {
    amount: u64,
    sender: Sender<Permit>,
}

struct Inner {
    available: u64,
    total: u64,
    waiters: VecDeque<Waiter>,
}

/// A semaphore with a number of permits fixed at the start.
#[derive(Clone)]
pub struct Semaphore(Rc<RefCell<Inner>>);

/// Permits held; dropping them gives them back.
pub struct Permit {
    semaphore: Semaphore,
    amount: u64,
}

impl Semaphore {
    /// A semaphore with `total` permits.
    #[must_use]
    pub fn new(total: u64) -> Self {
        let inner = Inner { available: total, total, waiters: VecDeque::new() };
        Self(Rc::new(RefCell::new(inner)))
    }

    /// Waits for one permit.
    pub async fn acquire(&self) -> Permit {
        self.acquire_many(1).await
    }

    /// Waits for `amount` permits; a request for more than there are waits for all of them.
    pub async fn acquire_many(&self, amount: u64) -> Permit {
        let receiver = self.enqueue(amount);
        receiver.await.expect("the semaphore outlives its waiters")
    }

    /// Takes one permit if there is one and nobody waits.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Permit> {
        self.try_acquire_many(1)
    }

    /// Takes `amount` permits, or all for more than there are, if nobody has any of them or waits.
    #[must_use]
    pub fn try_acquire_many(&self, amount: u64) -> Option<Permit> {
        let mut inner = self.0.borrow_mut();
        let amount = amount.min(inner.total);
        if inner.available < amount || !inner.waiters.is_empty() {
            return None;
        }
        inner.available -= amount;
        Some(Permit { semaphore: self.clone(), amount })
    }

    /// Permits that nobody holds.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.0.borrow().available
    }

    /// Whether a task waits for permits.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        !self.0.borrow().waiters.is_empty()
    }

    fn enqueue(&self, amount: u64) -> Receiver<Permit> {
        let (sender, receiver) = oneshot();
        {
            let mut inner = self.0.borrow_mut();
            let amount = amount.min(inner.total);
            inner.waiters.push_back(Waiter { amount, sender });
        }
        self.serve();
        receiver
    }

    fn serve(&self) {
        loop {
            let waiter = {
                let mut inner = self.0.borrow_mut();
                let fits = inner.waiters.front().is_some_and(|w| w.amount <= inner.available);
                if !fits {
                    return;
                }
                let Some(waiter) = inner.waiters.pop_front() else { return };
                inner.available -= waiter.amount;
                waiter
            };
            // If the waiter is gone the permit comes straight back through its drop.
            waiter.sender.send(Permit { semaphore: self.clone(), amount: waiter.amount });
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.0.borrow_mut().available += self.amount;
        self.semaphore.serve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, VirtualTime};

    #[test]
    fn a_large_request_is_not_overtaken() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        executor.run(async {
            let semaphore = Semaphore::new(3);
            let held = semaphore.acquire_many(2).await;
            let big = semaphore.clone();
            let big = handle.spawn("big", async move { big.acquire_many(3).await });
            handle.yield_now().await;
            assert!(semaphore.try_acquire().is_none());
            drop(held);
            drop(big.await);
            assert_eq!(semaphore.available(), 3);
        });
    }

    #[test]
    fn an_abandoned_wait_gives_its_permit_back() {
        let semaphore = Semaphore::new(1);
        let permit = semaphore.try_acquire().unwrap();
        drop(semaphore.enqueue(1));
        drop(permit);
        assert_eq!(semaphore.available(), 1);
    }
}
