//! Tests of the emulator through its public interface, in one binary.

mod determinism;
#[path = "../examples/outsider.rs"]
mod example;
#[path = "../examples/determinism.rs"]
mod history;
mod outsider;
