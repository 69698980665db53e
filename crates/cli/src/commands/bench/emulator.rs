//! `zoneweave bench --emulator`: commands that one core emulates per second, in virtual time.
//!
//! The load is [`zoneweave_sim::mixed_load`]: random reads, writes and appends of single blocks of
//! patterns, with zones opened, closed, finished and reset. It measures CPU time, user and system,
//! so that other programs matter little. The drive is created and filled before.

use std::time::{Duration, Instant};

use serde::Serialize;
use zoneweave_emulator::Preset;
use zoneweave_sim::mixed_load::{MixedLoad, MixedLoadOutcome, READERS, WRITERS};

use super::median::middle;
use super::memory::{MemoryRates, measure_memory};
use super::report::{Machine, machine};
use super::{Bench, processor_time, rate};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format;
use crate::output::{Output, Tone};

#[derive(Serialize)]
struct Report {
    program: String,
    /// Whether it was compiled with optimisation and without debug assertions.
    optimised: bool,
    machine: Machine,
    configuration: Configuration,
    memory: MemoryRates,
    runs: Vec<Run>,
    commands_per_second: f64,
    nanoseconds_per_command: f64,
    /// Copies of cold 4 KiB blocks in the time of one command.
    cold_copies_per_command: f64,
}

#[derive(Serialize)]
struct Configuration {
    preset: String,
    summary: String,
    block_bytes: u32,
    readers: u32,
    writers: u32,
    appenders: u32,
}

#[derive(Serialize)]
struct Run {
    commands: u64,
    processor_seconds: f64,
    wall_seconds: f64,
    virtual_seconds: f64,
    reads: u64,
    writes: u64,
    resets: u64,
    /// Opens, closes and finishes.
    zone_changes: u64,
    commands_per_second: f64,
}

pub(super) fn run(request: &Bench, output: &Output) -> Result<Exit, CliError> {
    let unknown = |error: zoneweave_emulator::PresetError| error.to_string();
    let preset = Preset::by_name(&request.preset).map_err(unknown);
    let preset = preset.map_err(usage("preset"))?;
    let count = request.runs.unwrap_or(5);
    output.note("measuring memory");
    let memory = measure_memory(request.region_blocks(output), count.min(3));
    let mut runs = Vec::new();
    for number in 1..=count {
        output.note(format_args!("run {number} of {count}"));
        runs.push(measure(&preset, request.commands)?);
    }
    let commands_per_second = middle(&runs, |run| run.commands_per_second, f64::total_cmp);
    let report = Report {
        program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
        optimised: !cfg!(debug_assertions),
        machine: machine(),
        configuration: Configuration {
            preset: request.preset.clone(),
            summary: preset.summary().to_owned(),
            block_bytes: 4096,
            readers: READERS,
            writers: WRITERS,
            appenders: WRITERS,
        },
        memory,
        runs,
        commands_per_second,
        nanoseconds_per_command: 1e9 / commands_per_second,
        cold_copies_per_command: memory.cold_memcpy_bytes_per_second / 4096.0 / commands_per_second,
    };
    output.result("bench", &report, |output| tell(&report, output));
    Ok(Exit::Done)
}

/// One run on a drive of its own; every run does the same.
fn measure(preset: &Preset, commands: u32) -> Result<Run, CliError> {
    let failed = |status| CliError::DriveFailed { label: "the emulated drive".to_owned(), status };
    let load = MixedLoad::new(preset, 1).map_err(|error| error.to_string());
    let load = load.map_err(usage("preset"))?;
    load.prepare().map_err(failed)?;
    let (processor, wall) = (processor_time(), Instant::now());
    let outcome = load.run(commands).map_err(failed)?;
    Ok(figures(&outcome, processor_time().saturating_sub(processor), wall.elapsed()))
}

#[expect(clippy::cast_precision_loss, reason = "millions of commands")]
fn figures(outcome: &MixedLoadOutcome, processor: Duration, wall: Duration) -> Run {
    Run {
        commands: outcome.commands,
        processor_seconds: processor.as_secs_f64(),
        wall_seconds: wall.as_secs_f64(),
        virtual_seconds: outcome.virtual_time.as_secs_f64(),
        reads: outcome.counters.reads,
        writes: outcome.counters.writes,
        resets: outcome.counters.resets,
        zone_changes: outcome.counters.zone_changes,
        commands_per_second: outcome.commands as f64 / processor.as_secs_f64(),
    }
}

fn tell(report: &Report, output: &Output) {
    let (machine, configuration) = (&report.machine, &report.configuration);
    output.line(format_args!(
        "{}{} on {} ({} cores), Linux {}",
        report.program,
        if report.optimised { "" } else { " (not optimised)" },
        machine.processor,
        machine.cores,
        machine.kernel
    ));
    output.line(format_args!(
        "preset {} ({}), virtual time, one thread; {} random readers, {} writers and {} appenders of \
         single blocks of patterns; zones opened, closed, finished and reset",
        configuration.preset,
        configuration.summary,
        configuration.readers,
        configuration.writers,
        configuration.appenders
    ));
    output.line(format_args!(
        "memory: copy of random 4 KiB blocks {}",
        rate(report.memory.cold_memcpy_bytes_per_second)
    ));
    output.line("");
    let rows = report.runs.iter().map(|run| {
        vec![
            run.commands.to_string(),
            run.zone_changes.to_string(),
            run.resets.to_string(),
            format!("{:.2}", run.processor_seconds),
            format!("{:.2}", run.wall_seconds),
            format!("{:.2}", run.virtual_seconds),
            format!("{:.0}", run.commands_per_second),
        ]
    });
    let headings = [
        ">COMMANDS",
        ">ZONE CHANGES",
        ">RESETS",
        ">CPU s",
        ">WALL s",
        ">VIRTUAL s",
        ">COMMANDS/CPU s",
    ];
    for (number, text) in format::table(&headings, &rows.collect::<Vec<_>>()).iter().enumerate() {
        let text = if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() };
        output.line(text);
    }
    output.line("");
    output.line(format_args!(
        "median: {:.2} million commands per CPU second, {:.0} ns each, or {:.1} copies of cold blocks",
        report.commands_per_second / 1e6,
        report.nanoseconds_per_command,
        report.cold_copies_per_command
    ));
}
