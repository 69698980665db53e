//! `simulate killers`: one stored history per planted bug, which finds it.
//!
//! The course of a stored history depends on every step of the engine, so a change of the engine
//! may make it miss its bug. Then histories that crash slightly earlier or later are run, and other
//! seeds, until one finds the bug: it passes, and the stored history should be renewed. A bug that
//! no history finds is a failure.

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

/// Histories tried to shrink one that finds a bug.
const SHRINK_TRIES: u64 = 1000;

/// Variations of the stored history that are tried; a few dozen are enough in most cases.
const VARIED: u64 = 5000;

#[derive(Args)]
pub(super) struct Killers {
    /// Directory of the histories, each named after the mutant that it finds
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Store new histories for mutants without one that finds them
    #[arg(long)]
    renew: bool,
    /// First seed to try if no variation of the stored history finds a mutant
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seeds to try per mutant
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    runs: u64,
    /// Kill table whose seeds are tried first
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Run only this mutant (may be repeated)
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Vec<Mutant>,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// How a mutant was found.
#[derive(Serialize)]
struct Killed {
    mutant: &'static str,
    /// The seed of the history that found it, if the stored one did not.
    seed: Option<u64>,
    /// The failure; `None` if the mutant was not found.
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Report {
    mutants: Vec<Killed>,
}

pub(super) fn run(request: &Killers, output: &Output) -> Result<Exit, CliError> {
    needs_build("mutant")?;
    if !request.renew && !request.directory.is_dir() {
        let problem = format!("{} is not a directory of histories", request.directory.display());
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
        let others =
            known.into_iter().chain(seeds).map(|seed| scenario_of(seed, mutant.is_zoned()));
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

/// Shrinks a history and stores it.
fn store(
    mutant: Mutant,
    whole: Scenario,
    failure: Failure,
    path: &Path,
) -> Result<Failure, CliError> {
    select(Some(mutant));
    let shrunk = shrink(whole.clone(), failure.clone(), SHRINK_TRIES, |_, _| {});
    select(None);
    // The shrunk history may fail the same way without the mutant.
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
                    let now = if renewed {
                        "stored now"
                    } else {
                        "renew its stored history with --renew"
                    };
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
