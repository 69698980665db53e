//! Random histories with crashes: acknowledged writes survive, and no other data appears.
//!
//! Each seed draws an array, a workload and several crashes, some of them during recovery. A
//! failure names the seed, and this replays it:
//! `ZONEWEAVE_SEED=n cargo test -p zoneweave-raid --test main crash::`.
//!
//! Marks that these histories hit are not reported: each mark needs a test that aims at it.

use std::cell::RefCell;

use crate::support::{
    Array, DumpOnPanic, Shape, SharedHistory, Workload, crash, executor, for_each_seed, open,
    run_workers, verify_recovered, workload,
};
use zoneweave_raid::instrument::marks;
use zoneweave_runtime::Random;

/// Opens the array, checks it, works on it, and is stopped at a random point, or finishes.
fn one_life(
    array: &Array,
    history: &SharedHistory,
    random: &mut Random,
    power_lost: &mut bool,
    without: &[usize],
) {
    let executor = executor();
    let lost_before = *power_lost;
    let handle = executor.handle();
    let mut steps = if random.per_mille(200) { random.below(200) } else { random.below(8000) };
    let mut work = random.fork();
    let running = RefCell::new(None);
    let _dump = DumpOnPanic(&running);
    let life = async {
        let (volume, report) = open(array, &handle, without).await.expect("the array starts");
        *running.borrow_mut() = Some(volume.clone());
        drop(report);
        verify_recovered(&volume, array, history, lost_before).await;
        *power_lost = false;
        let load = workload(&mut work);
        run_workers(&volume, array, &handle, history, load, &mut work).await;
        volume.assert_consistent();
    };
    executor.run_until(life, || {
        steps = steps.saturating_sub(1);
        steps == 0
    });
}

#[test]
fn promised_writes_survive_crashes() {
    for_each_seed("crash", "promised_writes_survive_crashes", |seed| {
        let mut random = Random::new(seed);
        let shape = Shape::random(&mut random);
        let array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let mut power_lost = false;
        for _ in 0..6 {
            one_life(&array, &history, &mut random, &mut power_lost, &[]);
            // Several crashes before a recovery that ends: any of them may have lost power.
            power_lost |= crash(&array, &mut random);
        }
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let (volume, _) = open(&array, &handle, &[]).await.expect("the array starts");
            verify_recovered(&volume, &array, &history, power_lost).await;
        });
    });
    marks::reset();
}

#[test]
fn promised_writes_survive_crashes_with_a_lost_member() {
    for_each_seed("crash", "promised_writes_survive_crashes_with_a_lost_member", |seed| {
        let mut random = Random::new(seed ^ 0x5EED_0000);
        let shape = Shape::random(&mut random);
        let array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let mut power_lost = false;
        let mut lost = Vec::new();
        for _ in 0..6 {
            one_life(&array, &history, &mut random, &mut power_lost, &lost);
            power_lost |= crash(&array, &mut random);
            let majority = (shape.columns() - lost.len() - 1) * 2 > shape.columns();
            if lost.len() < shape.parity && majority && random.per_mille(400) {
                let at = usize::try_from(random.below(shape.columns() as u64)).unwrap();
                if !lost.contains(&at) {
                    lost.push(at);
                }
            }
        }
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let (volume, _) = open(&array, &handle, &lost).await.expect("the array starts");
            verify_recovered(&volume, &array, &history, power_lost).await;
        });
    });
    marks::reset();
}

#[test]
fn a_quiet_volume_keeps_what_it_is_given() {
    let mut random = Random::new(1);
    let array = Array::create(Shape::small(), &mut random);
    let history = SharedHistory::default();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let (volume, report) = open(&array, &handle, &[]).await.unwrap();
        assert_eq!(report.segments, 0);
        let load = Workload { workers: 4, requests: 500, trims_per_mille: 50, hot_blocks: 1 << 20 };
        run_workers(&volume, &array, &handle, &history, load, &mut random).await;
        verify_recovered(&volume, &array, &history, false).await;
        volume.close().await.unwrap();
    });
    marks::reset();
}
