//! Which of two ways of doing something is faster, found out by going both.
//!
//! The ways take turns, each for as much work: the new one, the usual one, the usual one, the new one. The shorter of two
//! turns counts, since what comes between makes them longer only. Then the faster one is gone for a while, and both are tried
//! again: later and later as long as that is the usual one, so that hardly anything is lost where the new one is no good.
//!
//! What takes far longer than usual is a pause, and no part of what work takes. Whoever is misled nevertheless, as by work
//! that comes now and then, is so until the next trial. All of it is integers, and decided at once: there is no timer.

use zoneweave_runtime::Nanos;

/// Work of one turn, in blocks.
const TURN_BLOCKS: u64 = 2048;

/// The ways of a trial: whether each turn is of the new one.
const TURNS: [bool; 4] = [true, false, false, true];

/// By how many percent the new way has to be faster.
const GAIN_PERCENT: u64 = 2;

/// Turns for which the faster way is gone: at first, and in the end if it is the usual one.
const HELD_TURNS: u32 = 128;
const HELD_TURNS_MOST: u32 = 1024;

/// A pause is so many times as long as what is usual.
const PAUSE: u64 = 64;

/// The share of the last one in what is usual.
const SHARE: u64 = 64;

/// Two ways, and which of them is gone.
#[derive(Debug)]
pub(super) struct Trial {
    phase: Phase,
    /// Of the turn under way: what was done, and how long that took.
    blocks: u64,
    took: Nanos,
    /// When something was done last, and the time that is usual between two.
    last: Nanos,
    usual: u64,
    /// For how many turns the usual way is gone if it is the faster one.
    held_turns: u32,
}

#[derive(Debug)]
enum Phase {
    /// This turn is under way, and the shortest of the new and of the usual way took so long.
    Tried { turn: usize, new: u64, usual: u64 },
    /// One was the faster, and is gone for so many turns.
    Held { new: bool, turns: u32 },
}

impl Phase {
    const BEGUN: Self = Self::Tried { turn: 0, new: u64::MAX, usual: u64::MAX };
}

impl Default for Trial {
    fn default() -> Self {
        let (phase, held_turns) = (Phase::BEGUN, HELD_TURNS);
        Self { phase, blocks: 0, took: Nanos::ZERO, last: Nanos::ZERO, usual: 0, held_turns }
    }
}

impl Trial {
    /// Whether the new way is to be gone.
    pub(super) fn is_new(&self) -> bool {
        match self.phase {
            Phase::Tried { turn, .. } => TURNS[turn],
            Phase::Held { new, .. } => new,
        }
    }

    /// So many blocks are done.
    pub(super) fn note(&mut self, blocks: u64, now: Nanos) {
        let time = now.since(self.last).0;
        self.last = now;
        if time <= self.usual.max(1000).saturating_mul(PAUSE) {
            self.took += Nanos(time);
        }
        self.usual = (self.usual * (SHARE - 1) + time.min(2 * self.usual + 1000)) / SHARE;
        self.blocks += blocks;
        if self.blocks >= TURN_BLOCKS {
            self.blocks = 0;
            let took = std::mem::take(&mut self.took).0;
            self.phase = self.after(took);
        }
    }

    /// What follows a turn that took so long.
    fn after(&mut self, took: u64) -> Phase {
        match self.phase {
            Phase::Held { turns: ..=1, .. } => Phase::BEGUN,
            Phase::Held { new, turns } => Phase::Held { new, turns: turns - 1 },
            Phase::Tried { turn, new, usual } => {
                let (new, usual) = match TURNS[turn] {
                    true => (new.min(took), usual),
                    false => (new, usual.min(took)),
                };
                match turn + 1 < TURNS.len() {
                    true => Phase::Tried { turn: turn + 1, new, usual },
                    false => self.decided(new, usual),
                }
            }
        }
    }

    fn decided(&mut self, new: u64, usual: u64) -> Phase {
        if new.saturating_mul(100) < usual.saturating_mul(100 - GAIN_PERCENT) {
            self.held_turns = HELD_TURNS;
            return Phase::Held { new: true, turns: HELD_TURNS };
        }
        let turns = self.held_turns;
        self.held_turns = (2 * turns).min(HELD_TURNS_MOST);
        Phase::Held { new: false, turns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that takes so long by the new way and by the usual one.
    struct Load {
        trial: Trial,
        now: Nanos,
        new: u64,
        usual: u64,
    }

    impl Load {
        fn new(new: u64, usual: u64) -> Self {
            Self { trial: Trial::default(), now: Nanos(5_000_000_000), new, usual }
        }

        /// The part of so many writes for which the new way was gone, in thousandths.
        fn new_in(&mut self, writes: u64) -> u64 {
            let mut new = 0;
            for _ in 0..writes {
                let is_new = self.trial.is_new();
                new += u64::from(is_new);
                self.now += Nanos(if is_new { self.new } else { self.usual });
                self.trial.note(8, self.now);
            }
            new * 1000 / writes
        }
    }

    #[test]
    fn the_faster_way_is_gone_and_the_other_hardly_ever_tried() {
        let new = Load::new(9_500, 10_000).new_in(100_000);
        assert!(new > 960, "{new} of 1,000 by the faster way");
        let new = Load::new(10_500, 10_000).new_in(400_000);
        assert!(new < 10, "{new} of 1,000 by the slower way");
        let new = Load::new(9_900, 10_000).new_in(400_000);
        assert!(new < 10, "{new} of 1,000 by one that is hardly faster");
    }

    #[test]
    fn what_has_become_faster_is_found_out() {
        let mut load = Load::new(11_000, 10_000);
        load.new_in(100_000);
        load.new = 9_000;
        load.new_in(HELD_TURNS_MOST as u64 * TURN_BLOCKS / 8);
        let new = load.new_in(100_000);
        assert!(new > 960, "{new} of 1,000 by what is faster now");
        load.new = 11_000;
        load.new_in(u64::from(HELD_TURNS) * TURN_BLOCKS / 8);
        assert!(load.new_in(100_000) < 40);
    }

    #[test]
    fn pauses_count_for_neither() {
        let mut load = Load::new(9_500, 10_000);
        let mut new = 0;
        for pause in 0..1000 {
            new += load.new_in(100);
            load.now += Nanos(10_000_000 * (pause % 3));
        }
        assert!(new > 960 * 1000, "{} of 1,000", new / 1000);
    }

    #[test]
    fn work_that_takes_no_time_or_any_is_no_trouble() {
        let new = Load::new(0, 0).new_in(100_000);
        assert!(new < 40, "{new} of 1,000 where nothing is gained");
        Load::new(u64::MAX >> 24, u64::MAX >> 23).new_in(10_000);
    }
}
