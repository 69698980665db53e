//! Blocks that an order to clear the faults has taken off the list of lost ones, and not read yet.
//!
//! Invariant: of joined ranges, some blocks may not be lost. Blocks of such ranges return to the
//! list as parts of joined ranges.

use std::collections::BTreeSet;

use zoneweave_zoned::Lba;

use crate::array::format::faults::Faults;
use crate::instrument::marks::{Mark, mark};

/// The blocks.
#[derive(Default)]
pub(in crate::log) struct NotListed {
    blocks: BTreeSet<Lba>,
    /// Whether some of them are of joined ranges.
    joined: bool,
}

impl NotListed {
    /// Adds blocks of ranges that were listed; `joined`: whether some of these were joined.
    pub(in crate::log) fn add(&mut self, blocks: &[Lba], joined: bool) {
        self.joined |= joined;
        self.blocks.extend(blocks);
    }

    pub(in crate::log) fn contains(&self, lba: Lba) -> bool {
        self.blocks.contains(&lba)
    }

    /// A block was read. Returns whether it was one of these.
    pub(in crate::log) fn remove(&mut self, lba: Lba) -> bool {
        let removed = self.blocks.remove(&lba);
        self.joined &= !self.blocks.is_empty();
        removed
    }

    /// Lists the blocks as lost, without reading them.
    pub(in crate::log) fn list(self, lost: &mut Faults) {
        lost.joined |= self.joined && !self.blocks.is_empty();
        for lba in self.blocks {
            mark(Mark::ClearCutShort);
            lost.lose(lba);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(blocks: [u64; 3], joined: bool, read: &[u64]) -> Faults {
        let mut not_listed = NotListed::default();
        not_listed.add(&blocks.map(Lba), joined);
        for lba in read {
            assert!(not_listed.contains(Lba(*lba)) && not_listed.remove(Lba(*lba)));
        }
        let mut lost = Faults::default();
        not_listed.list(&mut lost);
        lost
    }

    /// Sound blocks between joined ranges returned to the list as blocks that are known to be lost.
    #[test]
    fn blocks_of_joined_ranges_are_not_known_to_be_lost() {
        for joined in [false, true] {
            let lost = listed([3, 4, 9], joined, &[3]);
            assert_eq!(lost.lost_blocks().collect::<Vec<_>>(), [Lba(4), Lba(9)]);
            assert_eq!((lost.joined, lost.is_known(Lba(9))), (joined, !joined));
        }
        assert_eq!(listed([3, 4, 9], true, &[4, 3, 9]), Faults::default(), "all were read");
    }
}
