//! `zoneweave simulate`: random histories of the volume on in-memory drives, with an oracle.
//!
//! Each seed generates a history; seeds run on several threads until the chosen limit. A failing
//! history is shrunk and stored, and reported with the command that replays it. The result depends
//! on the seeds alone, not on threads or time.

mod campaign;
mod exhaustive;
mod kill_table;
mod killers;
mod kills;
mod marks;
mod report;
mod table;
mod threads;

use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use zoneweave_raid::instrument::marks::INSTRUMENTED;
use zoneweave_raid::instrument::mutants::Mutant;
use zoneweave_sim::simulate::exhaustive::{Space, StateName};
use zoneweave_sim::simulate::{
    Failure, Layout, Mix, Scenario, generate, is_possible, record_panics, run as run_one, shrink,
};

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use campaign::{Campaign, Until};
use marks::Counts;
use report::{Found, Report};

/// Histories tried to shrink a failing one.
const SHRINK_TRIES: u64 = 4000;

/// Larger than the longest generated history.
const SCENARIO_BYTES_MOST: u64 = 64 << 20;

/// A year.
const MINUTES_MOST: u64 = 366 * 24 * 60;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Simulate {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// First seed [default: random, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["minutes", "recoveries"])]
    runs: u64,
    /// Run seeds for this many minutes
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..=MINUTES_MOST),
          conflicts_with = "recoveries")]
    minutes: Option<u64>,
    /// Run seeds until N recoveries from crashes have been verified
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    recoveries: Option<u64>,
    /// Swarm testing: each seed disables some features and uses the others more often
    #[arg(long)]
    swarm: bool,
    /// Use only arrays of drives without per-block metadata
    #[arg(long)]
    inline: bool,
    /// Kind of the volume
    #[arg(long, value_name = "KIND", default_value = "log")]
    kind: Kind,
    /// Use only arrays of this layout [default: all]
    #[arg(long, value_name = "NAME", value_parser = parse_layout)]
    layout: Option<Layout>,
    /// Replay a stored history instead of generating some
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "minutes", "recoveries", "swarm", "layout", "inline", "kind"])]
    scenario: Option<PathBuf>,
    /// Search a space of small histories exhaustively: every crash, with every drive impaired
    #[arg(long, value_name = "NAME", value_parser = exhaustive::parse_space,
          conflicts_with_all = ["seed", "runs", "minutes", "recoveries", "swarm", "layout", "inline", "kind", "scenario"])]
    exhaustive: Option<&'static Space>,
    /// Search only these cases of the space, B excluded
    #[arg(long, value_name = "A..B", value_parser = exhaustive::parse_range, requires = "exhaustive")]
    range: Option<Range<u64>>,
    /// Run a single state of the space
    #[arg(long, value_name = "STATE", value_parser = exhaustive::parse_state, requires = "exhaustive",
          conflicts_with = "range")]
    state: Option<StateName>,
    /// Shrink the stored history if it fails, and store the result beside it
    #[arg(long, requires = "scenario")]
    shrink: bool,
    /// Plant a bug and report how soon it is found (needs a build with --features instrumented)
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Option<Mutant>,
    /// Append the hit counts of coverage marks to a file (needs --features instrumented)
    #[arg(long, value_name = "FILE", value_parser = parse_instrumented, conflicts_with = "exhaustive")]
    marks: Option<PathBuf>,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Directory for failing histories
    #[arg(long, value_name = "DIR", default_value = ".")]
    traces: PathBuf,
    /// Stop after this many failures
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    failures: u64,
}

/// The kind of a simulated volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A log-structured block volume
    Log,
    /// A zoned volume
    Zoned,
}

#[derive(Subcommand)]
enum Verb {
    /// Sum the files of --marks; fail if a mark was never hit
    #[command(hide = !INSTRUMENTED)]
    Marks(marks::Check),
    /// Plant each bug in turn and count the histories that find it; fail if a bug is never found
    #[command(hide = !INSTRUMENTED)]
    KillTable(kill_table::KillTable),
    /// Replay the stored history of each bug; fail if a bug is not found
    #[command(hide = !INSTRUMENTED)]
    Killers(killers::Killers),
}

