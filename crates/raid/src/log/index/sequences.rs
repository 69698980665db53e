//! Sequences of the entries of an index under construction.

use fixedbitset::FixedBitSet;
use zoneweave_zoned::Lba;

use crate::log::engine::address::Page;
use crate::log::format::Sequence;
use crate::log::index::map::Entry;

/// The sequence of each block of a range; zero if unknown.
pub(in crate::log) enum Sequences {
    /// Most blocks have a known sequence.
    Dense {
        start: u64,
        /// Own sequences, by block from `start`.
        sequences: Own,
        /// Sequences from pages, which are used for blocks without one of their own.
        told: ToldByPages,
    },
    /// Few blocks have a known sequence.
    Sparse(ByPage),
}

/// Sequences are below this unless more than 4 PiB was written to the volume.
pub(in crate::log) const NARROW: Sequence = Sequence(1 << 40);

/// Own sequences are kept by page while fewer than one block in so many has one. An array is
/// faster, but a few scattered entries touch all its memory, which the kernel clears first: a sixth
/// of the time of a start.
const FEW_PART: usize = 256;

/// Own sequences of blocks, in the most compact form: the sequence plus one, or zero.
pub(in crate::log) enum Own {
    /// Few blocks have one of their own; kept by page.
    Few {
        /// Keyed by the block's number in the range.
        known: ByPage,
        /// Blocks in the range.
        blocks: usize,
        /// Whether some may not be below [`NARROW`].
        wide: bool,
    },
    /// Five bytes for each block: all sequences are below [`NARROW`].
    Narrow(Vec<[u8; 5]>),
    /// Eight bytes for each block, as some sequences are not below [`NARROW`]. Plain numbers: the
    /// allocator has zeroed memory for these, which is not touched before it is used.
    Wide(Vec<u64>),
}

impl Own {
    #[inline]
    fn get(&self, at: usize) -> Sequence {
        match self {
            Self::Few { known, .. } => known.get(Lba(at as u64)),
            Self::Narrow(sequences) => {
                let [a, b, c, d, e] = sequences[at];
                Sequence(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
            }
            Self::Wide(sequences) => Sequence(sequences[at]),
        }
    }

    #[inline]
    fn set(&mut self, at: usize, sequence: Sequence) {
        match self {
            Self::Few { known, blocks, .. } if known.count < *blocks / FEW_PART => {
                known.set(Lba(at as u64), sequence);
            }
            Self::Few { .. } => self.become_many().set(at, sequence),
            Self::Narrow(sequences) if sequence < NARROW => {
                let [a, b, c, d, e, ..] = sequence.0.to_le_bytes();
                sequences[at] = [a, b, c, d, e];
            }
            Self::Narrow(_) => self.widen()[at] = sequence.0,
            Self::Wide(sequences) => sequences[at] = sequence.0,
        }
    }

    #[cold]
    fn become_many(&mut self) -> &mut Self {
        if let Self::Few { known, blocks, wide } = self {
            let mut many = match wide {
                true => Self::Wide(vec![0; *blocks]),
                false => Self::Narrow(vec![[0; 5]; *blocks]),
            };
            let known = known.pages.iter().flatten();
            known.for_each(|(lba, sequence)| many.set(lba.index(), *sequence));
            *self = many;
        }
        self
    }

    #[cold]
    fn widen(&mut self) -> &mut [u64] {
        if let Self::Narrow(sequences) = self {
            let all = 0..sequences.len();
            *self = Self::Wide(all.map(|at| self.get(at).0).collect());
        }
        let Self::Wide(sequences) = self else { unreachable!("they are wide now") };
        sequences
    }
}

/// Sequences of few blocks.
pub(in crate::log) struct ByPage {
    /// Blocks of a page.
    page_entries: u64,
    /// By page; those of a page in order.
    pages: Vec<Vec<(Lba, Sequence)>>,
    /// Number of sequences.
    count: usize,
}

impl ByPage {
    fn of_none(page_entries: u64, pages: u64) -> Self {
        Self { page_entries, pages: vec![Vec::new(); Lba(pages).index()], count: 0 }
    }

