//! Histories of the log-structured volume that are made up from seeds, and judged.
//!
//! A seed draws a [`Scenario`]: an array, and lives of its engine one after the other, with users,
//! administrators, faults, and crashes wherever they fall. [`run`] makes the history happen, on
//! the engine that serves real clients, in virtual time, and judges it against the contract: see
//! `oracle` for what blocks may read as, `verify` for the rest. A scenario that fails is
//! [cut down](shrink) and kept.
//!
//! One history fails another's way only if the code changed: nothing here has a clock, a thread or
//! a random number that is not from the seed.

mod drives;
pub mod exhaustive;
mod failure;
mod generate;
mod oracle;
mod pattern;
mod random;
mod run;
pub mod scenario;
mod shrink;

pub use failure::{Failure, note_panics};
pub use generate::{Mix, generate};
pub use run::{Tally, is_possible, run};
pub use scenario::{Layout, Scenario, TraceError, vary};
pub use shrink::{Shrunk, shrink};
