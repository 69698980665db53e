//! Former members that return: what they missed is copied, and nothing that died comes back.

use std::pin::pin;

use crate::support::life::{assert_hit, assert_holds, live, one_life, put, put_all, put_many};
use crate::support::{Array, Shape, attach, new_drive, uuid};
use futures_util::future::{join, select};
use zoneweave_emulator::{
    BlockPart, CommandKind, Damage, FaultAction, FaultPlan, Immediate, Selector,
};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{
    AdminError, DriveRole, DriveVerdict, Health, MemberHealth, OpenOptions, ReplaceError,
    SegmentPhase, SegmentStatus, StopReason, Volume,
};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{
    BlockCount, BlockDevice, Lba, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZoneState,
    ZonedDeviceExt,
};

/// Blocks of the volume of [`array`].
const BLOCKS: u64 = 1500;

/// Blocks that are written while a drive is away.
const MISSED: u64 = 60;

/// The same, where whole segments are to be missed.
const MANY_MISSED: u64 = 300;

/// An array of four with free segments for twice its volume.
fn array() -> Array {
    array_of(11)
}

fn array_of(salt: u64) -> Array {
    let shape = Shape { zones: 60, volume_blocks: Some(BLOCKS), tabled: false, ..Shape::small() };
    Array::create(shape, &mut Random::new(salt))
}

async fn readd(
    volume: &Volume,
    array: &Array,
    handle: &Handle,
    slot: usize,
    number: usize,
) -> Result<(), ReplaceError> {
    let device = attach(&array.drives[slot], handle);
    volume.readd(slot, device, MemberUuid(uuid(7, number))).await
}

#[test]
fn a_drive_gets_what_it_missed_and_nothing_else() {
    let array = array();
    live(&array, async |volume, _, _| put_all(volume, BLOCKS, 1).await);
    let all = array.drives[1].counters().written_blocks;
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        put_all(volume, MISSED, 2).await;
    })
    .unwrap();
    let before = array.drives[1].counters().written_blocks;
    live(&array, async |volume, report, handle| {
        let stale = DriveRole::Stale { slot: Column::of(1) };
        assert!(report.drives.iter().any(|drive| drive.role == stale), "{report:?}");
        readd(volume, &array, handle, 1, 1).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
    });
    let copied = array.drives[1].counters().written_blocks - before;
    assert!(copied * 4 < all, "{copied} blocks were copied, of {all} that it had");
    assert_hit(&[Mark::ReaddedWithColumns]);
    one_life(&array, &[2], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, MISSED, 2).await;
    })
    .expect("the drive counts");
}

/// The same while users are served: the drive is gone for a moment.
#[test]
fn a_drive_that_is_plugged_in_again_catches_up_under_load() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        for flap in 0..5 {
            array.drives[1].set_gone(true);
            put_all(volume, MISSED, 2 + flap).await;
            array.drives[1].set_gone(false);
            let back = readd(volume, &array, handle, 1, 10 + usize::try_from(flap).unwrap());
            let users = put_all(volume, MISSED, 2 + flap);
            let (back, ()) = join(back, users).await;
            back.unwrap();
            assert_eq!(volume.status().health, Health::Healthy);
        }
    });
    one_life(&array, &[3], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, MISSED, 6).await;
    })
    .expect("the drive counts");
}

/// With copies, any one column makes up a segment: one that was reclaimed in the drive's absence
/// must not come back with it.
#[test]
fn what_was_reclaimed_in_its_absence_stays_dead() {
    const FEW: u64 = 63;
    let shape =
        Shape { data: 1, parity: 2, volume_blocks: Some(FEW), tabled: false, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(12));
    live(&array, async |volume, _, _| put_all(volume, FEW, 1).await);
    one_life(&array, &[0], OpenOptions::default(), async |volume, _, handle| {
        volume.trim(Lba(0), FEW, true).await.unwrap();
        let mut version = 2;
        while volume.status().counters.segments_reclaimed < 30 {
            put(volume, FEW - 1, version).await.unwrap();
            version += 1;
            handle.sleep(Nanos::from_micros(10)).await;
        }
        volume.trim(Lba(FEW - 1), 1, true).await.unwrap();
    })
    .unwrap();
    live(&array, async |volume, _, handle| {
        readd(volume, &array, handle, 0, 2).await.unwrap();
        assert_holds(volume, FEW, 0).await;
    });
    for without in 1..3 {
        one_life(&array, &[without], OpenOptions::default(), async |volume, _, _| {
            assert_holds(volume, FEW, 0).await;
        })
        .unwrap();
    }
}