    #[inline]
    fn get(&self, lba: Lba) -> Sequence {
        let of_page = &self.pages[Lba(lba.0 / self.page_entries).index()];
        sequence_in(of_page, lba).unwrap_or(Sequence::NONE)
    }

    #[inline]
    fn set(&mut self, lba: Lba, sequence: Sequence) {
        let of_page = &mut self.pages[Lba(lba.0 / self.page_entries).index()];
        match of_page.binary_search_by_key(&lba, |(known, _)| *known) {
            Ok(at) => of_page[at].1 = sequence,
            Err(at) => {
                of_page.insert(at, (lba, sequence));
                self.count += 1;
            }
        }
    }
}

/// Blocks with the sequence of their page. Most blocks are such, and a bit for each replaces a
/// sequence, whose memory is then never touched: fetching that takes longer than entering the
/// block.
pub(in crate::log) struct ToldByPages {
    /// Blocks of a page.
    page_entries: u64,
    sequences: Vec<Sequence>,
    told: FixedBitSet,
}

impl ToldByPages {
    fn of_none(blocks: usize, page_entries: u64) -> Self {
        let pages = blocks.div_ceil(Lba(page_entries).index());
        let told = FixedBitSet::with_capacity(blocks);
        Self { page_entries, sequences: vec![Sequence::NONE; pages], told }
    }

    fn get(&self, at: usize) -> Sequence {
        match self.told.contains(at) {
            true => self.sequences[at / Lba(self.page_entries).index()],
            false => Sequence::NONE,
        }
    }

    fn set_all(&mut self, first: usize, entries: &[Entry], sequence: Sequence) {
        let of_page = &mut self.sequences[first / Lba(self.page_entries).index()];
        let before = std::mem::replace(of_page, sequence);
        assert!(before == Sequence::NONE, "a page sets sequences once");
        // Most entries of most pages are mapped.
        self.told.insert_range(first..first + entries.len());
        let others = (first..).zip(entries).filter(|(_, entry)| entry.address().is_none());
        others.for_each(|(at, _)| self.told.remove(at));
    }
}

impl Sequences {
    /// For `start..end`, in whole pages, of which most blocks will have a sequence; all are below
    /// `below`.
    pub(in crate::log) fn dense(start: u64, end: u64, below: Sequence, page_entries: u64) -> Self {
        assert!(start <= end, "sequences of blocks {start} to {end}");
        assert!(
            start.is_multiple_of(page_entries),
            "block {start} begins no page of {page_entries}"
        );
        let blocks = Lba(end - start).index();
        let known = ByPage::of_none(page_entries, (end - start).div_ceil(page_entries));
        let sequences = Own::Few { known, blocks, wide: below >= NARROW };
        Self::Dense { start, sequences, told: ToldByPages::of_none(blocks, page_entries) }
    }

    /// For so many pages, of which few blocks will have a sequence.
    pub(in crate::log) fn sparse(page_entries: u64, pages: u64) -> Self {
        assert!(page_entries > 0, "{pages} pages of no entries");
        Self::Sparse(ByPage::of_none(page_entries, pages))
    }

    #[inline]
    pub(super) fn get(&self, lba: Lba) -> Sequence {
        match self {
            Self::Dense { start, sequences, told } => {
                let at = Lba(lba.0 - start).index();
                let own = sequences.get(at).0.checked_sub(1);
                own.map_or_else(|| told.get(at), Sequence)
            }
            Self::Sparse(known) => known.get(lba),
        }
    }

    /// Sets the sequence of a block.
    #[inline]
    pub(super) fn set(&mut self, lba: Lba, sequence: Sequence) {
        match self {
            Self::Dense { start, sequences, .. } => {
                // Even zero is recorded as known, although it was never assigned.
                let own = Sequence(sequence.0.saturating_add(1));
                sequences.set(Lba(lba.0 - *start).index(), own);
            }
            Self::Sparse(known) => known.set(lba, sequence),
        }
    }

    /// Sets the sequence of all mapped entries of the page that begins with `first`, none of which
    /// is known.
    pub(super) fn set_all(&mut self, first: Lba, entries: &[Entry], sequence: Sequence) {
        match self {
            Self::Dense { start, told, .. } => {
                told.set_all(Lba(first.0 - *start).index(), entries, sequence);
            }
            Self::Sparse(known) => {
                let entries = (first.0..).map(Lba).zip(entries);
                let told = entries.filter(|(_, entry)| entry.address().is_some());
                told.for_each(|(lba, _)| known.set(lba, sequence));
            }
        }
    }

