//! Write modes: some histories keep several segments open, of several shapes, and change modes
//! between lives. Others leave the choice to the engine, as servers do.
//!
//! The choice uses a random sequence of its own, so that the rest of a history does not depend on
//! it.

use std::num::NonZeroU32;

use zoneweave_runtime::Random;

use crate::random::{between, pick};
use crate::simulate::scenario::{Life, Mode, Shape, Writing};

/// Percentages of histories with a mode, and with the engine's choice.
const PERCENT: u64 = 35;
const AUTO_PERCENT: u64 = 35;

/// Gives the lives of a history a write mode, if chosen.
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
    // Several open segments need drives with enough active zones, and space.
    if random.per_mille(850) {
        shape.active_zones = pick(&mut random, &[14, 14, 24]);
        shape.zones += between(&mut random, 0, 6);
    }
    for life in lives {
        life.writing = random.per_mille(800).then(|| writing(&mut random));
    }
}

/// The engine decides by the drives in most lives. Where few active zones or small zones allow
/// less, its choice is limited.
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
            // One segment for all users, with the chunk size of its drives.
            (pinned.small, pinned.small_chunk) = (1, 1);
        }
        let auto = Writing { large: 0, spare: None, ..pinned };
        life.writing = random.per_mille(900).then_some(auto);
    }
}

/// The frequency of index checkpoints, drawn like write modes. In a small array the default
/// interval would never elapse.
pub(super) fn choose_checkpoints(seed: u64, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0xC4EC_9014_7500);
    if random.per_mille(350) {
        return;
    }
    for life in lives {
        life.checkpoint_share = Some(pick(&mut random, &[0, 1, 1, 1, 2, 4]));
    }
}

/// Lives that serve users before the whole index is read, drawn like write modes.
pub(super) fn choose_paging(seed: u64, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x9A6E_D1DE_4A7D);
    for life in lives {
        life.index_on_demand = NonZeroU32::new(pick(&mut random, &[0, 1, 1, 2, 64]));
    }
}

/// Lives with less memory than the index needs, drawn like write modes. The volume then has many
/// pages, and is smaller by their blocks.
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
        // Arrays of some ten zones never have the number of free zones that the default requires.
        spare: Some(pick(random, &[1, 1, 1, 2, 4])),
    }
}
