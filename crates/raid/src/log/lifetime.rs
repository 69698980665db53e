//! How long blocks live: a guess for each write, from how long the block lived that it replaces.
//!
//! Blocks that are written again soon go to other segments than those that stay, so that a segment
//! dies as a whole or hardly at all (SepBIT, FAST'22, in two classes for users and two for what is
//! moved). Time is counted in sequences, one for each request. When a block was written is not known in
//! memory, but when its segment was opened is, which is close enough while users fill it; what was
//! moved once has lived long. All of it is a guess: nothing that is promised depends on it.

use zoneweave_zoned::Lba;

use crate::log::format::StreamKind;
use crate::log::index::SegmentSlot;
use crate::log::state::State;
use crate::log::stream::Lifetime;

/// Segments of short lives after which the bound between short and long is drawn anew.
const SEGMENTS_PER_BOUND: u64 = 16;

/// What is known about how long blocks live.
#[derive(Debug, Default)]
pub(super) struct Lifespans {
    /// Below it lives are short; none yet: all of them.
    bound: Option<u64>,
    sum: u64,
    count: u64,
}

impl Lifespans {
    fn note(&mut self, lived: u64) {
        self.sum = self.sum.saturating_add(lived);
        self.count += 1;
        if self.count == SEGMENTS_PER_BOUND {
            *self = Self { bound: Some(self.sum / self.count), ..Self::default() };
        }
    }

    fn of(&self, lived: u64) -> Lifetime {
        match self.bound {
            Some(bound) if lived >= bound => Lifetime::Long,
            _ => Lifetime::Short,
        }
    }
}

impl State {
    /// How long what a user writes to a block is likely to live.
    #[must_use]
    pub(super) fn lifetime_of_write(&self, lba: Lba) -> Lifetime {
        let Some(pba) = self.index.get(lba) else { return Lifetime::Long };
        let segment = &self.segments[self.space.place(pba).slot];
        match segment.stream {
            StreamKind::User => self.lifespans.of(self.next_sequence - segment.generation),
            StreamKind::Relocation => Lifetime::Long,
        }
    }

    /// How long what is moved out of a segment is likely to live: what outlived others of a short life
    /// is not yet what stays.
    #[must_use]
    pub(super) fn lifetime_of_moved(&self, slot: SegmentSlot) -> Lifetime {
        match self.segments[slot].stream {
            StreamKind::User => self.segments[slot].lifetime,
            StreamKind::Relocation => Lifetime::Long,
        }
    }

    /// Notes how long a segment lived that users filled with short lives.
    pub(super) fn note_lifespan(&mut self, slot: SegmentSlot) {
        let segment = &self.segments[slot];
        if segment.stream == StreamKind::User && segment.lifetime == Lifetime::Short {
            self.lifespans.note(self.next_sequence - segment.generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_mean_of_the_last_lives() {
        let mut lifespans = Lifespans::default();
        assert_eq!(lifespans.of(u64::MAX), Lifetime::Short);
        (1..=SEGMENTS_PER_BOUND).for_each(|lived| lifespans.note(lived * 10));
        assert_eq!((lifespans.of(84), lifespans.of(85)), (Lifetime::Short, Lifetime::Long));
        (0..SEGMENTS_PER_BOUND).for_each(|_| lifespans.note(1000));
        assert_eq!((lifespans.of(999), lifespans.of(1000)), (Lifetime::Short, Lifetime::Long));
    }
}
