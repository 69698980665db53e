//! Writing no faster than drives empty their buffers.
//!
//! A drive answers a write when its buffer holds it. Where more is written than its flash takes the
//! buffer fills, and then some writes wait for long and others do not. Drives take no less if
//! nobody hurries them: so writes are *held back* to about what buffers drain, and wait in the
//! volume's queue, where all wait alike.
//!
//! How much that is shows while writes are *late*, when buffers are full: all that is written then
//! is drained. From there on the rate rises slowly while no writes are late, and falls faster while
//! some are. Buffers never run empty by that, so flash never idles, and they even out what drives
//! drain now and then, as when the next zones are on other dies. If the rate falls far below what
//! was measured it was not for buffers that writes were late: then nothing is held back for a
//! while, each time for longer.
//!
//! A write is late that takes more than twice what those of its size take when nothing is in their
//! way, or as many more times that as there are others under way on its drive.
//!
//! Invariants: a stream that has nothing under way is never held back, and what is under way wakes
//! it: there is no timer. A rate that does not bind, as less is asked for, is dropped. All of it is
//! integers, and decided at once.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use crate::scheme::Column;

/// Writes are looked at together that came back in such a time: many programs of each drive.
const WINDOW: Nanos = Nanos(10_000_000);

/// What took longer to come back was stalled, or hardly asked for, and says nothing of buffers.
const TELLING: Nanos = Nanos(4 * WINDOW.0);

/// Sizes of writes that are told apart, each of [`SIZE_BLOCKS`]: up to 256 KiB.
const SIZES: usize = 17;
const SIZE_BLOCKS: u32 = 4;

/// No write is late that took less longer than usual: as many ns as a read of flash takes.
const LEAST_NS: u64 = 20_000;

/// Rates and shares are in millionths.
const WHOLE: u64 = 1_000_000;

/// The part of the time that writes take by which they are late if buffers are full.
const LATE: u64 = 10_000;

/// Windows in which it is measured what full buffers drain.
const MEASURED_WINDOWS: u32 = 4;

/// By how much the rate falls in a window in which writes are late, and down to which part of what
/// was measured.
const FALL: u64 = 25_000;
const LEAST: u64 = 850_000;

/// By how much it rises in the others: so slowly that writes are late in fewer than one of fifty.
/// After so many of them in a row it rises twice as fast, and again after each few more: drives
/// drain more than they did.
const RISE: u64 = 450;
const RISE_WINDOWS: u32 = 150;
const RISE_DOUBLES: u32 = 50;
const RISE_MOST: u64 = 100_000;

/// What was not used is saved up for so long: it is written at once, and buffers are nearly full.
const SAVED: Nanos = Nanos(100_000);

/// For how long nothing is held back where it did not help, at first and in the end; it did if so
/// many windows in a row had no late writes.
const PATIENCE: Nanos = Nanos(1_000_000_000);
const PATIENCE_MOST: Nanos = Nanos(64_000_000_000);
const HELPED_WINDOWS: u32 = 50;

/// How fast writes may be, as drives showed.
#[derive(Debug)]
pub(in crate::log) struct Drain {
    /// What writes take, by size, with nothing in their way; in ns.
    usual: [u64; SIZES],
    /// Writes under way, by column.
    writes: Vec<u32>,
    window: Window,
    phase: Phase,
    patience: Nanos,
}

/// Writes that came back together.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begun: Nanos,
    /// What they took, and by how much of it they were late; in ns.
    took: u64,
    late: u64,
    /// Blocks of stripes that began meanwhile.
    blocks: u64,
    /// Whether anything was held back.
    bound: bool,
}

impl Window {
    fn is_late(&self) -> bool {
        self.late.saturating_mul(WHOLE) / LATE > self.took
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing is held back, and will not be before.
    Free(Nanos),
    /// Buffers may be full: what do they drain?
    Measuring { begun: Nanos, blocks: u64, windows: u32 },
    /// Writes are held back.
    Held(Held),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// What may be written, in thousandths of a block a second.
    rate: u64,
    /// When what began is paid for: before now if something is saved up.
    paid: Nanos,
    /// What drives drained when their buffers were full, in the same unit.
    measured: u64,
    /// Windows in a row in which no writes were late.
    quiet: u32,
}

impl Held {
    fn new(rate: u64, now: Nanos) -> Self {
        let rate = rate.max(1);
        Self { rate, paid: now, measured: rate, quiet: 0 }
    }

