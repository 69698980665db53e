//! What a planted bug makes of a history.

use zoneweave_raid::mutants::{Mutant, select};
use zoneweave_sim::simulate::{Failure, Mix, Scenario, generate, run};

/// What a planted bug makes of a history.
pub(super) enum Verdict {
    /// Nothing that is noticed.
    Lives,
    /// It fails, and passes without the bug.
    Killed(Failure),
    /// It fails without the bug as well, and proves nothing.
    Unsound,
}

/// Runs a history with a mutant and, if it fails, without.
pub(super) fn judge(mutant: Mutant, scenario: &Scenario) -> Verdict {
    select(Some(mutant));
    let result = run(scenario);
    select(None);
    match (result, || run(scenario)) {
        (Ok(_), _) => Verdict::Lives,
        (Err(failure), healthy) if healthy().is_ok() => Verdict::Killed(failure),
        (Err(_), _) => Verdict::Unsound,
    }
}

/// Which histories mutants are run on: every other seed is drawn as swarm, for some mutants die
/// more often in one mix and some in the other.
pub(super) const fn mix_of(seed: u64) -> Mix {
    Mix { swarm: seed % 2 == 1 }
}

/// The history of a seed, for mutants.
pub(super) fn scenario_of(seed: u64) -> Scenario {
    generate(seed, mix_of(seed))
}
