//! Which blocks are being changed, and who has to wait for whom.
//!
//! Claims are numbered in the order in which they are made. A claim waits for every earlier one
//! that overlaps it if one of the two changes part of a block, or if the earlier one still waits
//! itself: it must not be overtaken. Later claims never delay earlier ones, so there is no
//! deadlock and nobody starves. With changes of whole blocks only, which is the rule, making a
//! claim costs an insertion and looks at nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use zoneweave_runtime::Gate;

/// What a claim does to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Replaces whole blocks; the device orders such changes itself.
    Whole,
    /// Reads, changes and writes back some block: nothing may come in between.
    Partial,
}

struct Entry {
    blocks: Range<u64>,
    access: Access,
    waiting: bool,
}

impl Entry {
    /// Whether a later overlapping claim has to wait for this one, whatever it wants.
    fn is_obstacle(&self) -> bool {
        self.waiting || self.access == Access::Partial
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.blocks.start < other.blocks.end && other.blocks.start < self.blocks.end
    }
}

/// The claims of one device.
#[derive(Default)]
pub(super) struct Claims {
    entries: RefCell<BTreeMap<u64, Entry>>,
    made: Cell<u64>,
    /// How many entries are obstacles.
    obstacles: Cell<usize>,
    /// Opened when an entry goes away or stops waiting.
    changed: Gate,
}

/// Blocks claimed; dropping it lets the next ones in.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    number: u64,
}

impl Claims {
    /// Claims blocks, waiting until no earlier claim is in the way.
    pub(super) async fn claim(&self, blocks: Range<u64>, access: Access) -> Claim<'_> {
        let number = self.made.get();
        self.made.set(number + 1);
        self.insert(number, Entry { blocks, access, waiting: false });
        // From here on the claim is released even if the future is dropped while waiting.
        let claim = Claim { claims: self, number };
        if !self.is_blocked(number) {
            return claim;
        }
        self.set_waiting(number, true);
        while self.is_blocked(number) {
            self.changed.wait().await;
        }
        self.set_waiting(number, false);
        self.changed.open();
        claim
    }

    fn is_blocked(&self, number: u64) -> bool {
        let entries = self.entries.borrow();
        let Some(entry) = entries.get(&number) else { return false };
        if self.obstacles.get() == 0 {
            return false;
        }
        let mut earlier = entries.range(..number);
        earlier.any(|(_, earlier)| {
            let conflict = earlier.is_obstacle() || entry.access == Access::Partial;
            conflict && earlier.overlaps(entry)
        })
    }

    fn insert(&self, number: u64, entry: Entry) {
        self.obstacles.set(self.obstacles.get() + usize::from(entry.is_obstacle()));
        self.entries.borrow_mut().insert(number, entry);
    }

    fn remove(&self, number: u64) -> Entry {
        let entry = self.entries.borrow_mut().remove(&number).expect("a claim is released once");
        self.obstacles.set(self.obstacles.get() - usize::from(entry.is_obstacle()));
        entry
    }

    fn set_waiting(&self, number: u64, waiting: bool) {
        let entry = self.remove(number);
        self.insert(number, Entry { waiting, ..entry });
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.remove(self.number);
        self.claims.changed.open();
    }
}