    fn price(&self, blocks: u64) -> Nanos {
        let ns = u128::from(blocks) * 1_000_000_000_000 / u128::from(self.rate);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn rise(&mut self) {
        self.quiet = self.quiet.saturating_add(1);
        let longer = self.quiet.checked_sub(RISE_WINDOWS);
        let doubled = longer.map_or(0, |longer| 1 + longer / RISE_DOUBLES);
        let rise = (RISE << doubled.min(16)).min(RISE_MOST);
        self.rate = self.rate.saturating_add(part_of(self.rate, rise).max(1));
    }

    /// Whether the rate is not too low by that.
    fn fall(&mut self) -> bool {
        self.quiet = 0;
        self.rate = (self.rate - part_of(self.rate, FALL)).max(1);
        self.rate >= part_of(self.measured, LEAST)
    }
}

impl Default for Drain {
    fn default() -> Self {
        let phase = Phase::Free(Nanos::ZERO);
        Self {
            usual: [0; SIZES],
            writes: Vec::new(),
            window: Window::default(),
            phase,
            patience: PATIENCE,
        }
    }
}

impl Drain {
    /// Whether a stream waits that has something under way.
    pub(in crate::log) fn holds(&mut self, now: Nanos) -> bool {
        let Phase::Held(held) = &self.phase else { return false };
        // No write tells of buffers any more, as where all are to be durable at once.
        if now.since(self.window.begun) > TELLING {
            self.phase = Phase::Free(now);
            return false;
        }
        let holds = held.paid > now;
        self.window.bound |= holds;
        holds
    }

    /// A stripe of so many data blocks begins.
    pub(in crate::log) fn begin(&mut self, blocks: u64, now: Nanos) {
        self.window.blocks += blocks;
        if let Phase::Held(held) = &mut self.phase {
            let saved = Nanos(now.0.saturating_sub(SAVED.0));
            // Whoever has nothing under way pays later, but not for ever.
            held.paid = held.paid.max(saved) + held.price(blocks).min(WINDOW);
            held.paid = held.paid.min(now + WINDOW);
        }
    }

    /// A write to a drive begins; how many are under way there.
    pub(in crate::log) fn begin_write(&mut self, column: Column) -> u32 {
        let writes = column.index() + 1;
        self.writes.resize(self.writes.len().max(writes), 0);
        self.writes[column.index()] += 1;
        self.writes[column.index()]
    }

    /// It came back, beside so many others at most.
    pub(in crate::log) fn end_write(&mut self, column: Column, beside: u32) -> u32 {
        let writes = &mut self.writes[column.index()];
        *writes -= 1;
        beside.max(*writes + 1)
    }

    /// A write took so long, with so many on the same drive under way.
    pub(in crate::log) fn note(&mut self, blocks: BlockCount, took: Nanos, among: u32, now: Nanos) {
        let size = (blocks.0 / SIZE_BLOCKS) as usize;
        let usual = &mut self.usual[size.min(SIZES - 1)];
        // The low end of what is seen, that forgets.
        *usual = match *usual {
            0 => took.0,
            usual if took.0 < usual => usual - (usual - took.0) / 4,
            usual => usual + (took.0 - usual).min(usual) / 64,
        };
        let late = took.0.saturating_sub(*usual * u64::from(among));
        self.window.took += took.0;
        if late > (*usual).max(LEAST_NS) {
            self.window.late += late;
        }
        if now.since(self.window.begun) >= WINDOW {
            let ended =
                std::mem::replace(&mut self.window, Window { begun: now, ..Window::default() });
            self.phase = self.after(ended, now);
        }
    }

