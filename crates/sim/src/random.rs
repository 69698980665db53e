//! Draws that several parts of the simulator share.

use zoneweave_runtime::Random;

/// A random index.
pub(crate) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).expect("below a length")
}

pub(crate) fn between(random: &mut Random, least: u32, most: u32) -> u32 {
    least + u32::try_from(random.below(u64::from(most - least) + 1)).expect("32 bits")
}

pub(crate) fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[index(random, choices.len())]
}
