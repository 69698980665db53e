//! A start of the engine after a crash, and its result.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{FaultPlan, RamDrive};
use zoneweave_runtime::{Executor, VirtualTime};

use super::engine::{Engine, Found};
use super::history::offer;
use super::outcome::{Worst, crash};
use crate::simulate::oracle::Survives;

/// Upper bound of steps of a recovery.
const STEPS_MAX: u64 = 200_000;

/// How the array is crashed and judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub power: bool,
    /// The kind of the volume.
    pub zoned: bool,
    pub volume_blocks: u64,
}

impl Rules {
    pub(super) fn survives(&self) -> Survives {
        match self.power {
            true => Survives::Durable,
            false => Survives::Acknowledged,
        }
    }
}

/// The result of a start.
pub(super) struct Start {
    /// The contents.
    pub found: Found,
    /// Slots with a working member.
    pub online: Vec<bool>,
    /// Slots with a member, whole or being rebuilt.
    pub in_service: Vec<bool>,
    /// Slots whose member was taken out of service.
    pub evicted: Vec<bool>,
    /// The drives after a crash that follows it at once.
    pub drives: Vec<RamDrive>,
}

/// Starts the array, reads it all, and crashes it.
///
/// # Panics
/// If it does not start, or cannot be read.
pub(super) fn start(rules: Rules, drives: Vec<RamDrive>, away: Option<usize>) -> Start {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let steps = Cell::new(0);
    let offered = offer(&drives, away, &handle);
    let running = executor.run_until(
        async {
            let volume = Engine::start(rules.zoned, &handle, offered).await;
            let found = volume.read_all(rules.volume_blocks).await;
            (found, volume.online(), volume.in_service(), volume.evicted())
        },
        || {
            steps.set(steps.get() + 1);
            assert!(steps.get() < STEPS_MAX, "the recovery does not end");
            false
        },
    );
    let (found, online, in_service, evicted) = running.expect("nobody stops it");
    for ram in &drives {
        ram.faults(FaultPlan::clear);
        crash(ram, rules.power, &mut Worst);
    }
    drop(executor);
    Start { found, online, in_service, evicted, drives }
}
