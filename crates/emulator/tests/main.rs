//! Tests of the emulator through its public interface, in one binary.

mod determinism;
#[path = "../examples/outsider.rs"]
mod example;
mod outsider;
