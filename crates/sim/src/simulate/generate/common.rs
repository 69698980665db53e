//! Lives that every history needs.

use zoneweave_runtime::Random;

use crate::simulate::scenario::{Action, Life, Shape, Since};

/// Writes the whole volume first, so that there is garbage to collect.
pub(super) fn fill(life: &mut Life, shape: &Shape, random: &mut Random) {
    let most = u64::from(shape.zones * shape.zone_blocks) * shape.data as u64;
    let write = |lba| Action::Write { lba, blocks: 16, fua: false };
    // Addresses wrap at the volume's end.
    life.actors.insert(0, (0..most / 3).step_by(16).map(write).collect());
    if let Some(stop) = &mut life.stop {
        stop.since = Since::Serving;
        stop.steps += 400 + random.below(800);
    }
}

/// All drives are brought back and healed; one more start verifies the array.
pub(super) fn last_lives(shape: &Shape, random: &mut Random) -> [Life; 2] {
    let mut heal = vec![Action::Resume];
    heal.extend((0..shape.parity).map(|_| Action::Resume));
    let failed = (0..shape.spared()).map(|_| Action::Replace { slot: usize::MAX });
    heal.extend(failed);
    heal.extend([Action::Scrub, Action::Flush]);
    let user =
        (0..8).map(|_| Action::Write { lba: random.below(64), blocks: 4, fua: false }).collect();
    let healing = Life { actors: vec![heal, user], order: random.next(), ..Life::default() };
    let looking = Life { checked: true, ..Life::default() };
    [healing, looking]
}
