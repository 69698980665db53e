//! A table by block, without order.
//!
//! Open addressing with linear probing: a block is at the place that its number hashes to, or
//! behind it with nothing empty between. Who leaves is followed by those that were pushed behind,
//! so there are no tombstones, and looking for a block ends at the first empty place. At most half
//! of the places are taken.
//!
//! Numbers of blocks are users' to choose, and the hash is known: somebody may have many writes
//! under way that all hash to one place. That costs no more than going through all that are
//! admitted, 64 MiB of blocks.

use zoneweave_zoned::Lba;

/// Places of a table that something was in.
const PLACES_LEAST: usize = 64;

/// What is known of blocks.
#[derive(Debug, Default)]
pub(super) struct Table<T> {
    /// A power of two of them, or none.
    places: Vec<Option<(Lba, T)>>,
    taken: usize,
}

impl<T: Default> Table<T> {
    /// Whether nothing is known of any block.
    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// What is known of a block, which is made known if it is not.
    pub(super) fn entry(&mut self, lba: Lba) -> &mut T {
        if self.taken * 2 >= self.places.len() {
            self.grow();
        }
        let at = self.find(lba);
        let place = &mut self.places[at];
        self.taken += usize::from(place.is_none());
        &mut place.get_or_insert_with(|| (lba, T::default())).1
    }

    /// How many blocks it has places for.
    pub(super) fn places(&self) -> u64 {
        self.places.len() as u64
    }

    /// What is known of a block.
    pub(super) fn get(&self, lba: Lba) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.places[self.find(lba)].as_ref().map(|(_, what)| what)
    }

    /// What is known of a block, to be changed.
    pub(super) fn get_mut(&mut self, lba: Lba) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        let at = self.find(lba);
        self.places[at].as_mut().map(|(_, what)| what)
    }

    pub(super) fn remove(&mut self, lba: Lba) {
        if self.is_empty() {
            return;
        }
        let mut hole = self.find(lba);
        if self.places[hole].take().is_none() {
            return;
        }
        self.taken -= 1;
        let mut at = hole;
        loop {
            at = self.after(at);
            let Some((pushed, _)) = &self.places[at] else { return };
            // It moves up unless it would come before its own place.
            let home = self.home(*pushed);
            if self.steps(home, at) >= self.steps(hole, at) {
                self.places.swap(hole, at);
                hole = at;
            }
        }
    }

    /// What is known, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Lba, T)> {
        self.places.iter().flatten()
    }

    /// Where a block is, or would be.
    fn find(&self, lba: Lba) -> usize {
        let mut at = self.home(lba);
        while self.places[at].as_ref().is_some_and(|(other, _)| *other != lba) {
            at = self.after(at);
        }
        at
    }

    fn home(&self, lba: Lba) -> usize {
        // 2^64 over the golden ratio: neighbours are far from each other.
        let hash = lba.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        Lba(hash).index() & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    /// How far it is from one place to another one behind it.
    fn steps(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        let more = PLACES_LEAST.max(self.places.len() * 2);
        let empty = (0..more).map(|_| None).collect();
        for (lba, what) in std::mem::replace(&mut self.places, empty).into_iter().flatten() {
            let at = self.find(lba);
            self.places[at] = Some((lba, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn in_order(table: &Table<u32>) -> Vec<(Lba, u32)> {
        let mut known: Vec<_> = table.iter().copied().collect();
        known.sort_unstable();
        known
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u64..90, any::<bool>()), 0..400)) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            for (number, comes) in steps {
                // Few places, and some numbers that share theirs.
                let lba = Lba(number % 30 + ((number / 30) << 40));
                if comes {
                    *table.entry(lba) += 1;
                    *model.entry(lba).or_default() += 1;
                } else {
                    prop_assert_eq!(table.get_mut(lba), model.get_mut(&lba));
                    table.remove(lba);
                    model.remove(&lba);
                }
                prop_assert_eq!(table.is_empty(), model.is_empty());
                prop_assert_eq!(in_order(&table), model.clone().into_iter().collect::<Vec<_>>());
            }
        }
    }
}
