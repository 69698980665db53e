//! Drives in files, on the file system of the machine that runs the tests.

mod damage;
mod image;
mod kill;
mod like_ram;
mod no_space;
mod paced;

use std::path::PathBuf;

use bytes::Bytes;
use tempfile::TempDir;
use zoneweave_runtime::{Executor, Nanos};
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, OOB_BYTES, Payload, ZoneAddress, ZoneId, ZoneOffset,
    ZoneState, ZonedDeviceExt,
};

use super::*;

const UUID: [u8; 16] = *b"a drive in tests";

fn geometry() -> Geometry {
    Geometry {
        max_open: Some(3),
        max_active: Some(4),
        append_limit: BlockCount(8),
        max_transfer: BlockCount(16),
        ..Geometry::new(8, BlockCount(24))
    }
}

/// Blocks that identify themselves: `tag`, then their index in the payload.
fn payload(tag: u64, blocks: u32) -> Payload {
    let mut data = AlignedBuffer::zeroed(BlockCount(blocks));
    let mut oob = vec![0; BlockCount(blocks).oob_bytes()];
    let pages = data.as_mut().chunks_mut(BLOCK_BYTES).zip(oob.chunks_mut(OOB_BYTES));
    for (index, (page, oob)) in (0_u64..).zip(pages) {
        for place in [&mut *page, oob] {
            place[..8].copy_from_slice(&tag.to_le_bytes());
            place[8..16].copy_from_slice(&index.to_le_bytes());
        }
        page[BLOCK_BYTES - 8..].copy_from_slice(&tag.to_le_bytes());
    }
    Payload::new(data.freeze(), Bytes::from(oob))
}

struct Bench {
    ring: Ring,
    executor: Executor,
    directory: TempDir,
}

impl Bench {
    fn new() -> Self {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        Self { ring, executor, directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("drive")
    }

    fn create(&self) -> FileDrive {
        FileDrive::create(&self.path(), geometry(), UUID).unwrap();
        self.open()
    }

    fn open(&self) -> FileDrive {
        FileDrive::open(&self.ring, &self.executor.handle(), &self.path()).unwrap()
    }

    /// Opens the drive again after the dropped one is closed.
    fn reopen(&self) -> FileDrive {
        self.run(self.executor.handle().yield_now());
        self.open()
    }

    fn run<F: Future>(&self, work: F) -> F::Output {
        self.executor.run(work)
    }

    /// Lets the tasks of a dropped drive end, so that its lock is released.
    fn settle(&self) {
        let handle = self.executor.handle();
        self.run(handle.sleep(WATCH_PERIOD + Nanos::from_millis(10)));
    }
}

const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

#[test]
fn what_completed_is_there_after_reopening() {
    let bench = Bench::new();
    let drive = bench.create();
    assert!(drive.geometry().volatile_cache);
    bench.run(async {
        drive.append(ZoneId(0), payload(1, 8), false).await.unwrap();
        let at = drive.append(ZoneId(0), payload(2, 3), true).await.unwrap();
        assert_eq!(at, ZoneAddress::new(ZoneId(0), 8));
        let fresh = ZoneAddress::new(ZoneId(1), 0);
        drive.write(fresh, payload(3, 16), false).await.unwrap();
        drive.manage(ZoneId(1), ZoneAction::Finish).await.unwrap();
        drive.write(ZoneAddress::new(ZoneId(2), 0), payload(4, 1), false).await.unwrap();
        for _ in 0..3 {
            drive.manage(ZoneId(2), ZoneAction::Reset).await.unwrap();
            drive.append(ZoneId(2), payload(5, 1), false).await.unwrap();
        }
        drive.manage(ZoneId(2), ZoneAction::Reset).await.unwrap();
        drive.flush().await.unwrap();
    });
    drop(drive);
    bench.settle();
    let info = FileDrive::inspect(&bench.path()).unwrap();
    assert_eq!(info.uuid, UUID);
    let drive = bench.open();
    bench.run(async {
        let zones = drive.report().await.unwrap();
        assert_eq!(zones, info.zones);
        assert_eq!((zones[0].state, zones[0].write_pointer), (ZoneState::Closed, ZoneOffset(11)));
        assert_eq!(zones[1].state, ZoneState::Full);
        assert_eq!((zones[2].state, zones[2].resets), (ZoneState::Empty, 4));
        let read = drive.read(ZoneAddress::new(ZoneId(0), 0), BlockCount(12)).await.unwrap();
        for (index, (tag, inside)) in
            (0..8).map(|i| (1, i)).chain((0..3).map(|i| (2, i))).enumerate()
        {
            let wanted = payload(tag, 8);
            assert_eq!(read.block(index), wanted.block(inside));
            assert_eq!(read.block_oob(index), wanted.block_oob(inside));
        }
        assert!(read.block(11).iter().chain(&read.block_oob(11)).all(|byte| *byte == 0));
        drive.append(ZoneId(0), payload(6, 1), false).await.unwrap();
    });
}

#[test]
fn commands_in_flight_together_are_ordered_by_submission() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        let zone = ZoneId(3);
        let mut earlier = Vec::new();
        for round in 0..20 {
            let appends: Vec<_> =
                (0..12).map(|i| drive.append(zone, payload(round * 100 + i, 2), false)).collect();
            let mut pending: Vec<_> = appends.into_iter().map(Box::pin).collect();
            // Read while they are under way: the read waits for them.
            let tail = drive.read(ZoneAddress::new(zone, 22), BlockCount(2)).await.unwrap();
            assert_eq!(tail.block(1), payload(round * 100 + 11, 2).block(1));
            let reset = drive.manage(zone, ZoneAction::Reset);
            let next = drive.append(zone, payload(round, 1), false);
            for (i, append) in (0..).zip(pending.drain(..)) {
                assert_eq!(append.await.unwrap().offset, ZoneOffset(i * 2));
            }
            reset.await.unwrap();
            assert_eq!(next.await.unwrap().offset, ZoneOffset(0));
            let first = drive.read(ZoneAddress::new(zone, 0), BlockCount(16)).await.unwrap();
            assert_eq!(first.block(0), payload(round, 1).block(0));
            assert!(first.block(1).iter().all(|byte| *byte == 0));
            earlier.push(drive.manage(zone, ZoneAction::Reset));
        }
        for reset in earlier {
            reset.await.unwrap();
        }
        let zones = drive.report().await.unwrap();
        assert_eq!(zones[3].resets, 40);
    });
}

#[test]
fn a_reset_gives_the_space_back() {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        let before = std::fs::metadata(bench.path()).unwrap().blocks();
        drive.write(ZoneAddress::new(ZoneId(0), 0), payload(1, 16), true).await.unwrap();
        let full = std::fs::metadata(bench.path()).unwrap().blocks();
        assert!(full >= before + 16 * 8, "{before} to {full} sectors");
        drive.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        let after = std::fs::metadata(bench.path()).unwrap().blocks();
        assert!(after < full, "{full} to {after} sectors");
    });
}
