//! Prints the CPU time of a start by the structures it reads: pages of the index and their
//! directories, lists, and blocks of a segment that a crash left open. Drives are in memory and
//! answer at once, so that only computation is measured. The figure is the CPU time of the thread,
//! the best of several runs, since other load on the machine only slows a run down. The allocator
//! is that of the command.
//!
//! `cargo run --release -p zoneweave-raid --example start [index] [again] [directories] [leftover]`
//!
//! These are the rates that the experiment `zapraid/exp9` charges.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]
#![allow(clippy::unwrap_used, reason = "a failing step ends the program")]

use std::num::NonZeroU32;
use std::rc::Rc;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, Lanes, OfferedDrive, OpenOptions, OpenReport, Volume, WriteChoice, WritePolicy,
    create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Random, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, BlockDevice, Geometry, Lba, OobKind, zero_blocks,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Blocks of the volume whose index is built: 8 GiB.
const BLOCKS: u64 = 2 << 20;

/// Blocks of a zone: one span, and its index run.
const ZONE_BLOCKS: u32 = 16_384;

/// Blocks of users in the segment that the crash leaves open, most of a span of three columns.
const SCANNED: u64 = 45_000;

const REQUEST: usize = 64;

const RUNS: usize = 15;

/// Blocks that are written again since the newest checkpoint.
const AGAIN: u64 = 400_000;

/// Pages of a large volume, and the blocks of one.
const PAGES: u64 = 20_000;
const PAGE_BLOCKS: u64 = 960;

fn drives(zones: u32) -> Vec<RamDrive> {
    let mut geometry = Geometry::new(zones, BlockCount(ZONE_BLOCKS));
    geometry.oob = OobKind::Separate;
    (0..4).map(|_| RamDrive::new(geometry.clone(), Immediate).unwrap()).collect()
}

fn options() -> OpenOptions {
    let lanes = Lanes { count: 1, chunk_blocks: 1 };
    OpenOptions {
        writes: WriteChoice::Policy(WritePolicy::adaptive(lanes, lanes)),
        ..OpenOptions::default()
    }
}

fn on_demand() -> OpenOptions {
    OpenOptions { index_on_demand: NonZeroU32::new(64), ..options() }
}

/// Lives of an array on these drives, which end by the death of the process.
fn live<T>(
    drives: &[RamDrive],
    options: OpenOptions,
    work: impl AsyncFnOnce(Volume, OpenReport, Handle) -> T,
) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let lived = executor.run(async {
        let (volume, report) = open_array(&handle, offer(drives, &handle), options).await.unwrap();
        work(volume, report, handle.clone()).await
    });
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    lived
}

fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let offer = |drive: &RamDrive| OfferedDrive {
        device: drive.attach(handle),
        label: "a drive in memory".to_owned(),
    };
    drives.iter().map(offer).collect()
}

fn make(drives: &[RamDrive], volume_blocks: u64) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let options = CreateOptions {
        name: "start".to_owned(),
        scheme: Scheme::new(3, 1).unwrap(),
        volume_blocks: Some(volume_blocks),
        chunk_blocks: 1,
        group_rows: 256,
        tabled: false,
        writethrough: None,
        array: ArrayUuid([7; 16]),
        members: (1..=4).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        shard: Shard::WHOLE,
        wipe: false,
    };
    executor.run(create(&offer(drives, &executor.handle()), &options)).unwrap();
}

/// Writes requests that begin at these blocks.
async fn write(volume: &Volume, starts: impl Iterator<Item = u64>, data: impl Fn() -> Vec<Bytes>) {
    for start in starts {
        volume.write(Lba(start), data(), false).await.unwrap();
    }
}

/// Milliseconds that this thread ran so far.
fn ran_ms() -> f64 {
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    ran.tv_sec as f64 * 1e3 + ran.tv_nsec as f64 / 1e6
}

/// The shortest start after this crash in milliseconds, and its report.
fn start(drives: &[RamDrive], options: &OpenOptions) -> (f64, OpenReport) {
    best_start(drives, options, async |_, _| {})
}

/// The same until something more is done.
fn best_start(
    drives: &[RamDrive],
    options: &OpenOptions,
    until: impl AsyncFn(&Volume, &Handle),
) -> (f64, OpenReport) {
    let mut best = (f64::INFINITY, OpenReport::default());
    for _ in 0..RUNS {
        let drives: Vec<_> = drives.iter().map(|drive| drive.fork(Immediate)).collect();
        let began = ran_ms();
        let started = live(&drives, options.clone(), async |volume, report, handle| {
            until(&volume, &handle).await;
            (ran_ms() - began, report)
        });
        if started.0 < best.0 {
            best = started;
        }
    }
    best
}

