//! Drawing scenarios from seeds.
//!
//! Swarm testing: each seed leaves out most features and uses the others often, so that histories
//! differ and rare combinations get a chance. Without it every history has a little of everything.
//!
//! In the order of a draw:
//!
//! - [`Mix`] selects kinds of histories; `templates::histories` may supply a whole history.
//! - Otherwise `shape` draws the array, and `habits` the frequencies of events.
//! - `draw` and `faults` draw one life after the other, `templates` sequences of lives, and
//!   `common` the first and last lives.
//! - `writings`, `spares`, `layouts` and `inline` change some of the histories.
//!
//! Invariant: a new feature draws from a random sequence of its own, so that other histories of a
//! seed stay as they are.

mod common;
mod draw;
mod fault_kind;
mod faults;
mod habits;
mod inline;
mod layouts;
mod mix;
mod shape;
mod spares;
mod templates;
mod writings;

use zoneweave_runtime::Random;

pub use mix::Mix;

use crate::random::index;
use crate::simulate::scenario::{BrokenFormat, FORMAT, Scenario, Since, Stop};
use crate::simulate::zoned::translate;
use common::{fill, last_lives};
use draw::Draw;
use habits::Habits;
use inline::choose_inline;
use layouts::choose_layout;
use shape::shape;
use spares::choose_spares;
use templates::histories::history_template;
use writings::{choose_checkpoints, choose_offload, choose_paging, choose_writings};

/// Maximum number of lives that end by a crash.
const LIVES_MAX: u64 = 14;

/// The scenario of a seed.
#[must_use]
pub fn generate(seed: u64, mix: Mix) -> Scenario {
    let mut scenario = of_log(seed, mix);
    if mix.zoned {
        translate(&mut scenario);
    }
    scenario
}

/// The scenario of a seed, for a log.
fn of_log(seed: u64, mix: Mix) -> Scenario {
    if let Some(scenario) = history_template(seed, mix) {
        return scenario;
    }
    let mut random = Random::new(seed);
    let mut shape = shape(&mut random);
    choose_layout(seed, mix, &mut shape);
    let habits = Habits::draw(&mut random, mix, &shape);
    let mut lives = Vec::new();
    for number in 0..2 + random.below(LIVES_MAX - 1) {
        let mut draw = Draw { random: &mut random, shape: &shape, habits: &habits };
        if number > 0 && draw.chance(habits.templates) {
            lives.extend(draw.template());
            continue;
        }
        if number > 0 && draw.chance(habits.foreign_templates) {
            lives.extend(draw.foreign_template());
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
