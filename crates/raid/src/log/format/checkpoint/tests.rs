//! Encoded blocks decode to the same values; blocks that violate the array's limits, or their
//! place, are refused.

use proptest::prelude::*;
use zoneweave_zoned::Lba;

use super::*;
use crate::array::format::numbers::{Generation, SegmentId, Sequence};

/// A volume of 2,000 blocks on three columns, with more than one of everything that a column has.
fn space(entry_bytes: u8) -> AddressSpace {
    AddressSpace {
        array: ArrayUuid([6; 16]),
        volume_blocks: 2_000,
        entry_bytes,
        page_entries: mapping_entries(entry_bytes),
        slots: 200,
        columns: 3,
        column_blocks: 40_000,
    }
}

fn spaces() -> impl Strategy<Value = AddressSpace> {
    prop::sample::select(vec![4, 5, 8]).prop_map(space)
}

fn shards() -> impl Strategy<Value = ShardId> {
    any::<(u16, u16)>().prop_map(|(volume, shard)| ShardId { volume, shard })
}

fn coverage(covered: u64, sequence: u64) -> Coverage {
    Coverage { covered: Sequence(covered), sequence: Sequence(sequence) }
}

fn coverages() -> impl Strategy<Value = Coverage> {
    (0..NUMBER_LIMIT)
        .prop_flat_map(|sequence| (0..=sequence, Just(sequence)))
        .prop_map(|(covered, sequence)| coverage(covered, sequence))
}

fn addresses() -> impl Strategy<Value = Address> {
    (0..space(4).addresses()).prop_map(Address)
}

fn locations() -> impl Strategy<Value = BlockLocation> {
    (0..NUMBER_LIMIT, any::<u64>(), 0_u8..32, any::<u32>()).prop_map(
        |(segment, generation, column, block)| BlockLocation {
            segment: SegmentId(segment),
            generation: Generation(generation),
            column: Column(column),
            block: ChunkBlock(block),
        },
    )
}

fn mapped() -> impl Strategy<Value = Mapped> {
    prop_oneof![
        Just(Mapped::Nowhere),
        addresses().prop_map(Mapped::Block),
        addresses().prop_map(Mapped::Trimmed),
    ]
}

fn mapping_blocks(space: AddressSpace) -> impl Strategy<Value = MappingBlock> {
    let each = u64::from(mapping_entries(space.entry_bytes));
    (shards(), 0..space.mapping_blocks(), coverages()).prop_flat_map(
        move |(shard, page, coverage)| {
            let first = page * each;
            let count = usize::try_from(each.min(space.volume_blocks - first)).unwrap();
            prop::collection::vec(mapped(), count).prop_map(move |entries| MappingBlock {
                shard,
                first: Lba(first),
                coverage,
                entries,
            })
        },
    )
}

fn validity_blocks(space: AddressSpace) -> impl Strategy<Value = ValidityBlock> {
    (shards(), 0..NUMBER_LIMIT, any::<u64>(), 0_u8..3, 0_u32..2, coverages()).prop_flat_map(
        move |(shard, segment, generation, column, part, coverage)| {
            let first = part * VALIDITY_BITS;
            let count = VALIDITY_BITS.min(space.column_blocks - first) as usize;
            prop::collection::vec(any::<bool>(), count).prop_map(move |live| ValidityBlock {
                shard,
                segment: SegmentId(segment),
                generation: Generation(generation),
                column: Column(column),
                first: ChunkBlock(first),
                coverage,
                live,
            })
        },
    )
}

fn directories(space: AddressSpace) -> impl Strategy<Value = DirectoryBlock> {
    let listed = prop::sample::select(vec![Listed::Mapping, Listed::Validity]);
    (shards(), listed, any::<prop::sample::Index>(), 0..NUMBER_LIMIT).prop_flat_map(
        move |(shard, listed, at, sequence)| {
            let sequence = Sequence(sequence);
            let directories = usize::try_from(listed.directories(&space)).unwrap();
            let first = at.index(directories) as u64 * u64::from(DIRECTORY_ENTRIES);
            let left = listed.blocks(&space) - first;
            let count = usize::try_from(left.min(DIRECTORY_ENTRIES.into())).unwrap();
            prop::collection::vec(prop::option::of(addresses()), count)
                .prop_map(move |entries| DirectoryBlock { shard, listed, first, sequence, entries })
        },
    )
}

fn segment_tables() -> impl Strategy<Value = RootList> {
    let entry = (0..NUMBER_LIMIT, any::<u64>(), 0_u64..120_000);
    prop::collection::btree_map(0_u32..200, entry, 1..=ROOT_SEGMENTS).prop_map(|entries| {
        let entries = entries.into_iter().map(|(slot, (segment, generation, live_blocks))| {
            let (min_sequence, replay) = (segment / 2, generation.is_multiple_of(2));
            let (segment, min_sequence) = (SegmentId(segment), Sequence(min_sequence));
            let generation = Generation(generation);
            SegmentEntry { segment, generation, live_blocks, min_sequence, slot, replay }
        });
        RootList::Segments(entries.collect())
    })
}

