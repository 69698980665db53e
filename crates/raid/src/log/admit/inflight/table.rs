//! A hash table by block number, without order.
//!
//! Open addressing with linear probing: a block is at the place of its hash, or behind it with no
//! empty place between. Removing a block moves displaced ones forward, so there are no tombstones,
//! and a search ends at the first empty place. At most half of the places are taken.
//!
//! Users choose block numbers, and the hash is known, so a user may have many writes in flight that
//! all hash to one place. That costs no more than a scan of all admitted blocks, 64 MiB.

use zoneweave_zoned::Lba;

/// Least number of places of a table that was ever used.
const PLACES_LEAST: usize = 64;

/// Values by block.
#[derive(Debug, Default)]
pub(in crate::log) struct Table<T> {
    /// Empty, or a power of two.
    places: Vec<Option<(Lba, T)>>,
    taken: usize,
}

impl<T: Default> Table<T> {
    /// Whether the table has no block.
    pub(in crate::log) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The value of a block, inserted if missing.
    pub(in crate::log) fn entry(&mut self, lba: Lba) -> &mut T {
        if self.taken * 2 >= self.places.len() {
            self.grow();
        }
        // A search for a block ends at a free place.
        assert!(self.taken < self.places.len(), "all {} places are taken", self.taken);
        let at = self.find(lba);
        let place = &mut self.places[at];
        self.taken += usize::from(place.is_none());
        &mut place.get_or_insert_with(|| (lba, T::default())).1
    }

    /// Number of places.
    pub(in crate::log) fn places(&self) -> u64 {
        self.places.len() as u64
    }

    /// Returns the value of a block.
    pub(in crate::log) fn get(&self, lba: Lba) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.places[self.find(lba)].as_ref().map(|(_, what)| what)
    }

    /// Returns the value of a block for changes.
    pub(in crate::log) fn get_mut(&mut self, lba: Lba) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        let at = self.find(lba);
        self.places[at].as_mut().map(|(_, what)| what)
    }

    pub(in crate::log) fn remove(&mut self, lba: Lba) {
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
            // It moves forward unless that would be before its own place.
            let home = self.home(*pushed);
            if self.steps(home, at) >= self.steps(hole, at) {
                self.places.swap(hole, at);
                hole = at;
            }
        }
    }

    /// Iterates over the values, in no particular order.
    pub(in crate::log) fn iter(&self) -> impl Iterator<Item = &(Lba, T)> {
        self.places.iter().flatten()
    }

    /// The place of a block, or the empty place for it.
    fn find(&self, lba: Lba) -> usize {
        let mut at = self.home(lba);
        while self.places[at].as_ref().is_some_and(|(other, _)| *other != lba) {
            at = self.after(at);
        }
        at
    }

    fn home(&self, lba: Lba) -> usize {
        // 2^64 divided by the golden ratio: it spreads neighbours.
        let hash = lba.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        Lba(hash).index() & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    /// Distance from one place to another behind it.
    fn steps(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        let more = PLACES_LEAST.max(self.places.len() * 2);
        assert!(more.is_power_of_two(), "a table of {more} places");
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
                // Few places, and some numbers that collide.
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
