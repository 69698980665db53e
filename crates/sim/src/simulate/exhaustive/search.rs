//! The search of a case, and the replay of one of its states.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use zoneweave_emulator::{Immediate, RamDrive};

use super::engine::Promises;
use super::history::{Boundary, Run, record};
use super::impairment::Impairment;
use super::judge::{Crashed, Seen};
use super::space::{Case, Space};
use super::start::Rules;
use super::{Found, Searched};
use crate::simulate::failure::{Failure, catch};
use crate::simulate::oracle::Oracle;
use crate::simulate::run::create;
use crate::simulate::run::harness::Harness;
use crate::simulate::scenario::{FORMAT, Scenario, Shape};
use crate::simulate::zoned::create::make as make_zoned;
use crate::simulate::zoned::harness::ZonedHarness;
use crate::simulate::zoned::oracle::ZonedOracle;

/// One crash: the boundary of the run under an order, the outcomes, and the impairment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crash {
    order: usize,
    boundary: usize,
    /// By slot, the number of the outcome.
    outcomes: Vec<usize>,
    impairment: Impairment,
}

/// The name of a state: the case, and the crashes in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateName {
    case: u64,
    crashes: Vec<Crash>,
}

/// A text that is not the name of a state.
#[derive(Debug, Error)]
#[error(
    "{0} is not the name of a state: names are CASE:ORDER:BOUNDARY:OUTCOMES:IMPAIRMENT, such as \
     12:0:1:0.0.0.0:lost2; a crash of the recovery repeats the last four after a slash"
)]
pub struct StateNameError(String);

impl StateName {
    /// The case of the state.
    #[must_use]
    pub fn case(&self) -> u64 {
        self.case
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        for (number, crash) in self.crashes.iter().enumerate() {
            let outcomes: Vec<_> = crash.outcomes.iter().map(ToString::to_string).collect();
            let Crash { order, boundary, impairment, .. } = crash;
            let joint = if number == 0 { ':' } else { '/' };
            write!(f, "{joint}{order}:{boundary}:{}:{impairment}", outcomes.join("."))?;
        }
        Ok(())
    }
}

impl FromStr for StateName {
    type Err = StateNameError;

    fn from_str(text: &str) -> Result<Self, StateNameError> {
        let parse = || {
            let (case, crashes) = text.split_once(':')?;
            let crashes = crashes.split('/').map(crash_of).collect::<Option<_>>()?;
            Some(Self { case: case.parse().ok()?, crashes })
        };
        parse().ok_or_else(|| StateNameError(text.to_owned()))
    }
}

fn crash_of(text: &str) -> Option<Crash> {
    let parts: Vec<_> = text.split(':').collect();
    let [order, boundary, outcomes, impairment] = parts[..] else { return None };
    Some(Crash {
        order: order.parse().ok()?,
        boundary: boundary.parse().ok()?,
        outcomes: outcomes.split('.').map(|one| one.parse().ok()).collect::<Option<_>>()?,
        impairment: impairment.parse().ok()?,
    })
}

/// A case with a created array.
struct Ready {
    case: Case,
    rules: Rules,
    drives: Vec<RamDrive>,
}

impl Ready {
    fn new(space: &Space, number: u64) -> Self {
        let case = space.case(number);
        let made = only_made(case.drives.shape());
        let zoned = made.shape.zoned.is_some();
        let harness = Harness::new(made.shape);
        let harness = match zoned {
            true => {
                let harness = ZonedHarness::new(harness);
                assert!(make_zoned(&harness, &made), "the array of a space is possible");
                harness.base
            }
            false => {
                assert!(create::make(&harness, &made), "the array of a space is possible");
                harness
            }
        };
        let drives = harness.drives.borrow();
        let drives = drives.in_slots.iter().map(|drive| drive.ram.fork(Immediate)).collect();
        let rules = Rules { power: case.drives.power, zoned, volume_blocks: harness.blocks.get() };
        Self { case, rules, drives }
    }

