//! Drawing the array of a history.

use zoneweave_runtime::Random;

use crate::random::{between, pick};
use crate::simulate::scenario::{Layout, Shape};

/// The drives and the array on them.
pub(super) fn shape(random: &mut Random) -> Shape {
    let (data, parity) = match random.below(100) {
        0..45 => (pick(random, &[2, 3, 3, 4, 4, 5]), 1),
        45..72 => (pick(random, &[2, 3, 3, 4, 5]), 2),
        72..80 => (1, 1),
        80..88 => (1, 2),
        88..94 => (pick(random, &[2, 3, 4]), 3),
        _ => (pick(random, &[1, 2, 3]), 0),
    };
    let chunk_blocks = pick(random, &[1, 1, 1, 2, 2, 4]);
    let roomy = random.per_mille(100);
    let spare_zones = if random.per_mille(400) { between(random, 1, 3) } else { 0 };
    Shape {
        data,
        parity,
        layout: Layout::default(),
        zones: between(random, 6, if roomy { 14 } else { 8 }) + spare_zones,
        zone_blocks: chunk_blocks * between(random, 14, if roomy { 40 } else { 20 })
            + between(random, 0, 3),
        chunk_blocks,
        group_rows: pick(random, &[1, 2, 4, 8, 256]),
        inline: false,
        tabled: random.per_mille(650),
        volatile: random.per_mille(600),
        writethrough: pick(random, &[None, None, Some(true), Some(false)]),
        active_zones: pick(random, &[8, 9, 14]),
        latency_us: pick(random, &[20, 100, 100, 1000]),
        seed: random.next() >> 1,
        spare_zones,
        page_entries: None,
        beyond: random.per_mille(60),
        zoned: None,
    }
}
