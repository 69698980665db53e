//! Histories of a zoned volume, from histories drawn for the log.
//!
//! So both have the same lives, faults, crashes and templates. Requests become commands to zones:
//! the address selects the zone, of which a history uses few, so that several users meet in one.

use zoneweave_runtime::Random;

use crate::random::{between, pick};
use crate::simulate::drives::faults::damages;
use crate::simulate::scenario::{
    Action, Class, Fault, Layout, Life, Scenario, Shape, ZoneVerb, ZonedShape,
};

/// Distinguishes the random sequence from others.
const ZONED_SEEDS: u64 = 0x7A6F_6E65_6400_0001;

/// Distinguishes the random sequence that adds scrubs, so that it changes no other choice.
const SCRUB_SEEDS: u64 = 0x7A6F_6E65_6400_0002;

/// Distinguishes the random sequence that adds orders about the record of faults and scrubs, to
/// some histories.
const ORDER_SEEDS: u64 = 0x7A6F_6E65_6400_0003;

/// Zones of each drive that hold metadata.
const METADATA_ZONES: u32 = 7;

/// Active zones of each drive that the volume keeps for itself.
const ACTIVE_RESERVE: u32 = 5;

/// Translates a history.
pub(in crate::simulate) fn translate(scenario: &mut Scenario) {
    let mut random = Random::new(scenario.seed ^ ZONED_SEEDS);
    scenario.shape = shape(&mut random, scenario.shape);
    scenario.broken_formats.clear();
    let shape = scenario.shape;
    let mut translation = Translation {
        zones: pick(&mut random, &[1, 1, 2, 3, 8]),
        appends: pick(&mut random, &[0, 300, 500, 1000]),
        manages: pick(&mut random, &[0, 30, 100, 300]),
        scrubs: Random::new(scenario.seed ^ SCRUB_SEEDS),
        random,
        shape,
    };
    scenario.lives.iter_mut().for_each(|life| translation.life(life));
    add_orders(scenario);
}

/// Adds orders to clear the faults, and to record scrubs.
fn add_orders(scenario: &mut Scenario) {
    let mut random = Random::new(scenario.seed ^ ORDER_SEEDS);
    if !random.per_mille(250) {
        return;
    }
    for actor in scenario.lives.iter_mut().flat_map(|life| &mut life.actors) {
        let ordered = std::mem::take(actor).into_iter().flat_map(|action| {
            let often = if action == Action::Scrub { 400 } else { 30 };
            let order = random.per_mille(often).then(|| match random.per_mille(500) {
                true => Action::Clear,
                false => Action::RecordScrub,
            });
            std::iter::once(action).chain(order)
        });
        *actor = ordered.collect();
    }
}

fn shape(random: &mut Random, log: Shape) -> Shape {
    let parity = log.parity.clamp(1, 2);
    let active_zones = pick(random, &[6, 7, 7, 9]);
    let chunk_blocks = pick(random, &[1, 1, 1, 2, 2, 4]);
    let metadata = random.per_mille(700);
    let zones = METADATA_ZONES + between(random, 2, 5);
    let zone_blocks = chunk_blocks * between(random, 24, 48) + between(random, 0, 3);
    // The parity log has to hold every active zone several times.
    let active = (active_zones - ACTIVE_RESERVE).min(zones - METADATA_ZONES);
    let least = 4 * (active + 1) * (chunk_blocks + 1);
    Shape {
        data: log.data.clamp(3 - parity, 5),
        parity,
        layout: Layout::Rotated,
        zones,
        zone_blocks: zone_blocks.max(least),
        chunk_blocks,
        group_rows: 1,
        inline: false,
        tabled: false,
        writethrough: None,
        active_zones,
        spare_zones: 0,
        page_entries: None,
        beyond: false,
        zoned: Some(ZonedShape { metadata, checksums: metadata && random.per_mille(700) }),
        ..log
    }
}

struct Translation {
    random: Random,
    scrubs: Random,
    shape: Shape,
    /// Zones in use.
    zones: u32,
    /// Appends per 1,000 writes.
    appends: u64,
    /// Commands that change the state of a zone, per 1,000 requests.
    manages: u64,
}

impl Translation {
    fn life(&mut self, life: &mut Life) {
        *life = Life {
            writing: None,
            checkpoint_share: None,
            index_on_demand: None,
            index_pages: None,
            impostors: Vec::new(),
            forced: false,
            split_brain: None,
            foreign_drives: 0,
            spares: Vec::new(),
            ..std::mem::take(life)
        };
        life.meanwhile.retain(|action| self.is_covered(action));
        life.timed.retain(|timed| self.is_covered(&timed.action));
        for actor in &mut life.actors {
            actor.retain(|action| self.is_covered(action));
            *actor = std::mem::take(actor).into_iter().flat_map(|one| self.scrubbed(one)).collect();
            for action in actor {
                *action = self.action(*action);
            }
        }
    }

    /// Whether the volume survives such a fault: without checksums it cannot notice damage.
    fn is_covered(&self, action: &Action) -> bool {
        let checksums = self.shape.zoned.is_some_and(|zoned| zoned.checksums);
        match action {
            Action::Fault { fault, .. } => match fault {
                Fault::Rot { .. } | Fault::Unreadable { .. } => checksums,
                Fault::Often { class: Class::Slow | Class::Errored, .. } => true,
                fault => !damages(*fault),
            },
            Action::Keep { .. } | Action::GoBack { .. } => false,
            _ => true,
        }
    }

    /// An action, and behind damage often a scrub: most histories end before they would have one.
    fn scrubbed(&mut self, action: Action) -> impl Iterator<Item = Action> + use<> {
        let damage = matches!(action, Action::Fault { fault, .. } if damages(fault));
        let scrub = (damage && self.scrubs.per_mille(600)).then_some(Action::Scrub);
        std::iter::once(action).chain(scrub)
    }

    fn zone(&mut self, lba: u64) -> u32 {
        u32::try_from(lba % u64::from(self.zones)).expect("below 32 bits")
    }

    fn action(&mut self, action: Action) -> Action {
        match action {
            Action::Write { lba, blocks, fua } | Action::WriteZeroes { lba, blocks, fua } => {
                let zone = self.zone(lba / 4);
                let verb = match self.random.per_mille(self.manages) {
                    true => self.manage(),
                    false if self.random.per_mille(self.appends) => {
                        ZoneVerb::Append { blocks, fua }
                    }
                    false => ZoneVerb::Write { blocks, fua },
                };
                Action::Zone { zone, verb }
            }
            Action::Trim { lba, .. } => {
                let (zone, verb) = (self.zone(lba), self.manage());
                Action::Zone { zone, verb }
            }
            Action::Read { lba, blocks } => {
                let offset = u32::try_from(self.random.below(1 << 16)).expect("16 bits");
                Action::Zone { zone: self.zone(lba), verb: ZoneVerb::Read { offset, blocks } }
            }
            other => other,
        }
    }

    fn manage(&mut self) -> ZoneVerb {
        let reset = ZoneVerb::Reset;
        let verbs = [reset, reset, ZoneVerb::Finish, ZoneVerb::Open, ZoneVerb::Close];
        match self.random.per_mille(100) {
            true => ZoneVerb::Report,
            false => pick(&mut self.random, &verbs),
        }
    }
}
