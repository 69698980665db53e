//! Copies of the same version of a block in two segments, as an interrupted move leaves them.
//!
//! While the index is built, one of the two is chosen by the knowledge of its segment so far. The
//! rest of that segment is known only afterwards. If every valid block of a segment has a duplicate
//! in segments that are needed anyway, the duplicates take their place and the segment is free. An
//! interrupted recovery may depend on this: it relocated a segment behind its own writes because no
//! other was free. Otherwise this only saves relocation, so of very many duplicates some are
//! ignored.
//!
//! A segment that may be dead, or is damaged, is relocated, and copies elsewhere are preferred.
//! Relocations out of it that crashes cut short therefore leave a part of it in a segment each, and
//! none of these is free. If no segment at all were free, recovery could not continue. Then one of
//! these parts is freed: its blocks are read from the original segment until they are relocated
//! once more. The redundancy that they lose meanwhile is that of the original segment.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{Pba, SegmentSlot};
use crate::log::engine::state::State;
use crate::log::index::partition::Duplicates;

/// The blocks mapped to a segment that have a duplicate, with its address.
type Replacements = BTreeMap<Lba, Pba>;

/// How many blocks are mapped to a segment.
type Mapped = BTreeMap<SegmentSlot, u64>;

impl Duplicates {
    /// Frees segments whose valid blocks all have a duplicate in a segment that is needed anyway.
    pub(super) fn free_segments(self, state: &mut State) {
        if self.copies.is_empty() {
            return;
        }
        let mut mapped = count_mapped(state);
        let needed = |mapped: &Mapped, slot| mapped.contains_key(&slot);
        let sound = |state: &State, slot| !state.segments[slot].is_damaged();
        let found = self.by_segment(state, |slot| needed(&mapped, slot) && sound(state, slot));
        let freed = free(state, &mut mapped, found, usize::MAX);
        let nothing_free = freed == 0
            && state.free_segments() == 0
            && state.segments.iter().all(|(slot, _)| needed(&mapped, slot));
        if nothing_free && !mutant(Mutant::DamagedTwinsIgnored) {
            let found = self.by_segment(state, |slot| needed(&mapped, slot));
            let freed = free(state, &mut mapped, found, 1);
            mark_if(Mark::FreedByDamagedTwins, || freed > 0);
        }
    }

    /// Duplicates in usable segments, by the segment that is chosen now.
    fn by_segment(
        &self,
        state: &State,
        may_be_used: impl Fn(SegmentSlot) -> bool,
    ) -> BTreeMap<SegmentSlot, Replacements> {
        let mut found: BTreeMap<SegmentSlot, Replacements> = BTreeMap::new();
        for (lba, twin) in self.copies.iter().copied() {
            let Some(chosen) = state.mapping.index.get(lba) else { continue };
            let (here, there) = (state.space.place(chosen).slot, state.space.place(twin).slot);
            if here != there && may_be_used(there) {
                found.entry(here).or_default().insert(lba, twin);
            }
        }
        found
    }
}

/// Replaces valid blocks by their duplicates in at most so many segments of which all blocks have
/// one; returns the number of segments freed.
fn free(
    state: &mut State,
    mapped: &mut Mapped,
    found: BTreeMap<SegmentSlot, Replacements>,
    most: usize,
) -> usize {
    let mut freed = BTreeSet::new();
    for (slot, replacements) in found {
        let lost = |pba: &Pba| freed.contains(&state.space.place(*pba).slot);
        // A segment that has taken the place of another is needed.
        let (doubled, valid) = (replacements.len() as u64, mapped[&slot]);
        assert!(doubled <= valid, "{doubled} of {valid} blocks of a segment have a duplicate");
        let all = doubled == valid;
        if freed.len() == most || !all || replacements.values().any(lost) {
            continue;
        }
        mark(Mark::FreedByTwins);
        for (lba, pba) in replacements {
            state.mapping.index.set(lba, Some(pba));
            *mapped.entry(state.space.place(pba).slot).or_default() += 1;
        }
        freed.insert(slot);
    }
    freed.len()
}

fn count_mapped(state: &State) -> Mapped {
    let mut mapped = BTreeMap::new();
    for pba in (0..state.array.config.log().volume_blocks)
        .filter_map(|lba| state.mapping.index.get(Lba(lba)))
    {
        *mapped.entry(state.space.place(pba).slot).or_default() += 1;
    }
    mapped
}
