//! The memory reported by a volume is the memory in use, and never exceeds the reported maximum.
//!
//! Measured by the allocator: memory that is free again when the volume is gone belonged to the
//! volume.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use std::alloc::System;
use std::cell::Cell;
use std::num::NonZeroU32;

use cap::Cap;
use futures_util::future::join_all;
use support::life::one_life;
use support::{Array, Shape, contents};
use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid, LogConfig, VolumeKind};
use zoneweave_raid::log::{Lanes, Memory, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba};

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// The tests measure one heap: one after the other.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const VOLUME: u64 = 120_000;

fn shape() -> Shape {
    Shape {
        zones: 40,
        zone_blocks: 2048,
        group_rows: 64,
        volume_blocks: Some(VOLUME),
        ..Shape::small()
    }
}

/// The memory that a volume reported, the maximum that it reported, and the memory in use.
#[derive(Debug)]
struct Measured {
    said: Memory,
    most: Memory,
    took: u64,
}

/// Runs a load on a new volume, and measures the volume's memory at the end.
fn measure(policy: Option<WritePolicy>, load: impl AsyncFnOnce(&Volume)) -> Measured {
    let writes = policy.map_or(WriteChoice::AsMade, WriteChoice::Policy);
    measure_with(OpenOptions { writes, ..OpenOptions::default() }, load)
}

fn measure_with(options: OpenOptions, load: impl AsyncFnOnce(&Volume)) -> Measured {
    let array = Array::create(shape(), &mut Random::new(3));
    let with_volume = Cell::new(0);
    let status = one_life(&array, &[], options, async |volume, _, handle| {
        load(volume).await;
        while volume.status().memory.queued_bytes >= 1 << 20 {
            handle.sleep(Nanos::from_millis(10)).await;
        }
        let status = volume.status();
        with_volume.set(HEAP.allocated());
        status
    });
    let status = status.unwrap();
    let took = (with_volume.get() - HEAP.allocated()) as u64;
    Measured { said: status.memory, most: status.memory_at_most, took }
}

/// Fills the volume, and then writes half as much at random places.
async fn fill_and_overwrite(volume: &Volume) {
    let block = contents(1, 1);
    let mut random = Random::new(4);
    for lba in (0..VOLUME).step_by(250) {
        volume.write(Lba(lba), vec![block.clone(); 250], false).await.unwrap();
    }
    for _ in 0..VOLUME / 32 {
        let lba = Lba(random.below(VOLUME - 16));
        volume.write(lba, vec![block.clone(); 16], false).await.unwrap();
    }
    volume.flush().await.unwrap();
}

fn assert_told(Measured { said, most, took }: &Measured) {
    // Memory of tasks, and the allocator's rounding.
    let slack = took / 10 + (512 << 10);
    assert!(took.abs_diff(said.total_bytes) <= slack, "took {took}, said {said:#?}");
    assert!(*took <= most.total_bytes, "took {took}, at most {most:#?}");
    assert!(said.index_bytes <= most.index_bytes, "{said:#?}\n{most:#?}");
    assert!(said.checkpoint_bytes <= most.checkpoint_bytes, "{said:#?}\n{most:#?}");
    assert!(said.segment_bytes <= most.segment_bytes, "{said:#?}\n{most:#?}");
    assert!(said.list_bytes <= most.list_bytes, "{said:#?}\n{most:#?}");
    assert!(said.stripe_table_bytes <= most.stripe_table_bytes, "{said:#?}\n{most:#?}");
    assert!(said.moved_bytes <= most.moved_bytes, "{said:#?}\n{most:#?}");
    assert!(said.queued_bytes <= most.queued_bytes, "{said:#?}\n{most:#?}");
}

#[test]
fn a_volume_takes_what_it_says() {
    let _alone = alone();
    let four = Lanes { count: 4, chunk_blocks: 2 };
    let two = Lanes { count: 2, chunk_blocks: 1 };
    let policies = [
        None,
        Some(WritePolicy::adaptive(four, Lanes::default())),
        Some(WritePolicy::zapraid(two, Lanes { count: 1, chunk_blocks: 4 }, 256)),
    ];
    for policy in policies {
        assert_told(&measure(policy, fill_and_overwrite));
    }
}

