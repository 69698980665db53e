//! Random histories with crashes: what was promised survives, and nothing is made up.
//!
//! Each seed draws an array, a workload and several crashes, some of them during recovery. A
//! failure names the seed; `ZONEWEAVE_SEED=n cargo test -p zoneweave-raid --test crash` replays it.

mod support;

use std::cell::RefCell;

use support::{
    Array, Shape, SharedHistory, Workload, executor, open, run_workers, verify_recovered,
};
use zoneweave_raid::log::Volume;
use zoneweave_runtime::Random;

const SEEDS: u64 = 300;

fn seeds() -> Vec<u64> {
    match std::env::var("ZONEWEAVE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ZONEWEAVE_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

fn for_each_seed(name: &str, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| test(seed));
        assert!(
            result.is_ok(),
            "{name} fails: ZONEWEAVE_SEED={seed} cargo test -p zoneweave-raid --test crash {name}"
        );
    }
}

fn workload(random: &mut Random) -> Workload {
    Workload {
        workers: 1 + random.below(12),
        requests: 20 + random.below(60),
        trims_per_mille: [0, 100, 300][usize::try_from(random.below(3)).unwrap()],
        hot_blocks: [8, 1000, 100_000][usize::try_from(random.below(3)).unwrap()],
    }
}

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

/// Says where the engine stands when a test fails.
struct DumpOnPanic<'a>(&'a RefCell<Option<Volume>>);

impl Drop for DumpOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(volume) = self.0.try_borrow()
            && let Some(volume) = volume.as_ref()
        {
            eprintln!("{}", volume.describe());
        }
    }
}

fn crash(array: &Array, random: &mut Random) -> bool {
    let power = random.per_mille(600);
    for drive in &array.drives {
        if power {
            drive.power_loss(random.next());
        } else {
            drive.process_kill(random.next());
        }
    }
    power
}

#[test]
fn promised_writes_survive_crashes() {
    for_each_seed("promised_writes_survive_crashes", |seed| {
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
}

#[test]
fn promised_writes_survive_crashes_with_a_lost_member() {
    for_each_seed("promised_writes_survive_crashes_with_a_lost_member", |seed| {
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
}
