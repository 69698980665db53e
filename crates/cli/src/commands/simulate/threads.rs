//! The same work on several threads, with a line now and then about how far it is.

use std::thread;
use std::time::{Duration, Instant};

/// Between two lines about how far it is.
pub(super) const TELLING: Duration = Duration::from_secs(30);

/// Between two looks at whether it has ended.
const LOOKING: Duration = Duration::from_millis(20);

/// Runs `work` on each of `jobs` threads until all have ended, and `tell` from time to time.
pub(super) fn on_threads(jobs: usize, work: impl Fn() + Sync, tell: impl Fn()) {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(&work)).collect();
        let mut told = Instant::now();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(LOOKING);
            if told.elapsed() > TELLING {
                told = Instant::now();
                tell();
            }
        }
    });
}
