//! Emulated ZNS drives.
//!
//! [`Controller`] decides about commands: zone states, planned faults, counters. It holds no media
//! and does no I/O, so that drives in RAM and in files behave alike. [`RamDrive`] adds media in
//! RAM, a volatile cache, timing, power failures and process kills, for simulations and tests.
//! [`ConventionalDrive`] has the same dies behind a block interface. [`media_format`] is the byte
//! layout of drives in files, and [`Pace`] gives them the latencies of a model.
//!
//! Everything is deterministic: the same calls with the same seeds give the same history.

mod control;
mod conventional;
mod faults;
pub mod flash;
mod media;
pub mod media_format;
mod picos;
pub mod preset;
mod ram;
pub mod timing;
mod wear;

pub use control::{
    Admission, CommandKind, Controller, DriveCounters, Placement, Request, Work, ZonePart,
};
pub use conventional::{
    CollectConfig, ConventionalConfig, ConventionalCounters, ConventionalDevice, ConventionalDrive,
    ConventionalError, ManageTimes, ReadTimes, StreamId, WriteTimes,
};
pub use faults::{
    BlockPart, CrashChoices, Damage, Fault, FaultAction, FaultClass, FaultPlan, FaultProfile,
    Return, SeededCrash, SeededFaults, Selector,
};
pub use picos::{Picos, Spread};
pub use preset::{Preset, PresetError};
pub use ram::{ImageError, MemoryDrive, PendingCommand, RamDrive};
pub use timing::{CommandId, Direct, Due, Immediate, Jitter, Pace, Schedule, Stations, Timing};
pub use wear::{
    BlockMapping, EraseMode, EraseSpread, Lifetime, Wear, WearError, WearReport, WearSettings,
    WornZone, ZoneWear, ZoneWearReport,
};
