//! The emulator as a library of a program of one's own, which knows nothing else of Zoneweave: a
//! calibrated drive in virtual time, its latencies, a power failure, and wear.
//!
//! `cargo run --release -p zoneweave-emulator --example outsider`

use std::error::Error;
use std::fmt::Write;
use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive, WearSettings};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZoneState, ZonedDevice,
    ZonedDeviceExt,
};

/// The lines that it prints.
///
/// # Errors
/// If the drive answers anything unexpected.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    let mut told = String::new();
    // A commercial drive, but with a cache that a power failure empties. It has 950 GiB; memory
    // holds only written blocks.
    let preset = Preset::by_name("zn540-1tb-volatile")?;
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(1))?;
    drive.set_wear(WearSettings { endurance_cycles: Some(3), ..WearSettings::new(32) })?;
    writeln!(told, "{}: {} zones", preset.summary(), drive.geometry().zones)?;

    // A process: its tasks, and a clock that jumps from event to event.
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    for zones in [1, 4] {
        let (mean, per_second) = executor.run(append(&executor.handle(), &device, zones))?;
        writeln!(told, "4 KiB appends to {zones} zones: {mean:.1} us, {per_second:.0} a second")?;
    }

    // Flushed blocks survive a power failure; of the rest, any prefix.
    let zone = ZoneId(9);
    executor.run(async {
        device.append(zone, filled(1, 24), false).await?;
        device.flush().await?;
        device.append(zone, filled(2, 24), false).await
    })?;
    drive.power_loss(7);
    let device = drive.attach(&executor.handle());
    let kept = drive.zone(zone).write_pointer.0;
    let first = executor.run(device.read(ZoneAddress::new(zone, 23), BlockCount(1)))?;
    writeln!(told, "after a power failure: {kept} of 48 blocks, 24 were flushed")?;
    assert!(first.block(0).iter().all(|byte| *byte == 1), "what was flushed is as it was");

    // Erase blocks bear three cycles; then their zone can be read only.
    let resets = executor.run(wear_out(&device, zone))?;
    let wear = drive.wear().ok_or("the drive counts erases")?;
    let spread = &wear.zones[zone.index()].spread;
    writeln!(told, "{zone} took {resets} resets, {} erases a block", spread.max)?;
    assert_eq!(drive.zone(zone).state, ZoneState::ReadOnly);
    writeln!(told, "{} bytes of memory hold the blocks", drive.memory_bytes())?;
    Ok(told)
}

/// Appends blocks to a number of zones, one command in flight on each; returns the mean latency in
/// microseconds and the commands a second.
async fn append(
    handle: &Handle,
    device: &Rc<dyn ZonedDevice>,
    zones: u32,
) -> Result<(f64, f64), Box<dyn Error>> {
    const COMMANDS: u32 = 1000;
    let start = handle.now();
    let worker = |zone| {
        let (handle, device) = (handle.clone(), device.clone());
        async move {
            let mut busy = Nanos(0);
            for _ in 0..COMMANDS {
                let before = handle.now();
                device.append(ZoneId(zone), filled(7, 1), false).await?;
                busy += handle.now().since(before);
            }
            Ok::<_, zoneweave_zoned::Status>(busy)
        }
    };
    let workers: Vec<_> = (0..zones).map(|zone| handle.spawn("worker", worker(zone))).collect();
    let mut busy_seconds = 0.0;
    for worker in workers {
        busy_seconds += worker.await?.as_secs_f64();
    }
    let commands = f64::from(zones * COMMANDS);
    let seconds = handle.now().since(start).as_secs_f64();
    Ok((busy_seconds * 1e6 / commands, commands / seconds))
}

/// Writes and resets a zone until it refuses; returns the number of resets.
async fn wear_out(device: &Rc<dyn ZonedDevice>, zone: ZoneId) -> Result<u32, Box<dyn Error>> {
    for resets in 0..100 {
        if device.manage(zone, ZoneAction::Reset).await.is_err() {
            return Ok(resets);
        }
        device.append(zone, filled(3, 1), false).await?;
    }
    Err("the zone never wears out".into())
}

/// Blocks of equal bytes, which take eight bytes of memory each.
fn filled(byte: u8, blocks: u32) -> Payload {
    let blocks = BlockCount(blocks);
    let mut data = AlignedBuffer::zeroed(blocks);
    data.as_mut().fill(byte);
    let metadata = AlignedBuffer::zeroed(BlockCount(1)).freeze();
    Payload::new(data.freeze(), metadata.slice(..blocks.oob_bytes()))
}

#[expect(clippy::print_stdout, reason = "a program that prints")]
#[allow(dead_code, reason = "the test of this program calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
