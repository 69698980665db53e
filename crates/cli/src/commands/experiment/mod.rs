//! `zoneweave experiment`: reproduces the experiments of papers and of this project.
//!
//! Experiments run in virtual time, so their files depend on the program alone, not on the number
//! of threads or on interruptions.

mod points;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use zoneweave_sim::experiments::{
    self, EXPERIMENTS, Experiment as Known, Finding, Point, Report as Found, Row, Settings, named,
};

use self::points::{Ledger, contains, impossible};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::progress::Progress;
use crate::output::{Output, Tone};

/// File with the rows of an experiment, beside the report.
const POINTS: &str = "points.jsonl";

#[derive(Args)]
pub(crate) struct Experiment {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the experiments
    List,
    /// Run an experiment, a group or all; a run that was interrupted is resumed
    Run(Run),
}

#[derive(Args)]
struct Run {
    /// Experiment, group (the part of a name before the slash), or `all`
    name: String,
    /// Output directory, with a subdirectory per experiment
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    out: PathBuf,
    /// Fraction of the published amount of data, from 0.0001 to 100; some experiments ignore it,
    /// and warm-up is not scaled
    #[arg(long, value_name = "S", default_value_t = Settings::default().scale, value_parser = parse_scale)]
    scale: f64,
    /// Number of seeds, for experiments that repeat their runs
    #[arg(long, value_name = "N", default_value_t = Settings::default().runs, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Discard stored rows and measure everything again
    #[arg(long)]
    fresh: bool,
    /// Measure only points whose name contains TEXT (numbers match as a whole), without a report;
    /// stored rows of other points are kept
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl Run {
    fn settings(&self) -> Settings {
        Settings { scale: self.scale, runs: self.runs }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (0.000_1..=100.0).contains(scale));
    scale.ok_or_else(|| "a scale is a number from 0.0001 to 100".to_owned())
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
}

/// The experiments that there are.
#[derive(Serialize)]
struct List {
    experiments: Vec<Listed>,
}

#[derive(Serialize)]
struct Done {
    experiments: Vec<Report>,
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    name: &'static str,
    /// With --only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    points: Vec<Row>,
    findings: Vec<Judged>,
}

#[derive(Serialize)]
struct Judged {
    what: String,
    published: String,
    ours: String,
    rule: String,
    holds: bool,
}

impl From<&Finding> for Judged {
    fn from(finding: &Finding) -> Self {
        let Finding { what, paper, ours, rule, holds } = finding.clone();
        Self { what, published: paper, ours, rule, holds }
    }
}

pub(crate) fn run(request: &Experiment, output: &Output) -> Result<Exit, CliError> {
    match &request.verb {
        Verb::List => list(output),
        Verb::Run(request) => carry_out(request, output)?,
    }
    Ok(Exit::Done)
}

fn carry_out(request: &Run, output: &Output) -> Result<(), CliError> {
    let wanted = named(&request.name);
    if wanted.is_empty() {
        let names: Vec<_> = EXPERIMENTS.iter().map(|known| known.name).collect();
        let problem = format!(
            "there is no experiment {}: choose one of {}, a group, or all",
            request.name,
            names.join(", ")
        );
        return Err(CliError::Usage { option: "<NAME>", problem });
    }
    if let Some(only) = &request.only {
        return measure_only(only, &wanted, request, output);
    }
    let mut files = Vec::new();
    let mut found = Vec::new();
    for known in &wanted {
        let report = one(known, request, output, &mut files)?;
        found.push((known.name, report));
    }
    let mut groups: Vec<_> = wanted.iter().filter_map(|known| known.group()).collect();
    groups.dedup();
    for group in groups {
        group_report(group, &found, request, &mut files)?;
    }
    let report = |(name, report): &(&'static str, Found)| Report {
        name,
        points: Vec::new(),
        findings: report.findings.iter().map(Judged::from).collect(),
    };
    let done = Done { experiments: found.iter().map(report).collect(), files };
    output.result("experiment", &done, |output| tell(&done, output));
    Ok(())
}

/// Measures the points whose names contain `only`, without a report.
fn measure_only(
    only: &str,
    wanted: &[&Known],
    request: &Run,
    output: &Output,
) -> Result<(), CliError> {
    let has_some = |known: &&&Known| !points(known, request).is_empty();
    let chosen: Vec<_> = wanted.iter().filter(has_some).collect();
    if chosen.is_empty() {
        return Err(CliError::Usage {
            option: "only",
            problem: none_called(only, wanted, request),
        });
    }
    let (mut experiments, mut files) = (Vec::new(), Vec::new());
    for known in chosen {
        let points = measure(known, request, output, &mut files)?;
        experiments.push(Report { name: known.name, points, findings: Vec::new() });
    }
    let done = Done { experiments, files };
    output.result("experiment", &done, |output| tell(&done, output));
    Ok(())
}

/// The error for a text that matches no point, with the names of all points.
fn none_called(only: &str, wanted: &[&Known], request: &Run) -> String {
    let line = |known: &&Known| {
        let all = known.points(&request.settings());
        let mut names: Vec<_> = all.iter().map(|point| point.key().point.as_str()).collect();
        // There is one per seed.
        names.dedup();
        match names[..] {
            [] => format!("\n  {} is measured as a whole", known.name),
            _ => format!("\n  {}: {}", known.name, names.join(", ")),
        }
    };
    let lines: String = wanted.iter().map(line).collect();
    format!("no point has {only:?} in its name; choose from:{lines}")
}

/// The chosen points.
fn points(known: &Known, request: &Run) -> Vec<Point> {
    let only = request.only.as_deref().unwrap_or_default();
    let mut points = known.points(&request.settings());
    points.retain(|point| contains(&point.key().point, only));
    points
}

/// Runs an experiment and writes its files.
fn one(
    known: &Known,
    request: &Run,
    output: &Output,
    files: &mut Vec<PathBuf>,
) -> Result<Found, CliError> {
    let rows = measure(known, request, output, files)?;
    let out = request.out.join(known.name);
    let report = known.report(&rows).map_err(impossible)?;
    let markdown = report.markdown();
    let texts = report.files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
    for (name, text) in texts.chain([("README.md", markdown.as_str())]) {
        keep(out.join(name), text, files)?;
    }
    Ok(report)
}

/// Measures the points of an experiment that have no stored row.
fn measure(
    known: &Known,
    request: &Run,
    output: &Output,
    files: &mut Vec<PathBuf>,
) -> Result<Vec<Row>, CliError> {
    let out = request.out.join(known.name);
    fs::create_dir_all(&out).map_err(|error| failed(&out, "create the directory", error))?;
    output.note(format_args!("running {}", known.name));
    let points = points(known, request);
    let mut rows = Vec::new();
    if !points.is_empty() {
        let path = out.join(POINTS);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = request.jobs.map_or(processors, usize::from);
        if request.fresh && path.exists() {
            fs::remove_file(&path).map_err(|error| failed(&path, "remove", error))?;
        }
        let mut ledger = Ledger::open(path.clone(), &points)?;
        if request.only.is_none() {
            let otherwise = ledger.otherwise(&points);
            if otherwise > 0 {
                return Err(would_be_lost(&path, otherwise));
            }
            ledger.forget_others();
        }
        if ledger.outdated() > 0 {
            output.note(format_args!(
                "measuring {} of {} points again: their rows in {} are of another engine version",
                ledger.outdated(),
                points.len(),
                path.display()
            ));
        }
        let progress = Progress::of(output, known.name, "points");
        rows = ledger.complete(&points, jobs, &progress)?;
        progress.finish();
        files.push(path);
    }
    Ok(rows)
}

fn would_be_lost(path: &Path, otherwise: usize) -> CliError {
    let problem = format!(
        "{} has {otherwise} rows of these points at another scale or with other seeds, which would \
         be lost: choose another --out directory, or discard them with --fresh",
        path.display()
    );
    CliError::Usage { option: "out", problem }
}

/// Writes the page of a group, if all of its experiments were run.
fn group_report(
    group: &str,
    found: &[(&'static str, Found)],
    request: &Run,
    files: &mut Vec<PathBuf>,
) -> Result<(), CliError> {
    let of_group: Vec<_> = named(group)
        .iter()
        .filter_map(|known| found.iter().find(|(name, _)| *name == known.name))
        .map(|(name, report)| (*name, report))
        .collect();
    if of_group.len() < named(group).len() {
        return Ok(());
    }
    let page = experiments::page(&format!("Experiments of {group}"), &of_group);
    keep(request.out.join(group).join("report.html"), &page, files)
}

fn keep(path: PathBuf, text: &str, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    fs::write(&path, text).map_err(|error| failed(&path, "write", error))?;
    files.push(path);
    Ok(())
}

fn failed(path: &Path, action: &'static str, error: std::io::Error) -> CliError {
    CliError::File { path: path.to_owned(), action, error }
}

fn list(output: &Output) {
    let listed = |known: &Known| Listed { name: known.name, summary: known.summary };
    let all: Vec<_> = EXPERIMENTS.iter().map(listed).collect();
    let list = List { experiments: all };
    output.result("experiments", &list, |output| {
        let row = |one: &Listed| vec![one.name.to_owned(), one.summary.to_owned()];
        let rows: Vec<_> = list.experiments.iter().map(row).collect();
        table(&["EXPERIMENT", "SUMMARY"], &rows, output);
    });
}

fn tell(done: &Done, output: &Output) {
    let row = |judged: &Judged| {
        let holds = if judged.holds { "yes" } else { "NO" };
        let cells = [&judged.what, &judged.published, &judged.ours, &judged.rule];
        cells.into_iter().cloned().chain([holds.to_owned()]).collect()
    };
    for report in &done.experiments {
        output.line(output.paint(Tone::Strong, report.name));
        let measured = |point: &Row| {
            let values = point.values.iter();
            let values: Vec<_> = values.map(|(name, value)| format!("{name} {value}")).collect();
            vec![point.key.point.clone(), point.key.seed.to_string(), values.join(", ")]
        };
        let points: Vec<_> = report.points.iter().map(measured).collect();
        if !points.is_empty() {
            table(&["POINT", "SEED", "MEASURED"], &points, output);
            continue;
        }
        let rows: Vec<_> = report.findings.iter().map(row).collect();
        table(&["FINDING", "PUBLISHED", "HERE", "HOLDS IF", "HOLDS"], &rows, output);
        output.line("");
    }
    done.files.iter().for_each(|file| output.line(format_args!("wrote {}", file.display())));
}

fn table(headings: &[&str], rows: &[Vec<String>], output: &Output) {
    for (number, text) in format::table(headings, rows).iter().enumerate() {
        let text = if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() };
        output.line(text);
    }
}
