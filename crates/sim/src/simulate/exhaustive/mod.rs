//! Small spaces of histories, searched whole.
//!
//! The smallest array that the engine makes, all traces of a few operations, and in each everything
//! that a crash may leave: a crash at every *boundary* (every moment at which other commands are in
//! flight, or something else is promised, than at the one before), with every subset of the
//! commands in flight carried out, and every prefix of what caches hold kept; each with no drive
//! impaired, and with each drive away, blank, as it was before the trace, or unreadable for a while.
//! From each of these *states* the engine starts, what it returns is judged by the oracle, and after
//! another crash, with another drive away or the one that was away back, everything has to be found
//! once more as it was found first.
//!
//! Nothing is sampled or left out. States that differ in nothing but in how they came about are
//! counted, but judged once in each case.

mod hash;
mod history;
mod impairment;
mod judge;
mod outcome;
mod search;
mod space;
mod start;
mod timing;

use serde::Serialize;

use super::failure::Failure;

pub use self::search::{CaseResult, StateName, StateNameError, replay, search};
pub use self::space::{Operation, SPACES, Space};

/// How much was searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Searched {
    /// Cases.
    pub cases: u64,
    /// Runs of the engine, one for each order of the drives by speed.
    pub runs: u64,
    /// Boundaries.
    pub boundaries: u64,
    /// States: boundaries, each with every choice of the crash and every impairment.
    pub states: u64,
    /// Those of them that differ, within their case, in media or promises.
    pub distinct: u64,
    /// Starts verified: one of each distinct state, and those after it.
    pub starts: u64,
}

impl Searched {
    /// Adds what was searched elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.runs += other.runs;
        self.boundaries += other.boundaries;
        self.states += other.states;
        self.distinct += other.distinct;
        self.starts += other.starts;
    }
}

/// A state from which a promise is broken.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The state, as [`replay`] takes it.
    pub state: String,
    /// What led to it.
    pub story: String,
    /// What is wrong.
    pub failure: Failure,
}
