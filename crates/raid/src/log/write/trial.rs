//! An A/B test of two ways of doing something.
//!
//! The ways take turns, each for the same amount of work, in an order that cancels out steady
//! drift. The new way is faster if three of its four turns are shorter than three of the usual
//! way's: one turn may be longer by accident, and turns with large variation prove nothing. The
//! faster way is used for a while, and then both are tested again. The interval grows while the
//! usual way wins, so that a useless new way costs almost nothing.
//!
//! Time counts while work is in flight. Turns with few *chances* for the new way prove nothing, and
//! the trial is restarted. All arithmetic is in integers and synchronous: there is no timer.

use zoneweave_runtime::Nanos;

/// Whether each turn of a trial uses the new way.
const TURNS: [bool; 8] = [false, true, true, false, false, true, true, false];

/// By how many percent the new way has to be faster.
const GAIN_PERCENT: u64 = 2;

/// A turn counts if at least one in so many pieces of work is a chance.
const CHANCE: u32 = 4;

/// Turns for which the faster way is used: at first, and at most if it is the usual one.
const HELD_TURNS: u32 = 128;
const HELD_TURNS_MOST: u32 = 2048;

/// Two ways, and the one in use.
#[derive(Debug)]
pub(in crate::log) struct Trial {
    phase: Phase,
    /// The current turn.
    turn: Turn,
    /// Pieces of work in flight, and the time up to which theirs is counted.
    under_way: u32,
    last: Nanos,
    /// Turns for which the usual way is used if it is faster.
    held_turns: u32,
}

/// Work of a turn, and its duration.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    blocks: u64,
    took: Nanos,
    pieces: u32,
    chances: u32,
}

#[derive(Debug)]
enum Phase {
    /// So many turns are over, which took so long.
    Tried { turns: usize, took: [u64; TURNS.len()] },
    /// One was the faster, and is gone for so many turns.
    Held { new: bool, turns: u32 },
}

impl Phase {
    const BEGUN: Self = Self::Tried { turns: 0, took: [0; TURNS.len()] };
}

impl Default for Trial {
    fn default() -> Self {
        let (phase, held_turns) = (Phase::BEGUN, HELD_TURNS);
        Self { phase, turn: Turn::default(), under_way: 0, last: Nanos::ZERO, held_turns }
    }
}

impl Trial {
    /// Whether to use the new way.
    pub(in crate::log) fn is_new(&self) -> bool {
        match self.phase {
            Phase::Tried { turns, .. } => TURNS[turns],
            Phase::Held { new, .. } => new,
        }
    }

    /// A piece of work begins.
    pub(in crate::log) fn begin(&mut self, now: Nanos) {
        if self.under_way == 0 {
            self.last = now;
        }
        self.under_way += 1;
    }

    /// Records the end of a piece of work of so many blocks; `chance` if the ways differ after it.
    pub(in crate::log) fn end(&mut self, blocks: u64, chance: bool, turn_blocks: u64, now: Nanos) {
        self.under_way -= 1;
        let turn = &mut self.turn;
        turn.took += now.since(self.last);
        self.last = now;
        turn.blocks += blocks;
        turn.pieces += 1;
        turn.chances += u32::from(chance);
        if turn.blocks >= turn_blocks {
            let ended = *turn;
            *turn = Turn { blocks: ended.blocks - turn_blocks, ..Turn::default() };
            self.phase = self.after(ended);
        }
    }

    /// The phase that follows a turn.
    fn after(&mut self, ended: Turn) -> Phase {
        let says_nothing = ended.chances < ended.pieces / CHANCE;
        match self.phase {
            Phase::Held { turns: ..=1, .. } => Phase::BEGUN,
            Phase::Held { new, turns } => Phase::Held { new, turns: turns - 1 },
            Phase::Tried { .. } if says_nothing => Phase::BEGUN,
            Phase::Tried { turns, mut took } => {
                took[turns] = ended.took.0;
                match turns + 1 < TURNS.len() {
                    true => Phase::Tried { turns: turns + 1, took },
                    false => self.decided(&took),
                }
            }
        }
    }

