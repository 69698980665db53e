//! Which blocks of which drives a request touches.

use std::ops::Range;

use super::{Inner, Span};

impl Inner {
    /// The parts of a range by stripe: blocks counted from the first of the stripe.
    pub(super) fn stripes_of(&self, range: Range<u64>) -> Vec<(u64, Range<u64>)> {
        let (stripe_blocks, mut parts) = (self.stripe_blocks(), Vec::new());
        let mut next = range.start;
        while next < range.end {
            let (stripe, from) = (next / stripe_blocks, next % stripe_blocks);
            let until = stripe_blocks.min(from + range.end - next);
            parts.push((stripe, from..until));
            next += until - from;
        }
        parts
    }

    /// The data units that a part of a stripe touches: their numbers, and the blocks of each.
    fn units_of(&self, part: &Range<u64>) -> Vec<(u64, Range<u64>)> {
        let (unit, mut units) = (self.unit, Vec::new());
        let mut next = part.start;
        while next < part.end {
            let (number, from) = (next / unit, next % unit);
            let until = unit.min(from + part.end - next);
            units.push((number, from..until));
            next += until - from;
        }
        units
    }

    /// What a read needs of the drives. Blocks of the missing drive are rebuilt from all others,
    /// each of which is read once for a stripe.
    pub(super) fn spans_of_read(&self, range: Range<u64>) -> Vec<Span> {
        let mut spans = Vec::new();
        for (stripe, part) in self.stripes_of(range) {
            let units = self.units_of(&part);
            let drive_of = |number: u64| self.data_drive(stripe, number);
            let missing = units.iter().find(|(unit, _)| Some(drive_of(*unit)) == self.lost.get());
            let Some((_, rebuilt)) = missing else {
                let all = units.iter().map(|(unit, part)| self.span(drive_of(*unit), stripe, part));
                spans.extend(all);
                continue;
            };
            let others = (0..self.drives.len()).filter(|drive| Some(*drive) != self.lost.get());
            spans.extend(others.map(|drive| {
                let own = units.iter().find(|(unit, _)| drive_of(*unit) == drive);
                let needed = own.map_or(rebuilt.clone(), |(_, own)| joined(own, rebuilt));
                self.span(drive, stripe, &needed)
            }));
        }
        spans
    }
}

/// The smallest range with both.
fn joined(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}