/// The same for segments that are reclaimed while the drive's other zones are being reset.
#[test]
fn what_is_reclaimed_while_it_returns_stays_dead() {
    const FEW: u64 = 63;
    let shape =
        Shape { data: 1, parity: 2, volume_blocks: Some(FEW), tabled: false, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(14));
    live(&array, async |volume, _, handle| {
        put_all(volume, FEW, 1).await;
        array.drives[0].set_gone(true);
        put(volume, FEW - 1, 2).await.unwrap();
        array.drives[0].set_gone(false);
        let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset));
        array.drives[0].inject(resets, FaultAction::Slow(Nanos::from_secs(10)));
        let users = async {
            // Its zones have been read, and one is being reset.
            handle.sleep(Nanos::from_secs(1)).await;
            volume.trim(Lba(0), FEW, true).await.unwrap();
            let mut version = 3;
            while volume.status().counters.segments_reclaimed < 60 {
                put(volume, FEW - 1, version).await.unwrap();
                version += 1;
                handle.sleep(Nanos::from_micros(10)).await;
            }
            volume.trim(Lba(FEW - 1), 1, true).await.unwrap();
            assert_eq!(volume.status().members[0].state, MemberHealth::Failed, "it is late");
        };
        let (back, ()) = join(readd(volume, &array, handle, 0, 6), users).await;
        back.unwrap();
    });
    assert_hit(&[Mark::ReclaimedWhileAway]);
    for without in 0..3 {
        // A start without a drive may evict it; the next one has it again.
        let drives = array.drives.iter().map(|drive| drive.fork(Immediate)).collect();
        let array = Array { drives, ..array };
        one_life(&array, &[without], OpenOptions::default(), async |volume, _, _| {
            assert_holds(volume, FEW, 0).await;
        })
        .unwrap();
    }
}

/// A drive was gone in the middle of a rebuild, and finished the zone of a column by itself. The
/// zone is full, and its column ends early. Another zone is open, and was never written.
#[test]
fn a_full_zone_counts_only_if_its_column_is_complete() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        array.drives[1].set_gone(true);
        put_all(volume, MANY_MISSED, 2).await;
        array.drives[1].set_gone(false);
        // The drive goes behind four records and the headers of two columns.
        let writes = Selector::next(CommandKind::Write).after(6);
        array.drives[1].inject(writes, FaultAction::Gone);
        let cut = readd(volume, &array, handle, 1, 5).await;
        assert!(matches!(cut, Err(ReplaceError::DriveFailed(_))), "{cut:?}");
        array.drives[1].set_gone(false);
        let drive = attach(&array.drives[1], handle);
        let zones = drive.report().await.unwrap();
        let of_log = |info: &&ZoneInfo| info.zone.0 > 1;
        let active = zones.iter().filter(|info| info.state.is_active()).filter(of_log);
        let active: Vec<_> = active.map(|info| info.zone).collect();
        assert!(!active.is_empty(), "a column was being rebuilt: {zones:?}");
        for zone in &active {
            drive.manage(*zone, ZoneAction::Finish).await.unwrap();
        }
        let empty = zones.iter().find(|info| info.state == ZoneState::Empty).unwrap().zone;
        drive.manage(empty, ZoneAction::Open).await.unwrap();
        readd(volume, &array, handle, 1, 6).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
    });
    assert_hit(&[Mark::UnfinishedColumnLeftOut]);
    one_life(&array, &[3], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, MANY_MISSED, 2).await;
    })
    .expect("the drive counts");
}

/// Drives chose the rows of appended chunks. While one is away, the other copy of its summaries
/// cannot be read, so its chunks are taken for those of the stripes in any order.
#[test]
fn appended_chunks_are_kept_only_where_their_order_is_known() {
    const FEW: u64 = 600;
    let shape = Shape { zones: 60, volume_blocks: Some(FEW), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(15));
    live(&array, async |volume, _, handle| {
        put_many(volume, handle, 3, FEW / 3, 1).await;
        volume.flush().await.unwrap();
        for segment in volume.segments() {
            if let Some(zone) = segment.zones[2].filter(|_| segment.phase == SegmentPhase::Sealed) {
                // The copy that the next drive keeps ends the zone.
                let at = ZoneAddress::new(ZoneId(zone), shape.zone_blocks - 1);
                array.drives[2].set_unreadable(at, BlockCount(1));
            }
        }
    });
    let all = OpenOptions { ignore_checkpoint: true, ..OpenOptions::default() };
    one_life(&array, &[1], all, async |volume, _, handle| {
        put_all(volume, 1, 1).await;
        readd(volume, &array, handle, 1, 1).await.unwrap();
        array.drives[3].set_gone(true);
        assert_holds(volume, FEW, 1).await;
    })
    .unwrap();
    assert_hit(&[Mark::UnreadChunkAssigned, Mark::OtherOrderLeftOut]);
}

