//! Histories that differ from another one only in when they crash.
//!
//! What a history runs into depends on the moments of its crashes, and a change of the engine moves
//! what happens at them by a few steps. So what a stored history meets no more, one near it mostly does.

use zoneweave_runtime::Random;

use super::Scenario;

/// How many steps earlier or later a crash may come.
const REACHES: [u64; 4] = [3, 3, 10, 50];

/// The history with other moments of its crashes, the same for the same seed.
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
