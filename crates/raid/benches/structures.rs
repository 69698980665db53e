//! The CPU cost of a request apart from moving its data: the checksum of a block, a lookup and an
//! insertion in the index, and the table of requests in flight. Also the encoding of lists and of
//! index blocks, as in starts and checkpoints.
//!
//! `make bench` runs it. The index is that of 64 GiB, 64 MiB of it: more than caches hold, as is
//! usual.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use zoneweave_raid::log::format::checkpoint::{
    Address, AddressSpace, Coverage, ShardId, StoredEntries, StoredPage, mapping_entries,
};
use zoneweave_raid::log::format::{
    ArrayUuid, ENTRIES_PER_INDEX_BLOCK, Generation, IndexBlock, IndexEntry, Seed, SegmentId,
    Sequence,
};
use zoneweave_raid::log::measuring::{MeasuredInFlight, MeasuredIndex};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::Random;
use zoneweave_zoned::{BLOCK_BYTES, Lba};

const BLOCKS: u64 = 16 << 20;

/// Writes of a block that are in flight together.
const IN_FLIGHT: u64 = 256;

fn checksum(criterion: &mut Criterion) {
    let seed = Seed::of(ArrayUuid([7; 16]));
    let mut block = vec![0; BLOCK_BYTES];
    Random::new(1).fill(&mut block);
    let mut group = criterion.benchmark_group("checksum");
    group.throughput(Throughput::Bytes(BLOCK_BYTES as u64));
    group.bench_function("block", |bencher| {
        bencher.iter(|| seed.checksum(&[black_box(&block)]));
    });
    group.throughput(Throughput::Bytes(60));
    group.bench_function("metadata", |bencher| {
        bencher.iter(|| seed.checksum(&[black_box(&block[..60])]));
    });
    group.finish();
}

fn index(criterion: &mut Criterion) {
    let mut index = MeasuredIndex::new(BLOCKS);
    for lba in 0..BLOCKS {
        index.set(Lba(lba), Address(lba));
    }
    let mut group = criterion.benchmark_group("index");
    let mut random = Random::new(2);
    group.bench_function("look up at random", |bencher| {
        bencher.iter(|| index.get(Lba(random.below(BLOCKS))));
    });
    group.bench_function("enter at random", |bencher| {
        bencher.iter(|| index.set(Lba(random.below(BLOCKS)), Address(random.below(BLOCKS))));
    });
    let mut next = 0;
    group.bench_function("enter in order", |bencher| {
        bencher.iter(|| {
            next = (next + 1) % BLOCKS;
            index.set(Lba(next), Address(next))
        });
    });
    group.finish();
}

fn in_flight(criterion: &mut Criterion) {
    let mut in_flight = MeasuredInFlight::default();
    let mut random = Random::new(3);
    let mut under_way: Vec<_> = (0..IN_FLIGHT).map(|_| random.below(BLOCKS)).collect();
    under_way.iter().for_each(|lba| in_flight.begin_write(*lba..lba + 1));
    let mut sequence = Sequence::NONE;
    criterion.bench_function("in flight/one write ends and another one begins", |bencher| {
        bencher.iter(|| {
            sequence = sequence.next();
            let at = usize::try_from(sequence.0 % IN_FLIGHT).unwrap_or(0);
            let next = random.below(BLOCKS);
            let ended = std::mem::replace(&mut under_way[at], next);
            in_flight.begin_write(next..next + 1);
            in_flight.end_write(Lba(ended), sequence)
        });
    });
}

fn footers(criterion: &mut Criterion) {
    let array = ArrayUuid([7; 16]);
    let entry = |at: u32| IndexEntry {
        sequence: Sequence(at.into()),
        lba: Lba(at.into()),
        ..IndexEntry::EMPTY
    };
    let block = IndexBlock {
        segment: SegmentId(1),
        generation: Generation(1),
        column: Column::of(0),
        span: 0,
        first: 0,
        entries: (0..ENTRIES_PER_INDEX_BLOCK).map(entry).collect(),
    };
    let block = block.encode(array);
    let mut group = criterion.benchmark_group("footers");
    group.throughput(Throughput::Bytes(BLOCK_BYTES as u64));
    group.bench_function("decode a block", |bencher| {
        bencher.iter(|| IndexBlock::decode(black_box(&block), array));
    });
    group.finish();
}

fn pages(criterion: &mut Criterion) {
    let space = AddressSpace {
        array: ArrayUuid([7; 16]),
        volume_blocks: BLOCKS,
        entry_bytes: 4,
        page_entries: mapping_entries(4),
        slots: 1024,
        columns: 4,
        column_blocks: 16_384,
    };
    let mut random = Random::new(4);
    let numbers: Vec<_> = (0..space.page_entries).map(|_| random.below(BLOCKS)).collect();
    let page = || StoredPage {
        shard: ShardId::default(),
        first: Lba(0),
        coverage: Coverage { covered: Sequence::NONE, sequence: Sequence::FIRST },
        entries: StoredEntries::of(black_box(&numbers).iter().copied(), space.entry_bytes),
        trims: vec![0; numbers.len().div_ceil(8)],
    };
    let mut group = criterion.benchmark_group("pages");
    group.throughput(Throughput::Bytes(BLOCK_BYTES as u64));
    group.bench_function("encode one", |bencher| {
        bencher.iter(|| page().encode(&space));
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    checksum(&mut criterion);
    index(&mut criterion);
    in_flight(&mut criterion);
    footers(&mut criterion);
    pages(&mut criterion);
    criterion.final_summary();
}