fn roots() -> impl Strategy<Value = RootBlock> {
    let list = prop_oneof![
        segment_tables(),
        addresses().prop_map(|at| RootList::Directories(Listed::Mapping, vec![Some(at)])),
        prop::collection::vec(prop::option::of(addresses()), 3)
            .prop_map(|all| RootList::Directories(Listed::Validity, all)),
    ];
    let numbers = (0..NUMBER_LIMIT, 0..NUMBER_LIMIT, 0_u64..=2_000, any::<u32>());
    (shards(), coverages(), numbers, prop::option::of(locations()), list).prop_map(
        |(shard, coverage, (number, replay_from, mapped_blocks, part), next, list)| RootBlock {
            shard,
            number: Sequence(number),
            coverage,
            replay_from: SegmentId(replay_from),
            totals: RootTotals {
                segments: 200,
                mapping_directories: 1,
                validity_directories: 3,
                mapped_blocks,
            },
            part,
            next,
            first: 0,
            list,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_come_back((space, page) in spaces().prop_flat_map(|s| (Just(s), mapping_blocks(s)))) {
        prop_assert_eq!(MappingBlock::decode(&page.encode(&space), &space), Ok(page));
    }

    #[test]
    fn validity_comes_back(block in validity_blocks(space(4))) {
        prop_assert_eq!(ValidityBlock::decode(&block.encode(&space(4)), &space(4)), Ok(block));
    }

    #[test]
    fn directories_come_back((space, at) in spaces().prop_flat_map(|s| (Just(s), directories(s)))) {
        prop_assert_eq!(DirectoryBlock::decode(&at.encode(&space), &space), Ok(at));
    }

    #[test]
    fn roots_come_back(root in roots()) {
        prop_assert_eq!(RootBlock::decode(&root.encode(&space(5)), &space(5)), Ok(root));
    }

    #[test]
    fn pointers_come_back(
        shard in shards(), coverage in coverages(), root in locations(), number in 0..NUMBER_LIMIT,
    ) {
        let (number, replay_from) = (Sequence(number), SegmentId(9));
        let pointer = CheckpointPointer { shard, number, coverage, replay_from, root };
        prop_assert_eq!(CheckpointPointer::decode(&pointer.encode()), Ok(pointer));
    }
}

fn page(count: usize) -> MappingBlock {
    let coverage = coverage(5, 7);
    let entries = vec![Mapped::Trimmed(Address(3)); count];
    MappingBlock { shard: ShardId::default(), first: Lba(0), coverage, entries }
}

#[test]
fn a_page_of_another_array_width_or_size_is_refused() {
    let bytes = page(960).encode(&space(4));
    let foreign = AddressSpace { array: ArrayUuid([7; 16]), ..space(4) };
    let found = FormatError::ForeignArray { found: ArrayUuid([6; 16]) };
    assert_eq!(MappingBlock::decode(&bytes, &foreign), Err(found));
    assert_eq!(MappingBlock::decode(&bytes, &space(5)), field("entry bytes"));
    let smaller = AddressSpace { volume_blocks: 959, ..space(4) };
    assert_eq!(MappingBlock::decode(&bytes, &smaller), field("first or count"));
    let fewer = AddressSpace { slots: 0, ..space(4) };
    assert_eq!(MappingBlock::decode(&bytes, &fewer), field("address"));
}

#[test]
fn pages_may_be_smaller() {
    let small = space(4).with_page_entries(NonZeroU32::new(16));
    assert_eq!(small.mapping_blocks(), 125);
    let page = MappingBlock { first: Lba(32), entries: vec![Mapped::Nowhere; 16], ..page(0) };
    let bytes = page.encode(&small);
    assert_eq!(MappingBlock::decode(&bytes, &small), Ok(page));
    assert_eq!(MappingBlock::decode(&bytes, &space(4)), field("first or count"));
    assert_eq!(space(5).with_page_entries(NonZeroU32::new(5000)), space(5));
}

#[test]
fn entries_of_every_width_reach_the_last_address() {
    for (entry_bytes, columns) in [(4, 3), (5, 1 << 17), (8, u32::MAX)] {
        let space = AddressSpace { columns, ..space(entry_bytes) };
        let last = Mapped::Block(Address(space.addresses() - 1));
        let count = mapping_entries(entry_bytes) as usize;
        let full = MappingBlock { entries: vec![last; count], ..page(0) };
        assert_eq!(MappingBlock::decode(&full.encode(&space), &space), Ok(full));
    }
}

#[test]
fn every_block_starts_where_the_one_before_ends() {
    let spaces = [4, 5, 8].map(space);
    assert_eq!(spaces.map(|space| space.mapping_blocks()), [3, 3, 5]);
    assert_eq!(spaces[0].validity_blocks(), 200 * 3 * 2);
    assert_eq!(Listed::Validity.directories(&spaces[0]), 3);
}

/// The chain of a checkpoint with so many segments and directories, as a writer makes it.
fn chain(totals: RootTotals) -> Vec<RootBlock> {
    let segment = |slot| SegmentEntry {
        segment: SegmentId(1),
        generation: Generation(2),
        live_blocks: 3,
        min_sequence: Sequence(4),
        slot,
        replay: false,
    };
    let slots: Vec<_> = (0..totals.segments).map(segment).collect();
    let listed = |listed, count: u32| {
        let addresses = vec![Some(Address(1)); count as usize];
        let parts = addresses.chunks(ROOT_ADDRESSES);
        parts.map(move |part| RootList::Directories(listed, part.to_vec())).collect::<Vec<_>>()
    };
    let segments = slots.chunks(ROOT_SEGMENTS).map(|part| RootList::Segments(part.to_vec()));
    let lists: Vec<_> = segments
        .chain(listed(Listed::Mapping, totals.mapping_directories))
        .chain(listed(Listed::Validity, totals.validity_directories))
        .collect();
    let (mut blocks, mut first) = (Vec::<RootBlock>::new(), 0);
    let last = lists.len() - 1;
    for (part, list) in lists.into_iter().enumerate() {
        if blocks.last().is_some_and(|before| before.list.kind() != list.kind()) {
            first = 0;
        }
        let (column, block) = (Column(0), ChunkBlock(0));
        let (segment, generation) = (SegmentId(4), Generation(5));
        let next = BlockLocation { segment, generation, column, block };
        let count = u32::try_from(list.len()).unwrap();
        blocks.push(RootBlock {
            shard: ShardId::default(),
            number: Sequence(8),
            coverage: coverage(5, 7),
            replay_from: SegmentId(6),
            totals,
            part: u32::try_from(part).unwrap(),
            next: (part < last).then_some(next),
            first,
            list,
        });
        first += count;
    }
    blocks
}

#[test]
fn a_chain_is_followed_to_its_end_and_not_past_a_block_of_another() {
    let full = RootTotals {
        segments: 200,
        mapping_directories: 1,
        validity_directories: 3,
        mapped_blocks: 1,
    };
    let bare = RootTotals { mapping_directories: 0, validity_directories: 0, ..full };
    let no_pages = RootTotals { mapping_directories: 0, ..full };
    for totals in [full, bare, no_pages] {
        let blocks = chain(totals);
        assert!(blocks[0].begins() && !blocks[1].begins());
        assert!(blocks.windows(2).all(|pair| pair[1].continues(&pair[0])));
        let ends = blocks.iter().filter(|block| block.ends()).count();
        assert!(ends == 1 && blocks[blocks.len() - 1].ends());
        for (at, block) in blocks.iter().enumerate() {
            let other = RootBlock { number: Sequence(9), ..block.clone() };
            assert!(at == 0 || !other.continues(&blocks[at - 1]));
            assert!(at < 2 || !block.continues(&blocks[at - 2]), "none may be left out");
            let stored = block.encode(&space(4));
            assert_eq!(RootBlock::decode(&stored, &space(4)).as_ref(), Ok(block));
        }
    }
}

#[test]
fn roots_that_cannot_be_are_refused() {
    let totals = RootTotals { segments: 2, ..RootTotals::default() };
    let good = chain(totals).remove(0);
    let refused = |spoil: fn(&mut RootBlock)| {
        let mut bad = good.clone();
        spoil(&mut bad);
        RootBlock::decode(&bad.encode(&space(4)), &space(4)).is_err()
    };
    assert!(!refused(|_| {}));
    assert!(refused(|root| root.totals.segments = 1), "a list longer than it says");
    assert!(refused(|root| root.totals.segments = 201), "more segments than slots");
    assert!(refused(|root| root.totals.mapping_directories = 2), "directories of another volume");
    assert!(refused(|root| root.totals.mapped_blocks = 2_001), "more blocks than the volume has");
    assert!(refused(|root| root.list = RootList::Segments(Vec::new())), "an empty link");
    assert!(refused(|root| root.coverage.covered = Sequence(8)), "covered beyond its own sequence");
    assert!(refused(|root| root.replay_from = SegmentId(NUMBER_LIMIT)));
    let twice = |root: &mut RootBlock| {
        let RootList::Segments(entries) = &mut root.list else { return };
        entries[1].slot = 0;
    };
    assert!(refused(twice), "a slot that stands for two segments");
}
