//! `zoneweave plan`: figures of drives, arrays, hosts and a Ceph pool that are not bought yet.

mod file;
mod plot;
mod text;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_plan::outcome::{Effort, Outcome, without_arrays};
use zoneweave_plan::spec::Spec;

use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::output::Output;

/// Copies of the same drives without arrays, for comparison.
const COPIES_WITHOUT_ARRAYS: u32 = 3;

#[derive(Args)]
pub(crate) struct Plan {
    /// The plan: a TOML file, or - for standard input. Without one, the defaults are planned
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print a file with all defaults, their meaning and their sources, to be changed
    #[arg(long, conflicts_with_all = ["file", "plot"])]
    template: bool,
    /// Write a chart of durability against raw space, by copies and parity, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Cycles of each simulation: more of them narrow the intervals
    #[arg(long, value_name = "N", default_value_t = Effort::default().cycles, value_parser = clap::value_parser!(u32).range(2..=100_000_000))]
    cycles: u32,
    /// Seed of the simulations
    #[arg(long, value_name = "N", default_value_t = Effort::default().seed)]
    seed: u64,
}

#[derive(Serialize)]
struct Planned {
    /// The plan.
    plan: Outcome,
    /// The same drives, each an OSD of its own under three copies.
    without_arrays: Option<Outcome>,
    /// Why there are no figures of these, if there are none.
    without_arrays_problem: Option<String>,
    effort: Said,
}

#[derive(Serialize)]
struct Said {
    cycles: u32,
    seed: u64,
}

pub(crate) fn run(request: &Plan, output: &Output) -> Result<Exit, CliError> {
    if request.template {
        output.result("plan-template", &file::defaults(), |output| output.line(file::template()));
        return Ok(Exit::Done);
    }
    let spec = match &request.file {
        None => file::parse("")?,
        Some(path) => {
            let text = read(path).map_err(|error| CliError::File {
                path: path.clone(),
                action: "read",
                error,
            })?;
            file::parse(&text)?
        }
    };
    let effort = Effort { cycles: request.cycles, seed: request.seed };
    let planned = planned(&spec, effort)?;
    output.result("plan", &planned, |output| {
        text::lines(&spec, &planned.plan, planned.without_arrays.as_ref())
            .iter()
            .for_each(|line| output.line(line));
        if let Some(problem) = &planned.without_arrays_problem {
            output.line(format_args!("Drives as OSDs: {problem}"));
        }
    });
    if let Some(path) = &request.plot {
        let drawn = plot::svg(&spec, effort);
        fs::write(path, drawn).map_err(|error| CliError::File {
            path: path.clone(),
            action: "write",
            error,
        })?;
        output.note(format_args!("chart: {}", path.display()));
    }
    Ok(Exit::Done)
}

fn planned(spec: &Spec, effort: Effort) -> Result<Planned, CliError> {
    let plan = Outcome::of(spec, effort).map_err(|error| usage("plan")(error.to_string()))?;
    let other = Outcome::of(&without_arrays(spec, COPIES_WITHOUT_ARRAYS), effort);
    let (without_arrays, without_arrays_problem) = match other {
        Ok(outcome) => (Some(outcome), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let Effort { cycles, seed } = effort;
    Ok(Planned { plan, without_arrays, without_arrays_problem, effort: Said { cycles, seed } })
}

/// Largest file of a plan: far more than all keys need.
const FILE_BYTES_MOST: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let from: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(path)?),
    };
    from.take(FILE_BYTES_MOST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        ..=FILE_BYTES_MOST => Ok(text),
        _ => Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "more than 1 MiB")),
    }
}
