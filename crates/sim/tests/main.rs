//! Tests of the simulator through its public interface, in one binary.

#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod calibration;
mod conformance;
mod exhaustive;
mod killers;
#[path = "../../raid/tests/support/report_marks.rs"]
mod report_marks;
mod traces;
mod zoned;
