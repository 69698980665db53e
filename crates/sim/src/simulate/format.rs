//! Making the array, also interrupted.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_raid::log::{OfferedDrive, OpenOptions, create, open_array};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockDevice, Lba};

use super::scenario::{Since, Stop};
use super::world::World;

/// Makes the array, after attempts that were cut short. Tells whether its shape is possible.
///
/// # Panics
/// If making it fails.
pub(super) fn make(world: &World, interrupted: &[Stop]) -> bool {
    for stop in interrupted {
        let made = attempt(world, true, Some(*stop));
        if made == Attempt::Impossible {
            return false;
        }
        world.bay.borrow_mut().crash(stop);
        world.count(|tally| tally.crashes += u64::from(made == Attempt::CutShort));
        look_at(world);
    }
    match attempt(world, !interrupted.is_empty(), None) {
        Attempt::Impossible => return false,
        Attempt::CutShort => unreachable!("nobody stopped it"),
        Attempt::Made => {}
    }
    let stop = Stop { since: Since::Start, steps: 0, power: world.shape.seed & 1 == 1, seed: 1 };
    world.bay.borrow_mut().crash(&stop);
    true
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Made,
    CutShort,
    /// No array of this shape can be: nothing was tried.
    Impossible,
}

fn offer(world: &World, handle: &Handle) -> Vec<OfferedDrive> {
    let offered = world.bay.borrow().offer(handle, &BTreeSet::new(), false, 0);
    offered.into_iter().map(|(_, drive)| drive).collect()
}

fn attempt(world: &World, wipe: bool, stop: Option<Stop>) -> Attempt {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(world, &executor.handle());
    let options = world.create_options(wipe);
    if create::plan(&offered, &options).is_err() {
        return Attempt::Impossible;
    }
    let mut steps = 0;
    let made = executor.run_until(create(&offered, &options), || {
        steps += 1;
        stop.is_some_and(|stop| steps > stop.steps)
    });
    match made {
        None => Attempt::CutShort,
        Some(Ok(config)) => {
            world.blocks.set(config.volume_blocks);
            Attempt::Made
        }
        Some(Err(error)) => panic!("the array cannot be made: {error}"),
    }
}

/// Half an array is none, or an empty one.
fn look_at(world: &World) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let offered = offer(world, &handle);
    let volume = RefCell::new(None);
    executor.run(async {
        let Ok((opened, _)) = open_array(&handle, offered, OpenOptions::default()).await else {
            return;
        };
        for lba in 0..opened.info().blocks {
            let block = opened.read(Lba(lba), 1).await.expect("an empty volume can be read");
            let empty = block.iter().all(|piece| piece.iter().all(|byte| *byte == 0));
            assert!(empty, "block {lba} of a volume never written holds something");
        }
        *volume.borrow_mut() = Some(opened);
    });
    drop(executor);
    let stop = Stop { since: Since::Start, steps: 0, power: false, seed: 2 };
    world.bay.borrow_mut().crash(&stop);
}
