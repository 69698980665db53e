//! Faults in superblock records: the errors of the members, and lost ranges of the volume.
//!
//! All of it is in one record, so that the newest readable one is complete. Ranges beyond the limit
//! are joined with their neighbours: what is listed includes every lost block.

use std::ops::Range;

use serde::Serialize;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::Lba;

use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::errors::MemberErrors;
use crate::instrument::marks::{Mark, mark};
use crate::scheme::MAX_COLUMNS;

/// A range of the volume in which blocks were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// Its first block.
    pub lba: Lba,
    /// Number of blocks, at least one.
    pub blocks: u64,
}

/// A lost range in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LostStatus {
    /// Its first block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl From<LostRange> for LostStatus {
    fn from(range: LostRange) -> Self {
        Self { lba: range.lba.0, blocks: range.blocks }
    }
}

impl LostRange {
    /// The blocks from one on, up to another; `None` if there are none.
    fn between(start: u64, end: u64) -> Option<Self> {
        (start < end).then(|| Self { lba: Lba(start), blocks: end - start })
    }

    /// The block behind it.
    pub(crate) fn end(self) -> u64 {
        self.lba.0 + self.blocks
    }
}

/// Faults since they were last cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The errors of each member, by slot.
    pub errors: Vec<MemberErrors>,
    /// Ranges of the volume in which blocks were lost: apart from each other, ascending.
    pub lost: Vec<LostRange>,
    /// Whether ranges were joined, with blocks between them that are not lost.
    pub joined: bool,
}

