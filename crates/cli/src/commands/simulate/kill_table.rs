//! `simulate kill-table`: which planted bugs the histories find, and how soon.
//!
//! Every mutant is run on the same seeds, a chunk of them at a time, the mutant that has fewest
//! behind it first; so a table that was interrupted has run all of them about as far, and is
//! continued. A seed counts as a kill only if the engine without the mutant passes it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use zoneweave_raid::mutants::Mutant;

use super::kills::{Verdict, judge, scenario_of};
use super::table::{Entry, Table, tell};
use super::{needs_build, parse_mutant};
use crate::error::{CliError, Exit};
use crate::output::Output;

/// Seeds between two stores of the table.
const CHUNK_SEEDS: u64 = 250;

#[derive(Args)]
pub(super) struct KillTable {
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seeds for each mutant, those in the table included
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    runs: u64,
    /// Run a mutant no further once it was found in so many seeds
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    kills: u64,
    /// Plant only this bug; can be repeated
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Vec<Mutant>,
    /// Take no new seeds after so long
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Go on with the table in this file, and keep it there
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Threads; as many as there are processors if not given
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

struct Shared {
    waiting: VecDeque<Mutant>,
    table: Table,
    /// Why the table could not be stored.
    failed: Option<CliError>,
}

pub(super) fn run(request: &KillTable, output: &Output) -> Result<Exit, CliError> {
    needs_build("mutant")?;
    let all = || Mutant::ALL.to_vec();
    let mutants = if request.mutant.is_empty() { all() } else { request.mutant.clone() };
    let mut table = Table::load(request.table.as_deref(), request.seed)?;
    mutants.iter().for_each(|mutant| table.add(*mutant));
    let mut waiting = mutants.clone();
    waiting.sort_by_key(|mutant| table.entry(*mutant).seeds);
    let shared = Mutex::new(Shared { waiting: waiting.into(), table, failed: None });
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..request.jobs.map_or(processors, usize::from) {
            let (tell, shared) = (tell.clone(), &shared);
            scope.spawn(move || request.work(started, shared, &tell));
        }
        drop(tell);
        told.iter().for_each(|news: String| output.note(news));
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = shared.failed {
        return Err(error);
    }
    output.result("kill_table", &shared.table, |output| tell(&shared.table, output));
    let killed = mutants.iter().all(|mutant| shared.table.entry(*mutant).kills > 0);
    Ok(if killed { Exit::Done } else { Exit::Failed })
}

impl KillTable {
    fn work(&self, started: Instant, shared: &Mutex<Shared>, tell: &Sender<String>) {
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let late = |minutes| started.elapsed() >= Duration::from_secs(minutes * 60);
        while !self.minutes.is_some_and(late) {
            let (mutant, before) = {
                let mut shared = lock();
                let Some(mutant) = shared.waiting.pop_front() else { return };
                (mutant, shared.table.entry(mutant).clone())
            };
            if self.is_done(&before) {
                continue;
            }
            let after = self.chunk(mutant, before.clone());
            if before.kills == 0 && after.kills > 0 {
                let (first, message) = (after.first_seed.unwrap_or_default(), &after.message);
                let news = format!("{} found in seed {first}: {message}", mutant.name());
                // Nobody listens only if the process is about to end.
                tell.send(news).ok();
            }
            let mut shared = lock();
            shared.table.replace(mutant, after);
            shared.waiting.push_back(mutant);
            if let Err(error) = shared.table.store(self.table.as_deref()) {
                shared.failed = Some(error);
                shared.waiting.clear();
            }
        }
    }

    fn is_done(&self, entry: &Entry) -> bool {
        entry.seeds >= self.runs || entry.kills >= self.kills
    }

    /// Runs the next seeds of a mutant.
    fn chunk(&self, mutant: Mutant, mut entry: Entry) -> Entry {
        let started = Instant::now();
        for _ in 0..CHUNK_SEEDS {
            if self.is_done(&entry) {
                break;
            }
            let seed = self.seed.wrapping_add(entry.seeds);
            entry.seeds += 1;
            match judge(mutant, &scenario_of(seed)) {
                Verdict::Lives => {}
                Verdict::Unsound => entry.unsound += 1,
                Verdict::Killed(failure) => {
                    entry.kills += 1;
                    if entry.first_seed.is_none() {
                        entry.first_seed = Some(seed);
                        entry.message = failure.to_string();
                    }
                }
            }
        }
        entry.seconds += started.elapsed().as_secs_f64();
        entry
    }
}
