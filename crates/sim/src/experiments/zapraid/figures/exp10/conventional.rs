//! The conventional array: seven drives with the flash chips of the zoned ones.

use std::rc::Rc;

use zoneweave_emulator::{ConventionalConfig, ConventionalDrive, Picos, Spread};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::experiments::zapraid::baselines::rmw_raid5::RmwRaid5;
use crate::experiments::zapraid::loads::random_writes::{Mix, RandomWrites};
use crate::experiments::zapraid::loads::writes::{figures_of, written_blocks};
use crate::experiments::{ExperimentError, Values};

const DRIVES: u64 = 7;

/// Pages of an erase block.
const PAGES: f64 = 4096.0;

/// A drive as FEMU makes it, scaled down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand")]
fn config(scale: f64, seed: u64) -> ConventionalConfig {
    let micros = Picos::from_micros;
    let rows = (PAGES * scale).ceil().max(1.0);
    let mut config = ConventionalConfig::sn640_960gb();
    config.flash.dies = 16;
    config.flash.channels = 4;
    config.flash.sense = vec![Spread::new(40.0, 0.0)];
    config.flash.transfer = micros(0.0);
    config.flash.program = Spread::new(140.0, 0.0);
    config.flash.erase = Spread::new(2000.0 * rows / PAGES, 0.0);
    // Reads wait for the chip's current operation.
    config.flash.suspends = 0;
    config.parity_dies = 0;
    config.chunk_blocks = 1;
    config.superblocks = 64;
    config.superblock_rows = rows as u32;
    config.over_provisioning = 0.5;
    config.buffer_blocks = 32;
    config.collect.buffer_blocks = 32;
    config.command_blocks = 4;
    config.write.core = Spread::new(0.0, 0.0);
    // A write is answered as if it were programmed at once; it waits for a chip only if the buffer
    // is full.
    config.write.single = micros(140.0);
    config.write.larger = micros(140.0);
    config.write.larger_block = micros(0.0);
    config.read.core = micros(0.0);
    config.read.core_block = micros(0.0);
    config.read.fixed = micros(0.0);
    config.seed = seed;
    config
}

/// Random writes over the whole array.
pub(crate) fn run(
    chunk_blocks: u32,
    depth: u32,
    scale: f64,
    seed: u64,
) -> Result<Values, ExperimentError> {
    let drive = |at| ConventionalDrive::new(config(scale, seed * 100 + at));
    let drives = (0..DRIVES).map(drive).collect::<Result<Vec<_>, _>>()?;
    for drive in &drives {
        drive.write_untimed(Lba(0), drive.blocks(), 0);
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let stripe = u64::from(chunk_blocks) * (DRIVES - 1);
    let blocks = drives[0].blocks() / u64::from(chunk_blocks) * stripe;
    let attached =
        drives.iter().map(|drive| -> Rc<dyn BlockDevice> { Rc::new(drive.attach(&handle)) });
    let array = RmwRaid5::new(attached.collect(), chunk_blocks, blocks);
    let writes = RandomWrites {
        mix: Mix::Uniform(chunk_blocks),
        queue_depth: depth,
        range: blocks,
        warm_up: 0,
        blocks: written_blocks(scale),
        seed,
    };
    Ok(figures_of(&executor.run(writes.run(&handle, Rc::new(array)))?))
}
