//! Deferred entries: replayed summary entries of blocks whose pages are absent, kept until one of
//! these pages is needed.
//!
//! Entering an entry into the index costs several cache misses; deferring it costs hardly one (67
//! and 22 ns per block, including the share of reading the summary). A start that serves users
//! before it has read the index therefore need not wait for more. Entries are in *groups* of the
//! blocks of several pages, in the order of replay; a group is entered as a whole.
//!
//! A block may have several entries. Before a group grows, entries older than another of the same
//! block are removed, so about three times the newest entries are kept at most.

use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::log::engine::address::{Page, Pba};
use crate::log::format::Sequence;

/// Groups of a volume, unless it is large: few enough for the ends of all to stay in a cache.
const GROUPS: u64 = 1024;

/// Most pages of a group: a request for one of them waits until the whole group is entered.
const GROUP_PAGES: u64 = 64;

/// Entries of a group from which old ones are removed before it grows: with so many in all groups,
/// they take 100 MiB.
const LOOKED_THROUGH: usize = 4096;

/// Address of a block according to a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(in crate::log) lba: Lba,
    pub(in crate::log) sequence: Sequence,
    pub(in crate::log) pba: Pba,
}

/// The number of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group(usize);

/// Entries that are not in the index yet.
#[derive(Debug)]
pub(in crate::log) struct Deferred {
    page_entries: u64,
    /// Blocks of a group.
    group_blocks: u64,
    groups: Vec<Vec<Entry>>,
    /// Entries of all groups together.
    entries: u64,
}

impl Deferred {
    /// For so many pages, and so many entries if evenly distributed.
    pub(in crate::log) fn new(page_entries: u64, pages: u64, entries: u64) -> Self {
        assert!(page_entries > 0, "{pages} pages of no entries");
        let group_pages = pages.div_ceil(GROUPS).clamp(1, GROUP_PAGES);
        let groups = pages.div_ceil(group_pages).max(1);
        let room = Lba(entries.div_ceil(groups)).index();
        // Random entries are distributed less evenly.
        let room = (room + room / 4).min(LOOKED_THROUGH);
        let groups = (0..groups).map(|_| Vec::with_capacity(room)).collect();
        Self { page_entries, group_blocks: group_pages * page_entries, groups, entries: 0 }
    }

    /// Defers an entry.
    pub(super) fn push(&mut self, entry: Entry) {
        let group = &mut self.groups[Lba(entry.lba.0 / self.group_blocks).index()];
        if group.len() == group.capacity() && group.len() >= LOOKED_THROUGH {
            let before = group.len();
            leave_out_older(group);
            let left_out = (before - group.len()) as u64;
            assert!(left_out <= self.entries, "{left_out} of {} entries are older", self.entries);
            self.entries -= left_out;
            // Otherwise the group would be searched again for each new entry.
            group.reserve(group.len());
        }
        group.push(entry);
        self.entries += 1;
    }

    /// Whether the entries concern more than `most / 2` blocks. All are examined if there are more
    /// than `most` entries; then their number has at least doubled since the last time.
    pub(super) fn exceeds(&mut self, most: u64) -> bool {
        if self.entries <= most {
            return false;
        }
        self.groups.iter_mut().for_each(leave_out_older);
        self.entries = self.groups.iter().map(|group| group.len() as u64).sum();
        self.entries > most / 2
    }

    /// Whether no entries are left.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The group of a page.
    pub(super) fn group_of(&self, page: Page) -> Group {
        Group(Lba(page.0 * self.page_entries / self.group_blocks).index())
    }

    /// A group for some of these pages that is not entered yet.
    pub(super) fn near(&self, pages: Range<Page>) -> Option<Group> {
        if pages.is_empty() {
            return None;
        }
        let (first, last) = (self.group_of(pages.start).0, self.group_of(Page(pages.end.0 - 1)).0);
        (first..=last).find(|group| !self.groups[*group].is_empty()).map(Group)
    }

