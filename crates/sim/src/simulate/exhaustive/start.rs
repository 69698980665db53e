//! A start of the engine after a crash, and its result.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_emulator::{FaultPlan, RamDrive};
use zoneweave_raid::log::{MemberHealth, OpenOptions, Volume, open_array};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, Lba};

use super::history::offer;
use super::outcome::{Worst, crash};
use crate::pattern::version_of;
use crate::simulate::oracle::Survives;

/// Upper bound of steps of a recovery.
const STEPS_MAX: u64 = 200_000;

/// How the array is crashed and judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub power: bool,
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
    /// The version of each block.
    pub found: Vec<u64>,
    /// Slots with a working member.
    pub online: Vec<bool>,
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
            let started = open_array(&handle, offered, OpenOptions::default()).await;
            let (volume, _) =
                started.unwrap_or_else(|error| panic!("the array does not start: {error}"));
            let found = read_all(&volume, rules.volume_blocks).await;
            volume.assert_consistent();
            let members = volume.status().members;
            (found, members.iter().map(|member| member.state == MemberHealth::Online).collect())
        },
        || {
            steps.set(steps.get() + 1);
            assert!(steps.get() < STEPS_MAX, "the recovery does not end");
            false
        },
    );
    let (found, online) = running.expect("nobody stops it");
    for ram in &drives {
        ram.faults(FaultPlan::clear);
        crash(ram, rules.power, &mut Worst);
    }
    drop(executor);
    Start { found, online, drives }
}

async fn read_all(volume: &Volume, blocks: u64) -> Vec<u64> {
    let length = u32::try_from(blocks).expect("a small volume");
    let pieces = volume.read(Lba(0), length).await;
    let pieces = pieces.unwrap_or_else(|error| panic!("the volume cannot be read: {error}"));
    let blocks = pieces.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
    let version = |(lba, block): (u64, &[u8])| {
        version_of(lba, block)
            .unwrap_or_else(|| panic!("block {lba} has contents that were never written to it"))
    };
    (0..).zip(blocks).map(version).collect()
}
