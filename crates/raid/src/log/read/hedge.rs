//! Hedged reads: a read whose drive is held up is answered by the others.
//!
//! A drive is *held up* if it has owed a read for longer than the others usually take, if it has
//! lately been slower than they are, or if it resets a zone and is slower than they are whenever it
//! does. Reads then go *around* it: they are rebuilt instead. A read that is late all the same is
//! *hedged*: rebuilt, too, and the first answer counts.
//!
//! What is usual is told by running means and deviations, as RFC 6298 has them for the round trips
//! of TCP, one for each drive and size; of the drives' bounds the median counts, so that a slow
//! drive cannot excuse itself. All of it is integers, and decided at once.
//!
//! Invariants: every answer is verified like any other; the segment stays pinned, and the command
//! its buffers, until the slower answer is there too. Both kinds are limited to a share of all
//! reads, and so are the reads left behind. Where the others are held up as well nothing is gained,
//! and nothing is done. Now and then a read goes to a drive that is gone around, to see how it is.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::index::map::BlockPlace;
use crate::scheme::{Column, ColumnSet, MAX_COLUMNS, Scheme};

/// How many reads may go around drives that are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedging {
    /// Of a hundred reads, those that may be rebuilt because their drive is known to be held up.
    pub around_percent: u8,
    /// Of a hundred reads, those that may be rebuilt, too, because their drive is late.
    pub late_percent: u8,
    /// Reads of a size that it takes to say how long they usually take.
    pub samples: u32,
    /// No read is late before.
    pub least: Nanos,
}

impl Hedging {
    /// Every read waits for its drive.
    pub const OFF: Self =
        Self { around_percent: 0, late_percent: 0, samples: SAMPLES, least: Nanos(LEAST_NS) };

    /// As often as can be: for tests.
    pub const EAGER: Self =
        Self { around_percent: 100, late_percent: 100, samples: 1, least: Nanos(0) };
}

impl Default for Hedging {
    /// Late ones as the twentieth that "The Tail at Scale" (Dean and Barroso, 2013) proposes. Going
    /// around a drive costs what it would cost to have lost it, which the array must bear anyway;
    /// half of all reads may be of one drive of a mirror.
    fn default() -> Self {
        Self { around_percent: 50, late_percent: 5, ..Self::OFF }
    }
}

/// Sizes of reads that are told apart: 1, 2, 4, 8, 16 and up to 32 blocks.
const SIZES: usize = 6;

/// Reads of a size after which an estimate counts.
const SAMPLES: u32 = 8;

/// No read is late before, in ns: what a read of flash takes at the least.
const LEAST_NS: u64 = 50_000;

/// A sample counts as so many times the mean at most: one stall says little about the next read.
const OUTLIER: u64 = 8;

/// Of so many reads that would go around a slow drive one goes to it.
const PROBE: u32 = 16;

/// Reads that may be under way after they were answered by others.
const LEFT_BEHIND: u32 = 64;

/// What a read costs, in hundredths of reads.
const PRICE: u64 = 100;

/// The most that is saved up: a burst of 64.
const SAVED: u64 = 64 * PRICE;

/// How long reads of a size take.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    mean_ns: u64,
    deviation_ns: u64,
    samples: u32,
}

impl Estimate {
    fn note(&mut self, latency: Nanos) {
        let ns = match self.samples {
            0 => latency.0,
            _ => latency.0.min(OUTLIER * self.mean_ns.max(LEAST_NS)),
        };
        if self.samples == 0 {
            (self.mean_ns, self.deviation_ns) = (ns, ns / 2);
        }
        let off = self.mean_ns.abs_diff(ns);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + off / 4;
        self.mean_ns = self.mean_ns - self.mean_ns / 8 + ns / 8;
        self.samples = self.samples.saturating_add(1);
    }

    fn mean(&self, hedging: &Hedging) -> Option<u64> {
        (self.samples >= hedging.samples).then_some(self.mean_ns)
    }

    /// What a read hardly ever takes.
    fn bound(&self, hedging: &Hedging) -> Option<u64> {
        let mean = self.mean(hedging)?;
        Some((mean + 4 * self.deviation_ns).max(2 * mean).max(hedging.least.0))
    }
}

/// How a drive has lately answered reads.
#[derive(Debug, Default)]
pub(in crate::log) struct ReadPace {
    usual: [Estimate; SIZES],
    /// While it resets zones.
    resetting: [Estimate; SIZES],
    resets: u32,
    /// Reads under way, by number, and when each is late.
    under_way: BTreeMap<u64, Nanos>,
    /// Reads that went around it since one went to it.
    spared: u32,
}

impl ReadPace {
    /// Whether the oldest read is late.
    fn owes(&self, now: Nanos) -> bool {
        self.under_way.first_key_value().is_some_and(|(_, late)| *late <= now)
    }

    /// Whether any read is.
    fn owes_any(&self, now: Nanos) -> bool {
        self.under_way.values().any(|late| *late <= now)
    }
}

/// What is left of the shares, in hundredths of reads.
#[derive(Debug)]
pub(in crate::log) struct Hedge {
    hedging: Hedging,
    next: u64,
    around: u64,
    late: u64,
    left_behind: u32,
}

