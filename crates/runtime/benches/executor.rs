//! Tasks: started and waited for, woken in turn, and waiting for a permit.
//!
//! `make bench` runs it. Each figure is of a hundred of them, in virtual time, of which nothing
//! passes.

use std::rc::Rc;

use criterion::{Criterion, Throughput};
use zoneweave_runtime::{Executor, Semaphore, VirtualTime};

const TASKS: u32 = 100;

fn executor(criterion: &mut Criterion) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let mut group = criterion.benchmark_group("executor");
    group.throughput(Throughput::Elements(TASKS.into()));
    group.bench_function("spawn and join", |bencher| {
        bencher.iter(|| {
            executor.run(async {
                let tasks: Vec<_> =
                    (0..TASKS).map(|n| handle.spawn("task", async move { n })).collect();
                let mut sum = 0;
                for task in tasks {
                    sum += task.await;
                }
                sum
            })
        });
    });
    group.bench_function("wake", |bencher| {
        bencher.iter(|| {
            executor.run(async {
                for _ in 0..TASKS {
                    handle.yield_now().await;
                }
            })
        });
    });
    let places = Semaphore::new(1);
    group.bench_function("wait for a permit", |bencher| {
        bencher.iter(|| {
            executor.run(async {
                let wait = |_| {
                    let places = places.clone();
                    handle.spawn("waits", async move { drop(places.acquire().await) })
                };
                let tasks: Vec<_> = (0..TASKS).map(wait).collect();
                for task in tasks {
                    task.await;
                }
            })
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    executor(&mut criterion);
    criterion.final_summary();
}
