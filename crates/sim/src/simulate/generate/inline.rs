//! The inline layout: some arrays have drives without metadata.
//!
//! The choice uses a random sequence of its own, so that the rest of a history does not depend on
//! it.

use zoneweave_runtime::Random;

use super::mix::Mix;
use crate::random::between;
use crate::simulate::drives::attach::FRAME;
use crate::simulate::scenario::{Life, Mode, Shape};

/// Percentage of histories.
const PERCENT: u64 = 14;

/// Least capacity of a superblock zone in records, as in other arrays.
const RECORDS: u32 = 14;

/// Takes the metadata from an array's drives, if chosen. Chunks then consist of whole frames, and
/// are written in place.
pub(super) fn choose_inline(seed: u64, mix: Mix, shape: &mut Shape, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x1271_AE0F_F5E7);
    if random.below(100) >= PERCENT && !mix.inline {
        return;
    }
    let unit = FRAME.unit().0;
    shape.inline = true;
    shape.tabled = false;
    shape.chunk_blocks *= unit;
    // The same capacity in fewer rows, but enough for superblock records, and sometimes a partial
    // frame.
    let blocks = (shape.zone_blocks * 2).max(RECORDS * FRAME.blocks());
    shape.zone_blocks = blocks + between(&mut random, 0, 3);
    for writing in lives.iter_mut().filter_map(|life| life.writing.as_mut()) {
        writing.small_chunk *= unit;
        writing.large_chunk *= unit;
        writing.mode = match writing.mode {
            Mode::ZoneAppend => Mode::Adaptive,
            Mode::Zapraid => Mode::ZoneWrite,
            Mode::AutoAppends => Mode::Auto,
            other => other,
        };
    }
}
