//! Drawing one life of the engine.

use zoneweave_runtime::Random;

use super::habits::Habits;
use crate::random::{between, index, pick};
use crate::simulate::scenario::{Action, Life, Shape, Since, Stop};

/// The context of draws for a scenario.
pub(super) struct Draw<'a> {
    pub random: &'a mut Random,
    pub shape: &'a Shape,
    pub habits: &'a Habits,
}

impl Draw<'_> {
    pub(super) fn slot(&mut self) -> usize {
        index(self.random, self.shape.columns())
    }

    pub(super) fn slots(&mut self, most: usize) -> Vec<usize> {
        let count = 1 + index(self.random, most.max(1));
        let mut slots: Vec<_> = (0..count).map(|_| self.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.random.per_mille(per_mille)
    }

    pub(super) fn life(&mut self) -> Life {
        let mut life = Life {
            former_drives: self.chance(self.habits.former_drives),
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

    pub(super) fn stop(&mut self) -> Option<Stop> {
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

    pub(super) fn lba(&mut self) -> u64 {
        // One in eight is anywhere.
        let range = if self.chance(125) { 100_000 } else { self.habits.hot_blocks };
        self.random.below(range)
    }

    pub(super) fn blocks(&mut self) -> u32 {
        between(self.random, 1, self.habits.blocks_most)
    }

    pub(super) fn user(&mut self) -> Vec<Action> {
        let requests = 1 + self.random.below(24);
        (0..requests).map(|_| self.request()).collect()
    }

    pub(super) fn request(&mut self) -> Action {
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

    pub(super) fn administrator(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            actions.push(Action::Sleep { us: self.random.below(2000) });
            let slot = self.slot();
            actions.push(match self.random.below(10) {
                0..2 => Action::Fail { slot },
                2..4 => Action::Replace { slot },
                4..6 => Action::Readd,
                6..8 => Action::Scrub,
                _ => Action::Resume,
            });
        }
        actions
    }
}