    /// The promises of a new volume.
    fn promises(&self) -> Promises {
        match self.case.drives.zoned {
            true => {
                let (zones, capacity) = self.case.drives.zoned_volume();
                Promises::Zoned(ZonedOracle::new(zones, capacity))
            }
            false => Promises::Log(Oracle::default()),
        }
    }

    /// The case's boundaries, under an order.
    fn boundaries(&self, order: [u8; 4]) -> Vec<Boundary> {
        record(Run {
            drives: &self.drives,
            out: None,
            zoned: self.rules.zoned,
            oracle: self.promises(),
            survives: self.rules.survives(),
            durable: self.case.drives.writethrough,
            filling: self.case.filling.operations,
            trace: &self.case.trace,
            order,
        })
    }

    /// The boundaries of the recovery from a state.
    fn of_recovery(
        &self,
        crashed: &Crashed<'_>,
        digits: &[usize],
        impairment: Impairment,
        order: [u8; 4],
    ) -> Vec<Boundary> {
        record(Run {
            drives: &crashed.drives(digits, impairment),
            out: impairment.slot().or(crashed.boundary.out),
            zoned: self.rules.zoned,
            oracle: crashed.boundary.oracle.clone(),
            survives: self.rules.survives(),
            durable: self.case.drives.writethrough,
            filling: &[],
            trace: &[],
            order,
        })
    }
}

/// A history that only creates the array.
fn only_made(shape: Shape) -> Scenario {
    Scenario {
        format: FORMAT,
        seed: shape.seed,
        story: String::new(),
        shape,
        interrupted_formats: Vec::new(),
        broken_formats: Vec::new(),
        lives: Vec::new(),
    }
}

/// The result of a case.
pub struct CaseResult {
    /// The searched part: all of it, unless a state was found.
    pub searched: Searched,
    /// The first state from which a promise is broken.
    pub found: Option<Found>,
}

/// Searches a case completely, or up to the first state from which a promise is broken.
///
/// # Panics
///
/// If there is no such case.
#[must_use]
pub fn search(space: &Space, number: u64) -> CaseResult {
    let mut search = Search {
        space,
        number,
        searched: Searched { cases: 1, ..Searched::default() },
        seen: Seen::default(),
        crashed: Seen::default(),
    };
    let found = search.run().err().map(|found| *found);
    CaseResult { searched: search.searched, found }
}

