//! Searches a named space of small histories, or a range of its cases, on several threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use zoneweave_raid::instrument::mutants::{Mutant, select};
use zoneweave_sim::simulate::Failure;
use zoneweave_sim::simulate::exhaustive::{
    Found, SPACES, Searched, Space, StateName, replay, search,
};

use super::campaign::cpu_seconds;
use super::threads::on_threads;
use super::{Simulate, planted};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

/// Failing cases that are reported.
const TOLD: usize = 3;

/// For command lines.
pub(super) fn parse_space(name: &str) -> Result<&'static Space, String> {
    let known = SPACES.iter().map(|space| format!("{} ({})", space.name, space.about));
    let known: Vec<_> = known.collect();
    Space::named(name)
        .ok_or_else(|| format!("there is no space {name}: choose one of {}", known.join(", ")))
}

/// For command lines: `A..B`.
pub(super) fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let bounds =
        text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    bounds.ok_or_else(|| "a range of cases is A..B, with B excluded".to_owned())
}

pub(super) fn parse_state(text: &str) -> Result<StateName, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[derive(Serialize)]
struct Report {
    program: String,
    space: &'static str,
    size: String,
    first_case: u64,
    end_case: u64,
    whole: bool,
    mutant: Option<&'static str>,
    searched: Searched,
    cpu_seconds: f64,
    starts_per_cpu_minute: f64,
    failing_cases: u64,
    failures: Vec<Found>,
}

/// Searches a space, or runs one of its states.
pub(super) fn run(
    space: &'static Space,
    request: &Simulate,
    jobs: usize,
    output: &Output,
) -> Result<Exit, CliError> {
    if let Some(state) = &request.state {
        if state.case() >= space.cases() {
            return Err(no_such_case("state", space));
        }
        select(request.mutant);
        let outcome = replay(space, state);
        return Ok(tell_of_one(outcome, output));
    }
    let range = match &request.range {
        None => 0..space.cases(),
        Some(range) if range.start < range.end && range.end <= space.cases() => range.clone(),
        Some(_) => return Err(no_such_case("range", space)),
    };
    output.note(format_args!("{}: {}", space.name, space.size()));
    let cpu = cpu_seconds();
    let (searched, found) =
        search_range(space, range.clone(), jobs, (request.mutant, request.failures), output);
    let report = Report::new(space, range, request.mutant, searched, found, cpu_seconds() - cpu);
    output.result("exhaustive", &report, |output| report.tell(output));
    let passed = (report.failing_cases == 0) != request.mutant.is_some();
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

fn no_such_case(option: &'static str, space: &Space) -> CliError {
    CliError::Usage {
        option,
        problem: format!("out of range: {} has the cases 0..{}", space.name, space.cases()),
    }
}

fn tell_of_one(outcome: Result<String, Failure>, output: &Output) -> Exit {
    #[derive(Serialize)]
    struct One {
        story: Option<String>,
        failure: Option<Failure>,
    }
    let (story, failure) = match outcome {
        Ok(story) => (Some(story), None),
        Err(failure) => (None, Some(failure)),
    };
    let one = One { story, failure };
    output.result("state", &one, |output| match (&one.story, &one.failure) {
        (_, Some(failure)) => output.line(output.paint(Tone::Bad, &told("the state", failure))),
        (story, None) => {
            output.line(format_args!("{}passed", story.as_deref().unwrap_or_default()))
        }
    });
    if one.failure.is_none() { Exit::Done } else { Exit::Failed }
}

fn told(what: &str, failure: &Failure) -> String {
    format!("{what} fails: {} ({})", failure.message, failure.place)
}

#[derive(Default)]
struct Progress {
    searched: Searched,
    /// By case.
    failures: BTreeMap<u64, Found>,
}

fn search_range(
    space: &'static Space,
    range: Range<u64>,
    jobs: usize,
    (mutant, failures_most): (Option<Mutant>, u64),
    output: &Output,
) -> (Searched, BTreeMap<u64, Found>) {
    let next = AtomicU64::new(range.start);
    let progress = Mutex::new(Progress::default());
    let work = || {
        select(mutant);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= range.end {
                return;
            }
            let result = search(space, number);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.searched.add(&result.searched);
            if let Some(found) = result.found {
                progress.failures.insert(number, found);
                if progress.failures.len() as u64 >= failures_most {
                    next.store(range.end, Ordering::Relaxed);
                }
            }
        }
    };
    on_threads(jobs, work, || {
        let progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        output.note(format_args!(
            "{} of {} cases, {} states, {} starts verified, {} failing cases",
            progress.searched.cases,
            range.end - range.start,
            progress.searched.states,
            progress.searched.starts,
            progress.failures.len()
        ));
    });
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    (progress.searched, progress.failures)
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn new(
        space: &'static Space,
        range: Range<u64>,
        mutant: Option<Mutant>,
        searched: Searched,
        found: BTreeMap<u64, Found>,
        cpu_seconds: f64,
    ) -> Self {
        Self {
            program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
            space: space.name,
            size: space.size(),
            first_case: range.start,
            end_case: range.end,
            whole: range == (0..space.cases()) && found.is_empty(),
            mutant: mutant.map(Mutant::name),
            searched,
            cpu_seconds,
            starts_per_cpu_minute: searched.starts as f64 * 60.0 / cpu_seconds.max(1e-9),
            failing_cases: found.len() as u64,
            failures: found.into_values().take(TOLD).collect(),
        }
    }

    fn tell(&self, output: &Output) {
        let searched = &self.searched;
        let part = if self.whole { "whole" } else { "in part" };
        output.line(format_args!("{}, {part}: {}", self.space, self.size));
        output.line(format_args!(
            "cases {}..{}: {} runs, {} boundaries, {} states of which {} differ, all visited; {} \
             starts verified",
            self.first_case,
            self.end_case,
            searched.runs,
            searched.boundaries,
            searched.states,
            searched.distinct,
            searched.starts
        ));
        output.line(format_args!(
            "{:.1} s of CPU time, {:.0} verified starts per CPU minute",
            self.cpu_seconds, self.starts_per_cpu_minute
        ));
        for found in &self.failures {
            output.line(output.paint(Tone::Bad, &told(&found.story, &found.failure)));
            output.line(format_args!(
                "  replay it with\n  zoneweave simulate --exhaustive {} --state {}{}",
                self.space,
                found.state,
                planted(self.mutant)
            ));
        }
        match (self.mutant, self.failing_cases) {
            (None, 0) => output.line(output.paint(Tone::Good, "no failure")),
            (None, cases) => output.line(format_args!("{cases} cases fail")),
            (Some(mutant), 0) => {
                output.line(output.paint(Tone::Bad, &format!("{mutant} was not found")));
            }
            (Some(mutant), cases) => {
                output.line(format_args!("{mutant} was found in {cases} cases"));
            }
        }
    }
}
