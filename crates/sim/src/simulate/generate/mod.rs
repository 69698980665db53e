//! Drawing scenarios from seeds.
//!
//! Swarm testing: each seed leaves most features out and does the others often, so that histories
//! differ from each other, and rare combinations get a chance. Without it every history has a bit
//! of everything.

mod faults;
mod habits;
mod inline;
mod layouts;
mod plots;
mod spares;
mod stories;
mod strangers;
mod tales;
mod writings;

use zoneweave_runtime::Random;

use super::bay::index;
use super::scenario::{Action, BrokenFormat, FORMAT, Layout, Life, Scenario, Shape, Since, Stop};
use habits::Habits;
use inline::choose_inline;
use layouts::choose_layout;
use spares::choose_spares;
use stories::{fill, last_lives};
use tales::tale;
use writings::{choose_checkpoints, choose_offload, choose_paging, choose_writings};

/// What kind of histories to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Leave features out by seed, and do the others more often.
    pub swarm: bool,
    /// Arrays of this layout only.
    pub layout: Option<Layout>,
    /// Arrays of drives without metadata only.
    pub inline: bool,
}

/// Lives of a history that end by a crash, at most.
const LIVES_MAX: u64 = 14;

/// The scenario of a seed.
#[must_use]
pub fn generate(seed: u64, mix: Mix) -> Scenario {
    if let Some(told) = tale(seed, mix) {
        return told;
    }
    let mut random = Random::new(seed);
    let mut shape = shape(&mut random);
    choose_layout(seed, mix, &mut shape);
    let habits = Habits::draw(&mut random, mix, &shape);
    let mut lives = Vec::new();
    for number in 0..2 + random.below(LIVES_MAX - 1) {
        let mut draw = Draw { random: &mut random, shape: &shape, habits: &habits };
        if number > 0 && draw.chance(habits.plots) {
            lives.extend(draw.plot());
            continue;
        }
        if number > 0 && draw.chance(habits.strange) {
            lives.extend(draw.strange_plot());
            continue;
        }
        let mut life = draw.life();
        if number == 0 && habits.fills {
            fill(&mut life, &shape, &mut random);
        }
        lives.push(life);
    }
    lives.extend(last_lives(&shape, &mut random));
    let mut broken_formats = Vec::new();
    while random.per_mille(20) {
        let slot = index(&mut random, shape.columns());
        broken_formats.push(BrokenFormat { slot, steps: random.below(60) });
    }
    let mut interrupted_formats = Vec::new();
    while random.per_mille(30) {
        let stop = Stop {
            since: Since::Start,
            steps: random.below(60),
            power: random.per_mille(500),
            seed: random.next(),
        };
        interrupted_formats.push(stop);
    }
    choose_writings(seed, &mut shape, &mut lives);
    choose_checkpoints(seed, &mut lives);
    choose_spares(seed, &shape, &mut lives);
    choose_paging(seed, &mut lives);
    choose_offload(seed, &mut shape, &mut lives);
    choose_inline(seed, mix, &mut shape, &mut lives);
    let story = String::new();
    Scenario { format: FORMAT, seed, story, shape, interrupted_formats, broken_formats, lives }
}

fn between(random: &mut Random, least: u32, most: u32) -> u32 {
    least + u32::try_from(random.below(u64::from(most - least) + 1)).expect("32 bits")
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[index(random, choices.len())]
}

fn shape(random: &mut Random) -> Shape {
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
    }
}

/// Draws parts of a scenario.
struct Draw<'a> {
    random: &'a mut Random,
    shape: &'a Shape,
    habits: &'a Habits,
}

impl Draw<'_> {
    fn slot(&mut self) -> usize {
        index(self.random, self.shape.columns())
    }

    fn slots(&mut self, most: usize) -> Vec<usize> {
        let count = 1 + index(self.random, most.max(1));
        let mut slots: Vec<_> = (0..count).map(|_| self.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.per_mille(per_mille)
    }

    fn life(&mut self) -> Life {
        let mut life = Life {
            strangers: self.chance(self.habits.strangers),
            order: if self.chance(300) { self.random.next() } else { 0 },
            checked: self.chance(125),
            stop: self.stop(),
            ..Life::default()
        };
        if self.chance(self.habits.missing) {
            life.missing = self.slots(self.shape.spared());
        }
        if self.chance(self.habits.refused) {
            life.refused.push(self.slots(self.shape.columns()));
        }
        if self.chance(self.habits.blanked) {
            life.blanked = self.slots(1);
        }
        while life.meanwhile.len() < 6 && self.chance(self.habits.faults_before) {
            let fault = self.fault();
            life.meanwhile.push(fault);
        }
        for _ in 0..1 + self.random.below(self.habits.actors_most) {
            let actor = self.user();
            life.actors.push(actor);
        }
        if self.chance(self.habits.admin) {
            let actor = self.administrator();
            life.actors.push(actor);
        }
        while self.chance(self.habits.faults) {
            let at = index(self.random, life.actors.len());
            let actor = &mut life.actors[at];
            let place = index(self.random, actor.len() + 1);
            let fault = self.fault();
            actor.insert(place, fault);
        }
        if self.chance(self.habits.pulls) {
            let us = self.random.below(3000);
            let mut actor = vec![Action::Sleep { us }];
            actor.extend(self.pulls());
            life.actors.push(actor);
        }
        while life.timed.len() < 4 && self.chance(self.habits.timed) {
            let timed = self.timed();
            life.timed.extend(timed);
        }
        life
    }

    fn stop(&mut self) -> Option<Stop> {
        if self.chance(60) {
            return None;
        }
        let early = self.chance(self.habits.early_stops);
        let (since, most) = match early {
            true => (Since::Start, pick(self.random, &[40, 150, 600])),
            false => (Since::Serving, self.habits.steps_most),
        };
        Some(Stop {
            since,
            steps: self.random.below(most),
            power: self.chance(self.habits.power),
            seed: self.random.next(),
        })
    }

    fn lba(&mut self) -> u64 {
        // One in eight is anywhere.
        let range = if self.chance(125) { 100_000 } else { self.habits.hot_blocks };
        self.random.below(range)
    }

    fn blocks(&mut self) -> u32 {
        between(self.random, 1, self.habits.blocks_most)
    }

    fn user(&mut self) -> Vec<Action> {
        let requests = 1 + self.random.below(24);
        (0..requests).map(|_| self.request()).collect()
    }

    fn request(&mut self) -> Action {
        let habits = self.habits;
        let weights = [
            habits.writes,
            habits.reads,
            habits.flushes,
            habits.trims,
            habits.zeroes,
            habits.sleeps,
        ];
        let mut at = self.random.below(weights.iter().sum());
        let chosen = weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let (lba, blocks, fua) = (self.lba(), self.blocks(), self.chance(habits.fua));
        match chosen {
            Some(1) => Action::Read { lba, blocks },
            Some(2) => Action::Flush,
            Some(3) => Action::Trim { lba, blocks: blocks * 4, fua },
            Some(4) => Action::WriteZeroes { lba, blocks, fua },
            Some(5) => Action::Sleep { us: self.random.below(2000) },
            _ => Action::Write { lba, blocks, fua },
        }
    }

    fn administrator(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            actions.push(Action::Sleep { us: self.random.below(2000) });
            let slot = self.slot();
            actions.push(match self.random.below(10) {
                0..2 => Action::Fail { slot },
                2..6 => Action::Replace { slot },
                6..8 => Action::Scrub,
                _ => Action::Resume,
            });
        }
        actions
    }
}
