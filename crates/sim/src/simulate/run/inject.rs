//! Faults of drives, within the contract.
//!
//! `drives::faults` carries them out; this file decides whether the contract allows them.

use zoneweave_raid::log::Volume;
use zoneweave_runtime::Handle;

use super::harness::Harness;
use crate::simulate::drives::attach::attach;
use crate::simulate::drives::faults::{apply, damages, is_harmless, wears};
use crate::simulate::scenario::{Class, Fault, Spare};

/// Slowness of a drive with intermittent delays, as a factor.
const SLOWEST_TIMES: u64 = 1000;

/// Injects a fault into the drive of a slot, if the contract covers it.
pub(crate) fn inject(harness: &Harness, slot: usize, fault: Fault) {
    let mut drives = harness.drives.borrow_mut();
    let harmless = is_harmless(fault);
    if slot >= harness.shape.columns() || !(harmless || drives.may_impair(slot)) {
        return;
    }
    if !harmless {
        drives.suspect(slot);
    }
    if damages(fault) {
        drives.damage(slot);
    }
    if wears(fault) {
        drives.wear(slot);
    }
    allow_slowness(harness, fault);
    harness.count(|tally| tally.faults += 1);
    apply(&drives.in_slots[slot].ram, fault);
}

/// Adds a spare. The array does not depend on it before it is a member, so any fault of it is
/// within the contract.
pub(crate) fn keep_spare(harness: &Harness, volume: &Volume, handle: &Handle, spare: Spare) {
    let mut drives = harness.drives.borrow_mut();
    let drive = drives.add_spare();
    if let Some(fault) = spare.fault.filter(|fault| !damages(*fault)) {
        if !is_harmless(fault) {
            drive.suspect();
        }
        if wears(fault) {
            drive.wear();
        }
        allow_slowness(harness, fault);
        harness.count(|tally| tally.faults += 1);
        apply(&drive.ram, fault);
    }
    let added = volume.add_spare(attach(&drive.ram, handle), harness.member(drive.number));
    assert!(added.is_ok(), "a spare is refused: {added:?}");
}

/// Extends the time limits for a slow drive.
fn allow_slowness(harness: &Harness, fault: Fault) {
    match fault {
        Fault::Sluggish { times } => harness.slow_down(u64::from(times)),
        Fault::Often { class: Class::Slow, .. } => harness.slow_down(SLOWEST_TIMES),
        _ => {}
    }
}

/// Pulls the drive of a slot, if the contract covers it, or if it is to be `too_many`. During a
/// rebuild that needs a remaining majority, since only its drives have every record.
pub(crate) fn pull(
    harness: &Harness,
    slot: usize,
    too_many: bool,
    forgetting: bool,
    rebuilding: bool,
) {
    let mut drives = harness.drives.borrow_mut();
    if slot >= harness.shape.columns() {
        return;
    }
    let covered = drives.may_impair(slot);
    if !covered {
        let recoverable = !drives.is_degraded() || rebuilding && drives.leaves_majority(slot);
        // Earlier damage would become permanent together with it.
        if !too_many || !drives.undamaged() || !recoverable {
            return;
        }
        harness.broken.set(true);
    }
    drives.pull(slot, forgetting && covered);
    harness.count(|tally| tally.faults += 1);
}

/// Restores an old snapshot of a drive, if the contract covers its loss.
pub(crate) fn go_back(harness: &Harness, slot: usize) {
    let mut drives = harness.drives.borrow_mut();
    if slot < harness.shape.columns() && drives.may_impair(slot) && drives.go_back(slot) {
        harness.count(|tally| tally.faults += 1);
    }
}
