//! The newest version of each block of the volume: docs/format.md section 11.
//!
//! It takes twenty bytes for each block of the volume near other blocks with data, and the trims.

use std::collections::BTreeMap;

use crate::format::blocks::Trim;

const PAGE: usize = 512;
const PAGE_BLOCKS: u64 = PAGE as u64;

/// The place of a version: ordinal of its segment, and the block in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Ordinal among the segments found, in order of their numbers.
    pub(crate) segment: u32,
    pub(crate) column: u8,
    /// Number of the stripe in the segment, times chunk blocks, plus the block in the chunk.
    pub(crate) stripe_block: u32,
    pub(crate) lost: bool,
}

impl Spot {
    fn pack(self) -> u64 {
        assert!(self.stripe_block < 1 << 28 && self.column < 32, "checked with the shape");
        u64::from(self.stripe_block)
            | u64::from(self.column) << 28
            | u64::from(self.lost) << 33
            | (u64::from(self.segment) + 1) << 34
    }

    /// The spot of a packed value, if it is not zero.
    fn unpack(packed: u64) -> Option<Self> {
        let segment = ((packed >> 34) as u32).checked_sub(1)?;
        let lost = packed >> 33 & 1 == 1;
        let column = (packed >> 28 & 0x1F) as u8;
        Some(Self { segment, column, stripe_block: (packed & 0xFFF_FFFF) as u32, lost })
    }
}

struct Page {
    sequences: [u64; PAGE],
    spots: [u64; PAGE],
    checksums: [u32; PAGE],
}

/// The newest version of every block.
pub(crate) struct Versions {
    pages: BTreeMap<u64, Box<Page>>,
    trims: Vec<Trim>,
    /// First block of a trimmed range, one past it, and the newest sequence.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Checksums of every version, if every version is compared.
    every: Option<BTreeMap<(u64, u64), u32>>,
}

/// Two versions of one LBA and sequence have different data.
pub(crate) struct Differ;

impl Versions {
    pub(crate) fn new(remember_every: bool) -> Self {
        Self {
            pages: BTreeMap::new(),
            trims: Vec::new(),
            ranges: BTreeMap::new(),
            every: remember_every.then(BTreeMap::new),
        }
    }

    /// Adds a version of a block.
    pub(crate) fn add(
        &mut self,
        lba: u64,
        sequence: u64,
        checksum: u32,
        spot: Spot,
    ) -> Result<(), Differ> {
        let mut differs = false;
        if let Some(every) = self.every.as_mut().filter(|_| !spot.lost) {
            differs |= *every.entry((lba, sequence)).or_insert(checksum) != checksum;
        }
        let page = self.pages.entry(lba / PAGE_BLOCKS).or_insert_with(|| {
            Box::new(Page { sequences: [0; PAGE], spots: [0; PAGE], checksums: [0; PAGE] })
        });
        let at = (lba % PAGE_BLOCKS) as usize;
        let newer = match Spot::unpack(page.spots[at]) {
            None => true,
            Some(known) if sequence == page.sequences[at] => {
                differs |= !spot.lost && !known.lost && checksum != page.checksums[at];
                known.lost && !spot.lost
            }
            Some(_) => sequence > page.sequences[at],
        };
        if newer {
            page.sequences[at] = sequence;
            page.spots[at] = spot.pack();
            page.checksums[at] = checksum;
        }
        if differs { Err(Differ) } else { Ok(()) }
    }

    /// Adds a trim.
    pub(crate) fn trim(&mut self, trim: Trim) {
        if trim.blocks > 0 {
            self.trims.push(trim);
        }
    }

    /// Overlays the trims, older ones first. Called once, when all are added.
    pub(crate) fn settle(&mut self) {
        let mut trims = std::mem::take(&mut self.trims);
        trims.sort_by_key(|trim| (trim.sequence, trim.lba, trim.blocks));
        trims.dedup();
        for trim in trims {
            self.overlay(trim.lba, trim.lba + trim.blocks, trim.sequence);
        }
    }

    fn overlay(&mut self, start: u64, end: u64, sequence: u64) {
        let reaching = self.ranges.range(..end).rev().take_while(|(_, (until, _))| *until > start);
        let touched: Vec<_> = reaching.map(|(from, (until, old))| (*from, *until, *old)).collect();
        for (from, until, old) in touched {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, (start, old));
            }
            if until > end {
                self.ranges.insert(end, (until, old));
            }
        }
        self.ranges.insert(start, (end, sequence));
    }

    /// The newest trim of a block.
    pub(crate) fn trimmed(&self, lba: u64) -> Option<u64> {
        let (_, (end, sequence)) = self.ranges.range(..=lba).next_back()?;
        (*end > lba).then_some(*sequence)
    }

    /// The newest version of a block and its sequence, unless a trim is newer.
    pub(crate) fn newest(&self, lba: u64) -> Option<(u64, Spot)> {
        let page = self.pages.get(&(lba / PAGE_BLOCKS))?;
        let at = (lba % PAGE_BLOCKS) as usize;
        let spot = Spot::unpack(page.spots[at])?;
        let sequence = page.sequences[at];
        let trimmed = self.trimmed(lba).is_some_and(|trim| trim > sequence);
        (!trimmed).then_some((sequence, spot))
    }

    /// Every mapped or lost block, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, Spot)> + '_ {
        let lbas = self.pages.keys().flat_map(|page| page * PAGE_BLOCKS..(page + 1) * PAGE_BLOCKS);
        lbas.filter_map(|lba| self.newest(lba).map(|(sequence, spot)| (lba, sequence, spot)))
    }

    /// Trimmed ranges: first block, one past the last, sequence.
    pub(crate) fn trims(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.ranges.iter().map(|(start, (end, sequence))| (*start, *end, *sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(stripe_block: u32) -> Spot {
        Spot { segment: 7, column: 31, stripe_block, lost: false }
    }

    #[test]
    fn the_highest_sequence_wins_and_trims_hide_older_versions() {
        let mut versions = Versions::new(false);
        assert!(versions.add(5, 10, 1, spot(1)).is_ok());
        assert!(versions.add(5, 9, 2, spot(2)).is_ok());
        assert!(versions.add(6, 30, 2, spot(3)).is_ok());
        versions.trim(Trim { lba: 0, blocks: 100, sequence: 20 });
        versions.trim(Trim { lba: 50, blocks: 10, sequence: 15 });
        versions.trim(Trim { lba: 90, blocks: 20, sequence: 40 });
        versions.settle();
        assert_eq!((versions.newest(5), versions.trimmed(5)), (None, Some(20)));
        assert_eq!(versions.newest(6), Some((30, spot(3))));
        assert_eq!((versions.trimmed(55), versions.trimmed(95)), (Some(20), Some(40)));
        assert_eq!(versions.trimmed(110), None);
        let ranges: Vec<_> = versions.trims().collect();
        assert_eq!(ranges, [(0, 90, 20), (90, 110, 40)]);
        assert_eq!(versions.iter().count(), 1);
    }

    #[test]
    fn equal_sequences_with_different_data_are_noticed_even_when_old() {
        let mut versions = Versions::new(true);
        assert!(versions.add(5, 10, 1, spot(1)).is_ok());
        assert!(versions.add(5, 10, 1, spot(2)).is_ok());
        assert!(versions.add(5, 11, 9, spot(3)).is_ok());
        assert!(versions.add(5, 10, 2, spot(4)).is_err());
    }
}
