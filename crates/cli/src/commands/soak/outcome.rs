//! The requests of a soak, counted.

use serde::Serialize;

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Outcome {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) trims: u64,
    pub(super) flushes: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) nanoseconds: u64,
}

impl Outcome {
    pub(super) const fn requests(&self) -> u64 {
        self.reads + self.writes + self.trims + self.flushes
    }
}
