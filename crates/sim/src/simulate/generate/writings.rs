//! Ways to write: some histories keep several segments open, of several shapes, and change their ways
//! from one life to the next. Others leave it to the engine, as servers do.
//!
//! They are not drawn from what the rest of a history is drawn from, which is as it would be without.

use std::num::NonZeroU32;

use zoneweave_runtime::Random;

use crate::simulate::random::{between, pick};
use crate::simulate::scenario::{Life, Mode, Shape, Writing};

/// Histories in a hundred that do, and that leave it to the engine.
const PERCENT: u64 = 35;
const AUTO_PERCENT: u64 = 35;

/// Makes a history one of those, if it is.
pub(super) fn choose_writings(seed: u64, shape: &mut Shape, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x5EED_0F1A_4E55);
    let drawn = random.below(100);
    if drawn >= PERCENT + AUTO_PERCENT {
        return;
    }
    if drawn >= PERCENT {
        leave_to_engine(&mut random, shape, lives);
        return;
    }
    // Several open segments need drives that let them be open, and room for them.
    if random.per_mille(850) {
        shape.active_zones = pick(&mut random, &[14, 14, 24]);
        shape.zones += between(&mut random, 0, 6);
    }
    for life in lives {
        life.writing = random.per_mille(800).then(|| writing(&mut random));
    }
}

/// The engine decides by the drives, in most lives; where these allow little, or zones are too small, for
/// less than it would.
fn leave_to_engine(random: &mut Random, shape: &mut Shape, lives: &mut [Life]) {
    if random.per_mille(700) {
        shape.active_zones = pick(random, &[10, 12, 14, 14, 24]);
        shape.zones += between(random, 0, 6);
    }
    if random.per_mille(300) {
        shape.zone_blocks += between(random, 8, 40);
    }
    let pins = random.per_mille(100);
    for life in lives {
        let mode = pick(
            random,
            &[Mode::Auto, Mode::AutoEven, Mode::AutoFast, Mode::AutoFast, Mode::AutoAppends],
        );
        let small = if pins { between(random, 1, 3) } else { 0 };
        let mut pinned = Writing { mode, small, ..writing(random) };
        if mode == Mode::AutoEven && random.per_mille(400) {
            // One segment with chunks that suit its drives: its zones go on together.
            (pinned.small, pinned.small_chunk) = (1, 1);
        }
        let auto = Writing { large: 0, spare: None, ..pinned };
        life.writing = random.per_mille(900).then_some(auto);
    }
}

/// How often lives write checkpoints of the index, drawn as ways to write are. In a small array what is
/// usual would be never.
pub(super) fn choose_checkpoints(seed: u64, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0xC4EC_9014_7500);
    if random.per_mille(350) {
        return;
    }
    for life in lives {
        life.checkpoint_share = Some(pick(&mut random, &[0, 1, 1, 1, 2, 4]));
    }
}

/// Which lives serve users before all of the index is read, drawn as ways to write are.
pub(super) fn choose_paging(seed: u64, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x9A6E_D1DE_4A7D);
    for life in lives {
        life.index_on_demand = NonZeroU32::new(pick(&mut random, &[0, 1, 1, 2, 64]));
    }
}

/// Which lives have less memory than the index needs, drawn as ways to write are. The volume has many pages then,
/// and is smaller by what their blocks take.
pub(super) fn choose_offload(seed: u64, shape: &mut Shape, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x0FF1_0AD0_FA6E);
    if random.per_mille(500) {
        return;
    }
    shape.page_entries = NonZeroU32::new(pick(&mut random, &[4, 8, 8, 16, 16, 32, 64]));
    for life in lives {
        life.index_pages =
            pick(&mut random, &[None, Some(0), Some(0), Some(1), Some(2), Some(4), Some(8)]);
    }
}

fn writing(random: &mut Random) -> Writing {
    let small_chunk = pick(random, &[1, 1, 2]);
    let (small, large) = pick(
        random,
        &[(1, 0), (2, 0), (1, 1), (2, 1), (2, 2), (1, 3), (4, 0), (0, 2), (3, 4), (7, 1)],
    );
    Writing {
        mode: pick(
            random,
            &[Mode::ZoneWrite, Mode::ZoneAppend, Mode::Zapraid, Mode::Zapraid, Mode::Adaptive],
        ),
        small,
        small_chunk,
        large,
        large_chunk: small_chunk * pick(random, &[2, 2, 4]),
        group_rows: pick(random, &[2, 4, 8, 256]),
        // Arrays of some ten zones never have as many to spare as is worth it on real drives.
        spare: Some(pick(random, &[1, 1, 1, 2, 4])),
    }
}
