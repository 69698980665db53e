//! Requests in flight, so that overlapping ones take effect in the order of their admission.
//!
//! Writes run concurrently even if they overlap: the newest sequence wins when they complete, and
//! only blocks with writes in flight need a sequence in memory. A trim covers too many blocks for
//! that. It excludes overlapping requests admitted later, and waits for earlier ones, of which it
//! has the number.

mod table;

use std::collections::BTreeMap;
use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::inflight::table::Table;
use crate::log::format::Sequence;

#[derive(Debug, Default)]
struct Writes {
    /// How many writes of this block are in flight.
    count: u32,
    /// The newest sequence that took effect while any were in flight.
    applied: Sequence,
}

/// Identifies a trim in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct TrimTicket(u64);

#[derive(Debug)]
struct Trim {
    range: Range<u64>,
    /// Blocks of overlapping writes in flight, counted once per write.
    writes: u64,
}

/// The requests in flight.
#[derive(Debug, Default)]
pub(in crate::log) struct InFlight {
    writes: Table<Writes>,
    trims: BTreeMap<TrimTicket, Trim>,
    tickets: u64,
}

impl InFlight {
    /// Whether a write of the range has to wait for a trim.
    #[must_use]
    pub(super) fn write_must_wait(&self, range: &Range<u64>) -> bool {
        let mut trims = self.trims.values();
        trims.any(|trim| overlap(&trim.range, range) && !mutant(Mutant::TrimDoesNotExclude))
    }

    /// Registers a write.
    pub(in crate::log) fn begin_write(&mut self, range: Range<u64>) {
        for lba in range {
            self.writes.entry(Lba(lba)).count += 1;
            self.trims_of(Lba(lba)).for_each(|trim| trim.writes += 1);
        }
    }

    /// The trims that cover a block: nearly always none.
    fn trims_of(&mut self, lba: Lba) -> impl Iterator<Item = &mut Trim> {
        self.trims.values_mut().filter(move |trim| trim.range.contains(&lba.0))
    }

    /// Ends the write of one block. `sequence` is that of a completed write, `None` of a failed
    /// one. Returns whether the write is the newest to complete, and so takes effect.
    ///
    /// # Panics
    /// If no write of the block is in flight.
    pub(in crate::log) fn end_write(&mut self, lba: Lba, sequence: Option<Sequence>) -> bool {
        let writes = self.writes.get_mut(lba).expect("a write in flight");
        assert!(writes.count > 0, "block {lba} has no write in flight");
        writes.count -= 1;
        let newest = sequence.is_some_and(|sequence| {
            sequence > writes.applied || mutant(Mutant::LastCompletionWins)
        });
        if let Some(sequence) = sequence.filter(|_| newest) {
            writes.applied = sequence;
        }
        if writes.count == 0 {
            self.writes.remove(lba);
        }
        for trim in self.trims_of(lba) {
            assert!(trim.writes > 0, "the trim of {:?} waits for no write", trim.range);
            trim.writes -= 1;
        }
        newest
    }

    /// Registers a trim: overlapping requests wait from now on.
    pub(super) fn begin_trim(&mut self, range: Range<u64>) -> TrimTicket {
        assert!(range.start < range.end, "a trim of no blocks at {}", range.start);
        let ticket = TrimTicket(self.tickets);
        self.tickets += 1;
        let writes = self.writes_within(&range);
        self.trims.insert(ticket, Trim { range, writes });
        ticket
    }

    /// Blocks of writes in flight within a range, counted once per write.
    fn writes_within(&self, range: &Range<u64>) -> u64 {
        let count = |writes: &Writes| u64::from(writes.count);
        if range.end - range.start < self.writes.places() {
            return range.clone().filter_map(|lba| self.writes.get(Lba(lba))).map(count).sum();
        }
        let covered = self.writes.iter().filter(|(lba, _)| range.contains(&lba.0));
        covered.map(|(_, writes)| count(writes)).sum()
    }

    /// Whether a registered trim has to wait for requests admitted before it.
    #[must_use]
    pub(super) fn trim_must_wait(&self, ticket: TrimTicket) -> bool {
        let Trim { range, writes } = &self.trims[&ticket];
        *writes > 0 || self.trims.range(..ticket).any(|(_, trim)| overlap(&trim.range, range))
    }

    pub(super) fn end_trim(&mut self, ticket: TrimTicket) {
        let trim = self.trims.remove(&ticket);
        assert!(trim.is_some(), "{ticket:?} is not in flight");
    }

    /// Whether no request is in flight.
    #[must_use]
    pub(in crate::log) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.trims.is_empty()
    }
}

const fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sequence_wins_in_whatever_order_writes_complete() {
        let mut inflight = InFlight::default();
        inflight.begin_write(5..6);
        inflight.begin_write(5..7);
        inflight.begin_write(5..6);
        assert!(inflight.end_write(Lba(5), Some(Sequence(2))));
        assert!(!inflight.end_write(Lba(5), Some(Sequence(1))));
        assert!(inflight.end_write(Lba(5), Some(Sequence(3))));
        assert!(!inflight.end_write(Lba(6), None));
        assert!(inflight.is_empty());
    }

    #[test]
    fn a_trim_of_much_waits_for_every_write_in_it() {
        let mut inflight = InFlight::default();
        inflight.begin_write(1000..1003);
        inflight.begin_write(1002..1003);
        inflight.begin_write(1 << 40..(1 << 40) + 1);
        let [short, long] = [1002..1010, 0..1 << 40].map(|range| inflight.begin_trim(range));
        inflight.end_trim(short);
        for (lba, sequence) in [(1000, 1), (1001, 2), (1002, 4), (1002, 3)] {
            assert!(inflight.trim_must_wait(long));
            inflight.end_write(Lba(lba), Some(Sequence(sequence)));
        }
        assert!(!inflight.trim_must_wait(long) && !inflight.is_empty());
    }

    #[test]
    fn a_trim_waits_for_earlier_requests_and_later_ones_wait_for_it() {
        let mut inflight = InFlight::default();
        inflight.begin_write(10..12);
        let first = inflight.begin_trim(0..11);
        let second = inflight.begin_trim(0..5);
        assert!(inflight.trim_must_wait(first));
        assert!(inflight.trim_must_wait(second));
        assert!(inflight.write_must_wait(&(10..11)));
        assert!(!inflight.write_must_wait(&(11..12)));
        inflight.end_write(Lba(10), Some(Sequence(1)));
        assert!(!inflight.trim_must_wait(first));
        inflight.end_trim(first);
        assert!(!inflight.trim_must_wait(second));
    }
}
