//! Workloads, measurements and simulated histories of drives and volumes.
//!
//! These modules drive the other crates and judge their behaviour; a server needs none of them.
//! From a drive up to histories of a whole volume:
//!
//! - [`workload`] issues I/O and measures it; [`mixed_load`] measures the cost of emulation.
//! - [`calibrate`] compares the emulator's timing with measurements of real drives.
//! - [`characterize`] measures the properties of a drive.
//! - `testbed` builds arrays of calibrated drives in virtual time; [`replay`] runs block traces on
//!   them, and [`experiments`] reproduces figures of papers.
//! - [`file_replay`] runs the traces of file stores on one drive.
//! - [`simulate`] generates histories of the volume with crashes and faults, and judges them.
//! - [`hostile`] starts arrays from lying drives.
//! - [`conformance`] tests that a device behaves like a zoned drive.
//!
//! Everything is deterministic: it runs on the caller's reactor, and all choices derive from seeds.

pub mod calibrate;
pub mod characterize;
pub mod conformance;
pub mod experiments;
pub mod file_replay;
pub mod hostile;
pub mod mixed_load;
mod pattern;
mod random;
pub mod replay;
pub mod simulate;
mod testbed;
pub mod workload;
