//! Rebuilds: batches that are read ahead, beside users, failures, limits and crashes.

use std::num::NonZeroU64;

use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, RamDrive, Selector};
use zoneweave_raid::array::error::RebuildError;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::raizn::{ReplaceError, Volume};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, JoinHandle, Nanos};
use zoneweave_zoned::{BLOCK_BYTES, OobKind, Status, ZoneAction, ZoneId, ZonedDeviceExt};

use super::holds;
use crate::raizn::drives::{
    FIRST_COLUMN, STRIPE, UNIT, create_on, drives, executor, start, timing, write,
};
use crate::support::life::assert_hit;

const COLUMN: ZoneId = ZoneId(FIRST_COLUMN);
const CAPACITY: u32 = 240;
/// Blocks of a batch: an eighth of the column, in whole units.
const BATCH: u32 = 28;
/// Complete stripes: seven batches of a column, and a part of one.
const WRITTEN: u32 = 50 * STRIPE;
const BATCHES: u32 = 8;
/// The slot whose drive is replaced.
const SLOT: usize = 2;

struct Bench {
    members: Vec<RamDrive>,
    blank: RamDrive,
}

impl Bench {
    fn new() -> Self {
        Self { members: drives(OobKind::Separate, CAPACITY), blank: blank(9) }
    }

    /// The volume, with its first zone written.
    async fn volume(&self, handle: &Handle) -> Volume {
        create_on(&self.members, handle, UNIT).await;
        let volume = start(&self.members, handle).await;
        write(&volume, 0, 0, WRITTEN).await.unwrap();
        volume
    }

    /// The drives that the others are read from.
    fn sources(&self) -> &[RamDrive] {
        &self.members[..SLOT]
    }

    fn replace(&self, volume: &Volume, handle: &Handle) -> JoinHandle<Result<(), ReplaceError>> {
        let (volume, device) = (volume.clone(), self.blank.attach(handle));
        handle.spawn("replace", async move {
            volume.replace(Column::of(SLOT), device, MemberUuid([9; 16])).await
        })
    }

    /// Blocks of the first zone on the new drive.
    fn copied(&self) -> u32 {
        self.blank.zone(COLUMN).write_pointer.0
    }

    async fn copies(&self, blocks: u32, handle: &Handle) {
        while self.copied() < blocks {
            handle.sleep(Nanos(1_000)).await;
        }
    }

    /// Makes each write to the first zone of the new drive take that much longer.
    fn slow_down(&self, delay: Nanos) {
        let writes = Selector::next(CommandKind::Write).in_zone(COLUMN).always();
        self.blank.inject(writes, FaultAction::Slow(delay));
    }

    /// The drives of the volume once the process is killed.
    fn killed(self) -> Vec<RamDrive> {
        let Self { mut members, blank } = self;
        members[SLOT] = blank;
        for drive in &members {
            drive.process_kill(1);
            drive.faults(|plan| *plan = FaultPlan::default());
        }
        members
    }
}

fn blank(seed: u64) -> RamDrive {
    drives(OobKind::Separate, CAPACITY).swap_remove(0).fork(timing(seed))
}

/// Runs a test to its end, then the process is killed. Returns the drives of the volume.
fn run(test: impl AsyncFnOnce(&Bench, &Volume, &Handle)) -> Vec<RamDrive> {
    let bench = Bench::new();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = bench.volume(&handle).await;
        test(&bench, &volume, &handle).await;
    });
    drop(executor);
    bench.killed()
}

/// Checks that the first zone can be read without each of the drives that were copied from.
fn holds_without_one(drives: &[RamDrive], blocks: u32) {
    for lost in 0..SLOT {
        let mut left: Vec<_> = drives.iter().map(|drive| drive.fork(timing(3))).collect();
        left.remove(lost);
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let volume = start(&left, &handle).await;
            holds(&volume, blocks).await;
        });
    }
}

/// The time that so many blocks take at a rate.
fn at_rate(blocks: u32, bytes_per_second: u64) -> Nanos {
    Nanos(u64::from(blocks) * BLOCK_BYTES as u64 * 1_000_000_000 / bytes_per_second)
}

