//! Creating the array, with interrupted attempts.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::raizn::{create, plan};
use zoneweave_runtime::{Executor, Handle, VirtualTime};

use super::harness::ZonedHarness;
use crate::simulate::scenario::{Scenario, Since, Stop};

/// Upper bound of steps of an attempt.
const STEPS_MAX: u64 = 100_000;

/// Creates the array after the interrupted attempts; returns whether its shape is possible.
///
/// # Panics
///
/// If it cannot be created.
pub(crate) fn make(harness: &ZonedHarness, scenario: &Scenario) -> bool {
    if !is_possible(harness) {
        return false;
    }
    for stop in &scenario.interrupted_formats {
        let made = attempt(harness, true, Some(stop.steps));
        harness.base.drives.borrow_mut().crash(stop);
        harness.base.count(|tally| tally.crashes += u64::from(!made));
    }
    assert!(attempt(harness, !scenario.interrupted_formats.is_empty(), None));
    let power = harness.base.shape.seed & 1 == 1;
    let stop = Stop { since: Since::Start, steps: 0, power, seed: 1 };
    harness.base.drives.borrow_mut().crash(&stop);
    true
}

/// Whether an array of this shape can exist.
pub(crate) fn is_possible(harness: &ZonedHarness) -> bool {
    if harness.base.shape.scheme().is_none() {
        return false;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    plan(&offer(harness, &executor.handle()), &harness.create_options(false)).is_ok()
}

fn offer(harness: &ZonedHarness, handle: &Handle) -> Vec<OfferedDrive> {
    let offered = harness.base.drives.borrow().offer(handle, &BTreeSet::new(), false, 0);
    offered.into_iter().map(|(_, drive)| drive).collect()
}

/// Creates the array unless it is stopped before; returns whether it was created.
fn attempt(harness: &ZonedHarness, wipe: bool, stop: Option<u64>) -> bool {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(harness, &executor.handle());
    let mut steps = 0;
    let made = executor.run_until(create(&offered, &harness.create_options(wipe)), || {
        steps += 1;
        assert!(steps < STEPS_MAX, "creating an array does not end");
        stop.is_some_and(|stop| steps > stop)
    });
    match made {
        None => false,
        Some(Ok(_)) => true,
        Some(Err(error)) => panic!("the array cannot be created: {error}"),
    }
}
