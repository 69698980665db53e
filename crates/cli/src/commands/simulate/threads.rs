//! Runs the same work on several threads, with progress lines.

use std::thread;
use std::time::{Duration, Instant};

/// Period of progress lines.
pub(super) const TELLING: Duration = Duration::from_secs(30);

/// Polling period for the end of the threads.
const LOOKING: Duration = Duration::from_millis(20);

/// Runs `work` on `jobs` threads until all have ended, and calls `tell` every [`TELLING`].
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
