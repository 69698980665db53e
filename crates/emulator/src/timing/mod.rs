//! Latency models: when commands take effect and when they complete.
//!
//! `model` has the interface, [`Timing`]. [`Immediate`] and [`Jitter`] are for tests of logic.
//! [`Stations`] (`stations`) is a calibrated drive with a write buffer, controller cores and flash
//! dies: a command passes `buffer`, then `read_path`, `write_core` or `management`, on dies placed
//! by `layout`. [`Direct`] has plain queues, as simple emulators do. Both are built from presets
//! ([`crate::Preset`], `parameters`).
//!
//! [`Pace`] (`pace`) delays the answers of a drive whose media are elsewhere.

mod buffer;
mod direct;
mod layout;
mod management;
mod model;
mod pace;
pub mod parameters;
mod read_path;
mod stations;
mod write_core;

pub use direct::Direct;
pub use model::{CommandId, Immediate, Jitter, Schedule, Timing};
pub use pace::{Due, Pace};
pub use stations::Stations;
