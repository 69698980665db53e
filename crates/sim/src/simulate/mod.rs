//! Simulated histories of volumes: drawn from seeds, run, and judged.
//!
//! A seed draws a [`Scenario`]: an array, and lives of its engine one after the other, with users,
//! administrators, faults, and crashes at any step. [`run`] runs it in virtual time on the engine
//! that serves real clients, and judges it against the contract.
//!
//! In the order of a campaign:
//!
//! - `generate` draws a `scenario`.
//! - `run` carries it out on `drives`.
//! - `oracle` knows the allowed versions of each block, and `crate::pattern` their contents.
//! - A [`Failure`] is reduced by [`shrink`] and stored.
//! - `zoned` has the parts that differ for zoned volumes.
//! - `exhaustive` searches small spaces of histories completely instead of drawing them.
//!
//! Invariant: a history depends on its scenario and the code alone. Nothing here reads a clock,
//! starts a thread or draws a random number that is not derived from the seed.

mod drives;
pub mod exhaustive;
mod failure;
mod generate;
mod oracle;
mod run;
pub mod scenario;
mod shrink;
mod zoned;

pub use failure::{Failure, record_panics};
pub use generate::{Mix, generate};
pub use run::{Tally, is_possible, run};
pub use scenario::{Layout, Scenario, TraceError, vary};
pub use shrink::{Shrunk, shrink};
