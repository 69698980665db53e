//! A reset whose record is not durable yet.

use std::cell::Cell;
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
    BlockCount, Command, Geometry, Payload, ZoneAction, ZoneAddress, ZoneId, ZonedDevice,
    ZonedDeviceExt,
};

use super::model::block;
use super::stalling::Stalling;

const UNIT: u32 = 4;
const DATA: u32 = 2;
/// Zones that may hold superblock records.
const SUPERBLOCK_ZONES: Range<u32> = 0..4;

fn offer(drives: &[RamDrive], handle: &Handle, stalls: &Rc<Cell<bool>>) -> Vec<OfferedDrive> {
    let offered = drives.iter().enumerate().map(|(at, drive)| OfferedDrive {
        device: Stalling::of(drive.attach(handle), SUPERBLOCK_ZONES, stalls),
        label: format!("drive {at}"),
    });
    offered.collect()
}

fn timing(seed: u64) -> Jitter {
    Jitter::new(seed, Nanos(1_000))
}

async fn write(volume: &Volume, zone: u32, start: u32, tags: Range<u64>) {
    let payload = Payload { data: tags.map(block).collect(), oob: Bytes::new() };
    volume.write(ZoneAddress::new(ZoneId(zone), start), payload, true).await.unwrap();
}

/// While a reset waited for its record, a checkpoint freed the parity of the zone's last stripe. A
/// crash before the record was durable, and a lost member, then left half of the zone.
#[test]
fn a_zone_is_whole_or_empty_after_an_interrupted_reset() {
    crate::support::instrument();
    let scheme = Scheme::new(DATA as usize, 1).unwrap();
    let geometry = Geometry::new(7 + 4, BlockCount(240));
    let new = |seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap();
    let drives: Vec<_> = (0..3).map(new).collect();
    let stalls = Rc::new(Cell::new(false));
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let options = CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "zoned".to_owned(),
        members: (1..=3).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        scheme,
        unit: BlockCount(UNIT),
        checksums: true,
        wipe: false,
    };
    executor.run(create(&offer(&drives, &handle, &stalls), &options)).unwrap();
    let length = DATA * UNIT + 1;
    executor.run(async {
        let offered = offer(&drives, &handle, &stalls);
        let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
        write(&volume, 0, 0, 1..u64::from(length) + 1).await;
        stalls.set(true);
        let reset = ZoneAction::Reset;
        let reset = volume.submit(Command::Manage { zone: ZoneId(0), action: reset });
        // As many records as switch the parity log of each member.
        let (mut at, mut zone) = (0, 1);
        for tag in 100..700 {
            if BlockCount(at) == volume.geometry().zone_capacity {
                (at, zone) = (0, zone + 1);
            }
            write(&volume, zone, at, tag..tag + 1).await;
            at += 1;
        }
        drop(reset);
    });
    drop(executor);
    for lost in 0..drives.len() {
        let left: Vec<_> = drives.iter().map(|drive| drive.fork(timing(lost as u64))).collect();
        left.iter().for_each(|drive| drive.power_loss(9));
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let mut offered = offer(&left, &handle, &Rc::default());
        offered.remove(lost);
        executor.run(async {
            let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
            let report = volume.report().await.unwrap();
            let found = report[0].write_pointer.0;
            assert!([0, length].contains(&found), "{found} of {length} blocks without {lost}");
        });
    }
}
