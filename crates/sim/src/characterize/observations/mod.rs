//! The thirteen observations, each decided by rules over the samples of a run.
//!
//! Figures of the paper and of its data set are shown as text; no rule uses them. A rule that lacks
//! a sample, or would divide by a latency of zero, decides nothing.

mod interference;
pub(super) mod lookup;
mod scaling;
mod single;
mod transitions;

use super::{Observation, Results};

/// Judges a run.
#[must_use]
pub fn observations(results: &Results) -> Vec<Observation> {
    vec![
        single::lba_format(results),
        single::host_software(results),
        single::request_size(results),
        single::write_against_append(results),
        scaling::intra_against_inter(results),
        scaling::append_is_agnostic(results),
        scaling::single_zone_ranking(results),
        scaling::device_limit(results),
        transitions::open_and_close(results),
        transitions::occupancy(results),
        interference::stability(results),
        interference::resets_spare_io(results),
        interference::io_slows_resets(results),
    ]
}

pub(super) use lookup::Lookup;
