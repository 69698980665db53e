//! The command line: verbs and their options.

use clap::{Parser, Subcommand};

use crate::commands::{
    array, bench, characterize, completions, config, demo, doctor, drive, emu, events, experiment,
    fs, inspect, iostat, man, metrics, plan, quickstart, replay, serve, simulate, soak, top, zoned,
    zones,
};
use crate::output::globals::Globals;

/// RAID volumes over zoned drives.
#[derive(Parser)]
#[command(
    name = "zoneweave",
    version,
    about = "Redundant block volumes over zoned (ZNS) drives",
    after_help = "Exit codes: 0 success, 1 failure, 2 usage error, 3 not found, 4 refused for safety, \
                  5 server unreachable, 6 data lost, 7 scrub incomplete.\n`array status --check`: 0 \
                  healthy, 10 rebuilding, 11 degraded, 12 failed, 13 damaged, 14 unknown, 15 \
                  starting.\nStart with `zoneweave demo` or \
                  `zoneweave quickstart DIR`."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verb.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Create or serve emulated drives, and list presets
    #[command(subcommand)]
    Emu(emu::Verb),
    /// Create, inspect and maintain arrays
    #[command(subcommand)]
    Array(array::Verb),
    /// Erase drives
    #[command(subcommand)]
    Drive(drive::Verb),
    /// Serve a volume over NBD, NVMe/TCP, ublk, vhost-user or FUSE
    #[command(subcommand)]
    Serve(serve::Verb),
    /// Check the configuration file, which names volumes for `zoneweave serve named`
    #[command(subcommand)]
    Config(config::Verb),
    /// Read, write and manage the zones of a zoned volume, served or not
    #[command(subcommand)]
    Zoned(zoned::Verb),
    /// Make a file store on a zoned drive or volume, and use its files
    #[command(subcommand)]
    Fs(fs::Verb),
    /// Print the zone map of drives
    Zones(zones::Zones),
    /// Print what happened to a served array: drives lost, jobs, damage, space
    Events(events::Events),
    /// Print the load of all served arrays and of their drives, as rates
    Iostat(iostat::Iostat),
    /// Watch served volumes in a terminal: health, load, drives, jobs, zones
    Top(top::Top),
    /// Print the metrics of all served arrays, or answer scrapes of Prometheus
    Metrics(metrics::Metrics),
    /// Plan drives, arrays, hosts and a Ceph pool: space, memory, repairs, durability
    Plan(plan::Plan),
    /// Decode the contents of a drive, even if it is damaged or in use (read-only)
    Inspect(inspect::Inspect),
    /// Benchmark the engine on in-memory drives, or the drive emulator
    Bench(bench::Bench),
    /// Measure the characteristics of a drive and recommend settings
    Characterize(characterize::Characterize),
    /// Reproduce published experiments and write their tables
    Experiment(experiment::Experiment),
    /// Replay a block trace or a generated workload on an emulated array
    Replay(replay::Replay),
    /// Test the volume with random histories of crashes and faults, on in-memory drives
    Simulate(simulate::Simulate),
    /// Run a mixed load on an in-memory volume, verify every read and watch memory use
    Soak(soak::Soak),
    /// Check the features of this machine, and how to add the missing ones
    Doctor(doctor::Doctor),
    /// Demonstrate drive failure, rebuild and power loss on an in-memory array
    Demo(demo::Demo),
    /// Create emulated drives and an array in a directory, if needed, and serve it
    Quickstart(quickstart::Quickstart),
    /// Print a shell completion script
    Completions(completions::Completions),
    /// Print the manual page, or write one page per command
    Man(man::Man),
}