    /// The blocks set by [`Self::set_all`], even if they were set again since, numbered from the
    /// first.
    ///
    /// # Panics
    /// If it is sparse.
    pub(in crate::log) fn into_told(self) -> FixedBitSet {
        let Self::Dense { told, .. } = self else { unreachable!("most blocks were to be known") };
        told.told
    }

    /// The known sequences of few blocks, by page and in order.
    ///
    /// # Panics
    /// If it is dense.
    pub(super) fn into_pages(self) -> impl Iterator<Item = (Page, Vec<(Lba, Sequence)>)> {
        let Self::Sparse(known) = self else { unreachable!("few blocks were replayed") };
        (0..).map(Page).zip(known.pages).filter(|(_, of_page)| !of_page.is_empty())
    }
}

/// The sequence of a block among those of its page.
pub(super) fn sequence_in(known: &[(Lba, Sequence)], lba: Lba) -> Option<Sequence> {
    known.binary_search_by_key(&lba, |(known, _)| *known).ok().map(|at| known[at].1)
}

#[cfg(test)]
mod tests {
    use zoneweave_runtime::Random;
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::log::engine::address::{BlockPlace, PbaSpace, SegmentSlot};
    use crate::log::engine::geometry::ChunkBlock;
    use crate::scheme::{Column, Scheme};

    #[test]
    fn both_know_the_same() {
        let (mut dense, mut sparse) =
            (Sequences::dense(0, 100, NARROW, 8), Sequences::sparse(8, 13));
        let wide = NARROW.0;
        let known = [(3, 5), (99, 7), (2, 1), (3, 6), (7, wide - 1), (8, 2), (9, wide), (3, 8)];
        for (lba, sequence) in known.map(|(lba, sequence)| (lba, Sequence(sequence))) {
            dense.set(Lba(lba), sequence);
            sparse.set(Lba(lba), sequence);
            assert!((0..100).map(Lba).all(|lba| dense.get(lba) == sparse.get(lba)));
        }
        assert_eq!((sparse.get(Lba(3)), sparse.get(Lba(4))), (Sequence(8), Sequence::NONE));
    }

    #[test]
    fn few_become_many() {
        let mut random = Random::new(3);
        for below in [NARROW, NARROW.next()] {
            let blocks = 40 * FEW_PART as u64;
            let draw = |random: &mut Random| match random.below(2) {
                0 => Sequence(random.below(NARROW.0)),
                _ => Sequence(NARROW.0 - 50 + random.below(100)),
            };
            let (mut some, mut all) =
                (Sequences::dense(0, blocks, below, 8), vec![Sequence::NONE; 40 * FEW_PART]);
            for _ in 0..100 {
                let (at, sequence) = (random.below(blocks), draw(&mut random));
                some.set(Lba(at), sequence);
                all[Lba(at).index()] = sequence;
                let found = (0..blocks).map(|lba| some.get(Lba(lba)));
                assert!(found.eq(all.iter().copied()));
            }
        }
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
        for sequence in [9, NARROW.0 - 1, NARROW.0] {
            let [before, sequence] = [sequence - 1, sequence].map(Sequence);
            let both = [Sequences::dense(8, 32, NARROW, 8), Sequences::sparse(8, 4)];
            for mut sequences in both {
                sequences.set(Lba(17), Sequence(5));
                sequences.set_all(Lba(16), &entries, sequence);
                sequences.set_all(Lba(24), &[somewhere.into(); 8], sequence.next());
                let found = [15, 16, 17, 18, 19].map(|lba| sequences.get(Lba(lba)));
                let none = Sequence::NONE;
                assert_eq!(found, [none, sequence, Sequence(5), sequence, none]);
                assert!((24..32).all(|lba| sequences.get(Lba(lba)) == sequence.next()));
                // The exact sequence of one of them is found.
                for exactly in [before, none, sequence.plus(2)] {
                    sequences.set(Lba(18), exactly);
                    assert_eq!(sequences.get(Lba(18)), exactly);
                }
            }
        }
    }
}
