//! Creating the array, with interrupted attempts.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_raid::log::{OfferedDrive, OpenOptions, create, open_array};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockDevice, Lba, is_zero};

use crate::simulate::run::harness::Harness;
use crate::simulate::scenario::{BrokenFormat, Scenario, Since, Stop};

/// Upper bound of steps of an attempt.
const FORMAT_STEPS_MAX: u64 = 100_000;

/// Kills the process that used the drives.
const KILL: Stop = Stop { since: Since::Start, steps: 0, power: false, seed: 2 };

/// Creates the array after the interrupted attempts; returns whether its shape is possible.
///
/// # Panics
///
/// If it cannot be created.
pub(crate) fn make(harness: &Harness, scenario: &Scenario) -> bool {
    let interrupted = &scenario.interrupted_formats;
    for broken in &scenario.broken_formats {
        if attempt(harness, true, |steps| vanish(harness, *broken, steps)) == Attempt::Impossible {
            return false;
        }
        harness.drives.borrow_mut().crash(&KILL);
        look_at(harness);
    }
    for stop in interrupted {
        let made = attempt(harness, true, |steps| steps > stop.steps);
        if made == Attempt::Impossible {
            return false;
        }
        harness.drives.borrow_mut().crash(stop);
        harness.count(|tally| tally.crashes += u64::from(made == Attempt::CutShort));
        look_at(harness);
    }
    let wipe = !(interrupted.is_empty() && scenario.broken_formats.is_empty());
    match attempt(harness, wipe, |_| false) {
        Attempt::Impossible => return false,
        Attempt::CutShort => unreachable!("this attempt has no stop"),
        Attempt::Failed(error) => panic!("the array cannot be created: {error}"),
        Attempt::Made => {}
    }
    let stop = Stop { since: Since::Start, steps: 0, power: harness.shape.seed & 1 == 1, seed: 1 };
    harness.drives.borrow_mut().crash(&stop);
    true
}

/// Whether an array of this shape can exist.
pub(crate) fn is_possible(harness: &Harness) -> bool {
    if harness.shape.scheme().is_none() {
        return false;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    create::plan(&offer(harness, &executor.handle()), &harness.create_options(false)).is_ok()
}

/// A drive vanishes at some step of an attempt. It is back before the next.
fn vanish(harness: &Harness, broken: BrokenFormat, steps: u64) -> bool {
    if steps == broken.steps && broken.slot < harness.shape.columns() {
        harness.drives.borrow_mut().pull(broken.slot, false);
        harness.count(|tally| tally.faults += 1);
    }
    assert!(steps < FORMAT_STEPS_MAX, "creating an array does not end without a drive");
    false
}

#[derive(PartialEq, Eq)]
enum Attempt {
    Made,
    CutShort,
    Failed(String),
    /// The shape is not possible, and nothing was tried.
    Impossible,
}

fn offer(harness: &Harness, handle: &Handle) -> Vec<OfferedDrive> {
    let offered = harness.drives.borrow().offer(handle, &BTreeSet::new(), false, 0);
    offered.into_iter().map(|(_, drive)| drive).collect()
}

fn attempt(harness: &Harness, wipe: bool, mut stops: impl FnMut(u64) -> bool) -> Attempt {
    if harness.shape.scheme().is_none() {
        return Attempt::Impossible;
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(harness, &executor.handle());
    let options = harness.create_options(wipe);
    if create::plan(&offered, &options).is_err() {
        return Attempt::Impossible;
    }
    let mut steps = 0;
    let made = executor.run_until(create(&offered, &options), || {
        steps += 1;
        stops(steps)
    });
    match made {
        None => Attempt::CutShort,
        Some(Ok(config)) => {
            harness.blocks.set(config.log().volume_blocks);
            Attempt::Made
        }
        Some(Err(error)) => Attempt::Failed(error.to_string()),
    }
}

/// An interrupted attempt leaves no array, or an empty one.
fn look_at(harness: &Harness) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let offered = offer(harness, &handle);
    let volume = RefCell::new(None);
    executor.run(async {
        let Ok((opened, _)) = open_array(&handle, offered, OpenOptions::default()).await else {
            return;
        };
        for lba in 0..opened.info().blocks {
            let block = opened.read(Lba(lba), 1).await.expect("an empty volume can be read");
            let empty = block.iter().all(|piece| is_zero(piece));
            assert!(empty, "block {lba} of a new volume is not zero");
        }
        *volume.borrow_mut() = Some(opened);
    });
    drop(executor);
    harness.drives.borrow_mut().crash(&KILL);
}
