//! Runs seeds on several threads until a limit is reached.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use zoneweave_raid::instrument::mutants::{Mutant, select};
use zoneweave_sim::simulate::{Failure, Mix, Tally, generate, run};

use super::marks::Counts;
use super::threads::on_threads;
use crate::output::Output;

/// The limit of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Number of seeds.
    Seeds(u64),
    /// Number of verified recoveries.
    Recoveries(u64),
    /// Minutes of wall time.
    Minutes(u64),
}

/// The seeds to run, and how.
pub(super) struct Campaign {
    pub first: u64,
    pub mix: Mix,
    pub until: Until,
    pub jobs: usize,
    pub mutant: Option<Mutant>,
    pub failures_most: u64,
}

/// The result of a campaign.
pub(super) struct Outcome {
    pub tally: Tally,
    pub marks: Counts,
    pub seeds: u64,
    /// By seed.
    pub failures: BTreeMap<u64, Failure>,
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
}

#[derive(Default)]
struct Progress {
    tally: Tally,
    marks: Counts,
    seeds: u64,
    failures: BTreeMap<u64, Failure>,
}

impl Campaign {
    /// Runs seeds until the limit.
    pub(super) fn run(&self, output: &Output) -> Outcome {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
        let progress = Mutex::new(Progress::default());
        let work = || {
            self.work(started, &next, &enough, &progress);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.marks.add(&Counts::of_this_thread());
        };
        let told = RefCell::new(BTreeSet::new());
        let tell_failures = |progress: &Progress| {
            let failures = progress.failures.iter().filter(|_| self.mutant.is_none());
            for (seed, failure) in failures.filter(|(seed, _)| told.borrow_mut().insert(**seed)) {
                output.news(format_args!("seed {seed} fails {failure}"));
            }
        };
        on_threads(self.jobs, work, || {
            let progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            tell_failures(&progress);
            output.note(format_args!(
                "{} seeds, {} crashes, {} recoveries verified, {} failures",
                progress.seeds,
                progress.tally.crashes,
                progress.tally.recoveries,
                progress.failures.len()
            ));
        });
        let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        tell_failures(&progress);
        Outcome {
            tally: progress.tally,
            marks: progress.marks,
            seeds: progress.seeds,
            failures: progress.failures,
            cpu_seconds: cpu_seconds() - cpu,
            wall_seconds: started.elapsed().as_secs_f64(),
        }
    }

    fn work(
        &self,
        started: Instant,
        next: &AtomicU64,
        enough: &AtomicBool,
        progress: &Mutex<Progress>,
    ) {
        select(self.mutant);
        while !enough.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if self.until == Until::Seeds(number) {
                // This seed is beyond the limit; threads with earlier seeds finish them.
                enough.store(true, Ordering::Relaxed);
            }
            if matches!(self.until, Until::Seeds(most) if number >= most) {
                return;
            }
            let seed = self.first.wrapping_add(number);
            let result = run(&generate(seed, self.mix));
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.seeds += 1;
            match result {
                Ok(tally) => progress.tally.add(&tally),
                Err(failure) => {
                    progress.failures.insert(seed, failure);
                }
            }
            let failed = progress.failures.len() as u64 >= self.failures_most;
            if failed || self.is_over(&progress, started) {
                enough.store(true, Ordering::Relaxed);
            }
        }
    }

    fn is_over(&self, progress: &Progress, started: Instant) -> bool {
        match self.until {
            Until::Seeds(_) => false,
            Until::Recoveries(most) => progress.tally.recoveries >= most,
            Until::Minutes(minutes) => started.elapsed() >= Duration::from_secs(minutes * 60),
        }
    }
}

/// CPU time of this process, in seconds.
#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
