//! Spares: some histories keep spare drives, and more of the other drives fail.
//!
//! The choice uses a random sequence of its own, so that the rest of a history does not depend on
//! it.

use zoneweave_runtime::Random;

use crate::random::{index, pick};
use crate::simulate::scenario::{Action, Command, Fault, Life, On, Shape, Spare};

/// Percentage of histories with spares.
const PERCENT: u64 = 30;

/// Gives a history spares, if chosen.
pub(super) fn choose_spares(seed: u64, shape: &Shape, lives: &mut [Life]) {
    let mut random = Random::new(seed ^ 0x5EED_05BA_2E50);
    if shape.spared() == 0 || random.below(100) >= PERCENT {
        return;
    }
    for life in lives {
        if !random.per_mille(700) {
            continue;
        }
        for _ in 0..1 + random.below(2) {
            life.spares.push(spare(&mut random));
        }
        if !life.actors.is_empty() && random.per_mille(500) {
            let actor = index(&mut random, life.actors.len());
            let place = index(&mut random, life.actors[actor].len() + 1);
            let loss = loss(&mut random, shape);
            life.actors[actor].insert(place, loss);
        }
    }
}

fn spare(random: &mut Random) -> Spare {
    Spare { fault: random.per_mille(150).then(|| fault(random)) }
}

/// A fault that does not damage a drive's contents.
fn fault(random: &mut Random) -> Fault {
    let command = pick(
        random,
        &[Command::Any, Command::Write, Command::Append, Command::Reset, Command::Flush],
    );
    let on = On { command, after: random.below(40) };
    match random.below(4) {
        0 => Fault::Error { on, applied: random.per_mille(500) },
        1 => Fault::Partial { on: On { command: Command::Write, ..on }, blocks: 1 },
        2 => Fault::ZoneWorn { seed: random.next(), offline: false },
        _ => Fault::Slow { on, times: 1 + random.below(20), us: random.below(20_000) },
    }
}

/// The loss of a member.
fn loss(random: &mut Random, shape: &Shape) -> Action {
    let slot = index(random, shape.columns());
    match random.below(3) {
        0 => Action::Fail { slot },
        _ => {
            let (too_many, forgetting) = (random.per_mille(150), random.per_mille(300));
            Action::Pull { slot, too_many, forgetting }
        }
    }
}
