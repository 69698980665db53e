//! How new the entries of an index are that is being built.

use zoneweave_zoned::Lba;

use crate::log::index::Page;

/// The sequence of each block of a range; zero of those of which nothing is known.
pub(in crate::log) enum Sequences {
    /// Of most blocks something is known.
    Dense {
        /// The first block.
        start: u64,
        /// By block.
        sequences: Vec<u64>,
    },
    /// Of few; those of a page in order.
    Sparse {
        /// Blocks of a page.
        page_entries: u64,
        /// By page, from the first one of the volume on.
        pages: Vec<Vec<(Lba, u64)>>,
    },
}

impl Sequences {
    /// Nothing is known of `start..end`, and it will be of most of it.
    pub(in crate::log) fn dense(start: u64, end: u64) -> Self {
        Self::Dense { start, sequences: vec![0; Lba(end - start).index()] }
    }

    /// Nothing is known of so many pages, and it will be of few blocks.
    pub(in crate::log) fn sparse(page_entries: u64, pages: u64) -> Self {
        Self::Sparse { page_entries, pages: vec![Vec::new(); Lba(pages).index()] }
    }

    pub(in crate::log) fn get(&self, lba: Lba) -> u64 {
        match self {
            Self::Dense { start, sequences } => sequences[Lba(lba.0 - start).index()],
            Self::Sparse { page_entries, pages } => {
                let of_page = &pages[Lba(lba.0 / page_entries).index()];
                sequence_in(of_page, lba).unwrap_or(0)
            }
        }
    }

    /// The sequence of a block, to be changed: something is known of it from now on.
    pub(in crate::log) fn get_mut(&mut self, lba: Lba) -> &mut u64 {
        match self {
            Self::Dense { start, sequences } => &mut sequences[Lba(lba.0 - *start).index()],
            Self::Sparse { page_entries, pages } => {
                let of_page = &mut pages[Lba(lba.0 / *page_entries).index()];
                let at = of_page.binary_search_by_key(&lba, |(known, _)| *known);
                let at = at.unwrap_or_else(|at| {
                    of_page.insert(at, (lba, 0));
                    at
                });
                &mut of_page[at].1
            }
        }
    }

    pub(in crate::log) fn set(&mut self, lba: Lba, sequence: u64) {
        *self.get_mut(lba) = sequence;
    }

    /// What is known of few blocks, by page; in order in each.
    ///
    /// # Panics
    /// If it was to be of most.
    pub(in crate::log) fn into_pages(self) -> impl Iterator<Item = (Page, Vec<(Lba, u64)>)> {
        let Self::Sparse { pages, .. } = self else { unreachable!("few blocks were replayed") };
        (0..).map(Page).zip(pages).filter(|(_, of_page)| !of_page.is_empty())
    }
}

/// The sequence of a block among those of its page.
pub(in crate::log) fn sequence_in(known: &[(Lba, u64)], lba: Lba) -> Option<u64> {
    known.binary_search_by_key(&lba, |(known, _)| *known).ok().map(|at| known[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_know_the_same() {
        let (mut dense, mut sparse) = (Sequences::dense(0, 100), Sequences::sparse(8, 13));
        for (lba, sequence) in [(3, 5), (99, 7), (2, 1), (3, 6), (7, 4), (8, 2)] {
            dense.set(Lba(lba), sequence);
            sparse.set(Lba(lba), sequence);
        }
        assert!((0..100).map(Lba).all(|lba| dense.get(lba) == sparse.get(lba)));
        assert_eq!((sparse.get(Lba(3)), sparse.get(Lba(4))), (6, 0));
    }
}