/// The same, when the other copy has been written again: a rebuilt column has it in the order that
/// was assigned, and after a restart nothing says that it was. The drive's own summaries do.
#[test]
fn appended_chunks_are_rebuilt_where_others_have_them_in_another_order() {
    const FEW: u64 = 600;
    let shape = Shape { parity: 2, zones: 60, volume_blocks: Some(FEW), ..Shape::small() };
    let mut array = Array::create(shape, &mut Random::new(15));
    live(&array, async |volume, _, handle| {
        put_many(volume, handle, 3, FEW / 3, 1).await;
        volume.flush().await.unwrap();
        let mut segments = volume.segments();
        segments.retain(|segment| segment.phase == SegmentPhase::Sealed);
        for (segment, slot) in segments.iter().flat_map(|it| [(it, 2), (it, 3)]) {
            if let Some(zone) = segment.zones[slot] {
                // The copies that it keeps of the summaries of the two drives before it.
                let at = ZoneAddress::new(ZoneId(zone), shape.zone_blocks - 2);
                array.drives[slot].set_unreadable(at, BlockCount(2));
            }
        }
    });
    let all = || OpenOptions { ignore_checkpoint: true, ..OpenOptions::default() };
    let new = new_drive(&shape, &mut Random::new(16));
    one_life(&array, &[1], all(), async |volume, _, handle| {
        put_all(volume, 1, 1).await;
        volume.replace(2, attach(&new, handle), MemberUuid(uuid(7, 8))).await.unwrap();
    })
    .unwrap();
    new.process_kill(1);
    array.drives[2] = new;
    assert_hit(&[Mark::UnreadChunkAssigned]);
    one_life(&array, &[], all(), async |volume, _, handle| {
        readd(volume, &array, handle, 1, 1).await.unwrap();
        array.drives[0].set_gone(true);
        array.drives[4].set_gone(true);
        assert_holds(volume, FEW, 1).await;
    })
    .unwrap();
    assert_hit(&[Mark::OtherOrderLeftOut]);
}

/// A re-added drive keeps the records of its former membership until its old superblock zone is
/// reset. A death that no other member knew never counted, and the segment has gone on. A start
/// that believed it erased the segment.
#[test]
fn a_death_that_only_the_former_member_knew_does_not_count() {
    const FEW: u64 = 252;
    let shape = Shape { zones: 24, volume_blocks: Some(FEW), tabled: false, ..Shape::small() };
    let others = [0, 2, 3];
    let array = Array::create(shape, &mut Random::new(21));
    live(&array, async |volume, _, handle| {
        put_all(volume, FEW, 1).await;
        // Damage has its segment relocated, without any need of space.
        let sealed = |segment: &SegmentStatus| segment.phase == SegmentPhase::Sealed;
        let zone = volume.segments().into_iter().find(sealed).unwrap().zones[1].unwrap();
        let damage = Damage::BitFlip { part: BlockPart::Data, seed: 3 };
        array.drives[1].corrupt(ZoneAddress::new(ZoneId(zone), 5), damage);
        for (slot, zone) in others.into_iter().flat_map(|slot| [(slot, 0), (slot, 1)]) {
            let record = Selector::next(CommandKind::Write).in_zone(ZoneId(zone));
            array.drives[slot].inject(record, FaultAction::Gone);
        }
        // The first record is of the death of the segment. It reaches the drive that is left.
        assert!(volume.scrub().await.is_err(), "writes stop");
        handle.sleep(Nanos::from_secs(1)).await;
    });
    others.iter().for_each(|slot| array.drives[*slot].faults(FaultPlan::clear));
    others.iter().for_each(|slot| array.drives[*slot].set_gone(false));
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, handle| {
        put(volume, 0, 1).await.unwrap();
        handle.sleep(Nanos::from_secs(1)).await;
        assert_holds(volume, FEW, 1).await;
    })
    .unwrap();
    // The crash comes before the reset of its old superblock zone.
    for zone in [ZoneId(0), ZoneId(1)] {
        let resets = Selector::next(CommandKind::Manage(ZoneAction::Reset)).in_zone(zone);
        array.drives[1].inject(resets.always(), FaultAction::Fail(Status::InternalError));
    }
    live(&array, async |volume, _, handle| {
        let joined = async {
            while volume.status().members[1].state != MemberHealth::Rebuilding {
                handle.sleep(Nanos::from_micros(10)).await;
            }
            handle.sleep(Nanos::from_millis(1)).await;
        };
        select(pin!(readd(volume, &array, handle, 1, 1)), pin!(joined)).await;
    });
    array.drives[1].faults(FaultPlan::clear);
    live(&array, async |volume, _, _| assert_holds(volume, FEW, 1).await);
    assert_hit(&[Mark::FormerDecisionLeftOut]);
}

