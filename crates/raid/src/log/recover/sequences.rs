//! How new the entries of an index are that is being built.

use zoneweave_zoned::Lba;

use crate::log::index::{Entry, Page};

/// The sequence of each block of a range; zero of those of which nothing is known.
pub(in crate::log) enum Sequences {
    /// Of most blocks something is known.
    Dense {
        /// The first block.
        start: u64,
        /// By block.
        sequences: Dense,
    },
    /// Of few; those of a page in order.
    Sparse {
        /// Blocks of a page.
        page_entries: u64,
        /// By page, from the first one of the volume on.
        pages: Vec<Vec<(Lba, u64)>>,
    },
}

/// Sequences are below, unless a volume was written to for very long: 4 PiB.
pub(super) const NARROW: u64 = 1 << 40;

/// Sequences one behind the other, in as little memory as they fit in.
pub(in crate::log) enum Dense {
    /// Of five bytes: all are below [`NARROW`].
    Narrow(Vec<[u8; 5]>),
    /// Of eight.
    Wide(Vec<u64>),
}

impl Dense {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        match self {
            Self::Narrow(sequences) => {
                let [a, b, c, d, e] = sequences[at];
                u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
            }
            Self::Wide(sequences) => sequences[at],
        }
    }

    #[inline]
    fn set(&mut self, at: usize, sequence: u64) {
        match self {
            Self::Narrow(sequences) if sequence < NARROW => {
                let [a, b, c, d, e, ..] = sequence.to_le_bytes();
                sequences[at] = [a, b, c, d, e];
            }
            Self::Narrow(_) => self.widen()[at] = sequence,
            Self::Wide(sequences) => sequences[at] = sequence,
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut [u64] {
        if let Self::Narrow(sequences) = self {
            let all = 0..sequences.len();
            *self = Self::Wide(all.map(|at| self.get(at)).collect());
        }
        let Self::Wide(sequences) = self else { unreachable!("they are wide now") };
        sequences
    }
}

impl Sequences {
    /// Nothing is known of `start..end`, and it will be of most of it; all sequences are below one.
    pub(in crate::log) fn dense(start: u64, end: u64, below: u64) -> Self {
        let blocks = Lba(end - start).index();
        let sequences = match below <= NARROW {
            true => Dense::Narrow(vec![[0; 5]; blocks]),
            false => Dense::Wide(vec![0; blocks]),
        };
        Self::Dense { start, sequences }
    }

    /// Nothing is known of so many pages, and it will be of few blocks.
    pub(in crate::log) fn sparse(page_entries: u64, pages: u64) -> Self {
        Self::Sparse { page_entries, pages: vec![Vec::new(); Lba(pages).index()] }
    }

    #[inline]
    pub(in crate::log) fn get(&self, lba: Lba) -> u64 {
        match self {
            Self::Dense { start, sequences } => sequences.get(Lba(lba.0 - start).index()),
            Self::Sparse { page_entries, pages } => {
                let of_page = &pages[Lba(lba.0 / page_entries).index()];
                sequence_in(of_page, lba).unwrap_or(0)
            }
        }
    }

    /// Something is known of a block from now on.
    #[inline]
    pub(in crate::log) fn set(&mut self, lba: Lba, sequence: u64) {
        match self {
            Self::Dense { start, sequences } => {
                sequences.set(Lba(lba.0 - *start).index(), sequence);
            }
            Self::Sparse { page_entries, pages } => {
                let of_page = &mut pages[Lba(lba.0 / *page_entries).index()];
                match of_page.binary_search_by_key(&lba, |(known, _)| *known) {
                    Ok(at) => of_page[at].1 = sequence,
                    Err(at) => of_page.insert(at, (lba, sequence)),
                }
            }
        }
    }

    /// The same is known of those blocks from `first` on whose entries lead somewhere.
    pub(in crate::log) fn set_all(&mut self, first: Lba, entries: &[Entry], sequence: u64) {
        let set = |entry: &Entry| entry.address().is_some();
        match self {
            Self::Dense { start, sequences: Dense::Narrow(sequences) } if sequence < NARROW => {
                let [a, b, c, d, e, ..] = sequence.to_le_bytes();
                let sequences = sequences[Lba(first.0 - *start).index()..].iter_mut();
                for (known, _) in sequences.zip(entries).filter(|(_, entry)| set(entry)) {
                    *known = [a, b, c, d, e];
                }
            }
            _ => {
                let lbas = (first.0..).map(Lba).zip(entries).filter(|(_, entry)| set(entry));
                lbas.for_each(|(lba, _)| self.set(lba, sequence));
            }
        }
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
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::layout::{Column, Scheme};
    use crate::log::geometry::ChunkBlock;
    use crate::log::index::{BlockPlace, PbaSpace, SegmentSlot};

    #[test]
    fn both_know_the_same() {
        let (mut dense, mut sparse) = (Sequences::dense(0, 100, NARROW), Sequences::sparse(8, 13));
        let known = [(3, 5), (99, 7), (2, 1), (3, 6), (7, NARROW - 1), (8, 2), (9, NARROW), (3, 8)];
        for (lba, sequence) in known {
            dense.set(Lba(lba), sequence);
            sparse.set(Lba(lba), sequence);
            assert!((0..100).map(Lba).all(|lba| dense.get(lba) == sparse.get(lba)));
        }
        assert_eq!((sparse.get(Lba(3)), sparse.get(Lba(4))), (8, 0));
    }

    #[test]
    fn many_at_a_time_are_as_one_by_one() {
        let space = PbaSpace::new(Scheme::new(3, 1).unwrap(), BlockCount(64));
        let somewhere = space.pba(BlockPlace {
            slot: SegmentSlot(1),
            column: Column::of(2),
            block: ChunkBlock(3),
        });
        let entries = [somewhere.into(), Entry::default(), somewhere.into()];
        for sequence in [9, NARROW - 1, NARROW] {
            let both = [Sequences::dense(8, 32, NARROW), Sequences::sparse(8, 4)];
            for mut sequences in both {
                sequences.set(Lba(17), 5);
                sequences.set_all(Lba(16), &entries, sequence);
                let found = [15, 16, 17, 18, 19].map(|lba| sequences.get(Lba(lba)));
                assert_eq!(found, [0, sequence, 5, sequence, 0]);
            }
        }
    }
}
