//! Small arrays in many states, made by the engine itself, identical in each run.
//!
//! The crash that leads to a state is searched for, so that the engine may change.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{CreateOptions, MemberHealth, OpenOptions, Volume, create, open_array};
use zoneweave_raid::scheme::{Arrangement, Scheme};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Random, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba};

use super::offer;

/// The arrays' identity, which seeds their checksums.
pub(super) const ARRAY: ArrayUuid = ArrayUuid([0x66; 16]);

/// Number of images.
pub(super) const COUNT: u8 = 9;

/// Drives with the result of some history.
pub(super) struct Image {
    /// The array's drives, by slot.
    pub(super) drives: Vec<RamDrive>,
    /// Drives that no longer belong to the array.
    pub(super) strangers: Vec<RamDrive>,
}

thread_local! {
    static IMAGES: Vec<Image> = (0..COUNT).map(make).collect();
}

/// Calls `use_it` with an image, which is made on first use.
pub(super) fn with_image<T>(choice: u8, use_it: impl FnOnce(&Image) -> T) -> T {
    IMAGES.with(|images| use_it(&images[usize::from(choice % COUNT)]))
}

fn make(which: u8) -> Image {
    let weak = |found: &Found| found.weak > 0;
    let drives = match which {
        0 => closed(&blank(2, 1, 2, false), 60),
        1 => crashed(&closed(&blank(2, 1, 1, true), 30), weak),
        2 => crashed(&closed(&blank(3, 1, 1, false), 200), |found| found.discarded > 0),
        3 => return degraded(),
        4 => return rebuilding(),
        5 => crashed(&closed(&blank(1, 1, 1, true), 300), weak),
        6 => crashed(&closed(&blank_of(scheme(Arrangement::Mirrored, 2, 2), 1, true), 60), weak),
        7 => crashed(&closed(&blank_of(scheme(Arrangement::Fixed, 2, 1), 1, false), 60), weak),
        _ => {
            let mut drives = crashed(&closed(&blank(2, 2, 1, false), 60), weak);
            for steps in [60, 90, 45] {
                drives = cut_short(&drives, steps, |handle, drives| async move {
                    open(&handle, &drives).await;
                });
            }
            drives
        }
    };
    Image { drives, strangers: Vec::new() }
}

/// A member was away and comes back with old contents.
fn degraded() -> Image {
    let whole = closed(&blank(2, 2, 1, true), 40);
    whole[1].set_gone(true);
    let drives = crashed(&whole, |found| found.weak > 0);
    drives[1].come_back_blank();
    whole[1].set_gone(false);
    Image { strangers: vec![whole[1].fork(Immediate)], drives }
}

/// A crash interrupted a rebuild.
fn rebuilding() -> Image {
    let whole = closed(&blank(2, 1, 1, false), 100);
    let drives = search(
        |steps| {
            cut_short(&whole, steps, |handle, drives| async move {
                let volume = open(&handle, &drives).await;
                volume.fail(2).await.expect("redundancy is whole");
                drives[2].come_back_blank();
                let replaced = volume.replace(2, drives[2].attach(&handle), MemberUuid([0x7F; 16]));
                replaced.await.expect("nothing fails here");
            })
        },
        |found| found.rebuilding > 0 && found.segments > 2,
    );
    Image { drives, strangers: vec![whole[2].fork(Immediate)] }
}

fn scheme(arrangement: Arrangement, data: usize, parity: usize) -> Scheme {
    Scheme::arranged(arrangement, data, parity).expect("a possible scheme")
}

/// A new array on blank drives.
fn blank(data: usize, parity: usize, chunk_blocks: u32, tabled: bool) -> Vec<RamDrive> {
    blank_of(scheme(Arrangement::Rotated, data, parity), chunk_blocks, tabled)
}

fn blank_of(scheme: Scheme, chunk_blocks: u32, tabled: bool) -> Vec<RamDrive> {
    let columns = scheme.columns();
    let geometry = Geometry { volatile_cache: true, ..Geometry::new(7, BlockCount(12)) };
    let drive = || RamDrive::new(geometry.clone(), Immediate).expect("a possible geometry");
    let drives: Vec<_> = (0..columns).map(|_| drive()).collect();
    assert!(columns <= 0x10, "members have identities from 0x70 to 0x7F");
    let options = CreateOptions {
        name: "hostile".to_owned(),
        scheme,
        volume_blocks: None,
        chunk_blocks,
        group_rows: 4,
        tabled,
        writethrough: None,
        array: ARRAY,
        members: (0x70..).take(columns).map(|byte| MemberUuid([byte; 16])).collect(),
        lineage: Lineage(0x6666),
        shard: Shard::WHOLE,
        wipe: false,
    };
    run(None, async |handle| {
        create(&offer(&handle, &drives), &options).await.expect("blank drives");
    });
    drives
}

