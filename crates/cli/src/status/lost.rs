//! Lost ranges of a volume, as users need them: in bytes of what is exported.
//!
//! A shard knows its own blocks. Those of the volume are dealt out to shards in units, so a lost
//! range of a shard is several ranges of the volume.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log::{Faults, LostStatus};
use zoneweave_raid::shards::{Shard, UNIT_BLOCKS};
use zoneweave_zoned::{BLOCK_BYTES, Lba};

/// Ranges of a volume in which blocks were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LostRanges {
    pub ranges: Vec<LostRange>,
    /// Whether ranges were joined, as a record does not hold more: some blocks are not lost.
    pub joined: bool,
}

/// A range in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LostRange {
    pub offset_bytes: u64,
    pub size_bytes: u64,
}

impl LostRanges {
    /// Ranges of the volume that an array is a shard of, by the array's own.
    fn of(blocks: impl Iterator<Item = (u64, u64)>, joined: bool, shard: Shard) -> Self {
        let mut lost = Self { ranges: Vec::new(), joined };
        blocks.for_each(|(first, blocks)| lost.add(first, blocks, shard));
        lost
    }

    /// Adds a range of a shard: each unit of it is elsewhere in the volume. A long one is listed
    /// as all between its first and its last block.
    fn add(&mut self, first: u64, blocks: u64, shard: Shard) {
        let end = first + blocks;
        let of_volume = |block| shard.block_of_volume(Lba(block)).0;
        let units = end.div_ceil(UNIT_BLOCKS) - first / UNIT_BLOCKS;
        if shard == Shard::WHOLE || units > UNITS_LISTED {
            let start = of_volume(first);
            self.joined |= shard != Shard::WHOLE;
            self.push(start, of_volume(end - 1) + 1 - start);
            return;
        }
        let mut at = first;
        while at < end {
            let next = ((at / UNIT_BLOCKS + 1) * UNIT_BLOCKS).min(end);
            self.push(of_volume(at), next - at);
            at = next;
        }
    }

    fn push(&mut self, first: u64, blocks: u64) {
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        self.ranges.push(LostRange { offset_bytes: bytes(first), size_bytes: bytes(blocks) });
    }

    /// Those of a running volume.
    pub(super) fn of_status(lost: &[LostStatus], joined: bool, shard: Shard) -> Self {
        Self::of(lost.iter().map(|range| (range.lba, range.blocks)), joined, shard)
    }

    /// Those on record.
    pub(super) fn of_faults(faults: &Faults, shard: Shard) -> Self {
        let ranges = faults.lost.iter().map(|range| (range.lba.0, range.blocks));
        Self::of(ranges, faults.joined, shard)
    }
}

/// Most units of a range of a shard that are listed one by one.
const UNITS_LISTED: u64 = 16;

/// Number of lost blocks of a running volume, of whose members each has found so many.
pub(super) fn lost_of_status(
    found: impl Iterator<Item = u64>,
    lost: &[LostStatus],
    joined: bool,
) -> u64 {
    lost_blocks(found, lost.iter().map(|range| range.blocks), joined)
}

/// Number of lost blocks on record.
pub(super) fn lost_on_record(faults: &Faults) -> u64 {
    let found = faults.errors.iter().map(|errors| errors.unrepairable);
    lost_blocks(found, faults.lost.iter().map(|range| range.blocks), faults.joined)
}

/// Number of lost blocks, from the blocks found on drives and the listed ones. Of joined ranges not
/// all blocks are lost, and the found ones come closer.
fn lost_blocks(
    found: impl Iterator<Item = u64>,
    listed: impl Iterator<Item = u64>,
    joined: bool,
) -> u64 {
    let found = found.fold(0, u64::saturating_add);
    let listed = listed.fold(0, u64::saturating_add);
    match joined && found > 0 {
        true => found.min(listed),
        false => found.max(listed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(shard: Shard, first: u64, blocks: u64) -> (Vec<(u64, u64)>, bool) {
        let lost = LostRanges::of([(first, blocks)].into_iter(), false, shard);
        let blocks = |bytes: u64| bytes / BLOCK_BYTES as u64;
        let ranges = lost.ranges.iter();
        let ranges = ranges.map(|range| (blocks(range.offset_bytes), blocks(range.size_bytes)));
        (ranges.collect(), lost.joined)
    }

    /// 800 KiB were said to be lost where 608 KiB were.
    #[test]
    fn blocks_between_joined_ranges_do_not_count() {
        let lost =
            |found: [u64; 2], joined| lost_blocks(found.into_iter(), [150, 50].into_iter(), joined);
        assert_eq!((lost([100, 52], true), lost([100, 52], false)), (152, 200));
        assert_eq!((lost([200, 200], true), lost([200, 200], false)), (200, 400));
        assert_eq!((lost([0, 0], true), lost([0, 0], false)), (200, 200));
    }

    #[test]
    fn offsets_are_those_of_the_volume() {
        assert_eq!(listed(Shard::WHOLE, 70, 3000), (vec![(70, 3000)], false));
        let second = Shard::new(1, 3).unwrap();
        assert_eq!(listed(second, 5, 2), (vec![(64 + 5, 2)], false));
        let ends_of_units = vec![(64 + 60, 4), (4 * 64, 64), (7 * 64, 1)];
        assert_eq!(listed(second, 60, 69), (ends_of_units, false));
        let (ranges, joined) = listed(second, 0, 64 * 17);
        assert_eq!((ranges, joined), (vec![(64, 64 * 49)], true), "too many to list each");
    }
}
