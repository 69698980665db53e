//! Which blocks are being changed, and who has to wait for whom.
//!
//! Claims are numbered in the order in which they are made. A claim waits for every earlier one
//! that overlaps it if one of the two changes part of a block, or if the earlier one still waits
//! itself: it must not be overtaken. Later claims never delay earlier ones, so there is no
//! deadlock and nobody starves. With changes of whole blocks only, which is the rule, making a
//! claim costs an insertion and looks at nothing.
//!
//! Who waits is woken by one claim only, the latest in its way, when that goes away or goes in. Those
//! before the latest that overlap it, too, are out of the way then, as it waited for them itself: so
//! of many claims of one block each wakes the next, and a claim looks once at what is before it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

#[cfg(test)]
mod tests;

/// What a claim does to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Replaces whole blocks; the device orders such changes itself.
    Whole,
    /// Reads, changes and writes back some block: nothing may come in between.
    Partial,
}

/// What is claimed.
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
    /// Those that any later one has to wait for, whatever it wants: they change part of a block, or wait.
    standing: BTreeMap<u64, Range<u64>>,
    /// Those that only a later change of part of a block waits for.
    passing: BTreeMap<u64, Range<u64>>,
    /// Those that wait, by what they wait for and in their order. Each is here once at the most.
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

    /// Those that wait for a claim, in their order; they have to look for what else is in their way.
    fn take_waiters(&mut self, number: u64) -> Vec<Waker> {
        let mut taken = Vec::new();
        while let Some((key, _)) = self.waiters.range((number, 0)..=(number, u64::MAX)).next() {
            let key = *key;
            taken.extend(self.waiters.remove(&key));
        }
        taken
    }
}

/// Blocks claimed; dropping it lets the next ones in.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    number: u64,
    /// What it waits for.
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
    /// Ready if nothing is in the way any more; otherwise `waker` is woken when to look again.
    fn poll_in(&self, wish: &Wish, waker: &Waker) -> Poll<()> {
        let mut table = self.claims.table.borrow_mut();
        // What is behind the last obstacle was out of the way already, and nothing gets into it again.
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
            // Who gave up is not woken.
            if let Some(obstacle) = self.awaited.get() {
                table.waiters.remove(&(obstacle, self.number));
            }
            table.take_waiters(self.number)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
