//! Layouts: some arrays keep parity in its place, some are mirrors.
//!
//! They are not drawn from what the rest of a history is drawn from, which is as it would be without.

use zoneweave_runtime::Random;

use super::mix::Mix;
use crate::simulate::random::pick;
use crate::simulate::scenario::{Layout, Shape};

/// Seeds of the layouts: what is drawn otherwise from these says nothing about the histories.
const LAYOUTS: u64 = 0x6C61_796F_7574_0001;

/// Gives an array another layout, if it is to have one.
pub(super) fn choose_layout(seed: u64, mix: Mix, shape: &mut Shape) {
    let mut random = Random::new(seed ^ LAYOUTS);
    let drawn = match random.below(100) {
        0..8 => Layout::Fixed,
        8..24 => Layout::Mirrored,
        _ => Layout::Rotated,
    };
    shape.layout = mix.layout.unwrap_or(drawn);
    match shape.layout {
        Layout::Rotated => {}
        Layout::Fixed => shape.parity = shape.parity.max(1),
        Layout::Mirrored => {
            // Of four drives one may be lost, of six and eight several, if no twins.
            shape.data = pick(&mut random, &[2, 2, 3, 3, 4]);
            shape.parity = shape.data;
        }
    }
}