    /// What follows from a window.
    fn after(&mut self, ended: Window, now: Nanos) -> Phase {
        match self.phase {
            Phase::Measuring { .. } | Phase::Held(_) if now.since(ended.begun) > TELLING => {
                Phase::Free(now)
            }
            Phase::Free(until) if now >= until && ended.is_late() => {
                Phase::Measuring { begun: now, blocks: 0, windows: 0 }
            }
            Phase::Free(until) => Phase::Free(until),
            Phase::Measuring { .. } if !ended.is_late() => Phase::Free(now),
            Phase::Measuring { begun, blocks, windows } => {
                let (blocks, windows) = (blocks + ended.blocks, windows + 1);
                match windows < MEASURED_WINDOWS {
                    true => Phase::Measuring { begun, blocks, windows },
                    false => Phase::Held(Held::new(rate_of(blocks, now.since(begun)), now)),
                }
            }
            Phase::Held(mut held) if ended.is_late() => match held.fall() {
                true => Phase::Held(held),
                false => self.give_up(now),
            },
            Phase::Held(_) if !ended.bound => Phase::Free(now),
            Phase::Held(mut held) => {
                held.rise();
                if held.quiet >= HELPED_WINDOWS {
                    self.patience = PATIENCE;
                }
                Phase::Held(held)
            }
        }
    }

