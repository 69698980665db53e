//! Measures a drive in a file: appends, then reads, of one size at one depth.
//!
//! ```text
//! cargo run --release -p zoneweave-linux --example file_drive_speed -- /tmp/drive 1 32
//! ```
//! The arguments are the file to make (and remove), blocks per command and commands in flight.

use std::path::Path;
use std::rc::Rc;

use zoneweave_linux::{FileDrive, Ring, entropy};
use zoneweave_runtime::{Executor, Handle, Semaphore};
use zoneweave_zoned::{
    BlockCount, Geometry, Payload, ZoneAddress, ZoneId, ZonedDeviceExt, zero_blocks,
};

const ZONES: u32 = 8;
const ZONE_BLOCKS: u32 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: file_drive_speed FILE [BLOCKS [DEPTH]]")?;
    let blocks: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let depth: u64 = arguments.next().map_or(Ok(32), |text| text.parse())?;
    let path = Path::new(&path);
    FileDrive::create(path, Geometry::new(ZONES, BlockCount(ZONE_BLOCKS)), entropy()?)?;
    let ring = Ring::new()?;
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let drive = Rc::new(FileDrive::open(&ring, &handle, path)?);
    for reading in [false, true] {
        let started = handle.now();
        executor.run(run(&handle, &drive, reading, BlockCount(blocks), depth));
        let seconds = handle.now().since(started).as_secs_f64();
        let commands = f64::from(ZONES * (ZONE_BLOCKS / blocks));
        let what = if reading { "reads" } else { "appends" };
        let mib = commands * f64::from(blocks) / 256.0;
        eprintln!(
            "{what} of {blocks} blocks, {depth} in flight: {:.0}/s, {:.0} MiB/s",
            commands / seconds,
            mib / seconds
        );
    }
    std::fs::remove_file(path)?;
    Ok(())
}

async fn run(
    handle: &Handle,
    drive: &Rc<FileDrive>,
    reading: bool,
    blocks: BlockCount,
    depth: u64,
) {
    let places = Semaphore::new(depth);
    for index in 0..ZONES * (ZONE_BLOCKS / blocks.0) {
        let permit = places.acquire().await;
        let drive = drive.clone();
        let at = ZoneAddress::new(ZoneId(index % ZONES), index / ZONES * blocks.0);
        handle.spawn("command", async move {
            if reading {
                drive.read(at, blocks).await.map(drop).expect("a healthy drive");
            } else {
                let payload = Payload::new(zero_blocks(blocks), bytes::Bytes::new());
                drive.append(at.zone, payload, false).await.map(drop).expect("a healthy drive");
            }
            drop(permit);
        });
    }
    drop(places.acquire_many(depth).await);
}