struct Search<'a> {
    space: &'a Space,
    number: u64,
    searched: Searched,
    /// Judged states.
    seen: Seen,
    /// States whose recovery was crashed.
    crashed: Seen,
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), Box<Found>> {
        let ready = Ready::new(self.space, self.number);
        for (order, ranks) in self.space.orders.iter().enumerate() {
            let boundaries = catch(|| ready.boundaries(*ranks));
            let boundaries = boundaries.map_err(|failure| self.found(&[], failure))?;
            self.searched.runs += 1;
            for (boundary, found) in boundaries.iter().enumerate() {
                let crashed = Crashed::new(found, ready.rules);
                let crash = |digits: &[usize], impairment| Crash {
                    order,
                    boundary,
                    outcomes: digits.to_vec(),
                    impairment,
                };
                match self.space.again {
                    false => self.judge(&[], &crashed, crash)?,
                    true => self.crash_again(&ready, &crashed, crash)?,
                }
            }
        }
        Ok(())
    }

    /// Judges every state of a boundary.
    fn judge(
        &mut self,
        path: &[Crash],
        crashed: &Crashed<'_>,
        crash: impl Fn(&[usize], Impairment) -> Crash,
    ) -> Result<(), Box<Found>> {
        self.searched.boundaries += 1;
        self.searched.states += crashed.states();
        for (digits, impairment) in crashed.unseen(&mut self.seen) {
            self.searched.distinct += 1;
            let judged = catch(|| crashed.judge(&digits, impairment));
            self.searched.starts += judged.map_err(|failure| {
                self.found(&[path, &[crash(&digits, impairment)]].concat(), failure)
            })?;
        }
        Ok(())
    }

    /// Judges every state that crashes of the recoveries from a boundary's states leave.
    fn crash_again(
        &mut self,
        ready: &Ready,
        crashed: &Crashed<'_>,
        crash: impl Fn(&[usize], Impairment) -> Crash,
    ) -> Result<(), Box<Found>> {
        for (digits, impairment) in crashed.unseen(&mut self.crashed) {
            if !matches!(impairment, Impairment::None | Impairment::Lost(_)) {
                continue;
            }
            let path = [crash(&digits, impairment)];
            for (order, ranks) in self.space.orders.iter().enumerate() {
                let boundaries = catch(|| ready.of_recovery(crashed, &digits, impairment, *ranks));
                let boundaries = boundaries.map_err(|failure| self.found(&path, failure))?;
                self.searched.runs += 1;
                for (boundary, found) in boundaries.iter().enumerate() {
                    let crashed = Crashed::new(found, ready.rules);
                    self.judge(&path, &crashed, |digits, impairment| Crash {
                        order,
                        boundary,
                        outcomes: digits.to_vec(),
                        impairment,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn found(&self, crashes: &[Crash], failure: Failure) -> Box<Found> {
        let state = StateName { case: self.number, crashes: crashes.to_vec() };
        let story = self.space.case(self.number).to_string();
        Box::new(Found { state: state.to_string(), story, failure })
    }
}

/// Replays one state and judges it.
///
/// # Errors
///
/// If a promise is broken, or there is no such state; the message of the failure says which.
///
/// # Panics
///
/// If the space has no such case.
pub fn replay(space: &Space, state: &StateName) -> Result<String, Failure> {
    let ready = Ready::new(space, state.case);
    let mut story = format!("{}\n", ready.case);
    catch(|| {
        let Some(first) = state.crashes.first() else {
            space.orders.iter().for_each(|order| drop(ready.boundaries(*order)));
            return;
        };
        exists("order", first.order, space.orders.len());
        let mut boundaries = ready.boundaries(space.orders[first.order]);
        for (number, crash) in state.crashes.iter().enumerate() {
            exists("boundary", crash.boundary, boundaries.len());
            let crashed = Crashed::new(&boundaries[crash.boundary], ready.rules);
            assert!(
                crash.outcomes.len() == crashed.outcomes.len(),
                "there is no such state: {} outcomes for {} drives",
                crash.outcomes.len(),
                crashed.outcomes.len()
            );
            let possible = Impairment::all(crashed.boundary.out, crashed.outcomes.len());
            assert!(
                possible.contains(&crash.impairment),
                "there is no such state: {} is not one of its impairments",
                crash.impairment
            );
            for (digit, drive) in crash.outcomes.iter().zip(&crashed.outcomes) {
                exists("outcome", *digit, drive.distinct.len());
            }
            story += &crashed.describe(&crash.outcomes, crash.impairment);
            boundaries = match state.crashes.get(number + 1) {
                None => {
                    crashed.judge(&crash.outcomes, crash.impairment);
                    return;
                }
                Some(next) => ready.of_recovery(
                    &crashed,
                    &crash.outcomes,
                    crash.impairment,
                    space.orders[next.order],
                ),
            };
        }
    })
    .map(|()| story)
}

fn exists(what: &str, number: usize, count: usize) {
    assert!(number < count, "there is no such state: {what} {number} of {count}, counted from 0");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for name in ["12:0:3:0.1.0.1:lost2", "0:1:44:0.0.0.0:none/2:7:1.2.0.0:stale3"] {
            assert_eq!(name.parse::<StateName>().unwrap().to_string(), name);
        }
        for name in ["", "1", "1:2:3:4", "1:0:0:0.0.0.0:lost", "1:0:0:0.0.0.0:none/"] {
            name.parse::<StateName>().unwrap_err();
        }
    }
}
