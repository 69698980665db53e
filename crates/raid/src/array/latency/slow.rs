//! Whether a drive is slow, by the recent read latencies of all.

use zoneweave_runtime::Nanos;

use crate::array::latency::hedge::{Estimate, Hedging, SIZES};
use crate::array::state::Array;
use crate::scheme::{Column, MAX_COLUMNS};

impl Array {
    pub(crate) fn is_hedging(&self) -> bool {
        self.hedge.hedging != Hedging::OFF && self.scheme().tolerated_losses() > 0
    }

    /// The bound that drives hardly ever exceed for a read of that size: the (lower) median of
    /// their bounds.
    pub(crate) fn usual_bound(&self, size: usize) -> Option<u64> {
        let hedging = &self.hedge.hedging;
        let here = self.members.iter().filter(|member| member.device.is_some());
        let known = here.filter_map(|member| member.pace.usual[size].bound(hedging));
        // In an array on the stack: every read evaluates this.
        let (mut room, mut count) = ([0; MAX_COLUMNS], 0);
        for (place, bound) in room.iter_mut().zip(known) {
            *place = bound;
            count += 1;
        }
        let bounds = &mut room[..count];
        bounds.sort_unstable();
        (bounds.len() >= 2).then(|| bounds[(bounds.len() - 1) / 2])
    }

    pub(crate) fn is_slow(&self, column: Column, size: usize, bound: u64) -> bool {
        let pace = &self.members[column.index()].pace;
        let slow = |estimate: &Estimate| {
            estimate.mean(&self.hedge.hedging).is_some_and(|mean| mean > bound)
        };
        slow(&pace.usual[size]) || pace.resets > 0 && slow(&pace.resetting[size])
    }

    pub(crate) fn is_held_up(&self, column: Column, size: usize, bound: u64, now: Nanos) -> bool {
        self.is_slow(column, size, bound) || self.members[column.index()].pace.owes(now)
    }

    /// Whether resets slow down reads of some drive: then drives reset one after the other.
    #[must_use]
    pub(crate) fn feels_resets(&self) -> bool {
        let hedging = &self.hedge.hedging;
        let slow = |size: usize, bound: u64| {
            let mut means =
                self.members.iter().map(|member| member.pace.resetting[size].mean(hedging));
            means.any(|mean| mean.is_some_and(|mean| mean > bound))
        };
        let mut sizes = 0..SIZES;
        self.is_hedging()
            && sizes.any(|size| self.usual_bound(size).is_some_and(|bound| slow(size, bound)))
    }

    /// Records the end of a late read.
    pub(crate) fn late_read_ended(&mut self) {
        assert!(self.hedge.left_behind > 0, "a late read ends that was not left behind");
        self.hedge.left_behind -= 1;
    }
}
