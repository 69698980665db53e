//! Variants of a history with crashes at other moments.
//!
//! A change of the engine shifts its steps, so that a stored history may no longer crash at its
//! critical moment. A variant with crashes a few steps away mostly does.

use zoneweave_runtime::Random;

use super::Scenario;

/// Maximum shift of a crash in steps.
const REACHES: [u64; 4] = [3, 3, 10, 50];

/// The history with shifted crashes, the same for the same seed.
#[must_use]
pub fn vary(scenario: &Scenario, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let reach = REACHES[usize::try_from(random.below(4)).expect("below four")];
    let mut varied = scenario.clone();
    for stop in varied.lives.iter_mut().filter_map(|life| life.stop.as_mut()) {
        let later = stop.steps.saturating_add(random.below(2 * reach + 1));
        stop.steps = later.saturating_sub(reach);
    }
    varied
}
