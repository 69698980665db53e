//! How long blocks live: a guess for each write, from how long the block lived that it replaces.
//!
//! Blocks that are written again soon go to other segments than those that stay, so that a segment
//! dies as a whole or hardly at all (SepBIT, FAST'22, in two classes for users and two for what is
//! moved). Time is counted in sequences, one for each request. When a block was written is not
//! known in memory, but when its segment was opened is, which is close enough while users fill it;
//! what was moved once has lived long.
//!
//! Where all blocks are written alike lives tell nothing, and a segment more that is open is room
//! that is missing elsewhere. So some blocks are watched: how long they lived, and how long they
//! live next. While those that lived for short do not live for short the more often, nothing is
//! kept apart.
//!
//! Until the first bound is drawn what is known of a block is whether it was written before. Users'
//! lanes take what waits for the others then: two lanes that kept to what is theirs would be as
//! slow as the one that gets more. Where drives are faster than the engine two queues would be as
//! many stripes more, and nothing is told apart until then.
//!
//! All of it is a guess: nothing that is promised depends on it.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::log::write::lane::Lifetime;

/// Segments of short lives after which the bound between short and long is drawn anew.
const SEGMENTS_PER_BOUND: u64 = 16;

/// Blocks that are watched, about.
const WATCHED: u64 = 4096;

/// Lives of watched blocks that tell whether lives tell: the most, and for how many blocks of a
/// volume that has not as many there is one.
const LIVES_MOST: u64 = 1024;
const BLOCKS_PER_LIFE: u64 = 16;

/// How much more often those that lived for short have to do so again, in percent: to be kept
/// apart, and to stay so.
const MORE_OFTEN: [u64; 2] = [150, 125];

/// What is known about how long blocks live.
#[derive(Debug)]
pub(in crate::log) struct Lifespans {
    /// Below it lives are short; none yet: all of them.
    bound: Option<u64>,
    sum: u64,
    count: u64,
    watched: BTreeMap<Lba, Watched>,
    /// One block in so many is watched.
    one_in: u64,
    /// Lives after which it is judged.
    enough: u64,
    /// Lives of watched blocks: of those that lived for short and for long before, how many were
    /// short and long.
    lives: [[u64; 2]; 2],
    /// Whether lives tell how long the next ones are.
    pub(in crate::log) tell: bool,
}

/// A block that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When it was written.
    written: u64,
    /// How long it lived before.
    lived: Option<u64>,
}

impl Lifespans {
    /// Nothing is known of a volume of so many blocks. Few are written alike all over, so lives
    /// tell until they do not.
    #[must_use]
    pub(in crate::log) fn new(volume_blocks: u64) -> Self {
        Self {
            bound: None,
            sum: 0,
            count: 0,
            watched: BTreeMap::new(),
            one_in: (volume_blocks / WATCHED).max(1),
            enough: (volume_blocks / BLOCKS_PER_LIFE).clamp(1, LIVES_MOST),
            lives: [[0; 2]; 2],
            tell: true,
        }
    }

    /// Whether enough segments died to tell short lives from long ones.
    #[must_use]
    pub(in crate::log) fn have_bound(&self) -> bool {
        self.bound.is_some()
    }

    pub(in crate::log) fn note(&mut self, lived: u64) {
        self.sum = self.sum.saturating_add(lived);
        self.count += 1;
        if self.count == SEGMENTS_PER_BOUND {
            self.bound = Some(self.sum / self.count);
            (self.sum, self.count) = (0, 0);
        }
    }

    pub(in crate::log) fn of(&self, lived: u64) -> Lifetime {
        match self.bound {
            Some(bound) if lived >= bound => Lifetime::Long,
            _ => Lifetime::Short,
        }
    }

    /// Notes a write, if the block is watched; whether that changed what lives tell.
    pub(in crate::log) fn watch(&mut self, lba: Lba, now: u64) -> bool {
        // Spread, so that no stride of requests is watched more than others.
        let spread = lba.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
        if !spread.is_multiple_of(self.one_in) {
            return false;
        }
        let before = self.watched.insert(lba, Watched { written: now, lived: None });
        let Some(Watched { written, lived }) = before else { return false };
        let lives = now - written;
        self.watched.insert(lba, Watched { written: now, lived: Some(lives) });
        let (Some(lived), Some(_)) = (lived, self.bound) else { return false };
        let (before, next) = (self.of(lived), self.of(lives));
        self.lives[before as usize][next as usize] += 1;
        self.judge()
    }

    /// Judges whether lives tell, when there are enough; whether that changed.
    fn judge(&mut self) -> bool {
        let [short, long] = self.lives;
        let (of_short, of_long) = (short[0] + short[1], long[0] + long[1]);
        if of_short + of_long < self.enough {
            return false;
        }
        // What was long ago counts less and less.
        self.lives = self.lives.map(|row| row.map(|count| count / 2));
        let more_often = MORE_OFTEN[usize::from(self.tell)];
        // short[0] / of_short against long[0] / of_long, without dividing.
        let tell = short[0] * of_long * 100 >= long[0] * of_short * more_often;
        let tell = tell && of_short > 0 && of_long > 0;
        std::mem::replace(&mut self.tell, tell) != tell
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_runtime::Random;

    use super::*;

    fn bounded(volume: u64, bound: u64) -> Lifespans {
        let mut lifespans = Lifespans::new(volume);
        (0..SEGMENTS_PER_BOUND).for_each(|_| lifespans.note(bound));
        lifespans
    }

    #[test]
    fn the_bound_is_the_mean_of_the_last_lives() {
        let mut lifespans = Lifespans::new(1000);
        assert_eq!(lifespans.of(u64::MAX), Lifetime::Short);
        (1..=SEGMENTS_PER_BOUND).for_each(|lived| lifespans.note(lived * 10));
        assert_eq!((lifespans.of(84), lifespans.of(85)), (Lifetime::Short, Lifetime::Long));
        (0..SEGMENTS_PER_BOUND).for_each(|_| lifespans.note(1000));
        assert_eq!((lifespans.of(999), lifespans.of(1000)), (Lifetime::Short, Lifetime::Long));
    }

    #[test]
    fn lives_tell_nothing_where_all_blocks_are_written_alike_and_much_where_some_are_hot() {
        const VOLUME: u64 = 50_000;
        let mut lifespans = bounded(VOLUME, VOLUME / 3);
        let mut random = Random::new(5);
        let mut now = 0;
        let mut write = |lifespans: &mut Lifespans, hot: u64| {
            now += 1;
            let range = if random.below(100) < hot { VOLUME / 10 } else { VOLUME };
            lifespans.watch(Lba(random.below(range)), now);
        };
        (0..10 * VOLUME).for_each(|_| write(&mut lifespans, 0));
        assert!(!lifespans.tell);
        (0..10 * VOLUME).for_each(|_| write(&mut lifespans, 80));
        assert!(lifespans.tell);
        (0..20 * VOLUME).for_each(|_| write(&mut lifespans, 0));
        assert!(!lifespans.tell);
        assert!(lifespans.watched.len() < 2 * usize::try_from(WATCHED).unwrap());
    }
}