/// Pages and lists of a volume that is full.
fn index() {
    let drives = drives(80);
    make(&drives, BLOCKS);
    let in_memory = zero_blocks(BlockCount(1));
    let some = || vec![in_memory.clone(); REQUEST];
    live(&drives, options(), async |volume, _, _| {
        write(&volume, (0..BLOCKS).step_by(REQUEST), some).await;
        // At random places, so that pages lead to many segments, and a checkpoint falls due.
        let mut random = Random::new(5);
        let starts = (0..BLOCKS / 8).map(|_| random.below(BLOCKS));
        write(&volume, starts, || vec![in_memory.clone()]).await;
        volume.flush().await.unwrap();
    });
    let ways = [
        ("on demand", on_demand()),
        ("all pages", options()),
        ("lists", OpenOptions { ignore_checkpoint: true, ..options() }),
    ];
    let mut times = [0.0; 3];
    for ((name, options), time) in ways.iter().zip(&mut times) {
        let (ms, report) = start(&drives, options);
        *time = ms;
        tell(name, ms, &report);
    }
    let per_block = |ms: f64| ms * 1e6 / BLOCKS as f64;
    println!("a block of a page, else {:7.1} ns", per_block(times[1] - times[0]));
    // Rewritten blocks are listed twice, and every fourth entry is of parity.
    println!("a block, by lists       {:7.1} ns", per_block(times[2] - times[0]));
}

/// Writes until a new segment is begun: of it there is little to verify.
async fn begin_segment(volume: &Volume, data: impl Fn() -> Vec<Bytes>) {
    let free = || volume.status().segments_free;
    let before = free();
    while free() >= before {
        volume.write(Lba(0), data(), false).await.unwrap();
    }
}

/// Time to defer the entries of rewritten blocks in a start on demand, and to load the whole index
/// after one.
fn kept_aside() {
    let drives = drives(120);
    make(&drives, BLOCKS);
    let in_memory = zero_blocks(BlockCount(1));
    let some = || vec![in_memory.clone(); REQUEST];
    let (mut times, mut resident) = ([0.0; 2], [0.0; 2]);
    for ((again, time), resident) in [0, AGAIN].into_iter().zip(&mut times).zip(&mut resident) {
        let share = if again == 0 { 1 } else { u32::MAX };
        let life = OpenOptions { checkpoint_share: Some(share), ..options() };
        live(&drives, life, async |volume, _, _| {
            if again == 0 {
                write(&volume, (0..BLOCKS).step_by(REQUEST), some).await;
            }
            let mut random = Random::new(5);
            let starts = (0..again).step_by(REQUEST);
            write(&volume, starts.map(|_| random.below(BLOCKS - REQUEST as u64)), some).await;
            begin_segment(&volume, some).await;
            volume.flush().await.unwrap();
        });
        let report;
        (*time, report) = start(&drives, &on_demand());
        tell("on demand", *time, &report);
        let (whole, report) = best_start(&drives, &on_demand(), async |volume, handle| {
            // To ask takes a time, too.
            while volume.status().absent_pages > 0 {
                for _ in 0..64 {
                    handle.yield_now().await;
                }
            }
        });
        tell("resident", whole, &report);
        *resident = whole - *time;
    }
    let each = |ms: f64, blocks: u64| ms * 1e6 / blocks as f64;
    println!("a block of a page       {:7.1} ns", each(resident[0], BLOCKS));
    println!("a block, kept aside     {:7.1} ns", each(times[1] - times[0], AGAIN));
    println!("the same, entered       {:7.1} ns", each(resident[1] - resident[0], AGAIN));
}

/// Pages that a start on demand only finds: one block of each was written.
fn directories() {
    let mut times = [0.0; 2];
    for (pages, time) in [64, PAGES].into_iter().zip(&mut times) {
        let drives = drives(800);
        make(&drives, PAGES * PAGE_BLOCKS);
        let in_memory = zero_blocks(BlockCount(1));
        let often = OpenOptions { checkpoint_share: Some(1), ..options() };
        live(&drives, often, async |volume, _, _| {
            let one = || vec![in_memory.clone()];
            write(&volume, (0..PAGES * 4).map(|at| at % pages * PAGE_BLOCKS), one).await;
            begin_segment(&volume, || vec![in_memory.clone(); REQUEST]).await;
            volume.flush().await.unwrap();
        });
        let report;
        (*time, report) = start(&drives, &on_demand());
        tell("on demand", *time, &report);
    }
    let ns = (times[1] - times[0]) * 1e6 / (PAGES - 64) as f64;
    println!("a page that is listed   {ns:7.1} ns");
}

fn tell(name: &str, ms: f64, report: &OpenReport) {
    println!(
        "{name:<10} {ms:7.1} ms: {} segments, lists of {}, {} pages left",
        report.segments, report.replayed_segments, report.absent_pages
    );
}

/// A segment that a crash leaves open.
fn leftover() {
    let mut random = Random::new(9);
    let mut times = [0.0; 2];
    for (blocks, time) in [0, SCANNED].into_iter().zip(&mut times) {
        let drives = drives(16);
        make(&drives, SCANNED);
        live(&drives, options(), async |volume, _, _| {
            for start in (0..blocks).step_by(REQUEST) {
                let mut data = AlignedBuffer::zeroed(BlockCount(1));
                random.fill(data.as_mut());
                let data = data.freeze();
                let count = REQUEST.min(usize::try_from(blocks - start).unwrap());
                volume.write(Lba(start), vec![data; count], false).await.unwrap();
            }
        });
        (*time, _) = start(&drives, &options());
    }
    let ns = (times[1] - times[0]) * 1e6 / (SCANNED as f64 * 4.0 / 3.0);
    println!("an open segment         {:7.1} ms", times[1] - times[0]);
    println!("a block of it           {ns:7.1} ns");
}

fn main() {
    let asked: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|one| one == part);
    if wanted("index") {
        index();
    }
    if wanted("again") {
        kept_aside();
    }
    if wanted("directories") {
        directories();
    }
    if wanted("leftover") {
        leftover();
    }
}
