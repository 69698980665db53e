//! Write pacing: writing no faster than drives drain their buffers.
//!
//! A drive acknowledges a write when its buffer holds it. If more is written than its flash takes,
//! the buffer fills, and some writes wait for long while others do not. A drive accepts no less if
//! it is not rushed. Writes are therefore *held back* to about the drain rate, and wait in the
//! volume's queue, where the delay is the same for all.
//!
//! The drain rate shows while writes are *late*, that is, while buffers are full: everything
//! written then is drained. From there the rate rises slowly while no writes are late, and falls
//! faster while some are. Buffers never run empty that way, so flash never idles, and they absorb
//! variations, such as when the next zones are on other dies. If the rate falls far below the
//! measured one, full buffers were not the cause. Then nothing is held back for a while, each time
//! for longer.
//!
//! A write is late if it takes more than twice the usual time for its size, multiplied by one plus
//! the number of other writes in flight on its drive.
//!
//! Invariants: a stream with nothing in flight is never held back, and the completion of a stripe
//! in flight wakes a held stream: there is no timer. A rate that does not bind, because less is
//! written, is dropped. All arithmetic is in integers and synchronous.

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use crate::scheme::Column;

/// Writes that complete within such a time are assessed together: many programs of each drive.
const WINDOW: Nanos = Nanos(10_000_000);

/// A longer window was stalled, or had hardly any writes, and shows nothing about buffers.
const TELLING: Nanos = Nanos(4 * WINDOW.0);

/// Number of size classes of writes, each of [`SIZE_BLOCKS`]: up to 256 KiB.
const SIZES: usize = 17;
const SIZE_BLOCKS: u32 = 4;

/// Least delay, in ns, by which a write is late: the time of a flash read.
const LEAST_NS: u64 = 20_000;

/// Rates and shares are in millionths.
const WHOLE: u64 = 1_000_000;

/// Share of the time of writes by which they are late if buffers are full, in millionths.
const LATE: u64 = 10_000;

/// Windows over which the drain of full buffers is measured.
const MEASURED_WINDOWS: u32 = 4;

/// Decrease of the rate in a window with late writes, and the lowest part of the measured rate.
const FALL: u64 = 25_000;
const LEAST: u64 = 850_000;

/// Increase of the rate in other windows: small, so that fewer than one write in fifty is late.
/// After so many windows in a row it doubles, and again after each few more, as the drives have
/// become faster.
const RISE: u64 = 450;
const RISE_WINDOWS: u32 = 150;
const RISE_DOUBLES: u32 = 50;
const RISE_MOST: u64 = 100_000;

/// Unused rate is saved up for this time: it is spent at once, and buffers are nearly full.
const SAVED: Nanos = Nanos(100_000);

/// Time during which nothing is held back after it did not help, at first and at most. It helped if
/// so many windows in a row had no late writes.
const PATIENCE: Nanos = Nanos(1_000_000_000);
const PATIENCE_MOST: Nanos = Nanos(64_000_000_000);
const HELPED_WINDOWS: u32 = 50;

/// The write rate that drives sustain, learnt from their latencies.
#[derive(Debug)]
pub(in crate::log) struct Drain {
    /// Usual latency of a write by size, without others in its way, in ns.
    usual: [u64; SIZES],
    /// Writes in flight, by column.
    writes: Vec<u32>,
    window: Window,
    phase: Phase,
    patience: Nanos,
}

/// Writes that completed within one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begun: Nanos,
    /// Their total latency, and the part of it that was late, in ns.
    took: u64,
    late: u64,
    /// Blocks of stripes that began in this window.
    blocks: u64,
    /// Whether a stream was held back.
    bound: bool,
}

impl Window {
    fn is_late(&self) -> bool {
        self.late.saturating_mul(WHOLE) / LATE > self.took
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing is held back, and will not be before this time.
    Free(Nanos),
    /// Buffers may be full: the drain rate is measured.
    Measuring { begun: Nanos, blocks: u64, windows: u32 },
    /// Writes are held back.
    Held(Held),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Permitted rate, in thousandths of a block per second.
    rate: u64,
    /// Time at which the blocks issued so far are paid for; in the past if rate is saved up.
    paid: Nanos,
    /// Measured drain of full buffers, in the same unit.
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
        assert!(self.rate > 0, "{blocks} blocks at a rate of zero");
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

    /// Lowers the rate; returns whether it is still plausible.
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
    /// Whether a stream with something in flight has to wait.
    pub(in crate::log) fn holds(&mut self, now: Nanos) -> bool {
        let Phase::Held(held) = &self.phase else { return false };
        // No write gives evidence about buffers any more, as when all have to be durable at once.
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
            // A stream with nothing in flight pays later, but its debt is bounded.
            held.paid = held.paid.max(saved) + held.price(blocks).min(WINDOW);
            held.paid = held.paid.min(now + WINDOW);
        }
    }

    /// Records the start of a write; returns the number in flight on its drive.
    pub(super) fn begin_write(&mut self, column: Column) -> u32 {
        let writes = column.index() + 1;
        self.writes.resize(self.writes.len().max(writes), 0);
        self.writes[column.index()] += 1;
        self.writes[column.index()]
    }

    /// Records its completion, beside at most so many others.
    pub(super) fn end_write(&mut self, column: Column, beside: u32) -> u32 {
        let writes = &mut self.writes[column.index()];
        assert!(*writes > 0, "no write is in flight on {column}");
        *writes -= 1;
        beside.max(*writes + 1)
    }

    /// Records the latency of a write, with so many in flight on the same drive.
    pub(super) fn note(&mut self, blocks: BlockCount, took: Nanos, among: u32, now: Nanos) {
        assert!(among > 0, "a write of {blocks} completes that was not in flight");
        let size = (blocks.0 / SIZE_BLOCKS) as usize;
        let usual = &mut self.usual[size.min(SIZES - 1)];
        // The low end of the observations, with decay.
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

    /// The phase that follows a window.
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

/// Rate in thousandths of a block per second.
fn rate_of(blocks: u64, time: Nanos) -> u64 {
    let rate = u128::from(blocks) * 1_000_000_000_000 / u128::from(time.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a write, and its latency if the buffer has room.
    const BLOCKS: u32 = 6;
    const ALONE: Nanos = Nanos(20_000);

    /// A drive that is written one stripe at a time, as fast as possible.
    struct Drive {
        drain: Drain,
        now: Nanos,
        /// Blocks in its buffer, its capacity, and the blocks drained every 3 ms.
        held: u64,
        most: u64,
        program: u64,
        programmed: u64,
        written: u64,
        late: u64,
    }

    impl Drive {
        /// Drains 200 blocks in a millisecond, and accepts 300.
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

        /// Writes with an extra latency.
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
        // Late windows, a long stall during the measurement, and then the initial state again.
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
        // Writes go on but have to be durable at once, so their latency shows nothing about
        // buffers.
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
