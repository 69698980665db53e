//! Lives of an array: it is started, a test uses the volume, and the process is killed.

use std::cell::RefCell;

use zoneweave_raid::instrument::marks::{self, INSTRUMENTED, Mark};
use zoneweave_raid::log::{
    DriveRole, OpenError, OpenOptions, OpenReport, SegmentPhase, SegmentStatus, Volume,
    WriteChoice, WritePolicy, open_array,
};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, BlockError, Lba};

use super::{Array, DumpOnPanic, contents, executor, kill, offer, read_all};

/// Steps in which any life comes to its end.
const LIVE_STEPS: u64 = 6_000_000;

/// Starts the array without some drives and runs a test on it, to its end or to a panic; then
/// the process is killed.
pub fn one_life<T>(
    array: &Array,
    without: &[usize],
    options: OpenOptions,
    test: impl AsyncFnOnce(&Volume, &OpenReport, &Handle) -> T,
) -> Result<T, OpenError> {
    let executor = executor();
    let handle = executor.handle();
    let running = RefCell::new(None);
    let dump = DumpOnPanic(&running);
    let life = async {
        let drives = offer(&array.drives, &handle, without);
        let (volume, report) = open_array(&handle, drives, options).await?;
        *running.borrow_mut() = Some(volume.clone());
        Ok(test(&volume, &report, &handle).await)
    };
    let mut steps = LIVE_STEPS;
    let ended = executor.run_until(life, || {
        steps -= 1;
        steps == 0
    });
    let ended = ended.expect("the volume gets somewhere");
    drop(dump);
    drop(executor);
    kill(array, &mut Random::new(1));
    ended
}

pub fn live<T>(array: &Array, test: impl AsyncFnOnce(&Volume, &OpenReport, &Handle) -> T) -> T {
    one_life(array, &[], OpenOptions::default(), test).expect("the array starts")
}

/// Tries a start without some drives, which must be refused.
pub fn refused(array: &Array, without: &[usize]) -> OpenError {
    let started =
        one_life(array, without, OpenOptions::default(), async |_, report, _| roles(report));
    started.expect_err("the array does not start")
}

pub async fn put(volume: &Volume, lba: u64, version: u64) -> Result<(), BlockError> {
    volume.write(Lba(lba), vec![contents(lba, version)], false).await
}

/// Writes a version of the first blocks and flushes.
pub async fn put_all(volume: &Volume, blocks: u64, version: u64) {
    for lba in 0..blocks {
        put(volume, lba, version).await.unwrap();
    }
    volume.flush().await.unwrap();
}

pub async fn assert_holds(volume: &Volume, blocks: u64, version: u64) {
    let found = read_all(volume, blocks).await.expect("everything is readable");
    assert!(found.iter().all(|found| *found == version), "version {version} is {found:?}");
}

pub fn roles(report: &OpenReport) -> Vec<DriveRole> {
    report.drives.iter().map(|drive| drive.role.clone()).collect()
}

pub fn member(slot: usize) -> DriveRole {
    DriveRole::Member { slot: Column::of(slot), rebuilding: false }
}

/// In builds that count marks, checks that these were hit.
pub fn assert_hit(expected: &[Mark]) {
    let counts = marks::counts();
    for mark in expected.iter().filter(|_| INSTRUMENTED) {
        let hit = counts.iter().any(|(known, count)| known == mark && *count > 0);
        assert!(hit, "{} was not hit", mark.name());
    }
}

/// Many requests at a time, of `blocks` blocks each.
pub async fn put_many(volume: &Volume, handle: &Handle, blocks: u64, requests: u64, version: u64) {
    let writes = (0..requests).map(|at| {
        let (volume, lba) = (volume.clone(), at * blocks);
        handle.spawn("write", async move {
            let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
            volume.write(Lba(lba), data, false).await.unwrap();
        })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await;
    }
}

/// How a volume is opened that is written so.
pub fn with(policy: WritePolicy) -> OpenOptions {
    OpenOptions { writes: WriteChoice::Policy(policy), ..OpenOptions::default() }
}

/// Segments that are filled.
pub fn open_segments(volume: &Volume) -> Vec<SegmentStatus> {
    volume.segments().into_iter().filter(|segment| segment.phase == SegmentPhase::Open).collect()
}
