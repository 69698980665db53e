//! Garbage collection under load: its cost, and the sharing of drives with users.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::support::life::{assert_hit, assert_holds, live, one_life, put, put_all};
use crate::support::{Array, Shape, contents, read_all};
use futures_util::future::join_all;
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{CLASSES, Lanes, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba, Status};

/// Requests in flight.
const QUEUE_DEPTH: usize = 32;

fn array() -> Array {
    let shape = Shape { zones: 100, zone_blocks: 40, volume_blocks: Some(6_000), ..Shape::small() };
    Array::create(shape, &mut Random::new(4))
}

/// Overwrites blocks, of which `hot` in a hundred are among the first tenth; notes the newest
/// version of each.
async fn overwrite(volume: &Volume, known: &Known, hot: u64, requests: u64) {
    let blocks = volume.info().blocks;
    let left = RefCell::new(requests);
    let worker = async || {
        while *left.borrow() > 0 {
            *left.borrow_mut() -= 1;
            let (lba, version) = known.draw(blocks, hot);
            volume.write(Lba(lba), vec![contents(lba, version)], false).await.unwrap();
        }
    };
    join_all((0..QUEUE_DEPTH).map(|_| worker())).await;
}

/// The blocks written so far.
struct Known {
    random: RefCell<Random>,
    /// In the order of requests, which is the order in which they take effect.
    newest: RefCell<BTreeMap<u64, u64>>,
}

impl Known {
    fn draw(&self, blocks: u64, hot: u64) -> (u64, u64) {
        let mut random = self.random.borrow_mut();
        let range = if random.below(100) < hot { blocks / 10 } else { blocks };
        let lba = random.below(range);
        let mut newest = self.newest.borrow_mut();
        let version = newest.entry(lba).or_default();
        *version += 1;
        (lba, *version)
    }
}

/// Blocks written to users' long-lived segments, in percent of users' writes, and the
/// amplification, between two moments.
async fn between(volume: &Volume, work: impl Future<Output = ()>) -> (u64, f64) {
    let long = CLASSES.iter().position(|name| *name == "users_long").unwrap();
    let before = volume.status().counters;
    work.await;
    let after = volume.status().counters;
    let user = after.user_blocks_written - before.user_blocks_written;
    let moved = after.relocated_blocks - before.relocated_blocks;
    let kept = after.classes[long].written_blocks - before.classes[long].written_blocks;
    #[expect(clippy::cast_precision_loss, reason = "a test")]
    let amplification = (user + moved) as f64 / user as f64;
    (kept * 100 / user, amplification)
}

/// While all blocks are written with equal frequency, classes are mixed, and the cost matches the
/// theory. When some become hot they are kept apart, and the cost falls.
#[test]
fn lifetimes_are_kept_apart_while_they_tell() {
    let array = array();
    let policy = WritePolicy::adaptive(Lanes { count: 2, chunk_blocks: 1 }, Lanes::default());
    let options = OpenOptions { writes: WriteChoice::Policy(policy), ..OpenOptions::default() };
    let life = one_life(&array, &[], options, async |volume, _, _| {
        let known =
            Rc::new(Known { random: RefCell::new(Random::new(7)), newest: RefCell::default() });
        overwrite(volume, &known, 0, 30_000).await;
        let (long, cost) = between(volume, overwrite(volume, &known, 0, 15_000)).await;
        let theory = volume.status().amplification.uniform.unwrap();
        assert!(long < 10, "{long} % kept apart, for nothing");
        assert!((0.8..1.2).contains(&(cost / theory)), "{cost} instead of {theory}");
        overwrite(volume, &known, 90, 15_000).await;
        let (long, cost) = between(volume, overwrite(volume, &known, 90, 15_000)).await;
        assert!((1..90).contains(&long), "{long} % kept apart");
        assert!(cost < theory, "{cost}, uniform {theory}");
        volume.assert_consistent();
        let found = read_all(volume, volume.info().blocks).await.unwrap();
        let newest = known.newest.borrow();
        for (lba, found) in (0..).zip(found) {
            assert_eq!(found, newest.get(&lba).copied().unwrap_or(0), "block {lba}");
        }
    });
    life.expect("the array starts");
}

