//! How new the entries of an index are that is being built.

use std::collections::BTreeMap;

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
        /// By page.
        pages: BTreeMap<Page, Vec<(Lba, u64)>>,
        /// Of how many blocks.
        known: usize,
    },
}

impl Sequences {
    /// Nothing is known of `start..end`, and it will be of most of it.
    pub(in crate::log) fn dense(start: u64, end: u64) -> Self {
        Self::Dense { start, sequences: vec![0; Lba(end - start).index()] }
    }

    /// Nothing is known, and it will be of few.
    pub(in crate::log) fn sparse(page_entries: u64) -> Self {
        Self::Sparse { page_entries, pages: BTreeMap::new(), known: 0 }
    }

    pub(in crate::log) fn get(&self, lba: Lba) -> u64 {
        match self {
            Self::Dense { start, sequences } => sequences[Lba(lba.0 - start).index()],
            Self::Sparse { page_entries, pages, .. } => {
                let known = pages.get(&Page(lba.0 / page_entries));
                known.map_or(0, |known| sequence_in(known, lba).unwrap_or(0))
            }
        }
    }

    pub(in crate::log) fn set(&mut self, lba: Lba, sequence: u64) {
        match self {
            Self::Dense { start, sequences } => {
                sequences[Lba(lba.0 - *start).index()] = sequence;
            }
            Self::Sparse { page_entries, pages, known } => {
                let of_page = pages.entry(Page(lba.0 / *page_entries)).or_default();
                match of_page.binary_search_by_key(&lba, |(known, _)| *known) {
                    Ok(at) => of_page[at].1 = sequence,
                    Err(at) => {
                        of_page.insert(at, (lba, sequence));
                        *known += 1;
                    }
                }
            }
        }
    }
}

impl Sequences {
    /// Blocks of which something is known where it was to be few, at the most: some 100 MiB of them.
    const SPARSE_MOST: usize = 1 << 22;

    /// Whether something is known of more blocks than was thought: a trim tells of many.
    pub(in crate::log) fn are_too_many(&self) -> bool {
        matches!(self, Self::Sparse { known, .. } if *known > Self::SPARSE_MOST)
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
        let (mut dense, mut sparse) = (Sequences::dense(0, 100), Sequences::sparse(8));
        for (lba, sequence) in [(3, 5), (99, 7), (2, 1), (3, 6), (7, 4), (8, 2)] {
            dense.set(Lba(lba), sequence);
            sparse.set(Lba(lba), sequence);
        }
        assert!((0..100).map(Lba).all(|lba| dense.get(lba) == sparse.get(lba)));
        assert_eq!((sparse.get(Lba(3)), sparse.get(Lba(4))), (6, 0));
    }
}