    fn give_up(&mut self, now: Nanos) -> Phase {
        let until = now + self.patience;
        self.patience = Nanos(self.patience.0 * 2).min(PATIENCE_MOST);
        Phase::Free(until)
    }
}

fn part_of(value: u64, millionths: u64) -> u64 {
    let part = u128::from(value) * u128::from(millionths) / u128::from(WHOLE);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// In thousandths of a block a second.
fn rate_of(blocks: u64, time: Nanos) -> u64 {
    let rate = u128::from(blocks) * 1_000_000_000_000 / u128::from(time.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a write, and what it takes if there is room.
    const BLOCKS: u32 = 6;
    const ALONE: Nanos = Nanos(20_000);

    /// A drive that is written one stripe at a time as fast as may be.
    struct Drive {
        drain: Drain,
        now: Nanos,
        /// Blocks in its buffer, the most of them, and what leaves it every 3 ms.
        held: u64,
        most: u64,
        program: u64,
        programmed: u64,
        written: u64,
        late: u64,
    }

    impl Drive {
        /// Drains 200 blocks in a millisecond, where 300 may be written.
        fn slow() -> Self {
            let (drain, now) = (Drain::default(), Nanos::ZERO);
            Self {
                drain,
                now,
                held: 0,
                most: 10_000,
                program: 600,
                programmed: 0,
                written: 0,
                late: 0,
            }
        }

        fn advance(&mut self, time: Nanos) {
            self.now += time;
            while (self.programmed + 1) * 3_000_000 <= self.now.0 {
                self.programmed += 1;
                self.held = self.held.saturating_sub(self.program);
            }
        }

        /// Writes, and finds that it takes so much longer by itself.
        fn write(&mut self, longer: Nanos) {
            self.drain.begin(BLOCKS.into(), self.now);
            let begun = self.now;
            self.advance(ALONE + longer);
            while self.held + u64::from(BLOCKS) > self.most {
                self.advance(Nanos(50_000));
            }
            self.held += u64::from(BLOCKS);
            self.written += u64::from(BLOCKS);
            let took = self.now.since(begun);
            self.late += u64::from(took.0 > 2 * ALONE.0);
            self.drain.note(BlockCount(BLOCKS), took, 1, self.now);
        }

        fn run(&mut self, time: Nanos, stall: impl Fn(u64) -> Nanos) {
            let end = self.now + time;
            (self.written, self.late) = (0, 0);
            while self.now < end {
                if self.drain.holds(self.now) {
                    self.advance(Nanos(5_000));
                } else {
                    self.write(stall(self.written / u64::from(BLOCKS)));
                }
            }
        }
    }

    const NEVER: fn(u64) -> Nanos = |_| Nanos::ZERO;

    fn seconds(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn hardly_a_write_is_late_and_all_that_is_drained_is_written() {
        let mut hurried = Drive::slow();
        hurried.drain.phase = Phase::Free(seconds(100));
        hurried.run(seconds(10), NEVER);
        let mut drive = Drive::slow();
        drive.run(seconds(5), NEVER);
        drive.run(seconds(5), NEVER);
        assert!(matches!(drive.drain.phase, Phase::Held(_)), "{:?}", drive.drain);
        assert!(drive.written > 5 * 200_000 * 97 / 100, "{} blocks in 5 s", drive.written);
        assert!(drive.late * 2 < hurried.late / 5, "{} of {}", drive.late, hurried.late);
    }

    #[test]
    fn where_it_does_not_help_nothing_is_held_back_for_longer_and_longer() {
        let often = |write| Nanos(if write % 50 == 0 { 500_000 } else { 0 });
        let mut drive = Drive::slow();
        drive.program = 3_000;
        drive.run(seconds(30), often);
        assert!(drive.drain.patience > seconds(7), "{:?}", drive.drain);
        let mut hurried = Drive::slow();
        (hurried.program, hurried.drain.phase) = (3_000, Phase::Free(seconds(100)));
        hurried.run(seconds(30), often);
        let written = (drive.written, hurried.written);
        assert!(written.0 > written.1 * 97 / 100, "{written:?}");
    }

    #[test]
    fn nothing_is_held_back_where_less_is_asked_for() {
        let mut drive = Drive::slow();
        drive.run(seconds(2), NEVER);
        assert!(matches!(drive.drain.phase, Phase::Held(_)));
        for _ in 0..1000 {
            drive.advance(Nanos(100_000));
            assert!(!drive.drain.holds(drive.now));
            drive.write(Nanos::ZERO);
        }
        assert!(matches!(drive.drain.phase, Phase::Free(_)));
    }

    #[test]
    fn a_drive_that_stalls_for_long_makes_nobody_slow_afterwards() {
        let mut drive = Drive::slow();
        drive.program = 3_000;
        drive.run(seconds(1), NEVER);
        // Late windows, a long stall while it is measured, and then all is as before.
        for longer in [0, 12_000_000, 12_000_000, 5_000_000_000, 0] {
            drive.write(Nanos(longer));
        }
        drive.run(seconds(1), NEVER);
        assert!(drive.written > 295_000, "{} blocks in a second", drive.written);
    }

    #[test]
    fn what_was_learnt_is_forgotten_where_no_write_tells_of_buffers_any_more() {
        let mut drive = Drive::slow();
        drive.run(seconds(2), NEVER);
        assert!(matches!(drive.drain.phase, Phase::Held(_)));
        // Writes go on, but are to be durable at once: what they take says nothing.
        for _ in 0..100 {
            drive.drain.begin(BLOCKS.into(), drive.now);
            drive.advance(Nanos(500_000));
        }
        assert!(!drive.drain.holds(drive.now));
        assert!(matches!(drive.drain.phase, Phase::Free(_)));
    }

    #[test]
    fn debts_end() {
        let mut drain = Drain { phase: Phase::Held(Held::new(1, Nanos(5))), ..Drain::default() };
        for _ in 0..100 {
            drain.begin(6, Nanos(5));
        }
        assert!(drain.holds(Nanos(5)) && !drain.holds(Nanos(5) + WINDOW));
    }

    #[test]
    fn what_drives_drain_more_is_written_soon() {
        let mut drive = Drive::slow();
        drive.run(seconds(3), NEVER);
        drive.program = 800;
        drive.run(seconds(5), NEVER);
        drive.run(seconds(1), NEVER);
        assert!(drive.written > 266_000 * 95 / 100, "{} blocks in a second", drive.written);
    }

    #[test]
    fn beside_others_a_write_takes_longer() {
        let mut drain = Drain::default();
        let column = Column::of(2);
        assert_eq!((drain.begin_write(column), drain.begin_write(column)), (1, 2));
        assert_eq!((drain.end_write(column, 1), drain.end_write(column, 2)), (2, 2));
        for _ in 0..10 {
            drain.note(BlockCount(1), Nanos(20_000), 1, Nanos(1));
        }
        drain.note(BlockCount(1), Nanos(100_000), 4, Nanos(1));
        assert_eq!(drain.window.late, 0);
        drain.note(BlockCount(1), Nanos(100_000), 1, Nanos(1));
        assert!(drain.window.late > 0);
    }
}
