//! Whole histories from a template: one sequence, repeated on an array made for it.
//!
//! Some promises break only where several conditions meet: drives that lose all unpromised data,
//! room for many segments, certain limits of active zones. Arrays and lives that are drawn
//! independently meet these conditions in none of several thousand histories.
//!
//! Whether a seed has a template comes from a random sequence of its own, so that the histories of
//! other seeds do not depend on templates.

use zoneweave_runtime::Random;

use super::lives::{MANY, slowed};
use crate::random::{between, pick};
use crate::simulate::generate::common::last_lives;
use crate::simulate::generate::draw::Draw;
use crate::simulate::generate::habits::Habits;
use crate::simulate::generate::layouts::choose_layout;
use crate::simulate::generate::mix::Mix;
use crate::simulate::generate::shape::shape;
use crate::simulate::scenario::{
    Action, Command, FORMAT, Life, Mode, On, Scenario, Shape, Since, Stop, Timed, Writing,
};

/// Seeds of a thousand with each template.
const SEEDS_OF_EACH: u64 = 15;

/// Distinguishes the random sequence of templates from others.
const TEMPLATE_SEEDS: u64 = 0x7461_6C65_732E_0001;

/// The subject of a template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Template {
    Evictions,
    Decisions,
    Promises,
}

/// The history of a seed that has a template.
pub(in crate::simulate::generate) fn history_template(seed: u64, mix: Mix) -> Option<Scenario> {
    let mut random = Random::new(seed ^ TEMPLATE_SEEDS);
    let template = match random.below(1000) / SEEDS_OF_EACH {
        0 => Template::Evictions,
        1 => Template::Decisions,
        2 => Template::Promises,
        _ => return None,
    };
    let drawn = shape(&mut random);
    // Without room, garbage collection would change the segments that a crash left.
    let zones = between(&mut random, 10, 14) + drawn.spare_zones;
    let drawn = Shape { zones, beyond: false, ..drawn };
    let mut shape = match template {
        Template::Evictions => of_evictions(drawn, &mut random),
        Template::Decisions => {
            Shape { group_rows: pick(&mut random, &[1, 2, 4, 8]), active_zones: 8, ..drawn }
        }
        // A single drive has no redundancy that would hide a loss.
        Template::Promises => Shape {
            parity: 0,
            tabled: false,
            volatile: true,
            writethrough: Some(false),
            group_rows: 256,
            ..drawn
        },
    };
    choose_layout(seed, mix, &mut shape);
    let habits = Habits::draw(&mut random, mix, &shape);
    let mut draw = Draw { random: &mut random, shape: &shape, habits: &habits };
    let mut lives = match template {
        Template::Evictions => draw.evictions(),
        Template::Decisions => draw.decisions(),
        Template::Promises => draw.promises(),
    };
    lives.extend(last_lives(&shape, &mut random));
    if template == Template::Evictions && random.per_mille(500) {
        // With several open segments, all of them must be given up.
        let writing = several_open(&shape, &mut random);
        lives.iter_mut().for_each(|life| life.writing = Some(writing));
    }
    assert!(!shape.beyond, "templates need promises that hold");
    assert!(lives.last().is_some_and(|life| life.checked), "the last life verifies the array");
    Some(Scenario {
        format: FORMAT,
        seed,
        story: String::new(),
        shape,
        interrupted_formats: Vec::new(),
        broken_formats: Vec::new(),
        lives,
    })
}

/// Every chunk is promised by itself, and no flush covers the records written with it. As few
/// drives as possible can lose the record, and no segment must be sealed before another is opened.
fn of_evictions(drawn: Shape, random: &mut Random) -> Shape {
    Shape {
        data: pick(random, &[2, 2, 2, 3]),
        parity: 1,
        tabled: true,
        volatile: true,
        writethrough: Some(true),
        active_zones: 14,
        ..drawn
    }
}

fn several_open(shape: &Shape, random: &mut Random) -> Writing {
    Writing {
        mode: pick(random, &[Mode::ZoneWrite, Mode::ZoneAppend, Mode::Zapraid, Mode::Adaptive]),
        small: pick(random, &[2, 3]),
        small_chunk: shape.chunk_blocks,
        large: 0,
        large_chunk: shape.chunk_blocks,
        group_rows: shape.group_rows,
        spare: None,
    }
}

impl Draw<'_> {
    /// A drive is pulled, and the power fails while the record of the eviction is written. A start
    /// that counts the drive as a member is stopped before it relocates the blocks that the drive
    /// missed. Then another drive is lost.
    fn evictions(&mut self) -> Vec<Life> {
        let mut lives = Vec::new();
        for number in 0..4 {
            if number > 0 {
                // Drives count as healed once a start has confirmed it.
                lives.extend([self.healing(), Life::default()]);
            }
            let (pulled, lost) = self.two_slots();
            let steps = self.random.below(100);
            let timed = |action| Timed { since: Since::Serving, steps, action };
            let first = On { command: Command::Write, after: self.random.below(2) };
            let slow = (0..self.shape.columns()).map(|slot| timed(slowed(slot, first, 1)));
            let mut happens: Vec<_> = slow.collect();
            let pull = Action::Pull { slot: pulled, too_many: false, forgetting: false };
            happens.push(timed(pull));
            let until = steps + 60 + self.random.below(240);
            let busy = Life {
                actors: vec![self.full_stripes(100)],
                timed: happens,
                stop: Some(Stop { power: true, ..self.stop_at(until) }),
                ..Life::default()
            };
            let soon = self.random.below(2);
            let back = Life { stop: Some(self.stop_at(soon)), ..Life::default() };
            lives.extend([busy, back, Life { missing: vec![lost], ..Life::default() }]);
        }
        lives
    }

    /// Several crashes leave so many segments unfinished that the next start finishes their zones
    /// to open others. It is stopped while records are in flight: full zones do not show the
    /// decisions about them.
    fn decisions(&mut self) -> Vec<Life> {
        let mut lives = Vec::new();
        for _ in 0..3 {
            let steps = self.random.below(400);
            lives.push(self.busy(steps));
            for _ in 0..3 + self.random.below(2) {
                let steps = 20 + self.random.below(40);
                lives.push(self.busy(steps));
            }
            let steps = 10 + self.random.below(50);
            let mut slow = self.busy(steps);
            slow.meanwhile = self.slow_records(0, MANY);
            let power = self.chance(300);
            slow.stop = slow.stop.map(|stop| Stop { power, ..stop });
            lives.extend([slow, Life { checked: true, ..Life::default() }]);
        }
        lives
    }

    /// Many users write at a time to zones whose writes coalesce, some of them with FUA. The power
    /// fails meanwhile.
    fn promises(&mut self) -> Vec<Life> {
        let mut lives = Vec::new();
        for _ in 0..6 {
            let users = 6 + self.random.below(6);
            let actors = (0..users).map(|_| self.now_and_then_durable(30)).collect();
            let steps = 30 + self.random.below(600);
            let stop = Stop { power: true, ..self.stop_at(steps) };
            lives.extend([Life { actors, stop: Some(stop), ..Life::default() }, Life::default()]);
        }
        lives
    }

    /// Full stripes, some with FUA. While one of those waits, so does every stripe; most are
    /// therefore not.
    fn now_and_then_durable(&mut self, writes: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        for mut action in self.full_stripes(writes) {
            if let Action::Write { fua, .. } = &mut action {
                *fua = self.chance(40);
            }
            if self.chance(700) {
                let us = 1 + self.random.below(2 * self.shape.latency_us);
                actions.push(Action::Sleep { us });
            }
            actions.push(action);
        }
        actions
    }
}