fn parse_instrumented(path: &str) -> Result<PathBuf, String> {
    needs_instrumented()?;
    Ok(PathBuf::from(path))
}

fn needs_instrumented() -> Result<(), String> {
    match INSTRUMENTED {
        true => Ok(()),
        false => Err("not available in this build: build with --features instrumented".to_owned()),
    }
}

/// As [`needs_instrumented`], for commands.
fn needs_build(option: &'static str) -> Result<(), CliError> {
    needs_instrumented().map_err(|problem| CliError::Usage { option, problem })
}

fn parse_layout(name: &str) -> Result<Layout, String> {
    let names = || Layout::ALL.map(Layout::name).join(", ");
    let named = Layout::ALL.into_iter().find(|layout| layout.name() == name);
    named.ok_or_else(|| format!("there is no layout {name}: choose one of {}", names()))
}

fn parse_mutant(name: &str) -> Result<Mutant, String> {
    needs_instrumented()?;
    let names = || Mutant::ALL.iter().map(|mutant| mutant.name()).collect::<Vec<_>>().join(", ");
    Mutant::named(name)
        .ok_or_else(|| format!("there is no mutant {name}: choose one of {}", names()))
}

pub(crate) fn run(request: &Simulate, output: &Output) -> Result<Exit, CliError> {
    record_panics();
    match (&request.verb, &request.scenario) {
        (Some(Verb::Marks(check)), _) => marks::check(check, output),
        (Some(Verb::KillTable(table)), _) => kill_table::run(table, output),
        (Some(Verb::Killers(killers)), _) => killers::run(killers, output),
        (None, Some(path)) => replay(request, path, output),
        (None, None) => match request.exhaustive {
            Some(space) => exhaustive::run(space, request, jobs(request), output),
            None => search(request, output),
        },
    }
}

fn jobs(request: &Simulate) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    request.jobs.map_or(processors, usize::from)
}

fn replay(request: &Simulate, path: &Path, output: &Output) -> Result<Exit, CliError> {
    let scenario = read_scenario(path, "scenario")?;
    marks::writable_before(request.marks.as_deref())?;
    if scenario.lives.is_empty() || !is_possible(&scenario) {
        let problem = if scenario.lives.is_empty() {
            "the history has no lives, so there is nothing to run"
        } else {
            "the array is impossible: its zones are too few or too small for its chunks"
        };
        let problem = format!("{}: {problem}", path.display());
        return Err(CliError::Usage { option: "scenario", problem });
    }
    zoneweave_raid::instrument::mutants::select(request.mutant);
    let result = run_one(&scenario);
    Counts::of_this_thread().append_if_asked(request.marks.as_deref())?;
    let failure = match result {
        Ok(tally) => {
            output.result("simulation", &tally, |output| {
                output.line(format_args!(
                    "passed: {} crashes, {} recoveries verified, {} blocks read",
                    tally.crashes, tally.recoveries, tally.blocks_read
                ));
            });
            return Ok(Exit::Done);
        }
        Err(failure) => failure,
    };
    output.news(format_args!("fails {failure}"));
    if request.shrink {
        let stored = path.with_extension("shrunk.json");
        let found = cut_down(scenario, failure, &stored, (None, request.mutant), output)?;
        output.result("simulation", &found, |output| found.tell(output));
    } else {
        output
            .result("simulation", &failure, |output| output.line(format_args!("fails {failure}")));
    }
    Ok(Exit::Failed)
}

