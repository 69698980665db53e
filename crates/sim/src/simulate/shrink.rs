//! Reduction of a failing scenario to the parts that its failure needs.
//!
//! Every part of a scenario is a scenario. So parts are left out one after the other, large ones
//! first. A part stays out if the rest still fails the same way, until no part can be left out.

use crate::simulate::failure::Failure;
use crate::simulate::run::run;
use crate::simulate::scenario::{Action, Layout, Life, Scenario};

/// A reduced scenario.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The rest.
    pub scenario: Scenario,
    /// Its failure.
    pub failure: Failure,
    /// Number of histories tried.
    pub tried: u64,
}

/// Reduces a failing scenario with a limited number of tries; `tell` gets the best scenario and the
/// number of tries after each.
#[must_use]
pub fn shrink(
    scenario: Scenario,
    failure: Failure,
    tries_most: u64,
    mut tell: impl FnMut(&Scenario, u64),
) -> Shrunk {
    let size = scenario.size();
    let mut shrinker = Shrinker { best: scenario, failure, tried: 0, tries_most, tell: &mut tell };
    let last = shrinker.failure.life;
    if last > 0 {
        shrinker.attempt(|scenario| scenario.lives.truncate(last));
    }
    loop {
        let before = shrinker.best.clone();
        shrinker.lives();
        shrinker.actors();
        shrinker.actions();
        shrinker.circumstances();
        shrinker.stops();
        shrinker.simpler_actions();
        shrinker.shape();
        if shrinker.best == before || shrinker.spent() {
            break;
        }
    }
    assert!(shrinker.tried <= tries_most, "the number of tries is bounded");
    assert!(shrinker.best.size() <= size, "a reduction does not add anything");
    Shrunk { scenario: shrinker.best, failure: shrinker.failure, tried: shrinker.tried }
}

struct Shrinker<'a> {
    best: Scenario,
    failure: Failure,
    tried: u64,
    tries_most: u64,
    tell: &'a mut dyn FnMut(&Scenario, u64),
}

