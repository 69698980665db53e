//! `zoneweave soak`: a volume under every kind of load for as long as one likes, everything read
//! verified, while the memory of the process is watched.
//!
//! A RAID-5 array of drives in memory, written as servers write, its volume filling 77 % of all zones, so that
//! segments are collected all the time. What is promised: at no time more memory than the drives hold, the index's
//! formula and 256 MiB; and no growth. What is beyond the drives and the index is that of the engine, of the program, of the
//! load, which keeps a version of each block, and of requests under way.

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

/// What a process may take beyond its drives and the index.
const ALLOWANCE_BYTES: u64 = 256 << 20;

/// Samples of a run that ends after so many requests.
const SAMPLES: u64 = 20;

#[derive(Args)]
pub(crate) struct Soak {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = parse_minutes)]
    minutes: f64,
    /// So many requests instead, however long they take
    #[arg(long, value_name = "N", conflicts_with_all = ["minutes", "every"],
          value_parser = clap::value_parser!(u64).range(1000..))]
    requests: Option<u64>,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// The size of each of the four drives, which are in memory
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = format::parse_blocks)]
    drive: u64,
    /// Seconds from line to line
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Draw the same requests again; their order still is the machine's
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} is no number of minutes"))?;
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
    /// What the four drives take, metadata of blocks included.
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

/// A line while it runs: beside a document it is for who waits.
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
        "{} writes, {} reads, {} trims, {} flushes in {}; {} read and all of it right",
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
        "{}: at most {} of memory: {} of drives, {} of index, and 256 MiB; it was {}",
        judged(verdict.is_within()),
        format::bytes(verdict.allowed_bytes),
        format::bytes(report.drives_memory_bytes),
        format::bytes(report.index_bytes),
        format::bytes(verdict.resident_peak_bytes)
    ));
    let growth = verdict.growth_bytes;
    let sign = if growth < 0 { "-" } else { "" };
    let told = format!(
        "no growth: a line through the second half, {:.0} s of it, rises by {sign}{}",
        verdict.second_half_seconds,
        format::bytes(growth.unsigned_abs())
    );
    match verdict.is_steady() {
        Some(steady) => output.line(format_args!(
            "{}: {told}, of {} that it may",
            judged(steady),
            format::bytes(sample::GROWTH_BYTES)
        )),
        None => output.line(format_args!(
            "not judged: {told}; that says something of runs of {} minutes or more",
            sample::JUDGED_SECONDS / 60.0
        )),
    }
}