fn search(request: &Simulate, output: &Output) -> Result<Exit, CliError> {
    let first = match request.seed {
        Some(seed) => seed,
        // 48 bits, as operators retype seeds.
        None => session::random_number()? >> 16,
    };
    let until = match (request.minutes, request.recoveries) {
        (Some(minutes), _) => Until::Minutes(minutes),
        (None, Some(recoveries)) => Until::Recoveries(recoveries),
        (None, None) => Until::Seeds(request.runs),
    };
    let mix = Mix {
        swarm: request.swarm,
        layout: request.layout,
        inline: request.inline,
        zoned: request.kind == Kind::Zoned,
    };
    writable_before(&request.traces)?;
    marks::writable_before(request.marks.as_deref())?;
    output.note(format_args!("seeds from {first} on"));
    let campaign = Campaign {
        first,
        mix,
        until,
        jobs: jobs(request),
        mutant: request.mutant,
        failures_most: if request.mutant.is_some() { u64::MAX } else { request.failures },
    };
    let outcome = campaign.run(output);
    outcome.marks.append_if_asked(request.marks.as_deref())?;
    let mut found = Vec::new();
    if request.mutant.is_none() {
        for (seed, failure) in &outcome.failures {
            let scenario = generate(*seed, mix);
            let path = request.traces.join(format!("seed-{seed}.json"));
            found.push(cut_down(scenario, failure.clone(), &path, (Some(*seed), None), output)?);
        }
    }
    let report = Report::new(&campaign, &outcome, found);
    output.result("simulation", &report, |output| report.tell(output));
    let passed = outcome.failures.is_empty() != request.mutant.is_some();
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

/// Checks before hours of work that failures can be stored.
fn writable_before(traces: &Path) -> Result<(), CliError> {
    let found = fs::metadata(traces).map_err(|error| file_error(traces, "store in", error))?;
    if found.is_dir() {
        return Ok(());
    }
    let problem = format!("{} is not a directory", traces.display());
    Err(CliError::Usage { option: "traces", problem })
}

/// Stores a failing history, shrinks it and stores the result.
fn cut_down(
    scenario: Scenario,
    failure: Failure,
    path: &Path,
    (seed, mutant): (Option<u64>, Option<Mutant>),
    output: &Output,
) -> Result<Found, CliError> {
    let before = scenario.size();
    fs::write(path, scenario.text()).map_err(|error| file_error(path, "write", error))?;
    output.news(format_args!("stored in {}; shrinking the history", path.display()));
    let mut told = Instant::now();
    let shrunk = shrink(scenario, failure, SHRINK_TRIES, |best, tried| {
        if told.elapsed() > threads::TELLING {
            told = Instant::now();
            output.note(format_args!("{} of {before} actions after {tried} tries", best.size()));
        }
    });
    let mut scenario = shrunk.scenario;
    scenario.story = shrunk.failure.to_string();
    fs::write(path, scenario.text()).map_err(|error| file_error(path, "write", error))?;
    Ok(Found {
        seed,
        failure: shrunk.failure,
        actions_before: before,
        actions: scenario.size(),
        replay: format!(
            "zoneweave simulate --scenario {}{}",
            quoted(&path.display().to_string()),
            planted(mutant.map(Mutant::name))
        ),
    })
}

/// Reads a scenario from an untrusted file.
fn read_scenario(path: &Path, option: &'static str) -> Result<Scenario, CliError> {
    let useless = |problem: String| CliError::Usage {
        option,
        problem: format!("{}: {problem}", path.display()),
    };
    let mut text = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(SCENARIO_BYTES_MOST + 1).read_to_end(&mut text));
    read.map_err(|error| file_error(path, "read", error))?;
    if text.len() as u64 > SCENARIO_BYTES_MOST {
        return Err(useless(format!(
            "the file is larger than a scenario can be ({SCENARIO_BYTES_MOST} bytes)"
        )));
    }
    let text = String::from_utf8(text).map_err(|error| useless(error.to_string()))?;
    Scenario::parse(&text).map_err(|error| useless(error.to_string()))
}

/// Further options of a replay.
fn planted(mutant: Option<&str>) -> String {
    mutant.map_or_else(String::new, |mutant| format!(" --mutant {mutant}"))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn file_error(path: &Path, action: &'static str, error: std::io::Error) -> CliError {
    CliError::File { path: path.to_owned(), action, error }
}
