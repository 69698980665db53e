//! What may be typed.

use clap::{Parser, Subcommand};

use crate::commands::{
    array, bench, characterize, completions, demo, doctor, emu, experiment, inspect, man,
    quickstart, replay, serve, simulate, soak, zones,
};
use crate::output::globals::Globals;

/// RAID volumes over zoned drives.
#[derive(Parser)]
#[command(
    name = "zoneweave",
    version,
    about = "Redundant block volumes over zoned (ZNS) drives",
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused for safety, \
                  5 server unreachable, 6 data lost.\nStart with `zoneweave demo` or \
                  `zoneweave quickstart DIR`."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make emulated drives
    #[command(subcommand)]
    Emu(emu::Verb),
    /// Make, look at and look after arrays
    #[command(subcommand)]
    Array(array::Verb),
    /// Serve an array to clients
    #[command(subcommand)]
    Serve(serve::Verb),
    /// Show the zones of drives
    Zones(zones::Zones),
    /// Show what is on a drive, byte for byte, also if it is damaged or in use
    Inspect(inspect::Inspect),
    /// Measure the engine on drives in memory, or the emulation of drives
    Bench(bench::Bench),
    /// Measure what a drive is like, and judge it
    Characterize(characterize::Characterize),
    /// Repeat a published measurement and write its tables
    Experiment(experiment::Experiment),
    /// Replay a block trace, or requests made up like those of cloud volumes, on an emulated array
    Replay(replay::Replay),
    /// Try to break the volume: made-up histories with crashes and faults, on drives in memory
    Simulate(simulate::Simulate),
    /// Use a volume in memory in every way for an hour, verify everything read, and watch what memory it takes
    Soak(soak::Soak),
    /// Tell what this machine can do, and what to do about the rest
    Doctor(doctor::Doctor),
    /// Make an array, fail a drive, rebuild it, cut the power, and verify everything
    Demo(demo::Demo),
    /// Make four emulated drives and an array in a directory, if needed, and serve it
    Quickstart(quickstart::Quickstart),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Print the manual page
    Man(man::Man),
}