impl Hedge {
    /// Nothing is saved up yet.
    #[must_use]
    pub(in crate::log) fn new(hedging: Hedging) -> Self {
        Self { hedging, next: 0, around: 0, late: 0, left_behind: 0 }
    }

    fn earn(&mut self) {
        let Hedging { around_percent, late_percent, .. } = self.hedging;
        self.around = SAVED.min(self.around + u64::from(around_percent));
        self.late = SAVED.min(self.late + u64::from(late_percent));
    }
}

/// How a read is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Route {
    /// By its drives, however long they take.
    Direct,
    /// By its drives; from then on it is late.
    Until(Nanos),
    /// Reconstruct without the chunks of these columns.
    Around(ColumnSet),
}

fn size_of(blocks: u32) -> usize {
    let size = blocks.max(1).next_power_of_two().trailing_zeros() as usize;
    size.min(SIZES - 1)
}

impl State {
    fn is_hedging(&self) -> bool {
        self.hedge.hedging != Hedging::OFF && self.scheme().tolerated_losses() > 0
    }

    /// What drives hardly ever take for a read of that size: the (lower) median of their bounds.
    fn usual_bound(&self, size: usize) -> Option<u64> {
        let hedging = &self.hedge.hedging;
        let here = self.members.iter().filter(|member| member.device.is_some());
        let known = here.filter_map(|member| member.pace.usual[size].bound(hedging));
        // Without a list: every read asks for it.
        let (mut room, mut count) = ([0; MAX_COLUMNS], 0);
        for (place, bound) in room.iter_mut().zip(known) {
            *place = bound;
            count += 1;
        }
        let bounds = &mut room[..count];
        bounds.sort_unstable();
        (bounds.len() >= 2).then(|| bounds[(bounds.len() - 1) / 2])
    }

    fn is_slow(&self, column: Column, size: usize, bound: u64) -> bool {
        let pace = &self.members[column.index()].pace;
        let slow = |estimate: &Estimate| {
            estimate.mean(&self.hedge.hedging).is_some_and(|mean| mean > bound)
        };
        slow(&pace.usual[size]) || pace.resets > 0 && slow(&pace.resetting[size])
    }

    fn is_held_up(&self, column: Column, size: usize, bound: u64, now: Nanos) -> bool {
        self.is_slow(column, size, bound) || self.members[column.index()].pace.owes(now)
    }

    /// Whether resets hold up reads of some drive: then they are done on one drive after the other.
    #[must_use]
    pub(in crate::log) fn feels_resets(&self) -> bool {
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

    /// Decides how blocks are read. The clock is looked at only if it matters.
    pub(in crate::log) fn route(
        &mut self,
        places: &[BlockPlace],
        clock: impl Fn() -> Nanos,
    ) -> Route {
        if !self.is_hedging() || places.is_empty() {
            return Route::Direct;
        }
        self.hedge.earn();
        let mut now = None;
        let mut latest = 0;
        let mut held_up = ColumnSet::default();
        for (column, size) in columns_of(places) {
            let Some(bound) = self.usual_bound(size) else { continue };
            latest = latest.max(bound);
            let now = *now.get_or_insert_with(&clock);
            if self.is_held_up(column, size, bound, now) {
                held_up = held_up.with(column);
            }
        }
        if latest == 0 {
            return Route::Direct;
        }
        let now = now.unwrap_or_else(clock);
        let until = Route::Until(now + Nanos(latest));
        if held_up.is_empty() || !self.can_go_around(held_up, places, now) {
            return until;
        }
        let mut probe = false;
        for column in self.scheme().iter().filter(|column| held_up.contains(*column)) {
            let pace = &mut self.members[column.index()].pace;
            pace.spared += 1;
            probe |= pace.spared.is_multiple_of(PROBE) && !pace.owes(now);
        }
        if probe {
            mark(Mark::HeldUpDriveProbed);
            return until;
        }
        if self.hedge.around < PRICE {
            mark(Mark::HedgeBeyondShare);
            return until;
        }
        mark(Mark::ReadAround);
        self.hedge.around -= PRICE;
        self.counters.reads_around += 1;
        Route::Around(held_up)
    }

    /// Decides whether a read that is late is rebuilt, too, and without which drives.
    pub(in crate::log) fn hedge_late(
        &mut self,
        places: &[BlockPlace],
        now: Nanos,
    ) -> Option<ColumnSet> {
        let mut late = ColumnSet::default();
        for (column, _) in columns_of(places) {
            if self.members[column.index()].pace.owes_any(now) {
                late = late.with(column);
            }
        }
        if late.is_empty() || !self.can_go_around(late, places, now) {
            return None;
        }
        if self.hedge.late < PRICE || self.hedge.left_behind >= LEFT_BEHIND {
            mark(Mark::HedgeBeyondShare);
            return None;
        }
        mark(Mark::ReadHedged);
        self.hedge.late -= PRICE;
        self.hedge.left_behind += 1;
        self.counters.reads_hedged += 1;
        Some(late)
    }

    /// A read that was late has ended.
    pub(in crate::log) fn late_read_ended(&mut self) {
        self.hedge.left_behind -= 1;
    }

    /// Whether the others are there, and not held up themselves.
    fn can_go_around(&self, held_up: ColumnSet, places: &[BlockPlace], now: Nanos) -> bool {
        let enough = |scheme: Scheme, column: Column, size: usize| {
            let bound = self.usual_bound(size).unwrap_or(u64::MAX);
            let ready = |source: &Column| {
                self.members[source.index()].device.is_some()
                    && !held_up.contains(*source)
                    && !self.is_held_up(*source, size, bound, now)
            };
            scheme.sources_of(column).filter(ready).count() >= scheme.sources_needed()
        };
        let mut columns = columns_of(places).filter(|(column, _)| held_up.contains(*column));
        columns.all(|(column, size)| {
            let of_column = places.iter().filter(|place| place.column == column);
            let segments = of_column.filter_map(|place| self.segments.get(place.slot));
            let mut schemes = segments.map(|segment| segment.geometry.scheme());
            schemes.all(|scheme| enough(scheme, column, size))
        })
    }
}

/// The columns of places, in order, and how large a read of each is.
fn columns_of(places: &[BlockPlace]) -> impl Iterator<Item = (Column, usize)> {
    let all = places.iter().fold(ColumnSet::default(), |all, place| all.with(place.column));
    all.iter().map(|column| {
        let blocks = places.iter().filter(|place| place.column == column).count();
        (column, size_of(u32::try_from(blocks).unwrap_or(u32::MAX)))
    })
}

/// A read under way.
pub(in crate::log) struct ReadUnderWay {
    core: Rc<Core>,
    column: Column,
    number: u64,
    size: usize,
    resetting: bool,
    begun: Nanos,
}

impl ReadUnderWay {
    /// Notes that a read begins, if anybody wants to know.
    #[must_use]
    pub(in crate::log) fn begin(
        core: &Rc<Core>,
        column: Column,
        blocks: BlockCount,
    ) -> Option<Self> {
        let now = core.handle.now();
        let mut state = core.state.borrow_mut();
        if !state.is_hedging() {
            return None;
        }
        let size = size_of(blocks.0);
        let late = state.usual_bound(size).map_or(Nanos(u64::MAX), |bound| now + Nanos(bound));
        let number = state.hedge.next;
        state.hedge.next += 1;
        let pace = &mut state.members[column.index()].pace;
        pace.under_way.insert(number, late);
        let resetting = pace.resets > 0;
        Some(Self { core: core.clone(), column, number, size, resetting, begun: now })
    }

