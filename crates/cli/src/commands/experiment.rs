//! `zoneweave experiment`: measurements that papers and this project publish, done again.
//!
//! Experiments run in virtual time, so the files they write depend on nothing but the program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_sim::experiments::{EXPERIMENTS, Experiment as Known, Finding, Settings};

use crate::error::{CliError, Exit};
use crate::format;
use crate::output::{Output, Tone};

#[derive(Args)]
pub(crate) struct Experiment {
    /// Which one; without a name they are listed
    name: Option<String>,
    /// Where its files go [default: experiments/NAME]
    #[arg(long, value_name = "DIR", requires = "name")]
    out: Option<PathBuf>,
    /// Part of the published amount of data, where an experiment can be done in part
    #[arg(long, value_name = "S", default_value_t = Settings::default().scale, value_parser = parse_scale)]
    scale: f64,
    /// Runs with different seeds, where there are several
    #[arg(long, value_name = "N", default_value_t = Settings::default().runs, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
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

#[derive(Serialize)]
struct Report {
    name: &'static str,
    files: Vec<PathBuf>,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct Found {
    what: String,
    published: String,
    ours: String,
    rule: String,
    holds: bool,
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Self {
        let Finding { what, paper, ours, rule, holds } = finding;
        Self { what, published: paper, ours, rule, holds }
    }
}

pub(crate) fn run(request: &Experiment, output: &Output) -> Result<Exit, CliError> {
    let Some(name) = &request.name else {
        list(output);
        return Ok(Exit::Done);
    };
    let Some(known) = Known::by_name(name) else {
        let names: Vec<_> = EXPERIMENTS.iter().map(|known| known.name).collect();
        let problem = format!("there is no experiment {name}: choose one of {}", names.join(", "));
        return Err(CliError::Usage { option: "name", problem });
    };
    output.note(format_args!("running {}: it takes some minutes at most", known.name));
    let found =
        known.run(&Settings { scale: request.scale, runs: request.runs }).map_err(|error| {
            CliError::System {
                action: "carry the experiment out",
                error: std::io::Error::other(error),
            }
        })?;
    let out = request.out.clone().unwrap_or_else(|| Path::new("experiments").join(known.name));
    let failed =
        |path: &Path, action, error| CliError::File { path: path.to_owned(), action, error };
    fs::create_dir_all(&out).map_err(|error| failed(&out, "make the directory", error))?;
    let markdown = found.markdown();
    let texts = found.files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
    let mut files = Vec::new();
    for (name, text) in texts.chain([("README.md", markdown.as_str())]) {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, "write", error))?;
        files.push(path);
    }
    let findings = found.findings.into_iter().map(Found::from).collect();
    let report = Report { name: known.name, files, findings };
    output.result("experiment", &report, |output| tell(&report, output));
    Ok(Exit::Done)
}

fn list(output: &Output) {
    let listed = |known: &Known| Listed { name: known.name, summary: known.summary };
    let all: Vec<_> = EXPERIMENTS.iter().map(listed).collect();
    output.result("experiments", &all, |output| {
        let row = |one: &Listed| vec![one.name.to_owned(), one.summary.to_owned()];
        table(&["EXPERIMENT", "WHAT IT SHOWS"], &all.iter().map(row).collect::<Vec<_>>(), output);
    });
}

fn tell(report: &Report, output: &Output) {
    let row = |found: &Found| {
        let holds = if found.holds { "yes" } else { "NO" };
        vec![found.what.clone(), found.ours.clone(), found.rule.clone(), holds.to_owned()]
    };
    let rows: Vec<_> = report.findings.iter().map(row).collect();
    table(&["WHAT", "OURS", "HOLDS IF", "HOLDS"], &rows, output);
    output.line("");
    report.files.iter().for_each(|file| output.line(format_args!("wrote {}", file.display())));
}

fn table(headings: &[&str], rows: &[Vec<String>], output: &Output) {
    for (number, text) in format::table(headings, rows).iter().enumerate() {
        let text = if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() };
        output.line(text);
    }
}
