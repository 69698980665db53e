//! `zoneweave soak`: a long mixed load on a volume, with every read verified, while the memory of
//! the process is watched.
//!
//! The array is a RAID-5 of in-memory drives, written as servers write it. The volume fills 77 % of
//! all zones, so that garbage collection never stops. Limits: the drives, the index by its formula
//! and 256 MiB at any time, and no growth. The 256 MiB are for the engine, the program, the load
//! (which keeps a version of each block) and requests in flight.

mod array;
mod content;
mod load;
mod outcome;
mod sample;

use clap::Args;
use serde::Serialize;
use zoneweave_runtime::Nanos;

use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::output::{Output, Tone};
use array::Array;
use load::{Load, Until};
use outcome::Outcome;
use sample::{Sample, Samples, Verdict};

/// Memory of the process beyond its drives and the index, in bytes.
const ALLOWANCE_BYTES: u64 = 256 << 20;

/// Samples of a run with --requests.
const SAMPLES: u64 = 20;

#[derive(Args)]
pub(crate) struct Soak {
    /// Duration in minutes
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = parse_minutes)]
    minutes: f64,
    /// Run this many requests instead of --minutes
    #[arg(long, value_name = "N", conflicts_with_all = ["minutes", "every"],
          value_parser = clap::value_parser!(u64).range(1000..))]
    requests: Option<u64>,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Size of each of the four in-memory drives
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = format::parse_blocks)]
    drive: u64,
    /// Seconds between lines of output
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Seed of the requests; their order still varies from run to run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of minutes"))?;
    if (0.01..=100_000.0).contains(&minutes) {
        return Ok(minutes);
    }
    Err(format!("{text:?} is not between 0.01 and 100000"))
}

#[derive(Serialize)]
struct Report {
    program: String,
    array: String,
    depth: u32,
    drive_bytes: u64,
    /// Memory of the four drives, including per-block metadata.
    drives_memory_bytes: u64,
    volume_bytes: u64,
    /// By the engine's formula.
    index_bytes: u64,
    seed: u64,
    outcome: Outcome,
    verdict: Verdict,
    samples: Vec<Sample>,
}

pub(crate) fn run(request: &Soak, output: &Output) -> Result<Exit, CliError> {
    output.note("making drives");
    let array = Array::new(request.drive)?;
    output.note("filling the volume");
    let load = Load::new(&array, request.seed);
    load.fill(&array)?;
    let (until, every) = match request.requests {
        Some(requests) => (Until::Requests(requests), Until::Requests(requests / SAMPLES)),
        None => (
            Until::Time(nanos(request.minutes * 60.0)),
            Until::Time(Nanos::from_secs(request.every)),
        ),
    };
    say(output, sample::HEADINGS);
    let mut samples = Samples::default();
    let tell = |sample: Sample| {
        say(output, &sample.line());
        samples.add(sample);
    };
    let outcome = load.run(&array, request.depth, until, every, tell)?;
    output.note("reading everything");
    load.verify(&array)?;
    let memory = array.volume().status().memory_at_most;
    let allowed = array.drives_memory_bytes() + memory.index_bytes + ALLOWANCE_BYTES;
    let samples = samples.kept();
    let verdict = Verdict::of(&samples, allowed, sample::resident_peak_bytes()?);
    let report = Report {
        program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
        array: array.volume().status().scheme,
        depth: request.depth,
        drive_bytes: request.drive * 4096,
        drives_memory_bytes: array.drives_memory_bytes(),
        volume_bytes: array.blocks() * 4096,
        index_bytes: memory.index_bytes,
        seed: request.seed,
        outcome,
        verdict,
        samples,
    };
    array.close()?;
    output.result("soak", &report, |output| tell_verdict(&report, output));
    Ok(if verdict.holds() { Exit::Done } else { Exit::Failed })
}

/// Prints a line while the load runs; to stderr if the result is a document.
fn say(output: &Output, line: &str) {
    if output.json() {
        output.note(line);
    } else {
        output.line(line);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the argument is between 0.01 and 100000"
)]
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

fn tell_verdict(report: &Report, output: &Output) {
    let Report { outcome, verdict, .. } = report;
    output.line(format_args!(
        "\n{} at {} requests in flight, a volume of {} on drives of {}",
        report.array,
        report.depth,
        format::bytes(report.volume_bytes),
        format::bytes(report.drive_bytes)
    ));
    output.line(format_args!(
        "{} writes, {} reads, {} trims, {} flushes in {}; {} read and verified",
        outcome.writes,
        outcome.reads,
        outcome.trims,
        outcome.flushes,
        format::span(outcome.nanoseconds),
        format::bytes(outcome.read_bytes)
    ));
    let judged = |good: bool| {
        let (tone, word) = if good { (Tone::Good, "holds") } else { (Tone::Bad, "DOES NOT HOLD") };
        output.paint(tone, word)
    };
    output.line(format_args!(
        "{}: at most {} of memory (drives {}, index {}, 256 MiB for the rest); the peak was {}",
        judged(verdict.is_within()),
        format::bytes(verdict.allowed_bytes),
        format::bytes(report.drives_memory_bytes),
        format::bytes(report.index_bytes),
        format::bytes(verdict.resident_peak_bytes)
    ));
    let growth = verdict.growth_bytes;
    let sign = if growth < 0 { "-" } else { "" };
    let told = format!(
        "no growth: a linear fit of the second half ({:.0} s) rises by {sign}{}",
        verdict.second_half_seconds,
        format::bytes(growth.unsigned_abs())
    );
    match verdict.is_steady() {
        Some(steady) => output.line(format_args!(
            "{}: {told}, with {} allowed",
            judged(steady),
            format::bytes(sample::GROWTH_BYTES)
        )),
        None => output.line(format_args!(
            "not judged: {told}; only runs of {} minutes or more are judged",
            sample::JUDGED_SECONDS / 60.0
        )),
    }
}
