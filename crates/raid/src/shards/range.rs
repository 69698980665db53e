//! The mapping of a volume's blocks to its shards.

use super::UNIT_BLOCKS;

/// Blocks from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The striping of shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    shards: u64,
}

impl Range {
    pub(super) const fn blocks(self) -> u64 {
        self.end - self.start
    }
}

impl Rounds {
    pub(super) const fn of(shards: usize) -> Self {
        Self { shards: shards as u64 }
    }

    /// The part of a volume's range in a shard, as a range of the shard.
    pub(super) fn part(self, range: Range, shard: usize) -> Range {
        assert!((shard as u64) < self.shards, "shard {shard} of {}", self.shards);
        Range { start: self.below(range.start, shard), end: self.below(range.end, shard) }
    }

    /// Blocks of a shard below `block` of the volume.
    fn below(self, block: u64, shard: usize) -> u64 {
        let round = self.shards * UNIT_BLOCKS;
        let before = shard as u64 * UNIT_BLOCKS;
        block / round * UNIT_BLOCKS + (block % round).saturating_sub(before).min(UNIT_BLOCKS)
    }

    /// The volume's block for a shard's block.
    pub(super) fn whole(self, block: u64, shard: usize) -> u64 {
        (block / UNIT_BLOCKS * self.shards + shard as u64) * UNIT_BLOCKS + block % UNIT_BLOCKS
    }

    /// The shard that holds all of a range; `None` if there are several.
    pub(super) fn only(self, range: Range) -> Option<usize> {
        let mut units = self.units(range);
        let (shard, _) = units.next()?;
        units.next().is_none().then_some(shard)
    }

    /// The shards of a range in the order of its blocks, with the number of blocks of each piece.
    pub(super) fn units(self, range: Range) -> impl Iterator<Item = (usize, u64)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let end = (at / UNIT_BLOCKS + 1).saturating_mul(UNIT_BLOCKS).min(range.end);
            let unit = (at < end).then(|| {
                let shard = at / UNIT_BLOCKS % self.shards;
                (usize::try_from(shard).expect("at most 256 shards"), end - at)
            });
            at = end;
            unit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_in_one_shard_and_comes_back() {
        for shards in [1, 2, 3, 7] {
            let rounds = Rounds::of(shards);
            for block in 0..UNIT_BLOCKS * 23 {
                let one = Range { start: block, end: block + 1 };
                let (shard, blocks) = rounds.units(one).next().unwrap();
                let there = rounds.part(one, shard);
                assert_eq!((blocks, there.blocks()), (1, 1));
                assert_eq!(rounds.whole(there.start, shard), block);
                let held: u64 = (0..shards).map(|at| rounds.part(one, at).blocks()).sum();
                assert_eq!(held, 1);
            }
        }
    }

    #[test]
    fn units_are_what_the_parts_hold() {
        let rounds = Rounds::of(3);
        for (start, end) in [(0, 0), (5, 9), (60, 70), (0, 1000), (63, 64), (64, 400)] {
            let range = Range { start, end };
            for shard in 0..3 {
                let units = rounds.units(range).filter(|(at, _)| *at == shard);
                let blocks: u64 = units.map(|(_, blocks)| blocks).sum();
                assert_eq!(blocks, rounds.part(range, shard).blocks());
            }
        }
    }
}
