//! Lifetimes of blocks: a guess for each write, from the lifetime of the version that it replaces.
//!
//! Short-lived and long-lived blocks go to separate segments, so that a segment dies as a whole or
//! hardly at all (SepBIT, FAST'22, with two classes for users and two for relocation). Time is
//! counted in sequences, one for each request. The time of a block's write is not in memory, but
//! that of its segment's opening is, which is close enough for users' segments. A relocated block
//! has already lived long.
//!
//! If all blocks are written with equal frequency, lifetimes have no predictive value, and one more
//! open segment only costs space. Some blocks are therefore watched: their last lifetime and their
//! next. Unless short-lived blocks are short-lived again more often than others, nothing is
//! separated.
//!
//! Until the first bound is computed, a block is only known to be written before or not. Users'
//! lanes then take each other's blocks, as two separate lanes would be as slow as the one with more
//! load. On drives faster than the engine two queues would mean more stripes, so nothing is
//! separated until then.
//!
//! All of this is a guess: no guarantee depends on it.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::log::engine::class::Lifetime;
use crate::log::format::Sequence;

/// Short-lived segments after which the bound between short and long is computed anew.
const SEGMENTS_PER_BOUND: u64 = 16;

/// Approximate number of watched blocks.
const WATCHED: u64 = 4096;

/// Lifetimes of watched blocks needed for a judgement: the maximum, and the blocks of a small
/// volume for each.
const LIVES_MOST: u64 = 1024;
const BLOCKS_PER_LIFE: u64 = 16;

/// How much more often, in percent, short-lived blocks have to be short-lived again for the
/// separation to start, and to continue.
const MORE_OFTEN: [u64; 2] = [150, 125];

/// Knowledge about the lifetimes of blocks.
#[derive(Debug)]
pub(in crate::log) struct Lifespans {
    /// Lifetimes below it are short; while it is `None`, all are.
    bound: Option<u64>,
    sum: u64,
    count: u64,
    watched: BTreeMap<Lba, Watched>,
    /// One in so many blocks is watched.
    one_in: u64,
    /// Lifetimes needed for a judgement.
    enough: u64,
    /// Lifetimes of watched blocks: by the previous one, short or long, the numbers of short and
    /// long ones.
    lives: [[u64; 2]; 2],
    /// Whether lifetimes predict the next ones.
    pub(in crate::log) tell: bool,
}

/// A block that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// Sequence of its last write.
    written: Sequence,
    /// Its previous lifetime.
    lived: Option<u64>,
}

impl Lifespans {
    /// Starts without knowledge of a volume of so many blocks. Few workloads are uniform, so
    /// lifetimes count as predictive until they prove not to be.
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

    /// Whether enough segments died to distinguish short lifetimes from long ones.
    #[must_use]
    pub(in crate::log) fn have_bound(&self) -> bool {
        self.bound.is_some()
    }

    pub(super) fn note(&mut self, lived: u64) {
        self.sum = self.sum.saturating_add(lived);
        self.count += 1;
        if self.count == SEGMENTS_PER_BOUND {
            self.bound = Some(self.sum / self.count);
            (self.sum, self.count) = (0, 0);
        }
    }

    pub(super) fn of(&self, lived: u64) -> Lifetime {
        match self.bound {
            Some(bound) if lived >= bound => Lifetime::Long,
            _ => Lifetime::Short,
        }
    }

    /// Records a write, if the block is watched; returns whether that changed the judgement.
    pub(super) fn watch(&mut self, lba: Lba, now: Sequence) -> bool {
        // Hashed, so that no stride of requests is overrepresented.
        let spread = lba.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
        if !spread.is_multiple_of(self.one_in) {
            return false;
        }
        let before = self.watched.insert(lba, Watched { written: now, lived: None });
        let Some(Watched { written, lived }) = before else { return false };
        assert!(written <= now, "block {lba} was written at {written}, after {now}");
        let lives = now.since(written);
        self.watched.insert(lba, Watched { written: now, lived: Some(lives) });
        let (Some(lived), Some(_)) = (lived, self.bound) else { return false };
        let (before, next) = (self.of(lived), self.of(lives));
        self.lives[before as usize][next as usize] += 1;
        self.judge()
    }

    /// Judges whether lifetimes are predictive, once there are enough; returns whether that
    /// changed.
    fn judge(&mut self) -> bool {
        let [short, long] = self.lives;
        let (of_short, of_long) = (short[0] + short[1], long[0] + long[1]);
        if of_short + of_long < self.enough {
            return false;
        }
        // Older lifetimes count less and less.
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
        let mut now = Sequence::NONE;
        let mut write = |lifespans: &mut Lifespans, hot: u64| {
            now = now.next();
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