/// The new drive waited for the reads of each stripe, and the others for its writes.
#[test]
fn a_batch_is_read_while_the_one_before_is_written() {
    const SLOW: Nanos = Nanos::from_millis(10);
    let drives = run(async |bench, volume, handle| {
        for drive in bench.sources() {
            let reads = Selector::next(CommandKind::Read).in_zone(COLUMN).always();
            drive.inject(reads, FaultAction::Slow(SLOW));
        }
        bench.slow_down(SLOW);
        let begun = handle.now();
        bench.replace(volume, handle).await.unwrap();
        let took = handle.now().since(begun);
        let least = Nanos(SLOW.0 * u64::from(BATCHES + 1));
        assert!(took >= least && took < least + SLOW, "it took {took}");
    });
    holds_without_one(&drives, WRITTEN);
    assert_hit(&[Mark::ZonedBatchAhead]);
}

/// However long a write takes, memory has its batch and the next one.
#[test]
fn one_batch_is_read_ahead() {
    run(async |bench, volume, handle| {
        bench.slow_down(Nanos::from_secs(1));
        let read = || {
            let blocks = bench.sources().iter().map(|drive| drive.counters().read_blocks);
            blocks.collect::<Vec<_>>()
        };
        let before = read();
        let replacing = bench.replace(volume, handle);
        handle.sleep(Nanos::from_millis(500)).await;
        let blocks = before.iter().zip(read()).map(|(before, after)| after - before);
        assert_eq!(blocks.collect::<Vec<_>>(), [u64::from(2 * BATCH); 2]);
        replacing.await.unwrap();
    });
}

#[test]
fn a_zone_is_written_while_its_column_is_rebuilt() {
    const MORE: u32 = 13;
    let drives = run(async |bench, volume, handle| {
        bench.slow_down(Nanos::from_millis(1));
        let replacing = bench.replace(volume, handle);
        for at in 0..MORE {
            write(volume, 0, WRITTEN + 5 * at, 5).await.unwrap();
            holds(volume, WRITTEN + 5 * at).await;
            handle.sleep(Nanos(500_000)).await;
        }
        replacing.await.unwrap();
        assert!(volume.status().members[SLOT].online);
        holds(volume, WRITTEN + 5 * MORE).await;
    });
    holds_without_one(&drives, WRITTEN + 5 * MORE);
}

/// The new drive has more of the last stripe than another one. What is behind the end of that one
/// was read, and counted as its errors.
#[test]
fn a_finished_zone_is_rebuilt_from_columns_up_to_their_ends() {
    let drives = run(async |bench, volume, handle| {
        write(volume, 0, WRITTEN, UNIT + 1).await.unwrap();
        volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
        bench.replace(volume, handle).await.unwrap();
        let status = volume.status();
        let mut errors = status.members.iter().map(|member| member.errors);
        assert!(errors.all(|errors| errors.read + errors.checksum == 0), "{status:?}");
        holds(volume, WRITTEN + UNIT + 1).await;
    });
    holds_without_one(&drives, WRITTEN + UNIT + 1);
}

#[test]
fn a_batch_that_cannot_be_read_ahead_is_read_in_its_turn() {
    let drives = run(async |bench, volume, handle| {
        let reads = Selector::next(CommandKind::Read).in_zone(COLUMN);
        // The read of the batch, and the one of the block.
        let reads = reads.touching(BATCH + 1..BATCH + 2).times(2);
        bench.members[0].inject(reads, FaultAction::Fail(Status::UnrecoveredRead));
        bench.replace(volume, handle).await.unwrap();
    });
    holds_without_one(&drives, WRITTEN);
    assert_hit(&[Mark::ZonedAheadFailed]);
}

#[test]
fn a_rebuild_ends_if_it_loses_a_drive_that_it_needs() {
    run(async |bench, volume, handle| {
        bench.slow_down(Nanos::from_millis(1));
        let replacing = bench.replace(volume, handle);
        bench.copies(2 * BATCH, handle).await;
        bench.members[0].set_gone(true);
        let error = replacing.await.unwrap_err();
        assert!(matches!(error, ReplaceError::Rebuild(RebuildError::Stopped(_))), "{error}");
        let status = volume.status();
        assert!(status.stopped.is_some() && status.members[0].failure.is_some(), "{status:?}");
        // The new drive was expelled, as if it had failed.
        assert!(status.members[SLOT].rebuilding, "{status:?}");
        assert_eq!(status.members[SLOT].failure, None);
    });
}

