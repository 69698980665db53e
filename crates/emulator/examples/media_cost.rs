//! The cost of a patterned 4 KiB block on a drive without latency: nanoseconds a command and bytes
//! of memory, compared with the time to compare and to fill a block. Time is the thread's processor
//! time (Linux), so that other work on the machine disturbs less.
//!
//! `cargo run --release -p zoneweave-emulator --example media_cost`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints figures")]

use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Command, Geometry, OOB_BYTES, Payload, ZoneAddress, ZoneId,
    ZonedDevice, ZonedDeviceExt,
};

const ZONES: u32 = 8;
/// A zone of the ZN540: 1,077 MiB.
const CAPACITY: u32 = 275_712;

fn main() {
    for blocks in [1, 16, 64] {
        measure(BlockCount(blocks));
    }
    let block = [7_u8; BLOCK_BYTES];
    let compare = per_round(1_000_000, || black_box(block[..4088] == black_box(&block)[8..]));
    let mut target = [0_u8; BLOCK_BYTES];
    let fill = per_round(1_000_000, || black_box(&mut target).fill(black_box(1)));
    println!("one block: compare {compare:.0} ns, fill {fill:.0} ns");
}

fn measure(blocks: BlockCount) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let geometry = Geometry {
        max_open: None,
        max_active: None,
        append_limit: blocks,
        ..Geometry::new(ZONES, BlockCount(CAPACITY))
    };
    let drive = RamDrive::new(geometry, Immediate).unwrap();
    let device = drive.attach(&executor.handle());
    let commands = u64::from(ZONES) * u64::from(CAPACITY / blocks.0);
    let appends = executor.run(append_all(&*device, blocks));
    let memory = drive.memory_bytes() as f64 / f64::from(ZONES * CAPACITY);
    let reads = executor.run(read_all(&*device, blocks));
    let per_command = |ns: f64| ns / commands as f64;
    println!(
        "{blocks}: append {:.0} ns, read {:.0} ns a command; {memory:.1} bytes a block",
        per_command(appends),
        per_command(reads),
    );
}

async fn append_all(device: &dyn ZonedDevice, blocks: BlockCount) -> f64 {
    let sources: Vec<_> = (0..64).map(|number| payload(number, blocks)).collect();
    let start = thread_ns();
    for zone in 0..ZONES {
        for number in 0..CAPACITY / blocks.0 {
            let payload = sources[number as usize % sources.len()].clone();
            let append = Command::Append { zone: ZoneId(zone), payload, fua: false };
            device.submit(append).await.unwrap();
        }
    }
    thread_ns() - start
}

async fn read_all(device: &dyn ZonedDevice, blocks: BlockCount) -> f64 {
    let start = thread_ns();
    for zone in 0..ZONES {
        for number in 0..CAPACITY / blocks.0 {
            let at = ZoneAddress::new(ZoneId(zone), number * blocks.0);
            black_box(device.read(at, blocks).await.unwrap());
        }
    }
    thread_ns() - start
}

fn payload(number: u64, blocks: BlockCount) -> Payload {
    let data: Vec<u8> =
        (number + 1).to_le_bytes().into_iter().cycle().take(blocks.data_bytes()).collect();
    let oob: Vec<u8> = (0..=255).cycle().take(blocks.0 as usize * OOB_BYTES).collect();
    Payload::new(data.into(), Bytes::from(oob))
}

fn per_round<R>(rounds: u32, mut work: impl FnMut() -> R) -> f64 {
    let start = thread_ns();
    for _ in 0..rounds {
        black_box(work());
    }
    (thread_ns() - start) / f64::from(rounds)
}

fn thread_ns() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse().unwrap()
}