/// The start of the payload.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    ranges: U16,
    members: u8,
    joined: u8,
    reserved: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawErrors {
    read: U64,
    write: U64,
    checksum: U64,
    repaired: U64,
    unrepairable: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRange {
    lba: U64,
    blocks: U64,
}

impl Faults {
    /// Most lost ranges in a record.
    pub const RANGES_MOST: usize = 64;

    /// Those of an array of so many members to which nothing has happened.
    pub(crate) fn none_of(members: usize) -> Self {
        Self { errors: vec![MemberErrors::default(); members], ..Self::default() }
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.lost.is_empty() && self.errors.iter().all(|errors| *errors == MemberErrors::default())
    }

    /// Whether these, on record, no longer say what `known` does: of other lost ranges, or less
    /// than half of some errors.
    pub(crate) fn are_outdated_by(&self, known: &Self) -> bool {
        assert!(self.errors.len() == known.errors.len(), "errors of another array");
        let mut errors = self.errors.iter().zip(&known.errors);
        (&self.lost, self.joined) != (&known.lost, known.joined)
            || errors.any(|(on_record, known)| on_record.are_outdated_by(known))
    }

    /// The listed blocks.
    pub(crate) fn lost_blocks(&self) -> impl Iterator<Item = Lba> {
        self.lost.iter().flat_map(|range| range.lba.0..range.end()).map(Lba)
    }

    /// Adds a lost block. Returns whether it was listed before.
    pub(crate) fn lose(&mut self, lba: Lba) -> bool {
        let at = self.lost.partition_point(|range| range.end() < lba.0);
        match self.lost.get_mut(at) {
            Some(range) if range.lba <= lba && lba.0 < range.end() => return true,
            Some(range) if range.end() == lba.0 => range.blocks += 1,
            Some(range) if lba.0 + 1 == range.lba.0 => {
                *range = LostRange { lba, blocks: range.blocks + 1 };
            }
            _ => self.lost.insert(at, LostRange { lba, blocks: 1 }),
        }
        if let Some(next) = self.lost.get(at + 1).copied()
            && self.lost[at].end() == next.lba.0
        {
            self.join(at);
        }
        self.join_excess(0..0);
        false
    }

    /// Whether a block is known to be lost: of joined ranges, some blocks may not be.
    pub(crate) fn is_known(&self, lba: Lba) -> bool {
        !self.joined && self.is_listed(lba)
    }

    /// Whether a block is in a listed range.
    pub(crate) fn is_listed(&self, lba: Lba) -> bool {
        let at = self.lost.partition_point(|range| range.end() <= lba.0);
        self.lost.get(at).is_some_and(|range| range.lba <= lba)
    }

    /// Takes blocks off the list, whose contents are gone for another reason. Returns whether some
    /// of them were listed.
    pub(crate) fn forget(&mut self, blocks: Range<u64>) -> bool {
        assert!(!blocks.is_empty(), "no blocks to be forgotten at {}", blocks.start);
        let parts = |range: &LostRange| {
            let before = LostRange::between(range.lba.0, range.end().min(blocks.start));
            let behind = LostRange::between(range.lba.0.max(blocks.end), range.end());
            [before, behind].into_iter().flatten()
        };
        let left: Vec<_> = self.lost.iter().flat_map(parts).collect();
        let forgot = left != self.lost;
        self.lost = left;
        self.joined &= !self.lost.is_empty();
        self.join_excess(blocks);
        forgot
    }

    /// Adds the lost ranges of another record.
    pub(crate) fn lose_all_of(&mut self, other: &Self) {
        let mut all = [self.lost.as_slice(), &other.lost].concat();
        all.sort_unstable_by_key(|range| range.lba);
        self.lost.clear();
        for range in all {
            match self.lost.last_mut() {
                Some(last) if range.lba.0 <= last.end() => {
                    last.blocks = last.end().max(range.end()) - last.lba.0;
                }
                _ => self.lost.push(range),
            }
        }
        self.joined |= other.joined;
        self.join_excess(0..0);
    }

    /// Joins the closest of too many ranges, but not those on both sides of some blocks.
    fn join_excess(&mut self, apart: Range<u64>) {
        while self.lost.len() > Self::RANGES_MOST {
            let gap = |at: &usize| self.lost[at + 1].lba.0 - self.lost[*at].end();
            let is_over = |at: &usize| {
                !apart.is_empty()
                    && self.lost[*at].end() <= apart.start
                    && apart.end <= self.lost[at + 1].lba.0
            };
            let pairs = (0..self.lost.len() - 1).filter(|at| !is_over(at));
            let closest = pairs.min_by_key(gap).expect("three ranges");
            mark(Mark::LostRangesJoined);
            self.joined = true;
            self.join(closest);
        }
        assert!(self.lost.len() <= Self::RANGES_MOST, "{} lost ranges", self.lost.len());
    }

    /// Joins a range with the next.
    fn join(&mut self, at: usize) {
        let next = self.lost.remove(at + 1);
        let range = &mut self.lost[at];
        range.blocks = next.end() - range.lba.0;
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.lost.len() <= Self::RANGES_MOST, "{} lost ranges", self.lost.len());
        let head = RawHead {
            ranges: u16::try_from(self.lost.len()).expect("few").into(),
            members: u8::try_from(self.errors.len()).expect("at most 32"),
            joined: self.joined.into(),
            reserved: [0; 4],
        };
        let mut bytes = head.as_bytes().to_vec();
        for errors in &self.errors {
            let number = |count: u64| count.min(NUMBER_LIMIT - 1).into();
            let MemberErrors { read, write, checksum, repaired, unrepairable } = *errors;
            let raw = RawErrors {
                read: number(read),
                write: number(write),
                checksum: number(checksum),
                repaired: number(repaired),
                unrepairable: number(unrepairable),
            };
            bytes.extend(raw.as_bytes());
        }
        for range in &self.lost {
            let raw = RawRange { lba: range.lba.0.into(), blocks: range.blocks.into() };
            bytes.extend(raw.as_bytes());
        }
        bytes
    }

    /// Decodes the faults of an array of so many members, whose addresses end here.
    pub(crate) fn decode(bytes: &[u8], members: usize, end: u64) -> Option<Self> {
        let (head, rest) = RawHead::ref_from_prefix(bytes).ok()?;
        let ranges = usize::from(head.ranges.get());
        if usize::from(head.members) != members || head.joined > 1 || ranges > Self::RANGES_MOST {
            return None;
        }
        let (errors, rest) = <[RawErrors]>::ref_from_prefix_with_elems(rest, members).ok()?;
        let ranges = <[RawRange]>::ref_from_bytes_with_elems(rest, ranges).ok()?;
        let errors: Option<_> = errors.iter().map(decode_errors).collect();
        let mut lost = Vec::with_capacity(ranges.len());
        let mut behind = None;
        for raw in ranges {
            let (lba, blocks) = (raw.lba.get(), raw.blocks.get());
            let next = lba.checked_add(blocks).filter(|next| *next <= end)?;
            if blocks == 0 || behind.is_some_and(|behind| lba <= behind) {
                return None;
            }
            behind = Some(next);
            lost.push(LostRange { lba: Lba(lba), blocks });
        }
        Some(Self { errors: errors?, lost, joined: head.joined == 1 })
    }
}

fn decode_errors(raw: &RawErrors) -> Option<MemberErrors> {
    let errors = MemberErrors {
        read: raw.read.get(),
        write: raw.write.get(),
        checksum: raw.checksum.get(),
        repaired: raw.repaired.get(),
        unrepairable: raw.unrepairable.get(),
    };
    let MemberErrors { read, write, checksum, repaired, unrepairable } = errors;
    let counts = [read, write, checksum, repaired, unrepairable];
    counts.iter().all(|count| *count < NUMBER_LIMIT).then_some(errors)
}

/// Of the longest record.
pub(crate) const BYTES_MOST: usize = size_of::<RawHead>()
    + MAX_COLUMNS * size_of::<RawErrors>()
    + Faults::RANGES_MOST * size_of::<RawRange>();
