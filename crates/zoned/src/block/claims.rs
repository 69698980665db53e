//! Blocks under change, and the order in which changes of the same block go ahead.
//!
//! Claims are numbered in the order in which they are made. A claim waits for every earlier claim
//! that overlaps it if either changes part of a block, or if the earlier one still waits: it must
//! not be overtaken. Later claims never delay earlier ones, so there is no deadlock and no
//! starvation. If all changes are of whole blocks, the usual case, a claim costs one insertion and
//! no search.
//!
//! A waiting claim is woken only by the latest claim in its way, when that one is admitted or
//! released. Earlier claims in its way are gone by then, since the latest waited for them too. So
//! of many claims of one block each wakes the next, and a claim searches once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

#[cfg(test)]
mod tests;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Replaces whole blocks; the device orders such changes.
    Whole,
    /// Reads, changes and writes back some block: no other change may come in between.
    Partial,
}

/// The blocks and the kind of a claim.
#[derive(Clone)]
struct Wish {
    blocks: Range<u64>,
    access: Access,
}

/// The claims of one device.
#[derive(Default)]
pub(super) struct Claims {
    table: RefCell<Table>,
    made: Cell<u64>,
}

/// Claims by their numbers.
#[derive(Default)]
struct Table {
    /// Claims that any later overlapping claim waits for: they change part of a block, or wait.
    standing: BTreeMap<u64, Range<u64>>,
    /// Claims that only a later change of part of a block waits for.
    passing: BTreeMap<u64, Range<u64>>,
    /// Waiting claims, keyed by the claim that they wait for, in order. A claim is here at most
    /// once.
    waiters: BTreeMap<(u64, u64), Waker>,
}

impl Table {
    /// The latest claim before a number that is in the way.
    fn obstacle(&self, wish: &Wish, before: u64) -> Option<u64> {
        let Wish { blocks, access } = wish;
        let latest = |claims: &BTreeMap<u64, Range<u64>>, after: u64| {
            let overlaps =
                |other: &Range<u64>| other.start < blocks.end && blocks.start < other.end;
            let mut earlier = claims.range(after..before).rev();
            earlier.find(|(_, other)| overlaps(other)).map(|(number, _)| *number)
        };
        let standing = latest(&self.standing, 0);
        match access {
            Access::Whole => standing,
            Access::Partial => latest(&self.passing, standing.unwrap_or(0)).or(standing),
        }
    }

    fn insert(&mut self, number: u64, wish: &Wish, waits: bool) {
        let stands = waits || wish.access == Access::Partial;
        let claims = if stands { &mut self.standing } else { &mut self.passing };
        claims.insert(number, wish.blocks.clone());
    }

    fn remove(&mut self, number: u64) {
        let found = self.standing.remove(&number).or_else(|| self.passing.remove(&number));
        assert!(found.is_some(), "a claim is released once");
    }

    /// The claims that wait for one, in order; each has to search for further obstacles.
    fn take_waiters(&mut self, number: u64) -> Vec<Waker> {
        let mut taken = Vec::new();
        while let Some((key, _)) = self.waiters.range((number, 0)..=(number, u64::MAX)).next() {
            let key = *key;
            taken.extend(self.waiters.remove(&key));
        }
        taken
    }
}

/// A claim of blocks; dropping it admits the next ones.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    number: u64,
    /// The claim that it waits for.
    awaited: Cell<Option<u64>>,
}

impl Claims {
    /// Claims blocks, waiting until no earlier claim is in the way.
    pub(super) async fn claim(&self, blocks: Range<u64>, access: Access) -> Claim<'_> {
        let wish = Wish { blocks, access };
        let number = self.made.get();
        self.made.set(number + 1);
        let obstacle = self.table.borrow().obstacle(&wish, number);
        self.table.borrow_mut().insert(number, &wish, obstacle.is_some());
        // From here on the claim is released even if the future is dropped while waiting.
        let claim = Claim { claims: self, number, awaited: Cell::new(obstacle) };
        if obstacle.is_some() {
            poll_fn(|context| claim.poll_in(&wish, context.waker())).await;
            claim.go_in(&wish);
        }
        claim
    }
}

impl Claim<'_> {
    /// Ready if no obstacle is left; otherwise `waker` is woken for the next look.
    fn poll_in(&self, wish: &Wish, waker: &Waker) -> Poll<()> {
        let mut table = self.claims.table.borrow_mut();
        // Claims before the last obstacle were out of the way already, and none can come back.
        let before = self.awaited.get().map_or(self.number, |obstacle| obstacle + 1);
        let obstacle = table.obstacle(wish, before);
        if let Some(obstacle) = obstacle {
            self.awaited.set(Some(obstacle));
            table.waiters.insert((obstacle, self.number), waker.clone());
        }
        if obstacle.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Waits no more. Changes of whole blocks do not wait for another one that has gone in.
    fn go_in(&self, wish: &Wish) {
        self.awaited.set(None);
        if wish.access == Access::Partial {
            return;
        }
        let woken = {
            let mut table = self.claims.table.borrow_mut();
            table.remove(self.number);
            table.insert(self.number, wish, false);
            table.take_waiters(self.number)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let woken = {
            let mut table = self.claims.table.borrow_mut();
            table.remove(self.number);
            // A claim that was dropped is not woken.
            if let Some(obstacle) = self.awaited.get() {
                table.waiters.remove(&(obstacle, self.number));
            }
            table.take_waiters(self.number)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
