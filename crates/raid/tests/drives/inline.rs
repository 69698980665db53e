//! Arrays of drives without metadata: the blocks lost with a frame header are reconstructed from
//! the other drives.

use crate::support::life::{assert_hit, assert_holds, live, one_life, put_all};
use crate::support::{Array, Shape, attach, executor};
use zoneweave_emulator::{
    BlockPart, CommandKind, Damage, FaultAction, Immediate, RamDrive, Selector,
};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::limits::LimitError;
use zoneweave_raid::log::{MemberHealth, OpenOptions, ReplaceError};
use zoneweave_runtime::Random;
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZoneOffset, ZoneState,
    ZonedDeviceExt,
};

const BLOCKS: u64 = 90;

fn drive() -> RamDrive {
    let geometry = Geometry { oob: OobKind::None, ..Geometry::new(10, BlockCount(130)) };
    RamDrive::new(geometry, Immediate).unwrap()
}

/// An array of which the first blocks hold version 1.
fn filled() -> Array {
    let shape = Shape { zone_blocks: 130, chunk_blocks: 7, tabled: false, ..Shape::small() };
    let drives = (0..4).map(|_| drive()).collect();
    let array = Array::on(shape, drives, &mut Random::new(7));
    live(&array, async |volume, _, _| put_all(volume, BLOCKS, 1).await);
    array
}

/// Does something to a block of every frame of a drive that has data.
fn hit(drive: &RamDrive, block: u32, what: impl Fn(ZoneAddress)) {
    for zone in (2..drive.geometry().zones).map(ZoneId) {
        let written = drive.zone(zone).write_pointer.0;
        (block..written)
            .step_by(8)
            .for_each(|offset| what(ZoneAddress { zone, offset: ZoneOffset(offset) }));
    }
}

#[test]
fn what_headers_take_with_them_is_rebuilt_and_healed() {
    let array = filled();
    let damaged = &array.drives[1];
    let garbage = Damage::Garbage { part: BlockPart::Data, seed: 3 };
    hit(damaged, 0, |at| damaged.corrupt(at, garbage));
    live(&array, async |volume, _, _| {
        assert_holds(volume, BLOCKS, 1).await;
        volume.scrub().await.unwrap();
        assert_holds(volume, BLOCKS, 1).await;
        let again = volume.scrub().await.unwrap();
        assert_eq!(again.damaged, 0, "{again:?}");
    });
    assert_hit(&[Mark::FrameHeaderDamaged]);
}

#[test]
fn a_block_that_cannot_be_read_takes_no_other_with_it() {
    let array = filled();
    let damaged = &array.drives[2];
    hit(damaged, 3, |at| damaged.set_unreadable(at, BlockCount(1)));
    live(&array, async |volume, _, _| assert_holds(volume, BLOCKS, 1).await);
    assert_hit(&[Mark::BlockReadWithHeaderAlone]);
}

/// Full zones of data, of all drives.
fn full_zones(array: &Array) -> Vec<(&RamDrive, ZoneId)> {
    let zones = || (2..array.shape.zones).map(ZoneId);
    let all = array.drives.iter().flat_map(|drive| zones().map(move |zone| (&*drive, zone)));
    all.filter(|(drive, zone)| drive.zone(*zone).state == ZoneState::Full).collect()
}

/// The last write to a zone takes along the blocks behind its last frame, which a crash can cut
/// off: the zone holds all of its segment and stays active.
#[test]
fn zones_that_lack_what_is_behind_their_segment_are_finished() {
    let array = filled();
    live(&array, async |volume, _, _| {
        for version in 2..=9 {
            put_all(volume, BLOCKS, version).await;
        }
    });
    let full = full_zones(&array);
    assert!(full.len() >= 4, "{} zones", full.len());
    let executor = executor();
    let handle = executor.handle();
    let cut = async {
        for (drive, zone) in &full {
            let at = ZoneAddress::new(*zone, 0);
            let frames = drive.peek(at, BlockCount(128));
            let device = drive.attach(&handle);
            device.manage(*zone, ZoneAction::Reset).await.unwrap();
            device.write(at, frames, true).await.unwrap();
        }
    };
    executor.run_until(cut, || false).unwrap();
    assert!(full_zones(&array).is_empty());
    live(&array, async |volume, _, _| assert_holds(volume, BLOCKS, 9).await);
    assert_eq!(full_zones(&array).len(), full.len());
}

/// A record of one block takes a whole frame: it is there although its write failed.
#[test]
fn a_record_that_was_written_all_the_same_costs_no_member() {
    let array = filled();
    // A start writes records, to superblock zones.
    for drive in &array.drives {
        let write = Selector::next(CommandKind::Write).in_zone(ZoneId(0));
        drive.inject(write, FaultAction::FailApplied(Status::WriteFault));
        let write = Selector::next(CommandKind::Write).in_zone(ZoneId(1));
        drive.inject(write, FaultAction::FailApplied(Status::WriteFault));
    }
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 2).await;
        assert!(volume.status().members.iter().all(|member| member.state == MemberHealth::Online));
        assert_holds(volume, BLOCKS, 2).await;
    });
    assert_hit(&[Mark::RecordWrittenAgain]);
}

/// Of a record's frame a drive writes some blocks, of which reports tell or, as of the first alone,
/// do not.
#[test]
fn a_record_that_was_written_in_part_costs_no_member() {
    for part in 1..8 {
        let array = filled();
        let cut_short = || {
            for (drive, zone) in array.drives.iter().flat_map(|drive| [(drive, 0), (drive, 1)]) {
                let write = Selector::next(CommandKind::Write).in_zone(ZoneId(zone));
                drive.inject(write, FaultAction::Partial(BlockCount(part)));
            }
        };
        // A start moves to the other zone; later records are written behind its own.
        cut_short();
        live(&array, async |volume, _, _| {
            put_all(volume, BLOCKS, 2).await;
            cut_short();
            volume.fail(3).await.unwrap();
            put_all(volume, BLOCKS, 3).await;
            let online = |slot: usize| volume.status().members[slot].state == MemberHealth::Online;
            assert!((0..3).all(online), "{part} blocks");
        });
        one_life(&array, &[3], OpenOptions::default(), async |volume, _, _| {
            assert_holds(volume, BLOCKS, 3).await;
        })
        .expect("the array starts");
        assert_hit(&[Mark::RecordInPart]);
    }
}

#[test]
fn a_lost_drive_is_replaced_by_one_of_its_kind_only() {
    let array = filled();
    let (new, other) =
        (drive(), RamDrive::new(Geometry::new(10, BlockCount(130)), Immediate).unwrap());
    let options = OpenOptions::default();
    one_life(&array, &[3], options, async |volume, _, handle| {
        assert_holds(volume, BLOCKS, 1).await;
        let refused = volume.replace(3, attach(&other, handle), MemberUuid([6; 16])).await;
        let unit = LimitError::OtherUnit { unit: BlockCount(7), found: BlockCount(1) };
        assert!(matches!(refused, Err(ReplaceError::DoesNotFit(error)) if error == unit));
        volume.replace(3, attach(&new, handle), MemberUuid([7; 16])).await.unwrap();
        volume.fail(0).await.unwrap();
        assert_holds(volume, BLOCKS, 1).await;
    })
    .unwrap();
}