/// Two orders at a start without a drive: each saw the redundancy of before the other, because both
/// waited for the records of the start after they had checked it.
#[test]
fn two_orders_take_out_no_more_than_the_redundancy_covers() {
    let shape = Shape { parity: 2, volume_blocks: Some(100), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(22));
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        assert_eq!(volume.status().members[1].state, MemberHealth::Missing);
        let orders = join(volume.fail(2), volume.fail(3)).await;
        assert!(orders.0.is_ok() != orders.1.is_ok(), "{orders:?}");
        assert_eq!(volume.status().stopped, None);
        assert_holds(volume, 100, 0).await;
    })
    .unwrap();
}

/// An order that waited for the records of a start went on after the volume was closed.
#[test]
fn a_closed_volume_decides_nothing() {
    let array = array();
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        let (closed, order) = join(volume.close(), volume.fail(1)).await;
        closed.unwrap();
        for order in [order, volume.fail(1).await] {
            assert_eq!(order, Err(AdminError::Stopped(StopReason::ShuttingDown)));
        }
    })
    .unwrap();
    live(&array, async |volume, report, _| {
        let is_member = |drive: &DriveVerdict| matches!(drive.role, DriveRole::Member { .. });
        assert!(report.drives.iter().all(is_member), "{report:?}");
        assert_eq!(volume.status().health, Health::Healthy);
    });
}

#[test]
fn only_a_former_member_of_the_slot_returns() {
    let (array, other) = (array(), array_of(13));
    live(&other, async |volume, _, _| put_all(volume, 10, 1).await);
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, handle| {
        put_all(volume, 10, 1).await;
        let refused = Err(ReplaceError::NotOfSlot { slot: Column::of(1) });
        let uuid = MemberUuid(uuid(7, 3));
        let foreign = volume.readd(1, attach(&other.drives[1], handle), uuid).await;
        assert_eq!(foreign, refused);
        let taken = readd(volume, &array, handle, 2, 4).await;
        assert_eq!(taken, Err(ReplaceError::FilledMeanwhile { slot: Column::of(2) }));
    })
    .unwrap();
    assert_hit(&[Mark::ReaddRefused]);
}

/// Two starts in a row, each without another drive, and nothing written: none is expelled.
#[test]
fn a_start_without_a_drive_expels_it_only_before_a_write() {
    let array = array();
    for without in [1, 2, 0, 3] {
        one_life(&array, &[without], OpenOptions::default(), async |volume, report, _| {
            let role = |drive: &DriveVerdict| matches!(drive.role, DriveRole::Member { .. });
            assert!(report.drives.iter().all(role), "{report:?}");
            let status = volume.status();
            assert_eq!(status.members[without].state, MemberHealth::Missing);
            assert_eq!(status.health, Health::Degraded);
            assert_holds(volume, MISSED, 0).await;
            volume.flush().await.unwrap();
        })
        .unwrap();
    }
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().health, Health::Healthy);
    });
    assert_hit(&[Mark::StartUnpublished]);
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        put(volume, 0, 2).await.unwrap();
        assert_eq!(volume.status().members[1].state, MemberHealth::Failed);
    })
    .unwrap();
    live(&array, async |volume, report, _| {
        let stale = DriveRole::Stale { slot: Column::of(1) };
        assert!(report.drives.iter().any(|drive| drive.role == stale), "{report:?}");
        assert_holds(volume, 1, 2).await;
    });
    assert_hit(&[Mark::PublishedLate]);
}
