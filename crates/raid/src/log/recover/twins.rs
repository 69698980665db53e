//! Copies of the same version of a block in two segments, as an interrupted move leaves them.
//!
//! While the index is built one of them is chosen by what is known of its segment. What else is in
//! the segment is known only afterwards: where everything that counts in one has a twin elsewhere,
//! the twins take its place and the segment is free. A recovery that was cut short may depend on it:
//! it moved a segment behind what it wrote again because nothing else was free.

use std::collections::BTreeMap;

use zoneweave_zoned::Lba;

use crate::log::index::{Pba, SegmentSlot};
use crate::log::state::State;
use crate::marks::{Mark, mark};

/// Copies that the index does not point at, although they are as new as those that it does.
#[derive(Default)]
pub(super) struct Twins {
    by_lba: BTreeMap<Lba, Vec<Pba>>,
}

impl Twins {
    /// Notes a copy that is as new as the one chosen.
    pub(super) fn add(&mut self, lba: Lba, pba: Pba) {
        self.by_lba.entry(lba).or_default().push(pba);
    }

    /// Frees segments in which nothing counts that has no twin elsewhere.
    pub(super) fn free_segments(mut self, state: &mut State) {
        if self.by_lba.is_empty() {
            return;
        }
        let mut mapped: BTreeMap<SegmentSlot, u64> = BTreeMap::new();
        for lba in (0..state.config.volume_blocks).map(Lba) {
            if let Some(pba) = state.index.get(lba) {
                *mapped.entry(state.space.place(pba).slot).or_default() += 1;
            }
        }
        let slots: Vec<_> = mapped.keys().copied().collect();
        for slot in slots {
            let replaced = self.replacements(state, slot);
            if replaced.len() as u64 == mapped[&slot] {
                mark(Mark::FreedByTwins);
                for (lba, pba) in replaced {
                    state.index.set(lba, Some(pba));
                    *mapped.entry(state.space.place(pba).slot).or_default() += 1;
                }
                self.by_lba.values_mut().for_each(|twins| {
                    twins.retain(|pba| state.space.place(*pba).slot != slot);
                });
            }
        }
    }

    /// Twins elsewhere of the blocks that are mapped to a segment.
    fn replacements(&self, state: &State, slot: SegmentSlot) -> Vec<(Lba, Pba)> {
        let elsewhere = |pba: &&Pba| state.space.place(**pba).slot != slot;
        let twin = |(lba, twins): (&Lba, &Vec<Pba>)| {
            let chosen = state.index.get(*lba)?;
            if state.space.place(chosen).slot != slot {
                return None;
            }
            Some((*lba, *twins.iter().find(elsewhere)?))
        };
        self.by_lba.iter().filter_map(twin).collect()
    }
}
