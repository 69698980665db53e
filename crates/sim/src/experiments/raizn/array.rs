//! Arrays of calibrated zoned drives with a zoned volume, in virtual time.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume, create, open};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{
    BlockCount, OobKind, Payload, Status, ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt,
    zero_blocks,
};

use crate::experiments::ExperimentError;
use crate::workload::WorkloadError;

/// The drives.
const PRESET: &str = "zn540-1tb";

/// Data units of a stripe.
pub(super) const DATA: u32 = 4;

/// Drives of an array.
pub(super) const DRIVES: u32 = DATA + 1;

/// A stripe unit of the paper after Fig. 8: 64 KiB.
pub(super) const UNIT: u32 = 16;

/// Zones of each drive that the volume keeps for itself: four are searched for superblocks, two of
/// them hold records; three hold the parity log.
pub(super) const SUPERBLOCK_ZONES: u32 = 4;
pub(super) const LOG_ZONES: u32 = 3;

/// The largest write that fills a zone, 1 MiB, and the writes in flight.
const FILL: u32 = 256;
const FILLS_IN_FLIGHT: u32 = 64;

/// An array of blank drives.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZonedArray {
    /// Blocks of a stripe unit.
    pub(super) unit: u32,
    /// Zones of the volume.
    pub(super) zones: u32,
    /// Blocks of a drive's zone.
    pub(super) capacity: BlockCount,
    pub(super) seed: u64,
}

impl ZonedArray {
    /// An array of drives with zones of real size.
    pub(super) fn new(unit: u32, zones: u32, seed: u64) -> Result<Self, ExperimentError> {
        let capacity = Preset::by_name(PRESET)?.geometry().zone_capacity;
        Ok(Self { unit, zones, capacity, seed })
    }

    /// A blank drive for the array. Its number distinguishes it from others.
    pub(super) fn drive(&self, number: u64) -> Result<RamDrive, ExperimentError> {
        let preset = Preset::by_name(PRESET)?;
        let mut geometry = preset.geometry().clone();
        geometry.zones = SUPERBLOCK_ZONES + LOG_ZONES + self.zones;
        geometry.zone_capacity = self.capacity;
        geometry.oob = OobKind::None;
        let timing = preset.timing_of(&geometry, self.seed.wrapping_mul(100) + number);
        Ok(RamDrive::new(geometry, timing)?)
    }

    /// Creates the array and runs work on its volume.
    pub(super) fn run<T>(
        &self,
        work: impl AsyncFnOnce(Volume, Handle, &[RamDrive]) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let numbers = 0..u64::from(DRIVES);
        let drives = numbers.map(|number| self.drive(number)).collect::<Result<Vec<_>, _>>()?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        executor.run(async {
            let volume = self.start(&handle, &drives).await?;
            work(volume, handle.clone(), &drives[..]).await
        })
    }

    async fn start(&self, handle: &Handle, drives: &[RamDrive]) -> Result<Volume, ExperimentError> {
        let options = CreateOptions {
            array: ArrayUuid([7; 16]),
            name: "experiment".to_owned(),
            members: (0..drives.len()).map(member).collect(),
            lineage: Lineage(1),
            scheme: Scheme::new(DATA as usize, 1).expect("4 + 1 is a scheme"),
            unit: BlockCount(self.unit),
            checksums: false,
            wipe: false,
        };
        create(&offer(handle, drives), &options).await?;
        let (volume, _) = open(handle, offer(handle, drives), OpenOptions::default()).await?;
        Ok(volume)
    }
}

/// The identity of a member.
pub(super) fn member(number: usize) -> MemberUuid {
    MemberUuid([u8::try_from(number + 1).expect("a few drives"); 16])
}

fn offer(handle: &Handle, drives: &[RamDrive]) -> Vec<OfferedDrive> {
    let offer = |(at, drive): (usize, &RamDrive)| OfferedDrive {
        device: drive.attach(handle),
        label: format!("drive {at}"),
    };
    drives.iter().enumerate().map(offer).collect()
}

/// Writes the first blocks of an empty zone of a volume or a drive.
pub(super) async fn fill(
    device: &Rc<dyn ZonedDevice>,
    zone: ZoneId,
    blocks: BlockCount,
) -> Result<(), ExperimentError> {
    let piece = FILL.min(device.geometry().max_transfer.0);
    let (source, mut next) = (zero_blocks(BlockCount(piece)), 0);
    while next < blocks.0 {
        let end = blocks.0.min(next + piece * FILLS_IN_FLIGHT);
        let writes = (next..end).step_by(piece as usize).map(|at| {
            let count = BlockCount(piece.min(end - at));
            let payload = Payload::new(source.slice(..count.data_bytes()), Bytes::new());
            device.write(ZoneAddress::new(zone, at), payload, false)
        });
        try_join_all(writes).await.map_err(|status| failed("a write", zone, status))?;
        next = end;
    }
    Ok(())
}

/// Blocks of users in all zones.
pub(super) async fn written_by_users(device: &Rc<dyn ZonedDevice>) -> Result<u64, ExperimentError> {
    let zones = device.report().await.map_err(|status| failed("a report", ZoneId(0), status))?;
    Ok(zones.iter().map(|zone| u64::from(zone.write_pointer.0)).sum())
}

/// Blocks that the drives were given.
pub(super) fn written_to(drives: &[RamDrive]) -> u64 {
    drives.iter().map(|drive| drive.counters().written_blocks).sum()
}

/// The error of a command that failed.
pub(super) fn failed(operation: &'static str, zone: ZoneId, status: Status) -> ExperimentError {
    WorkloadError::Drive { operation, zone, status }.into()
}
