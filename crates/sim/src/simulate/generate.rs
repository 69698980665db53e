//! Drawing scenarios from seeds.
//!
//! Swarm testing: each seed leaves most features out and does the others often, so that histories
//! differ from each other, and rare combinations get a chance. Without it every history has a bit
//! of everything.

use zoneweave_runtime::Random;

use super::bay::index;
use super::scenario::{
    Action, Command, FORMAT, Fault, Life, On, Part, Scenario, Shape, Since, Stop,
};

/// What kind of histories to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Leave features out by seed, and do the others more often.
    pub swarm: bool,
}

/// Lives of a history that end by a crash, at most.
const LIVES_MAX: u64 = 14;

/// The scenario of a seed.
#[must_use]
pub fn generate(seed: u64, mix: Mix) -> Scenario {
    let mut random = Random::new(seed);
    let shape = shape(&mut random);
    let habits = Habits::draw(&mut random, mix, &shape);
    let mut lives = Vec::new();
    for number in 0..2 + random.below(LIVES_MAX - 1) {
        let mut life = Draw { random: &mut random, shape: &shape, habits: &habits }.life();
        if number == 0 && habits.fills {
            fill(&mut life, &shape, &mut random);
        }
        lives.push(life);
    }
    lives.extend(last_lives(&shape, &mut random));
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
    Scenario { format: FORMAT, seed, story: String::new(), shape, interrupted_formats, lives }
}

fn between(random: &mut Random, least: u32, most: u32) -> u32 {
    least + u32::try_from(random.below(u64::from(most - least) + 1)).expect("32 bits")
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[index(random, choices.len())]
}

fn shape(random: &mut Random) -> Shape {
    let (data, parity) = match random.below(100) {
        0..45 => (pick(random, &[2, 3, 3, 4]), 1),
        45..72 => (pick(random, &[2, 3, 3, 4]), 2),
        72..80 => (1, 1),
        80..88 => (1, 2),
        88..94 => (pick(random, &[2, 3, 4]), 3),
        _ => (pick(random, &[1, 2, 3]), 0),
    };
    let chunk_blocks = pick(random, &[1, 1, 1, 2, 2, 4]);
    let roomy = random.per_mille(100);
    Shape {
        data,
        parity,
        zones: between(random, 6, if roomy { 14 } else { 8 }),
        zone_blocks: chunk_blocks * between(random, 14, if roomy { 40 } else { 20 })
            + between(random, 0, 3),
        chunk_blocks,
        group_rows: pick(random, &[1, 2, 4, 8, 256]),
        tabled: random.per_mille(650),
        volatile: random.per_mille(600),
        writethrough: pick(random, &[None, None, Some(true), Some(false)]),
        active_zones: pick(random, &[8, 9, 14]),
        latency_us: pick(random, &[20, 100, 100, 1000]),
        seed: random.next() >> 1,
        beyond: random.per_mille(60),
    }
}

/// How often the histories of a seed do what, in parts of 1,000 or by weight.
struct Habits {
    writes: u64,
    reads: u64,
    flushes: u64,
    trims: u64,
    zeroes: u64,
    sleeps: u64,
    fua: u64,
    hot_blocks: u64,
    blocks_most: u32,
    actors_most: u64,
    fills: bool,
    /// Lives that are stopped soon after their start.
    early_stops: u64,
    power: u64,
    missing: u64,
    refused: u64,
    blanked: u64,
    strangers: u64,
    admin: u64,
    pulls: u64,
    faults: u64,
    faults_before: u64,
    kinds: Vec<FaultKind>,
    steps_most: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Rot,
    Unreadable,
    Copied,
    Slow,
    Error,
    Partial,
    Lost,
    Misdirected,
    Garbled,
}

const FAULT_KINDS: [FaultKind; 9] = [
    FaultKind::Rot,
    FaultKind::Unreadable,
    FaultKind::Copied,
    FaultKind::Slow,
    FaultKind::Error,
    FaultKind::Partial,
    FaultKind::Lost,
    FaultKind::Misdirected,
    FaultKind::Garbled,
];

