//! A file or folder per verb.

pub(crate) mod array;
pub(crate) mod bench;
pub(crate) mod characterize;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod drive;
pub(crate) mod emu;
pub(crate) mod events;
pub(crate) mod experiment;
pub(crate) mod fs;
pub(crate) mod inspect;
pub(crate) mod iostat;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod quickstart;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod top;
mod wear;
pub(crate) mod zoned;
pub(crate) mod zones;

use clap::CommandFactory;

use crate::arguments::{Arguments, Verb};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// Runs a verb.
pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Emu(verb) => emu::run(verb, output),
        Verb::Array(verb) => array::run(verb, output),
        Verb::Drive(verb) => drive::run(verb, output),
        Verb::Serve(verb) => serve::run(verb, output),
        Verb::Config(verb) => config::run(verb, output),
        Verb::Fs(verb) => fs::run(verb, output),
        Verb::Zoned(verb) => zoned::run(verb, output),
        Verb::Zones(zones) => zones::run(&zones, output),
        Verb::Iostat(iostat) => iostat::run(&iostat, output),
        Verb::Top(top) => top::run(&top, output),
        Verb::Metrics(metrics) => metrics::run(&metrics, output),
        Verb::Events(events) => events::run(&events, output),
        Verb::Plan(plan) => plan::run(&plan, output),
        Verb::Inspect(inspect) => inspect::run(&inspect, output),
        Verb::Bench(bench) => bench::run(&bench, output),
        Verb::Characterize(characterize) => characterize::run(&characterize, output),
        Verb::Experiment(experiment) => experiment::run(&experiment, output),
        Verb::Replay(replay) => replay::run(&replay, output),
        Verb::Simulate(simulate) => simulate::run(&simulate, output),
        Verb::Soak(soak) => soak::run(&soak, output),
        Verb::Doctor(doctor) => doctor::run(&doctor, output),
        Verb::Demo(demo) => demo::run(&demo, output),
        Verb::Quickstart(quickstart) => quickstart::run(quickstart, output),
        Verb::Completions(completions) => {
            completions::run(&completions, Arguments::command(), output)
        }
        Verb::Man(man) => man::run(&man, Arguments::command(), output),
    }
}