    /// Notes that a drive answered.
    pub(in crate::log) fn answered(self) {
        let latency = self.core.handle.now().since(self.begun);
        let mut state = self.core.state.borrow_mut();
        let pace = &mut state.members[self.column.index()].pace;
        // Of a drive that was replaced meanwhile nothing is known any more.
        if pace.under_way.contains_key(&self.number) {
            let resetting = self.resetting || pace.resets > 0;
            let estimates = if resetting { &mut pace.resetting } else { &mut pace.usual };
            estimates[self.size].note(latency);
        }
    }
}

impl Drop for ReadUnderWay {
    fn drop(&mut self) {
        // What a panic left behind may be borrowed still.
        if !std::thread::panicking() {
            let mut state = self.core.state.borrow_mut();
            state.members[self.column.index()].pace.under_way.remove(&self.number);
        }
    }
}

/// A reset under way.
pub(in crate::log) struct ResetUnderWay<'a>(&'a Core, Column);

impl<'a> ResetUnderWay<'a> {
    /// Notes that a reset begins.
    #[must_use]
    pub(in crate::log) fn begin(core: &'a Core, column: Column) -> Self {
        core.state.borrow_mut().members[column.index()].pace.resets += 1;
        Self(core, column)
    }
}

impl Drop for ResetUnderWay<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut state = self.0.state.borrow_mut();
            let resets = &mut state.members[self.1.index()].pace.resets;
            // The drive may have been replaced meanwhile.
            *resets = resets.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_follows_what_reads_take_and_not_one_that_stalls() {
        let hedging = &Hedging::default();
        let mut estimate = Estimate::default();
        for at in 0..100 {
            assert_eq!(estimate.bound(hedging).is_some(), at >= SAMPLES);
            estimate.note(Nanos(70_000 + u64::from(at % 2) * 10_000));
        }
        let usual = estimate.bound(hedging).unwrap();
        assert!((80_000..200_000).contains(&usual), "{usual}");
        estimate.note(Nanos(70_000_000));
        assert!(estimate.mean(hedging).unwrap() < 2 * usual);
        for _ in 0..100 {
            estimate.note(Nanos(700_000));
        }
        assert!(estimate.mean(hedging).unwrap() > 600_000, "what lasts is believed");
    }

    #[test]
    fn reads_are_told_apart_by_size() {
        let sizes = [1, 2, 3, 4, 5, 8, 16, 17, 32, 64].map(size_of);
        assert_eq!(sizes, [0, 1, 2, 2, 3, 3, 4, 5, 5, 5]);
    }
}