/// Of 1,875 pages there is memory for some hundred.
#[test]
fn an_index_takes_no_more_than_it_is_to() {
    let _alone = alone();
    let whole = measure(None, fill_and_overwrite).said.index_bytes;
    for pages in [100, 400] {
        let options = OpenOptions {
            writes: WriteChoice::AsMade,
            index_memory: Some(pages * (64 * 4 + 16)),
            index_page_entries: NonZeroU32::new(64),
            checkpoint_share: Some(64),
            ..OpenOptions::default()
        };
        let most = Cell::new(0);
        let measured = measure_with(options, async |volume| {
            fill_and_overwrite(volume).await;
            let mut random = Random::new(5);
            let block = contents(1, 1);
            for _ in 0..VOLUME / 10 {
                let lba = Lba(random.below(VOLUME));
                volume.write(lba, vec![block.clone()], false).await.unwrap();
                most.set(most.get().max(volume.status().memory.index_bytes));
            }
        });
        assert_told(&measured);
        assert!(most.get() <= measured.most.index_bytes, "{} {:#?}", most.get(), measured.most);
        println!("{pages} pages: {} at most, {:?}", most.get(), measured);
        assert!(measured.most.index_bytes < whole + whole / 2, "{whole} {:#?}", measured.most);
    }
}

#[test]
fn pages_that_come_into_being_wait_for_others_to_go() {
    let _alone = alone();
    let options = OpenOptions {
        writes: WriteChoice::AsMade,
        index_memory: Some(100 * (64 * 4 + 16)),
        index_page_entries: NonZeroU32::new(64),
        checkpoint_share: Some(64),
        ..OpenOptions::default()
    };
    let highest = Cell::new(0);
    let measured = measure_with(options, async |volume| {
        let mut lbas: Vec<_> = (0..VOLUME).step_by(64).map(Lba).collect();
        let mut random = Random::new(6);
        lbas.sort_by_cached_key(|_| random.below(1 << 40));
        for batch in lbas.chunks(256) {
            let write = async |lba: &Lba| {
                volume.write(*lba, vec![contents(1, 1)], false).await.unwrap();
                highest.set(highest.get().max(volume.status().memory.index_bytes));
            };
            join_all(batch.iter().map(write)).await;
        }
    });
    let most = measured.most.index_bytes;
    assert!(highest.get() <= most, "{} of {most}", highest.get());
}

#[test]
fn what_was_trimmed_costs_what_is_said() {
    let _alone = alone();
    let measured = measure(None, async |volume| {
        fill_and_overwrite(volume).await;
        for lba in (0..VOLUME).step_by(40) {
            volume.trim(Lba(lba), 20, false).await.unwrap();
        }
        volume.flush().await.unwrap();
    });
    assert!(measured.said.trim_bytes > 0);
    assert_told(&measured);
}

/// An array of four drives of 4 TB, as the volume is made if nothing is said about its size.
#[test]
fn a_terabyte_takes_hardly_more_than_its_index() {
    let tib = (1_u64 << 40) / 4096;
    for tebibytes in [1, 10] {
        let config = ArrayConfig {
            array: ArrayUuid([1; 16]),
            name: "vol0".to_owned(),
            scheme: Scheme::new(3, 1).unwrap(),
            zones: 3690,
            zone_capacity: BlockCount(275_712),
            write_unit: BlockCount(1),
            shard: Shard::WHOLE,
            volume: VolumeKind::Log(LogConfig {
                chunk_blocks: 1,
                group_rows: 1,
                tabled: false,
                volume_blocks: tebibytes * tib,
                entry_bytes: 4,
                writethrough: None,
            }),
        };
        let policy = WritePolicy::adaptive(Lanes { count: 4, chunk_blocks: 2 }, Lanes::default());
        let most = Memory::most(&config, &policy, None, 0, 0);
        let tables = most.index_bytes
            + most.checkpoint_bytes
            + most.segment_bytes
            + most.list_bytes
            + most.stripe_table_bytes;
        let limit = tebibytes * (1 << 30) * 105 / 100;
        println!("{tebibytes} TiB: index and tables {tables} bytes of {limit}");
        assert!(tables <= limit, "{tables} of {limit} for {tebibytes} TiB: {most:#?}");
    }
}