    fn decided(&mut self, took: &[u64]) -> Phase {
        let of_way = |new| {
            let turns = took.iter().zip(TURNS).filter(|(_, way)| *way == new);
            let mut turns: Vec<_> = turns.map(|(took, _)| *took).collect();
            turns.sort_unstable();
            turns
        };
        // The longest turn of one way and the shortest of the other are ignored.
        let (new, usual) = (of_way(true)[2], of_way(false)[1]);
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
    use zoneweave_runtime::Random;

    use super::*;

    const TURN_BLOCKS: u64 = 2048;

    /// Work that takes so long by the new way and by the usual one, give or take some percent.
    struct Load {
        trial: Trial,
        now: Nanos,
        new: u64,
        usual: u64,
        noise: u64,
        random: Random,
    }

    impl Load {
        fn new(new: u64, usual: u64) -> Self {
            let (trial, now) = (Trial::default(), Nanos(5_000_000_000));
            Self { trial, now, new, usual, noise: 0, random: Random::new(3) }
        }

        /// The part of so many pieces for which the new way was gone, in thousandths.
        fn new_in(&mut self, pieces: u64) -> u64 {
            let mut new = 0;
            for _ in 0..pieces {
                let is_new = self.trial.is_new();
                new += u64::from(is_new);
                let took = if is_new { self.new } else { self.usual };
                let noise = took * self.noise / 100;
                self.trial.begin(self.now);
                self.now += Nanos(took - noise + self.random.below(2 * noise + 1));
                self.trial.end(8, true, TURN_BLOCKS, self.now);
            }
            new * 1000 / pieces
        }
    }

    /// Pieces of as many turns.
    fn turns(turns: u32) -> u64 {
        u64::from(turns) * TURN_BLOCKS / 8
    }

    #[test]
    fn the_faster_way_is_gone_and_the_other_hardly_ever_tried() {
        for scale in [1, 100, 10_000] {
            let new = Load::new(9_500 * scale, 10_000 * scale).new_in(200_000);
            assert!(new > 960, "{new} of 1,000 by the faster way");
            let new = Load::new(10_500 * scale, 10_000 * scale).new_in(800_000);
            assert!(new < 10, "{new} of 1,000 by the slower way");
            let new = Load::new(9_900 * scale, 10_000 * scale).new_in(800_000);
            assert!(new < 10, "{new} of 1,000 by one that is hardly faster");
        }
    }

    #[test]
    fn noise_and_stalls_do_not_mislead() {
        let mut load = Load { noise: 40, ..Load::new(9_500, 10_000) };
        let new = load.new_in(4_000_000);
        assert!(new > 900, "{new} of 1,000 by the faster way");
        load = Load { noise: 40, ..Load::new(10_500, 10_000) };
        let new = load.new_in(4_000_000);
        assert!(new < 20, "{new} of 1,000 by the slower way");
        // Now and then something takes as long as a turn.
        load = Load::new(9_500, 10_000);
        let mut new = 0;
        for _ in 0..100 {
            new += load.new_in(turns(20) + 7);
            load.trial.begin(load.now);
            load.now += Nanos(10_000 * turns(1));
            load.trial.end(8, true, TURN_BLOCKS, load.now);
        }
        assert!(new > 850 * 100, "{} of 1,000", new / 100);
    }

    #[test]
    fn what_has_become_faster_is_found_out() {
        let mut load = Load::new(11_000, 10_000);
        load.new_in(turns(1000));
        load.new = 9_000;
        load.new_in(turns(HELD_TURNS_MOST));
        let new = load.new_in(100_000);
        assert!(new > 960, "{new} of 1,000 by what is faster now");
        load.new = 11_000;
        load.new_in(turns(HELD_TURNS));
        assert!(load.new_in(100_000) < 40);
    }

    #[test]
    fn pauses_count_for_neither() {
        let mut load = Load::new(9_500, 10_000);
        let mut new = 0;
        for pause in 0..2000 {
            new += load.new_in(100);
            load.now += Nanos(10_000_000 * (pause % 3));
        }
        assert!(new > 950 * 2000, "{} of 1,000", new / 2000);
    }

    #[test]
    fn turns_without_chances_decide_nothing() {
        let mut trial = Trial::default();
        for at in 0..turns(100) {
            trial.begin(Nanos(at * 100));
            trial.end(8, at % 10 == 0, TURN_BLOCKS, Nanos(at * 100 + 50));
        }
        assert!(matches!(trial.phase, Phase::Tried { .. }), "{trial:?}");
        assert_eq!(trial.held_turns, HELD_TURNS);
    }

    #[test]
    fn work_that_takes_no_time_or_any_is_no_trouble() {
        let new = Load::new(0, 0).new_in(200_000);
        assert!(new < 40, "{new} of 1,000 where nothing is gained");
        Load::new(u64::MAX >> 24, u64::MAX >> 23).new_in(10_000);
    }
}