/// Without redundancy left, a drive's controller is reset while blocks are moved that only it has.
#[test]
fn what_a_drive_does_not_tell_for_a_while_is_not_lost() {
    let shape = Shape { zones: 14, volume_blocks: Some(90), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(5));
    live(&array, async |volume, _, handle| {
        put_all(volume, 60, 1).await;
        volume.fail(3).await.unwrap();
        let reads = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(reads, FaultAction::Fail(Status::Aborted));
        let scrub = handle.spawn("scrub", {
            let volume = volume.clone();
            async move { volume.scrub().await }
        });
        handle.sleep(Nanos::from_secs(3)).await;
        array.drives[1].faults(FaultPlan::clear);
        scrub.await.unwrap();
        // All pending relocations are done.
        handle.sleep(Nanos::from_secs(30)).await;
        assert_holds(volume, 60, 1).await;
    });
    one_life(&array, &[3], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, 60, 1).await;
    })
    .expect("the array starts");
}

/// A drive that hangs in reads keeps the segments that are read, and no others.
#[test]
fn reads_that_hang_hold_up_no_writes() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, 6_000, 1).await;
        volume.flush().await.unwrap();
        let hang = FaultAction::Slow(Nanos::from_secs(30));
        array.drives[1].inject(Selector::next(CommandKind::Read).times(8), hang);
        let reads = (0..8).map(|part| {
            let reader = volume.clone();
            handle.spawn("reader", async move { reader.read(Lba(part * 700), 20).await })
        });
        let reads: Vec<_> = reads.collect();
        handle.sleep(Nanos::from_millis(1)).await;
        let begun = handle.now();
        // All that is read meanwhile is written again, and everything else more than once.
        put_all(volume, 6_000, 2).await;
        let known = Known { random: RefCell::new(Random::new(6)), newest: RefCell::default() };
        overwrite(volume, &known, 0, 30_000).await;
        assert!(handle.now().since(begun) < Nanos::from_secs(30), "writes wait for no read");
        assert!(volume.status().counters.segments_reclaimed > 100, "{:?}", volume.status());
        for read in reads {
            read.await.unwrap();
        }
    });
}

/// A trim with every other block written again hides the same blocks as before, and no more, after
/// it was relocated as one.
#[test]
fn a_trim_with_blocks_written_into_it_is_moved() {
    let array = array();
    let check = async |volume: &Volume| {
        let found = read_all(volume, 6_000).await.unwrap();
        for (lba, version) in (0_u64..).zip(found) {
            let trimmed = lba < 3_000 && lba % 2 == 1;
            let expected = if trimmed { 0 } else { 1 + u64::from(lba < 3_000) };
            assert_eq!(version, expected, "block {lba}");
        }
    };
    live(&array, async |volume, _, handle| {
        // Segments of the first half stand, as there is something of the second in each.
        for lba in 0..3_000 {
            put(volume, lba, 1).await.unwrap();
            put(volume, lba + 3_000, 1).await.unwrap();
        }
        volume.trim(Lba(0), 3_000, false).await.unwrap();
        for lba in (0..3_000).step_by(2) {
            put(volume, lba, 2).await.unwrap();
        }
        volume.flush().await.unwrap();
        // A block that a drive cannot read is relocated with the rest of its segment.
        let reads = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(reads, FaultAction::Fail(Status::UnrecoveredRead));
        volume.scrub().await.unwrap();
        array.drives[1].faults(FaultPlan::clear);
        handle.sleep(Nanos::from_secs(30)).await;
        assert!(volume.status().counters.relocated_blocks >= 4_500, "{:?}", volume.status());
        assert_hit(&[Mark::TombstoneMoved]);
        check(volume).await;
    });
    live(&array, async |volume, _, _| check(volume).await);
}
