//! A map of things in flight, by ascending number.
//!
//! Numbers only grow, and the numbers in flight are close to each other, so a sorted queue with
//! holes is faster than a tree. Holes at the front are removed at once; holes behind a slow entry
//! are removed when they are the majority.

use std::collections::VecDeque;

/// Holes that are not worth clearing out.
const HOLES_FEW: usize = 64;

pub(super) struct Numbered<T> {
    /// In ascending order of the numbers; the first one is no hole.
    entries: VecDeque<(u64, Option<T>)>,
    live: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), live: 0 }
    }
}

impl<T> Numbered<T> {
    /// Adds a number that is not in flight: a new one, or the one just removed.
    pub(super) fn insert(&mut self, number: u64, value: T) {
        match self.search(number) {
            Ok(place) => {
                let before = self.entries[place].1.replace(value);
                assert!(before.is_none(), "number {number} is in flight once");
            }
            Err(place) => self.entries.insert(place, (number, Some(value))),
        }
        self.live += 1;
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.entries[self.place(number)?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.entries[place].1.as_mut()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let removed = self.entries[place].1.take()?;
        self.live -= 1;
        while self.entries.front().is_some_and(|first| first.1.is_none()) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.live + HOLES_FEW {
            self.entries.retain(|entry| entry.1.is_some());
        }
        Some(removed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// By ascending number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().filter_map(|(number, value)| Some((*number, value.as_ref()?)))
    }

    /// By ascending number.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.1.as_mut())
    }

    /// By ascending number.
    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_iter().filter_map(|entry| entry.1)
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.search(number).ok()
    }

    /// Where a number is, or where it would be. As long as no hole was cleared out and no number
    /// left out, it is as far from the first place as from the first number.
    fn search(&self, number: u64) -> Result<usize, usize> {
        let first = self.entries.front().ok_or(0_usize)?.0;
        let distance = number.checked_sub(first).ok_or(0_usize)?;
        let guess = usize::try_from(distance).unwrap_or(usize::MAX);
        match self.entries.get(guess) {
            Some(entry) if entry.0 == number => Ok(guess),
            None if self.entries.back().is_some_and(|last| last.0 < number) => {
                Err(self.entries.len())
            }
            _ => self.entries.binary_search_by_key(&number, |entry| entry.0),
        }
    }
}

impl<T> FromIterator<(u64, T)> for Numbered<T> {
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(entries: I) -> Self {
        let mut numbered = Self::default();
        entries.into_iter().for_each(|(number, value)| numbered.insert(number, value));
        numbered
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_map(steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..400)) {
            let (mut tested, mut model) = (Numbered::default(), BTreeMap::new());
            for (next, (step, index)) in (0_u64..).zip(steps) {
                let old = model.keys().nth(index.index(model.len().max(1))).copied();
                match (step, old) {
                    (0, Some(old)) => {
                        let value = tested.remove(old);
                        prop_assert_eq!(value, model.remove(&old));
                        prop_assert_eq!(tested.get(old), None);
                    }
                    (1, Some(old)) => {
                        let value = tested.remove(old).unwrap();
                        tested.insert(old, value);
                    }
                    _ => {
                        tested.insert(next, next * 2);
                        model.insert(next, next * 2);
                    }
                }
                let listed: Vec<_> = tested.iter().map(|(number, value)| (number, *value)).collect();
                prop_assert_eq!(listed, model.clone().into_iter().collect::<Vec<_>>());
                prop_assert!(tested.entries.len() <= 2 * model.len() + HOLES_FEW);
                prop_assert_eq!(tested.is_empty(), model.is_empty());
            }
        }
    }
}