impl Habits {
    fn draw(random: &mut Random, mix: Mix, shape: &Shape) -> Self {
        let redundant = shape.spared() > 0 || shape.beyond;
        // Swarm: nothing, the usual, or a lot.
        let mut often = |usual: u64| match (mix.swarm, random.below(3)) {
            (false, _) => usual,
            (true, 0) => 0,
            (true, 1) => usual,
            (true, _) => (usual * 4).min(900),
        };
        let mut if_redundant = |usual: u64| if redundant { often(usual) } else { 0 };
        let (missing, blanked) = (if_redundant(150), if_redundant(50));
        let (admin, pulls) = (if_redundant(150), if_redundant(60));
        let (faults, faults_before) = (if_redundant(150), if_redundant(100));
        let refused = if shape.columns() > 1 { often(30) } else { 0 };
        let (flushes, trims, zeroes) = (often(80), often(60), often(20));
        let (sleeps, fua, early_stops) = (often(40), often(100), 100 + often(200));
        let (reads, strangers) = (often(120), often(200));
        let mut kinds = FAULT_KINDS.to_vec();
        if mix.swarm {
            kinds.retain(|_| random.per_mille(400));
            if kinds.is_empty() {
                kinds.push(pick(random, &FAULT_KINDS));
            }
        }
        Self {
            writes: 600,
            reads,
            flushes,
            trims,
            zeroes,
            sleeps,
            fua,
            hot_blocks: pick(random, &[4, 16, 64, 100_000]),
            blocks_most: pick(random, &[1, 4, 8, 8, 24]),
            actors_most: pick(random, &[1, 3, 6, 10]),
            fills: random.per_mille(700),
            early_stops,
            power: pick(random, &[0, 500, 600, 1000]),
            missing,
            refused,
            blanked,
            strangers,
            admin,
            pulls,
            faults,
            faults_before,
            kinds,
            steps_most: pick(random, &[300, 1000, 3000]),
        }
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
            let too_many = self.chance(300);
            let pull = |slot| Action::Pull { slot, too_many };
            let mut actor = vec![Action::Sleep { us }];
            actor.extend(self.slots(if too_many { 3 } else { 1 }).into_iter().map(pull));
            life.actors.push(actor);
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

    fn fault(&mut self) -> Action {
        let kind = pick(self.random, &self.habits.kinds);
        let (seed, slot) = (self.random.next(), self.slot());
        let part = pick(self.random, &[Part::Data, Part::Oob, Part::Both]);
        let most = pick(self.random, &[3, 30]);
        let after = self.random.below(most);
        let write =
            if self.shape.tabled && self.chance(800) { Command::Append } else { Command::Write };
        let anything =
            pick(self.random, &[write, write, Command::Flush, Command::Reset, Command::Any]);
        let fault = match kind {
            FaultKind::Rot => Fault::Rot { seed, part, bit: self.chance(500) },
            FaultKind::Unreadable => Fault::Unreadable { seed },
            FaultKind::Copied => Fault::Copied { seed },
            FaultKind::Slow => Fault::Slow {
                on: On { command: anything, after },
                times: 1 + self.random.below(8),
                us: pick(self.random, &[1000, 10_000, 100_000]),
            },
            FaultKind::Error => {
                let command = pick(self.random, &[anything, anything, Command::Read]);
                Fault::Error { on: On { command, after }, applied: self.chance(500) }
            }
            FaultKind::Partial => {
                let blocks = between(self.random, 0, 3);
                Fault::Partial { on: On { command: write, after }, blocks }
            }
            FaultKind::Lost => {
                let command = if self.chance(100) { Command::Reset } else { write };
                Fault::Lost { on: On { command, after } }
            }
            FaultKind::Misdirected => Fault::Misdirected {
                on: On { command: write, after },
                zone: between(self.random, 0, self.shape.zones - 1),
                offset: between(self.random, 0, self.shape.zone_blocks - 1),
            },
            FaultKind::Garbled => Fault::Garbled { on: On { command: write, after }, seed, part },
        };
        Action::Fault { slot, fault }
    }
}

/// Writes the whole volume first, so that there is something to reclaim.
fn fill(life: &mut Life, shape: &Shape, random: &mut Random) {
    let most = u64::from(shape.zones * shape.zone_blocks) * shape.data as u64;
    let write = |lba| Action::Write { lba, blocks: 16, fua: false };
    // What is beyond the end wraps around.
    life.actors.insert(0, (0..most / 3).step_by(16).map(write).collect());
    if let Some(stop) = &mut life.stop {
        stop.since = Since::Serving;
        stop.steps += 400 + random.below(800);
    }
}

/// Everything is brought back and healed; then there is one more start, to look at it.
fn last_lives(shape: &Shape, random: &mut Random) -> [Life; 2] {
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