impl Shrinker<'_> {
    fn spent(&self) -> bool {
        self.tried >= self.tries_most
    }

    /// Tries a change; keeps it if the history still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut scenario = self.best.clone();
        change(&mut scenario);
        if self.spent() || scenario == self.best {
            return false;
        }
        self.tried += 1;
        let fails = match run(&scenario) {
            Err(failure) if failure.resembles(&self.failure) => {
                self.best = scenario;
                self.failure = failure;
                true
            }
            _ => false,
        };
        (self.tell)(&self.best, self.tried);
        fails
    }

    /// Leaves out pieces of a list, in halves, quarters, and so on.
    fn thin(
        &mut self,
        length: impl Fn(&Scenario) -> usize,
        leave_out: impl Fn(&mut Scenario, std::ops::Range<usize>),
    ) {
        let mut piece = length(&self.best).div_ceil(2);
        while piece > 0 {
            let mut end = length(&self.best);
            while end > 0 && !self.spent() {
                let start = end.saturating_sub(piece);
                self.attempt(|scenario| leave_out(scenario, start..end));
                end = start.min(length(&self.best));
            }
            piece /= 2;
        }
    }

    fn lives(&mut self) {
        self.thin(
            |scenario| scenario.lives.len(),
            |scenario, range| {
                scenario.lives.drain(range);
            },
        );
        self.thin(
            |scenario| scenario.interrupted_formats.len(),
            |scenario, range| {
                scenario.interrupted_formats.drain(range);
            },
        );
        self.attempt(|scenario| scenario.broken_formats.clear());
    }

    fn actors(&mut self) {
        for life in 0..self.best.lives.len() {
            self.thin(
                |scenario| scenario.lives[life].actors.len(),
                |scenario, range| {
                    scenario.lives[life].actors.drain(range);
                },
            );
        }
    }

    fn actions(&mut self) {
        for life in 0..self.best.lives.len() {
            for actor in 0..self.best.lives[life].actors.len() {
                self.thin(
                    |scenario| scenario.lives[life].actors[actor].len(),
                    |scenario, range| {
                        scenario.lives[life].actors[actor].drain(range);
                    },
                );
            }
        }
    }

    fn circumstances(&mut self) {
        for at in 0..self.best.lives.len() {
            let mut list = |of: fn(&mut Life) -> &mut Vec<usize>| {
                self.attempt(|scenario| of(&mut scenario.lives[at]).clear());
            };
            list(|life| &mut life.missing);
            list(|life| &mut life.blanked);
            self.thin(
                |scenario| scenario.lives[at].refused.len(),
                |scenario, range| {
                    scenario.lives[at].refused.drain(range);
                },
            );
            self.thin(
                |scenario| scenario.lives[at].meanwhile.len(),
                |scenario, range| {
                    scenario.lives[at].meanwhile.drain(range);
                },
            );
            self.thin(
                |scenario| scenario.lives[at].timed.len(),
                |scenario, range| {
                    scenario.lives[at].timed.drain(range);
                },
            );
            self.thin(
                |scenario| scenario.lives[at].spares.len(),
                |scenario, range| {
                    scenario.lives[at].spares.drain(range);
                },
            );
            self.attempt(|scenario| {
                scenario.lives[at].spares.iter_mut().for_each(|spare| spare.fault = None);
            });
            self.thin(
                |scenario| scenario.lives[at].impostors.len(),
                |scenario, range| {
                    scenario.lives[at].impostors.drain(range);
                },
            );
            self.attempt(|scenario| scenario.lives[at].writing = None);
            self.attempt(|scenario| scenario.lives[at].checkpoint_share = None);
            self.attempt(|scenario| scenario.lives[at].index_on_demand = None);
            self.attempt(|scenario| scenario.lives[at].index_pages = None);
            self.attempt(|scenario| scenario.lives[at].forced = false);
            self.attempt(|scenario| scenario.lives[at].split_brain = None);
            self.attempt(|scenario| scenario.lives[at].foreign_drives = 0);
            self.attempt(|scenario| scenario.lives[at].former_drives = false);
            self.attempt(|scenario| scenario.lives[at].order = 0);
            self.attempt(|scenario| scenario.lives[at].checked = false);
        }
    }

    fn stops(&mut self) {
        for at in 0..self.best.lives.len() {
            self.attempt(|scenario| scenario.lives[at].stop = None);
            let Some(stop) = self.best.lives[at].stop else { continue };
            let mut change = |change: fn(&mut super::scenario::Stop)| {
                self.attempt(|scenario| scenario.lives[at].stop.iter_mut().for_each(change));
            };
            change(|stop| stop.power = false);
            change(|stop| stop.seed = 1);
            let mut steps = stop.steps / 2;
            while steps > 0 && !self.spent() {
                let lower = |stop: &mut super::scenario::Stop| {
                    stop.steps = stop.steps.saturating_sub(steps);
                };
                if !self.attempt(|scenario| scenario.lives[at].stop.iter_mut().for_each(lower)) {
                    steps /= 2;
                }
            }
        }
    }

    fn simpler_actions(&mut self) {
        for life in 0..self.best.lives.len() {
            for actor in 0..self.best.lives[life].actors.len() {
                for at in 0..self.best.lives[life].actors[actor].len() {
                    self.attempt(|scenario| simplify(&mut scenario.lives[life].actors[actor][at]));
                }
            }
        }
    }

    fn shape(&mut self) {
        type Change = fn(&mut super::scenario::Shape);
        let changes: [Change; 18] = [
            |shape| shape.layout = Layout::Rotated,
            |shape| shape.inline = false,
            |shape| shape.spare_zones = 0,
            |shape| shape.page_entries = None,
            |shape| shape.chunk_blocks = 1,
            |shape| shape.group_rows = 1,
            |shape| shape.volatile = false,
            |shape| shape.writethrough = None,
            |shape| shape.tabled = false,
            |shape| shape.latency_us = 100,
            |shape| shape.active_zones = 14,
            |shape| shape.zones = 6,
            |shape| shape.zone_blocks = 16,
            |shape| shape.zones = (shape.zones - 1).max(6),
            |shape| shape.data = (shape.data - 1).max(1),
            |shape| (shape.data, shape.parity) = (2, 2),
            |shape| (shape.data, shape.parity) = (3, 3),
            |shape| shape.parity = (shape.parity.max(1) - 1).max(1),
        ];
        for change in changes {
            self.attempt(|scenario| change(&mut scenario.shape));
        }
    }
}

fn simplify(action: &mut Action) {
    match action {
        Action::Write { blocks, fua, .. }
        | Action::Trim { blocks, fua, .. }
        | Action::WriteZeroes { blocks, fua, .. } => {
            *blocks = 1;
            *fua = false;
        }
        Action::Read { blocks, .. } => *blocks = 1,
        Action::Sleep { us } => *us /= 2,
        _ => {}
    }
}
