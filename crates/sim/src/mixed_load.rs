//! A load that uses every part of an emulated drive, to measure the cost of emulation.
//!
//! Half of the commands are reads of single blocks at random places of a full zone. The others
//! write and append single blocks in equal parts, each stream to a zone of its own. Zones are
//! closed half-way, opened again, finished, and reset. Each block that is read has its own pattern,
//! which is verified.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{DriveCounters, Preset, RamDrive};
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, GeometryError, Payload, Status, ZoneAction,
    ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt,
};

/// Writing streams, and as many appending streams.
pub const WRITERS: u32 = 4;

/// Reads in flight.
pub const READERS: u32 = 48;

/// Blocks that a stream writes before it closes its zone, and again before it finishes it.
const HALF_BLOCKS: u32 = 32_768;

/// Payloads of a stream, used in turn.
const PAYLOADS: usize = 16;

/// A drive with a full zone, and an executor in virtual time.
pub struct MixedLoad {
    executor: Executor,
    drive: RamDrive,
    device: Rc<dyn ZonedDevice>,
    filled: ZoneId,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedLoadOutcome {
    /// Commands completed.
    pub commands: u64,
    /// Elapsed virtual time.
    pub virtual_time: Nanos,
    /// The drive's counters, including the preparation.
    pub counters: DriveCounters,
}

impl MixedLoad {
    /// A drive of the preset; the seed determines the variation of its latencies.
    ///
    /// # Errors
    ///
    /// If the preset's geometry is impossible.
    ///
    /// # Panics
    ///
    /// If the drive has fewer than ten zones.
    pub fn new(preset: &Preset, seed: u64) -> Result<Self, GeometryError> {
        let drive = RamDrive::new(preset.geometry().clone(), preset.timing(seed))?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let device = drive.attach(&executor.handle());
        assert!(drive.geometry().zones > 2 * WRITERS + 1, "the drive has a zone for each stream");
        let filled = ZoneId(drive.geometry().zones / 2 + WRITERS);
        Ok(Self { executor, drive, device, filled })
    }

    /// Fills the zone for reads.
    ///
    /// # Errors
    ///
    /// If the drive rejects a command.
    pub fn prepare(&self) -> Result<(), Status> {
        let geometry = self.drive.geometry();
        self.executor.run(async {
            let mut offset = 0;
            while offset < geometry.zone_capacity.0 {
                let left = geometry.zone_capacity.0 - offset;
                let end = offset + left.min(geometry.append_limit.0);
                self.device.append(self.filled, patterns(offset..end), false).await?;
                offset = end;
            }
            Ok(())
        })
    }

    /// Issues about so many commands, a multiple of 48.
    ///
    /// # Errors
    ///
    /// If the drive rejects one.
    pub fn run(&self, commands: u32) -> Result<MixedLoadOutcome, Status> {
        let handle = self.executor.handle();
        let started = handle.now();
        let each_writer = commands / 4 / WRITERS;
        let each_reader = commands / 2 / READERS;
        let mut tasks = Vec::new();
        for stream in 0..2 * WRITERS {
            let writer = Writer {
                device: self.device.clone(),
                zone: ZoneId(stream),
                appends: stream % 2 == 0,
                left: each_writer,
            };
            tasks.push(handle.spawn("writer", writer.run()));
        }
        for reader in 0..READERS {
            let random = Random::new(u64::from(reader));
            let task = read(self.device.clone(), self.filled, each_reader, random);
            tasks.push(handle.spawn("reader", task));
        }
        self.executor.run(async {
            for task in tasks {
                task.await?;
            }
            Ok(())
        })?;
        let commands = 2 * WRITERS * each_writer + READERS * each_reader;
        Ok(MixedLoadOutcome {
            commands: commands.into(),
            virtual_time: elapsed(&handle, started),
            counters: self.drive.counters(),
        })
    }
}

fn elapsed(handle: &Handle, started: Nanos) -> Nanos {
    handle.now().since(started)
}

/// The pattern of a block.
fn word(offset: u32) -> u64 {
    u64::from(offset).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

fn patterns(offsets: std::ops::Range<u32>) -> Payload {
    let mut data = AlignedBuffer::unfilled(BlockCount(offsets.end - offsets.start));
    for (block, offset) in data.as_mut().chunks_exact_mut(BLOCK_BYTES).zip(offsets) {
        let (cells, _) = block.as_chunks_mut();
        cells.fill(word(offset).to_le_bytes());
    }
    Payload::new(data.freeze(), Bytes::new())
}

async fn read(
    device: Rc<dyn ZonedDevice>,
    zone: ZoneId,
    commands: u32,
    mut random: Random,
) -> Result<(), Status> {
    let written = u64::from(device.geometry().zone_capacity.0);
    for _ in 0..commands {
        let offset = u32::try_from(random.below(written)).expect("a zone's blocks fit 32 bits");
        let payload = device.read(ZoneAddress::new(zone, offset), BlockCount(1)).await?;
        assert_eq!(payload.data[0][..8], word(offset).to_le_bytes(), "block {offset} as written");
    }
    Ok(())
}

/// Writes or appends to a zone of its own.
struct Writer {
    device: Rc<dyn ZonedDevice>,
    zone: ZoneId,
    appends: bool,
    /// Commands still to issue.
    left: u32,
}

impl Writer {
    async fn run(mut self) -> Result<(), Status> {
        let first = self.zone.0 << 16;
        let payloads: [_; PAYLOADS] = std::array::from_fn(|index| {
            let offset = first + u32::try_from(index).expect("a few payloads");
            patterns(offset..offset + 1)
        });
        let half = HALF_BLOCKS.min(self.device.geometry().zone_capacity.0 / 2);
        while self.left > 0 {
            self.manage(ZoneAction::Open).await?;
            self.write(0..half, &payloads).await?;
            self.manage(ZoneAction::Close).await?;
            self.write(half..2 * half, &payloads).await?;
            self.manage(ZoneAction::Finish).await?;
            self.manage(ZoneAction::Reset).await?;
        }
        Ok(())
    }

    async fn manage(&mut self, action: ZoneAction) -> Result<(), Status> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
        self.left = left;
        self.device.manage(self.zone, action).await
    }

    async fn write(
        &mut self,
        offsets: std::ops::Range<u32>,
        payloads: &[Payload; PAYLOADS],
    ) -> Result<(), Status> {
        for offset in offsets {
            let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
            self.left = left;
            let payload = payloads[offset as usize % PAYLOADS].clone();
            let at = ZoneAddress::new(self.zone, offset);
            match self.appends {
                true => self.device.append(self.zone, payload, false).await?,
                false => self.device.write(at, payload, false).await?,
            };
        }
        Ok(())
    }
}