    /// The next group from this one on that is not entered yet.
    pub(super) fn next(&self, Group(from): Group) -> Option<Group> {
        (from..self.groups.len()).find(|group| !self.groups[*group].is_empty()).map(Group)
    }

    /// Takes the entries of a group: the newest of each block, ordered by block.
    pub(super) fn take(&mut self, Group(group): Group) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.groups[group]);
        let (taken, left) = (entries.len() as u64, self.entries);
        assert!(taken <= left, "group {group} has {taken} of {left} deferred entries");
        self.entries -= taken;
        leave_out_older(&mut entries);
        entries
    }
}

/// Sorts entries by block, and keeps the newest of each: several if they are equally new.
fn leave_out_older(entries: &mut Vec<Entry>) {
    // The sort is stable: of two equal copies the first is as good. It uses a single key, as most
    // blocks have one entry.
    entries.sort_by_key(|entry| entry.lba);
    let (mut first, mut kept) = (0, 0);
    while let Some(Entry { lba, .. }) = entries.get(first).copied() {
        let alike = entries[first..].iter().take_while(|entry| entry.lba == lba).count();
        let of_block = first..first + alike;
        let newest = entries[of_block.clone()].iter().map(|entry| entry.sequence).max();
        for at in of_block {
            if Some(entries[at].sequence) == newest {
                entries[kept] = entries[at];
                kept += 1;
            }
        }
        first += alike;
    }
    entries.truncate(kept);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zoneweave_runtime::Random;

    use super::*;
    use crate::log::engine::address::Address;

    /// All blocks are in a few groups, so that these are searched repeatedly.
    #[test]
    fn the_newest_of_each_block_is_kept_and_little_else() {
        let (page_entries, pages) = (1 << 14, 2);
        let mut deferred = Deferred::new(page_entries, pages, 20);
        let mut model: BTreeMap<Lba, (Sequence, Vec<Pba>)> = BTreeMap::new();
        let mut random = Random::new(3);
        for at in 0..200_000 {
            let entry = Entry {
                lba: Lba(random.below(3_000) * 10),
                sequence: Sequence(random.below(100_000)),
                pba: Pba::from(Address(at)),
            };
            deferred.push(entry);
            let newest = model.entry(entry.lba).or_default();
            if entry.sequence > newest.0 {
                *newest = (entry.sequence, Vec::new());
            }
            if entry.sequence == newest.0 {
                newest.1.push(entry.pba);
            }
        }
        let counted = deferred.groups.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(counted, deferred.entries);
        assert!(counted < 3 * 3_000 + 2 * LOOKED_THROUGH as u64, "{counted}");
        let mut found: BTreeMap<Lba, (Sequence, Vec<Pba>)> = BTreeMap::new();
        while let Some(group) = deferred.near(Page(0)..Page(pages)) {
            for entry in deferred.take(group) {
                let page = Page(entry.lba.0 / page_entries);
                assert_eq!(deferred.group_of(page), group);
                let known = found.entry(entry.lba).or_insert((entry.sequence, Vec::new()));
                assert_eq!(known.0, entry.sequence);
                known.1.push(entry.pba);
            }
        }
        assert_eq!(found, model);
        assert!(deferred.is_empty());
    }

    #[test]
    fn what_is_told_twice_is_not_too_much() {
        let mut deferred = Deferred::new(8, 4, 0);
        for sequence in 0..100 {
            for lba in 0..10 {
                let (lba, pba) = (Lba(lba), Pba::from(Address(sequence)));
                deferred.push(Entry { lba, sequence: Sequence(sequence), pba });
            }
            assert!(!deferred.exceeds(20));
        }
        let (lba, pba) = (Lba(31), Pba::from(Address(0)));
        deferred.push(Entry { lba, sequence: Sequence::NONE, pba });
        assert!(deferred.exceeds(10), "eleven blocks");
    }
}