#[test]
fn a_new_drive_that_fails_in_the_middle_is_replaced_by_another() {
    run(async |bench, volume, handle| {
        bench.slow_down(Nanos::from_millis(1));
        let replacing = bench.replace(volume, handle);
        bench.copies(2 * BATCH, handle).await;
        bench.blank.set_gone(true);
        assert!(replacing.await.is_err());
        let another = blank(11).attach(handle);
        volume.replace(Column::of(SLOT), another, MemberUuid([10; 16])).await.unwrap();
        volume.fail(Column::of(0)).await.unwrap();
        holds(volume, WRITTEN).await;
    });
}

#[test]
fn a_limited_rebuild_keeps_its_rate() {
    const RATE: u64 = 1 << 20;
    run(async |bench, volume, handle| {
        volume.limit_rebuild(NonZeroU64::new(RATE));
        let begun = handle.now();
        bench.replace(volume, handle).await.unwrap();
        let (took, wanted) = (handle.now().since(begun), at_rate(WRITTEN / 2, RATE));
        assert!(took >= wanted && took < wanted + Nanos::from_millis(10), "it took {took}");
        assert_eq!(bench.copied(), WRITTEN / 2);
    });
    assert_hit(&[Mark::RebuildThrottled]);
}

/// A partial stripe is copied with its zone held. Its writes waited for the limit, too.
#[test]
fn blocks_that_are_copied_while_users_wait_are_paid_for_by_the_next_ones() {
    const RATE: u64 = 1 << 20;
    run(async |bench, volume, handle| {
        for zone in [1, 2] {
            write(volume, zone, 0, STRIPE - 1).await.unwrap();
        }
        volume.limit_rebuild(NonZeroU64::new(RATE));
        let begun = handle.now();
        bench.replace(volume, handle).await.unwrap();
        let took = handle.now().since(begun);
        let copied = |zone| bench.blank.zone(ZoneId(FIRST_COLUMN + zone)).write_pointer.0;
        assert!(copied(1) > 0 && copied(2) > 0, "both have data there");
        let wanted = at_rate(WRITTEN / 2 + copied(1), RATE);
        assert!(took >= wanted && took < wanted + Nanos::from_millis(10), "it took {took}");
    });
}

/// A reset waited until the limit allowed the next batch.
#[test]
fn a_reset_waits_for_no_limit_and_drops_what_was_read_ahead() {
    const AGAIN: u32 = 2 * STRIPE + 3;
    let drives = run(async |bench, volume, handle| {
        volume.limit_rebuild(NonZeroU64::new(64 << 10));
        let replacing = bench.replace(volume, handle);
        bench.copies(BATCH, handle).await;
        handle.sleep(Nanos::from_millis(1)).await;
        let begun = handle.now();
        volume.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        let took = handle.now().since(begun);
        assert!(took < Nanos::from_millis(100), "a batch takes 1.75 s, and the reset {took}");
        write(volume, 0, 0, AGAIN).await.unwrap();
        replacing.await.unwrap();
        holds(volume, AGAIN).await;
    });
    holds_without_one(&drives, AGAIN);
    assert_hit(&[Mark::ZonedBatchDropped]);
}

/// Nothing that was copied before the crash counts, and nothing of it is left.
#[test]
fn a_rebuild_goes_on_after_a_crash_in_each_of_its_batches() {
    for batch in 0..BATCHES {
        let bench = Bench::new();
        let executor = executor();
        let handle = executor.handle();
        let rebuilding = async {
            let volume = bench.volume(&handle).await;
            bench.slow_down(Nanos(10_000));
            bench.replace(&volume, &handle).await
        };
        let ended = executor.run_until(rebuilding, || bench.copied() > batch * BATCH);
        assert!(ended.is_none(), "it ended before batch {batch}");
        drop(executor);
        let drives = bench.killed();
        let executor = self::executor();
        let handle = executor.handle();
        executor.run(async {
            let volume = start(&drives, &handle).await;
            assert!(volume.status().members[SLOT].rebuilding, "batch {batch}");
            volume.resume_rebuilds().await.unwrap();
            assert!(volume.status().members[SLOT].online, "batch {batch}");
            volume.close().await;
        });
        drop(executor);
        holds_without_one(&drives, WRITTEN);
    }
}
