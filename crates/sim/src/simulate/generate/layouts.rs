//! Layouts: some arrays have fixed parity, some are mirrors.
//!
//! The choice uses a random sequence of its own, so that the rest of a history does not depend on
//! it.

use zoneweave_runtime::Random;

use super::mix::Mix;
use crate::random::pick;
use crate::simulate::scenario::{Layout, Shape};

/// Distinguishes the random sequence of layouts from others.
const LAYOUTS: u64 = 0x6C61_796F_7574_0001;

/// Gives an array another layout, if chosen.
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
            // Four drives can lose one, six and eight several, unless they are twins.
            shape.data = pick(&mut random, &[2, 2, 3, 3, 4]);
            shape.parity = shape.data;
        }
    }
}
