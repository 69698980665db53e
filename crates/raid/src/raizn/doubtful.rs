//! Places that reads of users did not get, until it is known whether their blocks are lost.
//!
//! On failing media, each answer takes seconds, so such a read fails before that. One task of the
//! volume then asks the drives, place by place in the order of the reads (`scrub/lost.rs`).

use std::collections::VecDeque;

use crate::scheme::Column;

/// Most places that wait. More are judged when they are read again, or by a scrub.
const WAITING_MOST: usize = 1024;

/// A place of a column; the others of its stripe are judged with it.
#[derive(Clone, Copy)]
pub(crate) struct Doubtful {
    pub(crate) zone: u32,
    pub(crate) column: Column,
    pub(crate) at: u32,
    /// Resets of the zone admitted before the read: with one more, the data is given up.
    pub(crate) resets: u64,
}

/// The places that wait.
#[derive(Default)]
pub(crate) struct DoubtfulPlaces {
    waiting: VecDeque<Doubtful>,
    judging: bool,
}

impl DoubtfulPlaces {
    /// Adds a place, if there is room. Returns whether a task has to be started.
    pub(crate) fn add(&mut self, place: Doubtful) -> bool {
        let of = |place: &Doubtful| (place.zone, place.at, place.resets);
        let is_same = |other: &Doubtful| of(other) == of(&place);
        if self.waiting.len() < WAITING_MOST && !self.waiting.iter().any(is_same) {
            self.waiting.push_back(place);
        }
        !std::mem::replace(&mut self.judging, true)
    }

    /// The next place that still matters; `None` ends the task.
    pub(crate) fn next(&mut self, matters: impl Fn(&Doubtful) -> bool) -> Option<Doubtful> {
        assert!(self.judging, "no task judges places");
        self.waiting.retain(matters);
        let next = self.waiting.pop_front();
        self.judging = next.is_some();
        next
    }

    /// Whether a task judges places.
    pub(crate) const fn are_judged(&self) -> bool {
        self.judging
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place was dropped with the contents before a reset, and the new one was not added.
    #[test]
    fn a_place_waits_once_for_each_contents_of_its_zone() {
        let place = |resets| Doubtful { zone: 1, column: Column::of(0), at: 2, resets };
        let mut places = DoubtfulPlaces::default();
        assert!(places.add(place(0)));
        for resets in [0, 1, 1] {
            assert!(!places.add(place(resets)), "a task judges places");
        }
        let mut next = || places.next(|place| place.resets == 1).map(|place| place.resets);
        assert_eq!((next(), next()), (Some(1), None));
        assert!(!places.are_judged());
    }
}
