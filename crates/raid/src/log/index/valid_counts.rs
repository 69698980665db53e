//! Counts the valid blocks of each segment once the index is complete.
//!
//! Page entries of settled segments are counted when they are entered, so only the others have to
//! be examined. A tombstone counts as one block, however many blocks of the volume point at it, and
//! tombstone addresses are complete only at the end.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use zoneweave_zoned::Lba;

use crate::instrument::marks::{INSTRUMENTED, Mark, mark, mark_if};
use crate::log::engine::address::{Page, Pba, SegmentSlot};
use crate::log::engine::state::State;
use crate::log::index::bulk_load::Plain;

/// The blocks of a partition that were counted when they were entered.
pub(in crate::log) struct Counted {
    /// First block of the partition.
    pub(in crate::log) start: u64,
    pub(in crate::log) plain: Plain,
    /// Counted blocks, numbered from `start`. Their entries have not changed since, as none was
    /// replayed for them.
    pub(in crate::log) blocks: FixedBitSet,
}

/// Counts the valid blocks of each segment, and drops tombstones that hide nothing.
pub(in crate::log) fn count_valid(state: &mut State, counted: Vec<Counted>) {
    let place = |pba: &Pba| state.space.place(*pba).slot;
    let hiding: BTreeSet<_> = state.mapping.tombstones.keys().map(place).collect();
    let before = INSTRUMENTED.then(|| valid_of(state));
    for Counted { start, plain, mut blocks } in counted {
        // A block entered as data may be a tombstone, which is known only now.
        if hiding.iter().any(|slot| plain.has_entered(*slot)) {
            mark(Mark::CountedAgain);
            blocks.clear();
        } else {
            mark_if(Mark::CountedByPages, || !blocks.is_clear());
            plain.end(&mut state.segments);
        }
        count_others(state, &hiding, start, &blocks);
    }
    if let Some(before) = before {
        assert_counted(state, &before);
    }
    state.settle_tombstones();
}

/// Counts the valid blocks of a partition, except those already counted.
fn count_others(
    state: &mut State,
    hiding: &BTreeSet<SegmentSlot>,
    start: u64,
    counted: &FixedBitSet,
) {
    let plain = state.segments.iter().filter(|(slot, _)| !hiding.contains(slot));
    let mut plain = Plain::of(state.space, plain);
    if counted.is_clear() {
        let (entries, end) = (state.mapping.index.page_entries(), start + counted.len() as u64);
        assert!(start.is_multiple_of(entries), "block {start} begins no page of {entries}");
        for page in start / entries..end.div_ceil(entries) {
            let mut others = Vec::new();
            state.mapping.index.tell(Page(page), |pba| {
                if !plain.count(pba) {
                    others.push(pba);
                }
            });
            others.into_iter().for_each(|pba| state.count_in(pba));
        }
    } else {
        for at in counted.zeroes() {
            let pba = state.mapping.index.get(Lba(start + at as u64));
            if let Some(pba) = pba.filter(|pba| !plain.count(*pba)) {
                state.count_in(pba);
            }
        }
    }
    plain.end(&mut state.segments);
}

/// Number of valid blocks of each segment.
type Valid = BTreeMap<SegmentSlot, u64>;

fn valid_of(state: &State) -> Valid {
    state.segments.iter().map(|(slot, segment)| (slot, segment.valid())).collect()
}

/// Asserts that examining each entry gives the same counts.
fn assert_counted(state: &State, before: &Valid) {
    let mut expected = before.clone();
    let blocks = (0..state.array.config.log().volume_blocks).map(Lba);
    for pba in blocks.filter_map(|lba| state.mapping.index.get(lba)) {
        if !state.mapping.tombstones.contains_key(&pba) {
            *expected.entry(state.space.place(pba).slot).or_default() += 1;
        }
    }
    assert!(valid_of(state) == expected, "{:?} counted, {expected:?} valid", valid_of(state));
}

impl State {
    /// Drops tombstones that hide nothing, and counts the others in their segments.
    pub(super) fn settle_tombstones(&mut self) {
        mark_if(Mark::TombstoneForgotten, || {
            self.mapping.tombstones.values().any(|count| *count == 0)
        });
        self.mapping.tombstones.retain(|_, count| *count > 0);
        for pba in self.mapping.tombstones.keys() {
            let slot = self.space.place(*pba).slot;
            self.segments[slot].add_valid(1);
        }
    }
}
