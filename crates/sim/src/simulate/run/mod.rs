//! Running a scenario.
//!
//! In the order of a history:
//!
//! - `create` makes the array, and `life` runs one life of the engine after the other.
//! - `actor` performs the actions of users and administrators.
//! - `inject` applies faults within the contract.
//! - `foreign_drives` and `split_brain` try starts that must be refused.
//! - `verify` checks the volume after a recovery, when idle and at the end.
//! - `harness` has the state of the history, `tally` its counts.
//!
//! Invariant: a fault outside the contract is skipped, so that any part of a scenario is a
//! scenario, unless it is `beyond` the contract.

mod actor;
pub(super) mod create;
mod foreign_drives;
pub(super) mod harness;
mod inject;
mod life;
mod split_brain;
mod tally;
mod verify;

use std::rc::Rc;

pub use tally::Tally;

use super::failure::{self, Failure};
use super::scenario::Scenario;
use harness::Harness;

/// Whether an array of the scenario's shape can exist. If not, [`run`] does nothing.
///
/// # Panics
///
/// If the drives cannot exist.
#[must_use]
pub fn is_possible(scenario: &Scenario) -> bool {
    create::is_possible(&Harness::new(scenario.shape))
}

/// Runs a scenario.
///
/// # Errors
///
/// If a promise was broken: where and how.
pub fn run(scenario: &Scenario) -> Result<Tally, Failure> {
    let in_use = zoneweave_zoned::blocks_in_use();
    let life = std::cell::Cell::new(0);
    let tally = failure::catch(|| {
        let harness = Rc::new(Harness::new(scenario.shape));
        if create::make(&harness, scenario) {
            for (number, one) in (1..).zip(&scenario.lives) {
                life.set(number);
                life::live(&harness, one);
            }
        }
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
