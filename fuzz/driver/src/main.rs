//! Runs fuzz targets without libFuzzer or nightly: mutates seeds at random, one number naming a
//! run.
//!
//! ```text
//! cargo run --profile fuzz -p zoneweave-fuzz-driver -- run nbd_handshake --seconds 60 --seed 1
//! cargo run --profile fuzz -p zoneweave-fuzz-driver -- replay nbd_handshake 1 12345
//! cargo run --profile fuzz -p zoneweave-fuzz-driver -- seeds nbd_handshake corpus/nbd_handshake
//! ```
//!
//! Execution `n` of a run depends on the seed and `n` only, so a failure is replayed by the two
//! numbers that are printed with it. There is no coverage feedback: this is for machines without
//! nightly and for a fast smoke test, libFuzzer for depth.

mod memory;
mod mutate;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use memory::limited;
use mutate::mutated;
use targets::{TARGETS, Target};

const USAGE: &str = "usage: run TARGET [--seconds N] [--seed N] | replay TARGET SEED EXECUTION | \
                     seeds TARGET DIRECTORY | list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn command(words: &[&str]) -> Result<(), String> {
    match words {
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["run", name, options @ ..] => {
            let (mut seconds, mut seed) = (10, 1);
            for pair in options.chunks(2) {
                match pair {
                    ["--seconds", value] => seconds = number(value)?,
                    ["--seed", value] => seed = number(value)?,
                    _ => return Err(USAGE.into()),
                }
            }
            run(find(name)?, Duration::from_secs(seconds), seed);
            Ok(())
        }
        ["replay", name, seed, execution] => {
            let target = find(name)?;
            let input = mutated(&(target.seeds)(), number(seed)?, number(execution)?);
            eprintln!("input of {} bytes: {}", input.len(), input.escape_ascii());
            limited(|| (target.body)(&input));
            Ok(())
        }
        ["seeds", name, directory] => write_seeds(find(name)?, directory),
        _ => Err(USAGE.into()),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number; {USAGE}"))
}

fn find(name: &str) -> Result<&'static Target, String> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| format!("no target is named {name:?}; `list` names them"))
}

fn run(target: &Target, duration: Duration, seed: u64) {
    let seeds = (target.seeds)();
    let start = Instant::now();
    let mut execution = 0;
    // The clock is read once per batch, which takes a few milliseconds.
    while start.elapsed() < duration {
        for _ in 0..256 {
            let input = mutated(&seeds, seed, execution);
            let outcome = catch_unwind(AssertUnwindSafe(|| limited(|| (target.body)(&input))));
            if let Err(panic) = outcome {
                eprintln!("failed; replay with: replay {} {seed} {execution}", target.name);
                resume_unwind(panic);
            }
            execution += 1;
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let rate = execution as f64 / elapsed;
    println!("{}: {execution} executions in {elapsed:.1} s, {rate:.0}/s", target.name);
}

fn write_seeds(target: &Target, directory: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write seeds to {directory}: {error}");
    std::fs::create_dir_all(directory).map_err(failed)?;
    for (index, seed) in (target.seeds)().iter().enumerate() {
        let path = std::path::Path::new(directory).join(format!("seed-{index:03}"));
        std::fs::write(path, seed).map_err(failed)?;
    }
    Ok(())
}
