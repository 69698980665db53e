//! When commands take effect and when they complete.
//!
//! [`Immediate`] and [`Jitter`] are for tests of logic. [`Stations`] is a calibrated drive with a write
//! buffer, controller cores and flash dies; [`Direct`] one of plain queues, as simple emulators are.
//! Both are built from presets ([`crate::Preset`]).

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
