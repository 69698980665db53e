//! Histories of the log-structured volume that are made up from seeds, and judged.
//!
//! A seed draws a [`Scenario`]: an array, and lives of its engine one after the other, with users,
//! administrators, faults, and crashes wherever they fall. [`run`] makes the history happen, on
//! the engine that serves real clients, in virtual time, and judges it against the contract: see
//! `oracle` for what blocks may read as, `verify` for the rest. A scenario that fails is
//! [cut down](shrink) and kept.
//!
//! One history fails another's way only if the code changed: nothing here has a clock, a thread or
//! a random number that is not from the seed.

mod actor;
mod apart;
mod bay;
mod drives;
pub mod exhaustive;
mod failure;
mod format;
mod generate;
mod life;
mod oracle;
mod pattern;
pub mod scenario;
mod shrink;
mod strangers;
mod strike;
mod trace;
mod vary;
mod verify;
mod world;

use std::rc::Rc;

pub use failure::{Failure, note_panics};
pub use generate::{Mix, generate};
pub use scenario::{Layout, Scenario};
pub use shrink::{Shrunk, shrink};
pub use trace::TraceError;
pub use vary::vary;
pub use world::Tally;

use world::World;

/// Whether there can be an array of the scenario's shape. Where not, nothing is run.
///
/// # Panics
/// If there cannot even be drives.
#[must_use]
pub fn is_possible(scenario: &Scenario) -> bool {
    format::is_possible(&World::new(scenario.shape))
}

/// Runs a scenario.
///
/// # Errors
/// If a promise was broken: where and how.
pub fn run(scenario: &Scenario) -> Result<Tally, Failure> {
    let in_use = zoneweave_zoned::blocks_in_use();
    let life = std::cell::Cell::new(0);
    let tally = failure::catch(|| {
        let world = Rc::new(World::new(scenario.shape));
        if format::make(&world, scenario) {
            for (number, one) in (1..).zip(&scenario.lives) {
                life.set(number);
                life::live(&world, one);
            }
        }
        world.count(|tally| tally.scenarios += 1);
        *world.tally.borrow()
    });
    let tally = tally.map_err(|failure| Failure { life: life.get(), ..failure })?;
    let left = zoneweave_zoned::blocks_in_use();
    if left > in_use {
        return Err(Failure::leak(left - in_use));
    }
    Ok(tally)
}
