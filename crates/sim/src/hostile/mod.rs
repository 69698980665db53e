//! Starting arrays from hostile drives: the body of a fuzz target.
//!
//! In the order of a run:
//!
//! - `input` turns bytes into choices.
//! - `images` provides a small array, made by the engine, in one of many states.
//! - `mutate` changes its drives: blocks are damaged, moved and exchanged, fields get extreme
//!   values under correct checksums, zones and drives change.
//! - `zoned` does the same with zoned volumes.
//! - This file starts the array, reads, writes, scrubs, closes and starts it again; then the
//!   offline checker reads it.
//!
//! Invariants for any contents of the drives: a start ends, with a volume or an error; requests
//! end; nothing panics; all buffers are freed. The caller limits memory.

mod images;
mod input;
mod mutate;
mod zoned;

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{OfferedDrive, OpenOptions, Volume, open_array, survey};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, blocks_in_use, zero_blocks};

use images::with_image;
use input::Input;

pub use zoned::{zoned_image, zoned_image_seeds};

/// Upper bound of steps with one array, many times the usual count.
const STEPS_MAX: u64 = 2_000_000;

/// Upper bound of virtual time.
const TIME_MAX: Nanos = Nanos::from_secs(600);

/// Runs one input.
///
/// # Panics
/// If hostile drives make the engine or the checker panic, hang or keep buffers.
pub fn image(input: &[u8]) {
    let mut input = Input::new(input);
    let (choice, options) = (input.byte(), input.byte());
    with_image(choice, |image| {
        let before = blocks_in_use();
        let drives = mutate::offered(image, &mut input);
        // Each input tests one or the other.
        if options & 8 == 8 {
            check(&drives);
        }
        start(&drives, options, true);
        start(&drives, options & !1, options & 16 == 16);
        if options & 32 == 32 {
            check(&drives);
        }
        drop(drives);
        assert!(blocks_in_use() <= before, "{} blocks are left over", blocks_in_use() - before);
    });
}

/// Seeds of the corpus: each image unchanged, and with some random mutations.
#[must_use]
pub fn image_seeds() -> Vec<Vec<u8>> {
    let mut random = zoneweave_runtime::Random::new(9);
    let plain = (0..images::COUNT).map(|image| vec![image, 0xFE]);
    let mutated = (0..64_u8).map(|at| {
        let mut seed = vec![at, at.wrapping_mul(37)];
        let mut bytes = vec![0; 8 << (at % 4)];
        random.fill(&mut bytes);
        seed.extend(bytes);
        seed
    });
    plain.chain(mutated.collect::<Vec<_>>()).collect()
}

/// Runs work to its end.
///
/// # Panics
///
/// If it does not end.
fn ended<F: Future<Output = ()>>(run: impl FnOnce(Handle) -> F) {
    ended_or(run, String::new);
}

fn ended_or<F: Future<Output = ()>>(run: impl FnOnce(Handle) -> F, describe: impl Fn() -> String) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let _on_panic = OnPanic(describe);
    let mut steps = 0;
    let ended = executor.run_until(run(handle.clone()), || {
        steps += 1;
        steps > STEPS_MAX || handle.now() > TIME_MAX
    });
    assert!(ended.is_some(), "no end after {steps} steps");
}

/// Prints the input's effect if a panic unwinds.
struct OnPanic<F: Fn() -> String>(F);

impl<F: Fn() -> String> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0());
        }
    }
}

fn offer(handle: &Handle, drives: &[RamDrive]) -> Vec<OfferedDrive> {
    let offer = |drive: &RamDrive| OfferedDrive {
        device: drive.attach(handle),
        label: "a drive".to_owned(),
    };
    drives.iter().map(offer).collect()
}

fn check(drives: &[RamDrive]) {
    ended(async |handle| {
        let devices = drives.iter().map(|drive| Some(drive.attach(&handle))).collect();
        let options = zoneweave_check::Options { every_version: true, ..Default::default() };
        let checked = zoneweave_check::check(devices, options).await;
        let Some(contents) = checked.contents else { return };
        for lba in 0..contents.volume_blocks() {
            // Any answer will do.
            let _ = contents.read(lba).await;
        }
    });
}

/// Starts the array, with force if the last bit of `options` is set, and uses it.
fn start(drives: &[RamDrive], options: u8, use_it: bool) {
    let running = RefCell::new(None);
    let life = async |handle: Handle| {
        if options & 64 == 64 {
            drop(survey(offer(&handle, drives)).await);
        }
        let force = OpenOptions {
            force: options & 1 == 1,
            lineage: Lineage(0x0F0F),
            ..OpenOptions::default()
        };
        let opened = open_array(&handle, offer(&handle, drives), force).await;
        let Ok((volume, _)) = opened else { return };
        *running.borrow_mut() = Some(volume.clone());
        if use_it {
            use_volume(&volume, options).await;
        } else {
            read_all(&volume, volume.info().blocks).await;
        }
        // After writes have stopped there is nothing to flush.
        let _ = volume.close().await;
        volume.assert_consistent();
    };
    ended_or(life, || running.borrow().as_ref().map_or_else(String::new, Volume::describe));
}

/// Sends requests of every kind; each must be answered, with success or an error.
async fn use_volume(volume: &Volume, options: u8) {
    let blocks = volume.info().blocks;
    read_all(volume, blocks).await;
    let lba = Lba(u64::from(options) % blocks.max(1));
    let data = zero_blocks(BlockCount(1));
    for fua in [false, true] {
        drop(volume.write(lba, vec![data.clone()], fua).await);
    }
    drop(volume.trim(Lba(0), blocks.min(8), options & 2 == 2).await);
    drop(volume.flush().await);
    drop(volume.extents(Lba(0), blocks, 64).await);
    if options & 4 == 4 {
        drop(volume.resume_rebuild().await);
    }
    drop(volume.scrub().await);
    drop((volume.status(), volume.segments()));
}

async fn read_all(volume: &Volume, blocks: u64) {
    let mut lba = 0;
    while lba < blocks {
        let count = u32::try_from(blocks - lba).map_or(16, |left| left.min(16));
        drop(volume.read(Lba(lba), count).await);
        lba += u64::from(count);
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::{ZoneId, ZoneState};

    use super::*;

    /// All options except force.
    const ALL: u8 = 0xFE;

    fn copies(which: u8) -> Vec<RamDrive> {
        with_image(which, |image| mutate::offered(image, &mut Input::new(&[])))
    }

    #[test]
    fn arrays_on_hostile_drives_start_or_are_refused() {
        image_seeds().iter().for_each(|seed| image(seed));
    }

    /// With so many zones lost that nothing could be written or freed, writes and scrubs used to
    /// wait for ever.
    #[test]
    fn requests_end_where_no_zone_is_left() {
        for which in 0..images::COUNT {
            let drives = copies(which);
            let zones = (0..drives[0].geometry().zones).map(ZoneId);
            // Two superblock zones must remain.
            let lost = zones.skip(2).filter(|zone| drives[0].zone(*zone).state == ZoneState::Empty);
            lost.for_each(|zone| drives[0].set_offline(zone));
            start(&drives, ALL, true);
        }
    }

    /// Summaries named blocks of the volume that the segment did not hold, under correct checksums.
    /// Such a block was found dead before its relocation, again and again.
    #[test]
    fn segments_with_lists_that_lie_are_moved() {
        for which in 0..images::COUNT {
            let drives = copies(which);
            mutate::shift_listed_blocks(&drives);
            start(&drives, ALL, true);
        }
    }
}