const _: () = assert!(size_of::<RawHead>() == 8 && size_of::<RawErrors>() == 40);
const _: () = assert!(size_of::<RawRange>() == 16);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zoneweave_runtime::Random;

    use super::*;
    use crate::array::format::bounds::LBA_LIMIT;

    fn lost(blocks: impl IntoIterator<Item = u64>) -> Faults {
        let mut faults = Faults::default();
        blocks.into_iter().for_each(|lba| {
            faults.lose(Lba(lba));
        });
        faults
    }

    #[test]
    fn lost_blocks_are_listed_as_the_fewest_ranges() {
        let mut random = Random::new(3);
        for _ in 0..500 {
            let blocks: Vec<_> = (0..random.below(60)).map(|_| random.below(100)).collect();
            let faults = lost(blocks.iter().copied());
            let listed = faults.lost.iter().flat_map(|range| range.lba.0..range.end());
            let expected: BTreeSet<_> = blocks.into_iter().collect();
            assert_eq!(listed.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            assert!(faults.lost.is_sorted_by(|one, next| one.end() < next.lba.0));
            assert!(!faults.joined);
            assert_eq!(Faults::decode(&faults.encode(), 0, LBA_LIMIT), Some(faults));
        }
    }

    #[test]
    fn the_closest_of_too_many_ranges_are_joined() {
        let apart = |at: u64| at * 10 + u64::from(at > 40);
        let mut faults = lost((0..64).map(apart));
        assert!(!faults.joined);
        assert!(!faults.lose(Lba(1003)), "it was not lost before");
        assert!(faults.joined && faults.lost.len() == 64);
        assert!((0..64).map(apart).chain([1003]).all(|lba| faults.lose(Lba(lba))));
        assert_eq!(Faults::decode(&faults.encode(), 0, LBA_LIMIT), Some(faults));
    }

    #[test]
    fn blocks_are_taken_off_the_list() {
        let mut random = Random::new(4);
        for _ in 0..500 {
            let blocks: BTreeSet<_> = (0..random.below(60)).map(|_| random.below(100)).collect();
            let start = random.below(100);
            let gone = start..start + 1 + random.below(30);
            let mut faults = lost(blocks.iter().copied());
            let any = blocks.iter().any(|lba| gone.contains(lba));
            assert_eq!(faults.forget(gone.clone()), any);
            let left = blocks.iter().copied().filter(|lba| !gone.contains(lba));
            assert_eq!(faults, lost(left));
            let listed = |lba: &u64| faults.is_listed(Lba(*lba));
            assert!(
                (0..100).all(|lba| listed(&lba) == (blocks.contains(&lba) && !gone.contains(&lba)))
            );
        }
    }

    /// A hole in one of as many ranges as there may be makes one too many.
    #[test]
    fn a_range_that_falls_apart_joins_others() {
        let mut faults = lost((0..64).flat_map(|at| [at * 10, at * 10 + 1, at * 10 + 2]));
        assert!(faults.forget(321..322));
        assert!(faults.joined && faults.lost.len() == 64);
        assert!(faults.is_listed(Lba(320)) && faults.is_listed(Lba(322)));
        assert!(!faults.is_listed(Lba(321)) && !faults.is_known(Lba(320)));
        assert!(faults.forget(0..640) && faults == Faults::default());
    }

    /// The blocks that were forgotten are not listed again, even if no two ranges are closer.
    #[test]
    fn what_was_forgotten_stays_off_the_list() {
        let mut faults = lost((0..66).map(|at| at * 20));
        assert!(faults.joined && faults.lost.len() == 64);
        assert!(faults.is_listed(Lba(12)), "the first were joined");
        assert!(faults.forget(10..20));
        assert!((10..20).all(|lba| !faults.is_listed(Lba(lba))));
        assert!((0..66).all(|at| faults.is_listed(Lba(at * 20))));
        assert!(!faults.forget(10..20), "nothing is left to be forgotten");
    }

    #[test]
    fn a_drive_that_keeps_failing_outdates_few_records() {
        let mut recorded = Faults { errors: vec![MemberErrors::default(); 3], ..lost([3]) };
        let (mut known, mut records) = (recorded.clone(), 0);
        for _ in 0..100_000 {
            known.errors[1].read += 1;
            if recorded.are_outdated_by(&known) {
                recorded = known.clone();
                records += 1;
            }
        }
        assert_eq!(records, 17);
        known.errors[2].write += 1;
        assert!(recorded.are_outdated_by(&known), "the first error of its kind");
        recorded = known.clone();
        known.lose(Lba(4));
        assert!(recorded.are_outdated_by(&known), "one more lost block");
    }

    #[test]
    fn what_no_volume_writes_is_refused() {
        let errors = MemberErrors { read: 1, write: 2, checksum: 3, repaired: 4, unrepairable: 5 };
        let faults = Faults { errors: vec![errors; 32], ..lost([3, 4, 9]) };
        let bytes = faults.encode();
        assert_eq!(Faults::decode(&bytes, 32, LBA_LIMIT), Some(faults));
        assert_eq!(Faults::decode(&bytes, 31, LBA_LIMIT), None);
        assert!((0..bytes.len()).all(|end| Faults::decode(&bytes[..end], 32, LBA_LIMIT).is_none()));
        let with = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Faults::decode(&bytes, 32, LBA_LIMIT)
        };
        let ranges = 8 + 32 * 40;
        assert_eq!(with(3, 2), None, "neither joined nor not");
        assert_eq!(with(15, 0xFF), None, "more errors than there ever are");
        assert_eq!(with(ranges + 8, 0), None, "an empty range");
        assert_eq!(with(ranges + 16, 5), None, "ranges that touch");
        assert_eq!(with(ranges + 7, 1), None, "beyond any volume");
    }
}
