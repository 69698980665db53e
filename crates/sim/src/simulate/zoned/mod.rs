//! Histories of the zoned volume.
//!
//! They are scenarios like those of the log: drives, faults, crashes, lives, shrinking and stored
//! files are the same. Different are
//!
//! - `translate`: a history drawn for the log becomes one of a zoned volume;
//! - `oracle`: the allowed states of every zone, with `zone` for one of them;
//! - `create`, `life`, `actor` and `verify`, which run the volume. `harness` has their state.
//!
//! Invariant: the volume decides about commands in the order of their submission, so the oracle
//! knows the place of each write, and which commands are refused.

mod actor;
pub(super) mod create;
pub(super) mod harness;
mod life;
pub(super) mod oracle;
mod translate;
pub(super) mod verify;
pub(super) mod zone;

use std::cell::Cell;
use std::rc::Rc;

use super::run::harness::Harness;
use super::scenario::Scenario;
use harness::ZonedHarness;
pub(super) use translate::translate;

/// Whether a zoned volume of this shape can exist.
pub(super) fn is_possible(harness: Harness) -> bool {
    create::is_possible(&ZonedHarness::new(harness))
}

/// Runs a scenario; `life` is set to the number of each life before it begins.
pub(super) fn run(harness: Harness, scenario: &Scenario, life: &Cell<usize>) -> Harness {
    let harness = Rc::new(ZonedHarness::new(harness));
    if create::make(&harness, scenario) {
        for (number, one) in (1..).zip(&scenario.lives) {
            life.set(number);
            life::live(&harness, one);
        }
    }
    Rc::into_inner(harness).expect("no task outlives its life").base
}
