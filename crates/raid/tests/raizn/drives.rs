//! Three drives with a zoned volume of two data units and one of parity.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::array::format::envelope::ArrayUuid;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume, create, open};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Payload, Status, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use super::model::block;

/// Blocks of a stripe unit, where a test does not care.
pub(super) const UNIT: u32 = 4;
/// Two data units.
pub(super) const STRIPE: u32 = 2 * UNIT;
/// The first zone of each member that is a column: four of the superblock, three of the log.
pub(super) const FIRST_COLUMN: u32 = 7;
pub(super) const LOG_ZONES: Range<u32> = 4..FIRST_COLUMN;

/// Drives whose zones have so many blocks; four of these are columns.
pub(super) fn drives(oob: OobKind, capacity: u32) -> Vec<RamDrive> {
    drives_with(oob, capacity, 14)
}

/// The same, so many of them.
pub(super) fn some_drives(count: usize, capacity: u32) -> Vec<RamDrive> {
    let few = drives(OobKind::Separate, capacity);
    let geometry = few[0].geometry().clone();
    let more = (few.len()..count).map(|seed| timing(seed as u64));
    let more = more.map(|timing| RamDrive::new(geometry.clone(), timing).unwrap());
    few.into_iter().chain(more).take(count).collect()
}

/// The same, with so many zones open or active at a time.
pub(super) fn drives_with(oob: OobKind, capacity: u32, active: u32) -> Vec<RamDrive> {
    crate::support::instrument();
    let geometry = Geometry::new(FIRST_COLUMN + 4, BlockCount(capacity));
    let (max_active, max_open) = (Some(active), Some(active));
    let geometry = Geometry { oob, max_active, max_open, ..geometry };
    let new = |seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap();
    (0..3).map(new).collect()
}

pub(super) fn timing(seed: u64) -> Jitter {
    Jitter::new(seed, Nanos(1_000))
}

pub(super) fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

pub(super) fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let label = |at| format!("drive {at}");
    let offered = drives.iter().enumerate();
    offered
        .map(|(at, drive)| OfferedDrive { device: drive.attach(handle), label: label(at) })
        .collect()
}

pub(super) async fn create_on(drives: &[RamDrive], handle: &Handle, unit: u32) {
    create_as(drives, handle, unit, Scheme::new(2, 1).unwrap()).await;
}

pub(super) async fn create_as(drives: &[RamDrive], handle: &Handle, unit: u32, scheme: Scheme) {
    create(&offer(drives, handle), &options(scheme, unit, true)).await.unwrap();
}

/// How a volume of this shape is created.
pub(super) fn options(scheme: Scheme, unit: u32, checksums: bool) -> CreateOptions {
    let members = u8::try_from(scheme.columns()).unwrap();
    CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "zoned".to_owned(),
        members: (1..=members).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        scheme,
        unit: BlockCount(unit),
        checksums,
        wipe: false,
    }
}

pub(super) async fn start(drives: &[RamDrive], handle: &Handle) -> Volume {
    open(handle, offer(drives, handle), OpenOptions::default()).await.unwrap().0
}

/// Writes blocks of a zone, durably; their tags are their numbers, from 1.
pub(super) async fn write(
    volume: &Volume,
    zone: u32,
    start: u32,
    blocks: u32,
) -> Result<(), Status> {
    let tags = u64::from(start) + 1..=u64::from(start + blocks);
    let payload = Payload { data: tags.map(block).collect(), oob: Bytes::new() };
    volume.write(ZoneAddress::new(ZoneId(zone), start), payload, true).await.map(|_| ())
}
