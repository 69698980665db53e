//! Small spaces of histories, searched completely.
//!
//! A space is the smallest array that the engine creates, with all traces of a few operations. A
//! *boundary* is a moment at which other commands are in flight, or other data are promised, than
//! at the moment before. A crash is tried at every boundary, with every subset of the commands in
//! flight applied and every prefix of the drives' caches kept. Each is combined with every
//! impairment: no drive impaired, or one of them away, blank, as it was before the trace, or
//! unreadable for a while.
//!
//! From each of these *states* the engine starts, and the oracle judges the contents. After another
//! crash, with another drive away or the absent one back, the contents must be the same.
//!
//! In the order of a search:
//!
//! - `space` enumerates cases; `search` goes through them and combines the other files.
//! - `history` records the boundaries of a trace, under the latencies of `timing`.
//! - `outcome` enumerates the outcomes of a crash for a drive, `impairment` the damage.
//! - `start` starts the engine, and `judge` checks the result.
//! - `engine` is the volume of either kind.
//! - `hash` identifies states.
//!
//! Invariant: nothing is sampled or left out. States that differ only in their histories are
//! counted, but judged once per case.

mod engine;
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

/// Amount of work of a search.
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
    /// States that differ, within their case, in media or promises.
    pub distinct: u64,
    /// Verified starts: one of each distinct state, and the later ones.
    pub starts: u64,
}

impl Searched {
    /// Adds the counts of another search.
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
    /// Name of the state, for [`replay`].
    pub state: String,
    /// The history of the state.
    pub story: String,
    /// The broken promise.
    pub failure: Failure,
}
