//! `simulate killers`: one stored history for each planted bug, which finds it.
//!
//! What a stored history runs into depends on every step of the engine, so a change of the engine
//! may make it miss its bug. Then histories that crash a little earlier or later are run, and other seeds,
//! until one finds the bug again: the bug is still found, and the history wants renewing. A bug that
//! nothing finds is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Args;
use serde::Serialize;
use zoneweave_raid::instrument::mutants::{Mutant, select};
use zoneweave_sim::simulate::{Failure, Scenario, shrink, vary};

use super::kills::{kill, scenario_of};
use super::table::Table;
use super::{file_error, needs_build, parse_mutant, read_scenario};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

/// Histories tried to cut down one that finds a bug.
const SHRINK_TRIES: u64 = 1000;

/// Histories tried that are like the stored one: a few dozen are enough mostly.
const VARIED: u64 = 5000;

#[derive(Args)]
pub(super) struct Killers {
    /// Where the histories are, each called after the mutant that it finds
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Store new histories for mutants that have none, or one that misses them
    #[arg(long)]
    renew: bool,
    /// The first seed tried for such mutants, if no history like the stored one finds them
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seeds tried for each of them
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    runs: u64,
    /// Try the first seed that this kill table names before any other
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Look at this mutant only; can be repeated
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Vec<Mutant>,
    /// Threads; as many as there are processors if not given
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// How a mutant was found.
#[derive(Serialize)]
struct Killed {
    mutant: &'static str,
    /// The seed of the history that found it, if the stored one did not.
    seed: Option<u64>,
    /// How it failed; nothing if it was not found.
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Report {
    mutants: Vec<Killed>,
}

pub(super) fn run(request: &Killers, output: &Output) -> Result<Exit, CliError> {
    needs_build("mutant")?;
    if !request.renew && !request.directory.is_dir() {
        let problem = format!("{} is no directory of histories", request.directory.display());
        return Err(CliError::Usage { option: "DIR", problem });
    }
    let all = || Mutant::ALL.to_vec();
    let mutants = if request.mutant.is_empty() { all() } else { request.mutant.clone() };
    let table = request.table.as_deref().map(|path| Table::load(Some(path), request.seed));
    let table = table.transpose()?;
    let waiting = Mutex::new(mutants.into_iter());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::iter::from_fn(next).map(|mutant| request.find(mutant, table.as_ref())).collect()
    };
    let found: Vec<Result<Vec<_>, _>> = thread::scope(|scope| {
        let jobs = request.jobs.map_or(processors, usize::from);
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns")).collect()
    });
    let found: Result<Vec<_>, _> = found.into_iter().collect();
    let mut report = Report { mutants: found?.into_iter().flatten().collect() };
    report.mutants.sort_by_key(|killed| killed.mutant);
    output.result("killers", &report, |output| report.tell(request.renew, output));
    let all_found = report.mutants.iter().all(|killed| killed.failure.is_some());
    Ok(if all_found { Exit::Done } else { Exit::Failed })
}

impl Killers {
    fn find(&self, mutant: Mutant, table: Option<&Table>) -> Result<Killed, CliError> {
        let name = mutant.name();
        let path = self.directory.join(format!("{name}.json"));
        let stored = path.exists().then(|| read_scenario(&path, "killers")).transpose()?;
        if let Some(failure) = stored.as_ref().and_then(|stored| kill(mutant, stored)) {
            return Ok(Killed { mutant: name, seed: None, failure: Some(failure) });
        }
        let stored = stored.filter(|stored| stored.lives.iter().any(|life| life.stop.is_some()));
        let near = stored.iter().flat_map(|stored| (0..VARIED).map(|seed| vary(stored, seed)));
        let known = table.and_then(|table| table.first_seed(mutant));
        let seeds = (0..self.runs).map(|number| self.seed.wrapping_add(number));
        let others = known.into_iter().chain(seeds).map(scenario_of);
        for scenario in near.chain(others) {
            let Some(mut failure) = kill(mutant, &scenario) else { continue };
            let seed = Some(scenario.seed);
            if self.renew {
                failure = store(mutant, scenario, failure, &path)?;
            }
            return Ok(Killed { mutant: name, seed, failure: Some(failure) });
        }
        Ok(Killed { mutant: name, seed: None, failure: None })
    }
}

/// Cuts a history down and stores it.
fn store(
    mutant: Mutant,
    whole: Scenario,
    failure: Failure,
    path: &Path,
) -> Result<Failure, CliError> {
    select(Some(mutant));
    let shrunk = shrink(whole.clone(), failure.clone(), SHRINK_TRIES, |_, _| {});
    select(None);
    // What is left may run into a failure of the engine itself that looks the same.
    let (mut scenario, failure) = match kill(mutant, &shrunk.scenario) {
        Some(failure) => (shrunk.scenario, failure),
        None => (whole, failure),
    };
    scenario.story = format!("finds the mutant {}: {}", mutant.name(), failure.message);
    let folder = path.parent().unwrap_or(Path::new("."));
    let stored = fs::create_dir_all(folder).and_then(|()| fs::write(path, scenario.text()));
    stored.map_err(|error| file_error(path, "write", error))?;
    Ok(failure)
}

impl Report {
    fn tell(&self, renewed: bool, output: &Output) {
        for Killed { mutant, seed, failure } in &self.mutants {
            match (seed, failure) {
                (_, None) => {
                    output.line(output.paint(Tone::Bad, &format!("{mutant} was not found")));
                }
                (Some(seed), Some(failure)) => {
                    let now = if renewed { "stored now" } else { "its history wants renewing" };
                    output.line(format_args!(
                        "{mutant} was found in a history of or near that of seed {seed}, {now}: {failure}"
                    ));
                }
                (None, Some(_)) => {}
            }
        }
        let stored =
            self.mutants.iter().filter(|one| one.seed.is_none() && one.failure.is_some()).count();
        let found = self.mutants.iter().filter(|one| one.failure.is_some()).count();
        output.line(format_args!(
            "{found} of {} mutants found, {stored} of them by their stored histories",
            self.mutants.len()
        ));
    }
}
