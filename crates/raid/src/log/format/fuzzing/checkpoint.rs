//! The decoders of checkpoints: each input is tried as every kind of block, for every entry width.

use zoneweave_zoned::Lba;

use super::{ARRAY, BlockType, Column, stable, try_block};
use crate::array::format::numbers::{Generation, SegmentId, Sequence};
use crate::log::engine::address::Address;
use crate::log::engine::geometry::ChunkBlock;
use crate::log::format::checkpoint::{
    AddressSpace, BlockLocation, CheckpointPointer, Coverage, DirectoryBlock, Listed, Mapped,
    MappingBlock, RootBlock, RootList, RootTotals, SegmentEntry, ShardId, ValidityBlock,
    mapping_entries,
};

const COVERAGE: Coverage = Coverage { covered: Sequence(70), sequence: Sequence(77) };

/// A small array: 1,000 blocks, so that its last page is partial.
fn space(entry_bytes: u8) -> AddressSpace {
    AddressSpace {
        array: ARRAY,
        volume_blocks: 1_000,
        entry_bytes,
        page_entries: mapping_entries(entry_bytes),
        slots: 30,
        columns: 3,
        column_blocks: 200,
    }
}

/// Decodes mapping, validity, directory and root blocks.
pub fn checkpoint(input: &[u8]) {
    for entry_bytes in [4, 5, 8] {
        let space = space(entry_bytes);
        try_block(input, BlockType::Mapping, |block, _| {
            let decode = |block: &[u8]| MappingBlock::decode(block, &space);
            stable(block, decode, |page| page.encode(&space).to_vec());
        });
    }
    let space = space(4);
    try_block(input, BlockType::Validity, |block, _| {
        let decode = |block: &[u8]| ValidityBlock::decode(block, &space);
        stable(block, decode, |validity| validity.encode(&space).to_vec());
    });
    try_block(input, BlockType::Directory, |block, _| {
        let decode = |block: &[u8]| DirectoryBlock::decode(block, &space);
        stable(block, decode, |directory| directory.encode(&space).to_vec());
    });
    try_block(input, BlockType::CheckpointRoot, |block, _| {
        stable(
            block,
            |block| RootBlock::decode(block, &space),
            |root| root.encode(&space).to_vec(),
        );
        if let Ok(root) = RootBlock::decode(block, &space) {
            assert!(!root.continues(&root), "a chain that never ends");
            let _ = (root.begins(), root.ends());
        }
    });
}

/// Mapping blocks of every width, and one of each other kind.
#[must_use]
pub fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = [4, 5, 8].map(|width| page(&space(width)).to_vec()).to_vec();
    let space = space(4);
    let validity = ValidityBlock {
        shard: ShardId::default(),
        segment: SegmentId(5),
        generation: Generation(6),
        column: Column(2),
        first: ChunkBlock(0),
        coverage: COVERAGE,
        live: (0..space.column_blocks).map(|at| at.is_multiple_of(3)).collect(),
    };
    seeds.push(validity.encode(&space).to_vec());
    let directory = DirectoryBlock {
        shard: ShardId::default(),
        listed: Listed::Mapping,
        first: 0,
        sequence: Sequence(78),
        entries: vec![Some(Address(9)), None],
    };
    seeds.push(directory.encode(&space).to_vec());
    let segment = |slot| SegmentEntry {
        segment: SegmentId(5),
        generation: Generation(6),
        live_blocks: 7,
        min_sequence: Sequence(8),
        slot,
        replay: slot.is_multiple_of(2),
    };
    let lists = [
        RootList::Segments(vec![segment(1), segment(29)]),
        RootList::Directories(Listed::Mapping, vec![Some(Address(9))]),
    ];
    seeds.extend((0..).zip(lists).map(|(part, list)| root(part, list).encode(&space).to_vec()));
    seeds
}

fn page(space: &AddressSpace) -> bytes::Bytes {
    let entry = |at: u32| match at % 3 {
        0 => Mapped::Nowhere,
        1 => Mapped::Block(Address(at.into())),
        _ => Mapped::Trimmed(Address(space.addresses() - 1)),
    };
    let page = MappingBlock {
        shard: ShardId { volume: 1, shard: 2 },
        first: Lba(0),
        coverage: COVERAGE,
        entries: (0..mapping_entries(space.entry_bytes)).map(entry).collect(),
    };
    page.encode(space)
}

fn root(part: u32, list: RootList) -> RootBlock {
    let totals = RootTotals {
        segments: 2,
        mapping_directories: 1,
        validity_directories: 0,
        mapped_blocks: 1_000,
    };
    let next = (part == 0).then(location);
    let (shard, coverage) = (ShardId::default(), COVERAGE);
    RootBlock {
        shard,
        number: Sequence(3),
        coverage,
        replay_from: SegmentId(4),
        totals,
        part,
        next,
        first: 0,
        list,
    }
}

fn location() -> BlockLocation {
    BlockLocation {
        segment: SegmentId(5),
        generation: Generation(6),
        column: Column(1),
        block: ChunkBlock(199),
    }
}

/// A checkpoint pointer as in superblock records.
pub(in crate::log) fn pointer() -> CheckpointPointer {
    CheckpointPointer {
        shard: ShardId::default(),
        number: Sequence(3),
        coverage: COVERAGE,
        replay_from: SegmentId(4),
        root: location(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decode() {
        let seeds = checkpoint_seeds();
        for (seed, width) in seeds.iter().zip([4, 5, 8]) {
            assert!(MappingBlock::decode(seed, &space(width)).is_ok());
        }
        assert!(ValidityBlock::decode(&seeds[3], &space(4)).is_ok());
        assert!(DirectoryBlock::decode(&seeds[4], &space(4)).is_ok());
        let roots = [&seeds[5], &seeds[6]].map(|seed| RootBlock::decode(seed, &space(4)).unwrap());
        assert!(roots[0].begins() && roots[1].continues(&roots[0]) && roots[1].ends());
    }
}
