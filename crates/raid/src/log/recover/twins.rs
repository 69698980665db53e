//! Copies of the same version of a block in two segments, as an interrupted move leaves them.
//!
//! While the index is built one of them is chosen by what is known of its segment. What else is in
//! the segment is known only afterwards: where everything that counts in one has a twin in others
//! that are needed anyway, the twins take its place and the segment is free. A recovery that was cut
//! short may depend on it: it moved a segment behind what it wrote again because nothing else was
//! free. Otherwise it only saves moves: of a great many twins some are left out.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::Lba;

use crate::log::index::{Pba, SegmentSlot};
use crate::log::state::State;
use crate::marks::{Mark, mark};

/// Copies that the index does not point at, although they are as new as those that it does.
#[derive(Default)]
pub(super) struct Twins {
    copies: Vec<(Lba, Pba)>,
}

/// The blocks mapped to a segment that have a twin, with it.
type Replacements = BTreeMap<Lba, Pba>;

impl Twins {
    /// Twins remembered: some 100 MiB of them at the most.
    pub(super) const MOST: usize = 1 << 20;

    /// Whether no more of them are remembered.
    pub(super) fn is_full(&self) -> bool {
        self.copies.len() >= Self::MOST
    }

    /// Notes a copy that is as new as the one chosen.
    pub(super) fn add(&mut self, lba: Lba, pba: Pba) {
        if !self.is_full() {
            self.copies.push((lba, pba));
        }
    }

    /// Frees segments in which nothing counts that has no twin in one that is needed anyway.
    pub(super) fn free_segments(self, state: &mut State) {
        if self.copies.is_empty() {
            return;
        }
        let mut mapped = count_mapped(state);
        let mut freed = BTreeSet::new();
        for (slot, replacements) in self.by_segment(state, &mapped) {
            let lost = |pba: &Pba| freed.contains(&state.space.place(*pba).slot);
            // A segment that has taken the place of another is needed.
            if replacements.len() as u64 != mapped[&slot] || replacements.values().any(lost) {
                continue;
            }
            mark(Mark::FreedByTwins);
            for (lba, pba) in replacements {
                state.index.set(lba, Some(pba));
                *mapped.entry(state.space.place(pba).slot).or_default() += 1;
            }
            freed.insert(slot);
        }
    }

    /// Twins that may be used, by the segment that is chosen now. One in a segment that is damaged, or
    /// free anyway, is no gain.
    fn by_segment(
        self,
        state: &State,
        mapped: &BTreeMap<SegmentSlot, u64>,
    ) -> BTreeMap<SegmentSlot, Replacements> {
        let mut found: BTreeMap<SegmentSlot, Replacements> = BTreeMap::new();
        for (lba, twin) in self.copies {
            let Some(chosen) = state.index.get(lba) else { continue };
            let (here, there) = (state.space.place(chosen).slot, state.space.place(twin).slot);
            let needed = mapped.contains_key(&there) && !state.segments[there].damaged;
            if here != there && needed {
                found.entry(here).or_default().insert(lba, twin);
            }
        }
        found
    }
}

fn count_mapped(state: &State) -> BTreeMap<SegmentSlot, u64> {
    let mut mapped = BTreeMap::new();
    for pba in (0..state.config.volume_blocks).filter_map(|lba| state.index.get(Lba(lba))) {
        *mapped.entry(state.space.place(pba).slot).or_default() += 1;
    }
    mapped
}
