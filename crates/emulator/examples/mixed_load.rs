//! Two million timed commands of 4 KiB on a ZN540 in virtual time, every station active: to be timed or profiled.
//!
//! `time target/release/examples/mixed_load [PRESET]`. Half of the commands are random reads, the others writes
//! and appends in equal parts; 64 are in flight.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_runtime::{Executor, Random, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZonedDevice,
    ZonedDeviceExt,
};

const COMMANDS: u32 = 2_000_000;
const WRITERS: u32 = 4;
const READERS: u32 = 48;

/// Writes or appends, each task to a zone of its own, which is reset when it is full.
async fn write(device: Rc<dyn ZonedDevice>, zone: ZoneId, append: bool, commands: u32) {
    let payload = Payload::new(AlignedBuffer::zeroed(BlockCount(1)).freeze(), Bytes::new());
    let capacity = device.geometry().zone_capacity.0;
    for command in 0..commands {
        let offset = command % capacity;
        if command > 0 && offset == 0 {
            device.manage(zone, ZoneAction::Reset).await.expect("a full zone");
        }
        let done = match append {
            true => device.append(zone, payload.clone(), false).await,
            false => device.write(ZoneAddress::new(zone, offset), payload.clone(), false).await,
        };
        done.expect("the zone has room");
    }
}

async fn read(device: Rc<dyn ZonedDevice>, zone: ZoneId, commands: u32, seed: u64) {
    let mut random = Random::new(seed);
    let written = u64::from(device.geometry().zone_capacity.0);
    for _ in 0..commands {
        let offset = u32::try_from(random.below(written)).expect("a zone's blocks fit 32 bits");
        device.read(ZoneAddress::new(zone, offset), BlockCount(1)).await.expect("a written block");
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "zn540-1tb".to_owned());
    let preset = Preset::by_name(&name).expect("a preset");
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(1)).expect("a drive");
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let (handle, device) = (executor.handle(), drive.attach(&executor.handle()));
    let mut tasks = Vec::new();
    let filled = ZoneId(100);
    executor.run(async {
        let largest = device.geometry().max_transfer;
        let payload = Payload::new(AlignedBuffer::zeroed(largest).freeze(), Bytes::new());
        let mut offset = 0;
        while offset + largest.0 <= device.geometry().zone_capacity.0 {
            device.append(filled, payload.clone(), false).await.expect("room");
            offset += largest.0;
        }
    });
    for writer in 0..2 * WRITERS {
        let task = write(device.clone(), ZoneId(writer), writer % 2 == 0, COMMANDS / 4 / WRITERS);
        tasks.push(handle.spawn("writer", task));
    }
    for reader in 0..READERS {
        let task = read(device.clone(), filled, COMMANDS / 2 / READERS, u64::from(reader));
        tasks.push(handle.spawn("reader", task));
    }
    executor.run(async {
        for task in tasks {
            task.await;
        }
    });
    assert!(drive.counters().writes > u64::from(COMMANDS / 2), "every writer is done");
}
