//! `zoneweave demo`: demonstrates the promises of an array in a few seconds.
//!
//! It runs the engine that serves real data on in-memory drives with a volatile cache and random
//! latencies, in virtual time. The same seed gives the same run.

mod array;
mod model;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, Tone};
use crate::session::random_number;
use array::Array;

#[derive(Args)]
pub(crate) struct Demo {
    /// Seed, to repeat an earlier run [default: random, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    drives: &'static str,
    clock: &'static str,
    steps: Vec<Step>,
}

/// One step of the demo.
#[derive(Serialize)]
struct Step {
    title: &'static str,
    done: String,
    proves: &'static str,
}

/// A step: its title, its action, and the promise that its success proves.
type Play = (&'static str, fn(&mut Array) -> Result<String, String>, &'static str);

const STEPS: [Play; 7] = [
    (
        "create an array of four drives",
        Array::create,
        "four zoned drives are one block volume, and any one of them may fail",
    ),
    (
        "write and overwrite at random, trim, read everything back",
        Array::write_and_verify,
        "a log on append-only zones behaves like a disk that can be overwritten",
    ),
    (
        "remove a drive while the volume is in use",
        Array::lose_drive,
        "every block is still readable, computed from the other three drives, and writes continue",
    ),
    (
        "insert a blank drive and rebuild it while the volume is written to",
        Array::replace,
        "redundancy is restored: the volume is healthy without the lost drive",
    ),
    (
        "cut the power of all drives in the middle of writes",
        Array::power_loss,
        "flushed data survives; every other block is wholly old or wholly new",
    ),
    (
        "remove another drive right after the power failure",
        Array::lose_another,
        "recovery restored the redundancy too: there is no write hole",
    ),
    (
        "check the raw media with the offline checker, which shares no code with the engine",
        Array::check,
        "parity, checksums and index on the media agree with each other and with the data written",
    ),
];

pub(crate) fn run(demo: &Demo, output: &Output) -> Result<Exit, CliError> {
    let seed = demo.seed.map_or_else(|| random_number().map(|number| number % 1_000_000), Ok)?;
    output.line(format_args!("five emulated zoned drives in memory, in virtual time; seed {seed}"));
    let mut array =
        Array::new(seed).map_err(|problem| CliError::Demonstration { step: 0, problem })?;
    let mut steps = Vec::new();
    for (number, (title, play, proves)) in (1..).zip(STEPS) {
        output.line(format_args!("\n{number}. {}", output.paint(Tone::Strong, title)));
        let done = play(&mut array).map_err(|problem| CliError::Demonstration {
            step: number,
            problem: format!("{problem}; repeat it with --seed {seed}"),
        })?;
        output.line(format_args!("   {done}"));
        output.line(format_args!("   {} {proves}", output.paint(Tone::Good, "proved:")));
        steps.push(Step { title, done, proves });
    }
    output.line("\nall data is as it was written");
    output.result("demo", &Report { seed, drives: "memory", clock: "virtual", steps }, |_| {});
    Ok(Exit::Done)
}
