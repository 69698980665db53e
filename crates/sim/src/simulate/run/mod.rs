//! Running a scenario.
//!
//! In the order of a history:
//!
//! - `create` makes the array, and `life` runs one life of the engine after the other; `stops` has
//!   the part of a life that does not depend on the kind of the volume.
//! - `actor` performs the actions of users and administrators.
//! - `inject` applies faults within the contract.
//! - `foreign_drives` and `split_brain` try starts that must be refused.
//! - `verify` checks the volume after a recovery, when idle and at the end, `faults` what was on
//!   record.
//! - `harness` has the state of the history, `tally` its counts.
//!
//! Invariant: a fault outside the contract is skipped, so that any part of a scenario is a
//! scenario, unless it is `beyond` the contract.

mod actor;
pub(super) mod create;
pub(super) mod faults;
mod foreign_drives;
pub(super) mod harness;
pub(super) mod inject;
mod life;
mod split_brain;
pub(super) mod stops;
mod tally;
pub(crate) mod verify;

use std::cell::Cell;
use std::rc::Rc;

pub use tally::Tally;

use super::failure::{self, Failure};
use super::scenario::Scenario;
use super::zoned;
use harness::Harness;

/// Whether an array of the scenario's shape can exist. If not, [`run`] does nothing.
///
/// # Panics
///
/// If the drives cannot exist.
#[must_use]
pub fn is_possible(scenario: &Scenario) -> bool {
    let harness = Harness::new(scenario.shape);
    match scenario.shape.zoned {
        Some(_) => zoned::is_possible(harness),
        None => create::is_possible(&harness),
    }
}

/// Runs a scenario.
///
/// # Errors
///
/// If a promise was broken: where and how.
pub fn run(scenario: &Scenario) -> Result<Tally, Failure> {
    let in_use = zoneweave_zoned::blocks_in_use();
    let life = Cell::new(0);
    let tally = failure::catch(|| {
        let harness = match scenario.shape.zoned {
            Some(_) => zoned::run(Harness::new(scenario.shape), scenario, &life),
            None => run_log(scenario, &life),
        };
        let drives = harness.drives.borrow();
        let commands: u64 = drives.everything().map(|drive| drive.counters().commands()).sum();
        harness.count(|tally| {
            tally.scenarios += 1;
            tally.commands += commands;
        });
        *harness.tally.borrow()
    });
    let tally = tally.map_err(|failure| Failure { life: life.get(), ..failure })?;
    let left = zoneweave_zoned::blocks_in_use();
    if left > in_use {
        return Err(Failure::leak(left - in_use));
    }
    Ok(tally)
}

/// Runs a scenario of a log; `life` is set to the number of each life before it begins.
fn run_log(scenario: &Scenario, life: &Cell<usize>) -> Harness {
    let harness = Rc::new(Harness::new(scenario.shape));
    if create::make(&harness, scenario) {
        for (number, one) in (1..).zip(&scenario.lives) {
            life.set(number);
            life::live(&harness, one);
        }
    }
    Rc::into_inner(harness).expect("no task outlives its life")
}
