//! Workloads, measurements and simulated histories of drives and volumes.
//!
//! What is here drives the other crates and judges what they do; nothing of it is needed to serve
//! a volume. [`workload`] issues I/O and measures it.
//!
//! Everything is deterministic: it runs on the caller's reactor, and takes its choices from seeds.

pub mod workload;
