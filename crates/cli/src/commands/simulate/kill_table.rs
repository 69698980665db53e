//! `simulate kill-table`: counts the histories that find each planted bug.
//!
//! Each seed runs without a mutant, and then with every chosen mutant whose code it reached.
//! Results are entered in the order of the seeds, so that the table depends on neither threads nor
//! interruptions: all mutants have run the same seeds, and a later run resumes there. A seed that
//! fails without a mutant proves nothing, and is reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use zoneweave_raid::instrument::mutants::Mutant;

use super::kills::{Healthy, run_healthy, run_mutant, scenario_of};
use super::table::{Fared, Table, tell};
use super::threads::on_threads;
use super::{needs_build, parse_mutant};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// Seeds between two stores of the table.
const STORED_AFTER_SEEDS: u64 = 100;

#[derive(Args)]
pub(super) struct KillTable {
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seeds per mutant, including the seeds in the table
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    runs: u64,
    /// Stop running a mutant that N seeds have found [default: never]
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    kills: u64,
    /// Plant only this bug (may be repeated)
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Vec<Mutant>,
    /// Start no new seeds after this many minutes [default: unlimited]
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Table file to resume from and update
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

struct Shared {
    table: Table,
    /// The next seed to run, counted from the first of the table.
    next: u64,
    /// The next seed to enter.
    entered: u64,
    /// Results that wait for earlier seeds.
    early: BTreeMap<u64, Fared>,
    /// Why the table could not be stored.
    failed: Option<CliError>,
}

pub(super) fn run(request: &KillTable, output: &Output) -> Result<Exit, CliError> {
    needs_build("mutant")?;
    let all = || Mutant::ALL.to_vec();
    let mutants = if request.mutant.is_empty() { all() } else { request.mutant.clone() };
    let mut table = Table::load(request.table.as_deref(), request.seed)?;
    mutants.iter().for_each(|mutant| table.add(*mutant));
    let next = table.next(&mutants, request.kills);
    let early = BTreeMap::new();
    let shared = Mutex::new(Shared { table, next, entered: next, early, failed: None });
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = request.jobs.map_or(processors, usize::from);
    let started = Instant::now();
    let work = || request.work(&mutants, started, &shared);
    on_threads(jobs, work, || {
        let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (seeds, alive) = (shared.entered, shared.table.survivors().join(", "));
        output.note(format_args!("{seeds} seeds; not found: {alive}"));
    });
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.store(request);
    if let Some(error) = shared.failed {
        return Err(error);
    }
    output.result("kill_table", &shared.table, |output| tell(&shared.table, output));
    let survivors = shared.table.survivors();
    let killed = mutants.iter().all(|mutant| !survivors.contains(&mutant.name()));
    Ok(if killed { Exit::Done } else { Exit::Failed })
}

impl KillTable {
    fn work(&self, mutants: &[Mutant], started: Instant, shared: &Mutex<Shared>) {
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let late = |minutes| started.elapsed() >= Duration::from_secs(minutes * 60);
        while !self.minutes.is_some_and(late) {
            let (number, wanted) = {
                let mut shared = lock();
                let number = shared.next;
                let wanted = shared.table.wanted(mutants, number, self.kills);
                if number >= self.runs || wanted.is_empty() || shared.failed.is_some() {
                    return;
                }
                shared.next += 1;
                (number, wanted)
            };
            let fared = fare(self.seed.wrapping_add(number), &wanted);
            let mut shared = lock();
            shared.early.insert(number, fared);
            shared.enter(self, mutants);
        }
    }
}

/// Runs the histories of a seed without a mutant, and with each mutant that can change it.
fn fare(seed: u64, wanted: &[Mutant]) -> Fared {
    let started = Instant::now();
    let kinds = [false, true].into_iter();
    let kinds = kinds.filter(|zoned| wanted.iter().any(|mutant| mutant.is_zoned() == *zoned));
    let mut found = BTreeMap::new();
    let mut failed = None;
    for zoned in kinds {
        let scenario = scenario_of(seed, zoned);
        match run_healthy(&scenario) {
            Healthy::Fails(failure) => failed = Some(failure),
            Healthy::Passes(asked) => {
                let of_kind = |mutant: &Mutant| mutant.is_zoned() == zoned;
                let run = asked.into_iter().filter(of_kind).filter(|one| wanted.contains(one));
                found.extend(run.map(|mutant| (mutant, run_mutant(mutant, &scenario))));
            }
        }
    }
    let outcome = failed.map_or(Ok(found), Err);
    Fared { outcome, seconds: started.elapsed().as_secs_f64() }
}

impl Shared {
    /// Enters completed seeds in order.
    fn enter(&mut self, request: &KillTable, mutants: &[Mutant]) {
        while let Some(fared) = self.early.remove(&self.entered) {
            // Some mutants may have enough kills from other threads by now.
            let wanted = self.table.wanted(mutants, self.entered, request.kills);
            self.table.enter(self.entered, &wanted, &fared);
            self.entered += 1;
            if self.entered.is_multiple_of(STORED_AFTER_SEEDS) {
                self.store(request);
            }
        }
    }

    fn store(&mut self, request: &KillTable) {
        if let Err(error) = self.table.store(request.table.as_deref()) {
            self.failed = Some(error);
        }
    }
}
