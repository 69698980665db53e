//! Emulated ZNS drives.
//!
//! [`Controller`] decides what a drive does with a command: zone states, planned faults, counters.
//! It holds no media and does no I/O, so that drives in RAM and in files behave alike.
//! [`RamDrive`] adds media in RAM, a volatile cache, timing, power failures and process kills; it
//! is what simulations and tests run on. [`ConventionalDrive`] is a drive of the same
//! dies with a block interface. [`media_format`] is the byte layout of drives in files,
//! and [`Pace`] makes them take the time of a model.
//!
//! Everything is deterministic: the same calls with the same seeds give the same history.

mod areas;
mod cache;
mod controller;
mod conventional;
mod counters;
mod crash;
mod fault;
pub mod flash;
mod media;
pub mod media_format;
mod memory_drive;
mod pace;
mod picos;
pub mod preset;
mod ram_drive;
mod request;
pub mod timing;
mod wear;

pub use controller::{Admission, Controller, Placement, Work, ZonePart};
pub use conventional::{
    CollectConfig, ConventionalConfig, ConventionalCounters, ConventionalDevice, ConventionalDrive,
    ConventionalError, ManageTimes, ReadTimes, StreamId, WriteTimes,
};
pub use counters::DriveCounters;
pub use crash::{CrashChoices, SeededCrash};
pub use fault::{
    BlockPart, Damage, Fault, FaultAction, FaultClass, FaultPlan, FaultProfile, Return,
    SeededFaults, Selector,
};
pub use memory_drive::MemoryDrive;
pub use pace::{Due, Pace};
pub use picos::{Picos, Spread};
pub use preset::{Preset, PresetError};
pub use ram_drive::{ImageError, PendingCommand, RamDrive};
pub use request::{CommandKind, Request};
pub use timing::{CommandId, Direct, Immediate, Jitter, Schedule, Stations, Timing};
pub use wear::{
    BlockMapping, EraseMode, EraseSpread, Lifetime, Wear, WearError, WearReport, WearSettings,
    WornZone, ZoneWear, ZoneWearReport,
};
