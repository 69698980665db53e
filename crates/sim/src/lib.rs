//! Workloads, measurements and simulated histories of drives and volumes.
//!
//! What is here drives the other crates and judges what they do; nothing of it is needed to serve
//! a volume. [`workload`] issues I/O and measures it; [`characterize`] finds out what a drive is like;
//! [`calibrate`] holds the emulator's timing against measurements of real drives; [`experiments`]
//! measures figures of papers again; [`replay`] carries out block traces; [`mixed_load`] is there to measure what emulation costs;
//! [`simulate`] makes up histories of the volume, with crashes and faults, and judges them; [`hostile`] starts
//! arrays from drives that lie.
//!
//! Everything is deterministic: it runs on the caller's reactor, and takes its choices from seeds.

pub mod calibrate;
pub mod characterize;
pub mod experiments;
pub mod hostile;
pub mod mixed_load;
pub mod replay;
pub mod simulate;
mod testbed;
pub mod workload;
