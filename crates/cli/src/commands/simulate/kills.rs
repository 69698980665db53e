//! Runs a history with a planted bug.
//!
//! A history is a function of its scenario and of the planted bug. So a mutant that the engine
//! never consulted in the run without one cannot change it.

use zoneweave_raid::instrument::mutants::{Mutant, select, take_asked};
use zoneweave_sim::simulate::{Failure, Mix, Scenario, generate, run};

/// The result of a history without a mutant.
pub(super) enum Healthy {
    /// It passes, and consults these mutants; no other can change it.
    Passes(Vec<Mutant>),
    /// It fails, so that mutants prove nothing.
    Fails(Failure),
}

/// Runs a history without a mutant.
pub(super) fn run_healthy(scenario: &Scenario) -> Healthy {
    let _earlier = take_asked();
    match run(scenario) {
        Ok(_) => Healthy::Passes(take_asked()),
        Err(failure) => Healthy::Fails(failure),
    }
}

/// Runs a history with a mutant: how it fails, if it does.
pub(super) fn run_mutant(mutant: Mutant, scenario: &Scenario) -> Option<Failure> {
    select(Some(mutant));
    let result = run(scenario);
    select(None);
    result.err()
}

/// How a mutant fails in a history that passes without it.
pub(super) fn kill(mutant: Mutant, scenario: &Scenario) -> Option<Failure> {
    let failure = run_mutant(mutant, scenario)?;
    run(scenario).is_ok().then_some(failure)
}

/// The mix of a seed for mutants: every other seed is a swarm seed, since some mutants die more
/// often in one mix and some in the other.
pub(super) const fn mix_of(seed: u64, zoned: bool) -> Mix {
    Mix { swarm: seed % 2 == 1, layout: None, inline: false, zoned }
}

/// The history of a seed, for mutants of zoned volumes or of others.
pub(super) fn scenario_of(seed: u64, zoned: bool) -> Scenario {
    generate(seed, mix_of(seed, zoned))
}