/// The array after so many requests, closed.
fn closed(drives: &[RamDrive], requests: u32) -> Vec<RamDrive> {
    let drives = forks(drives);
    run(None, async |handle| {
        let volume = open(&handle, &drives).await;
        write_at_random(&volume, requests).await;
        volume.close().await.expect("nothing fails here");
    });
    drives.iter().for_each(RamDrive::restart);
    drives
}

/// The array after a power loss that leaves the wanted state.
fn crashed(drives: &[RamDrive], wanted: impl Fn(&Found) -> bool) -> Vec<RamDrive> {
    search(
        |steps| {
            cut_short(drives, steps, |handle, drives| async move {
                write_at_random(&open(&handle, &drives).await, 100).await;
            })
        },
        wanted,
    )
}

/// The first crash that leaves the wanted state.
fn search(crash: impl Fn(u64) -> Vec<RamDrive>, wanted: impl Fn(&Found) -> bool) -> Vec<RamDrive> {
    let mut crashes = (1..1000).map(|nth| crash(nth * 5));
    let found = crashes.find(|drives| wanted(&Found::on(drives))).expect("such a crash");
    assert!(!found.is_empty(), "an image has drives");
    found
}

/// The drives after some steps of work and a power loss.
fn cut_short<F: Future<Output = ()>>(
    drives: &[RamDrive],
    steps: u64,
    work: impl FnOnce(Handle, Rc<Vec<RamDrive>>) -> F,
) -> Vec<RamDrive> {
    let drives = Rc::new(forks(drives));
    run(Some(steps), |handle| work(handle, drives.clone()));
    (0..).zip(&*drives).for_each(|(seed, drive)| drive.power_loss(seed));
    forks(&drives)
}

fn forks(drives: &[RamDrive]) -> Vec<RamDrive> {
    drives.iter().map(|drive| drive.fork(Immediate)).collect()
}

/// The result of a start.
#[derive(Clone, Copy, Default)]
struct Found {
    segments: u64,
    weak: u64,
    discarded: u64,
    rebuilding: usize,
}

impl Found {
    fn on(drives: &[RamDrive]) -> Self {
        let (drives, found) = (forks(drives), Cell::new(Self::default()));
        run(None, async |handle| {
            let opened = open_array(&handle, offer(&handle, &drives), OpenOptions::default());
            let (volume, report) = opened.await.expect("the drives are an array");
            let members = volume.status().members;
            found.set(Self {
                segments: report.segments,
                weak: report.rescued_stripes,
                discarded: report.discarded_stripes,
                rebuilding: members.iter().filter(|m| m.state == MemberHealth::Rebuilding).count(),
            });
        });
        found.get()
    }
}

/// Runs work to its end, or for so many steps.
fn run<F: Future<Output = ()>>(steps: Option<u64>, work: impl FnOnce(Handle) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let mut taken = 0;
    let _ended = executor.run_until(work(handle), || {
        taken += 1;
        steps.is_some_and(|steps| taken > steps)
    });
}

async fn open(handle: &Handle, drives: &[RamDrive]) -> Volume {
    let opened = open_array(handle, offer(handle, drives), OpenOptions::default()).await;
    opened.expect("the drives are an array").0
}

async fn write_at_random(volume: &Volume, requests: u32) {
    let mut random = Random::new(requests.into());
    let blocks = volume.info().blocks;
    for _ in 0..requests {
        let lba = random.below(blocks);
        let length = (1 + random.below(6)).min(blocks - lba);
        let done = if random.per_mille(150) {
            volume.trim(Lba(lba), length, false).await
        } else {
            let word = random.next().to_le_bytes();
            let block = Bytes::from(word.repeat(BLOCK_BYTES / word.len()));
            volume.write(Lba(lba), (0..length).map(|_| block.clone()).collect(), false).await
        };
        done.expect("nothing fails here");
    }
}
