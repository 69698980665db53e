//! Branches that random histories rarely reach, each with its required outcome.
//!
//! In builds that count marks, each test also checks that it was where it says.

use crate::support::life::{
    assert_hit, assert_holds, live, member, one_life, put, put_all, refused, roles,
};
use crate::support::{self, Array, Shape, contents, executor, new_drive, uuid};
use bytes::Bytes;
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Immediate, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{Lineage, MemberUuid, Oob, Seed};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{
    AdminError, AssemblyError, DriveRole, Health, MemberHealth, OpenError, OpenOptions,
    ReplaceError, SegmentPhase, Volume,
};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockError, Lba, Payload, Status, ZoneAction, ZoneAddress, ZoneId,
    ZonedDeviceExt, zero_blocks,
};

/// Data blocks of a segment of [`array`]: 21 rows of three.
const SEGMENT_BLOCKS: u64 = 63;

fn array(salt: u64) -> Array {
    shaped(Shape::small(), salt)
}

/// An array that can do without some zones.
fn array_with_spare_zones(salt: u64) -> Array {
    shaped(Shape { volume_blocks: Some(3 * SEGMENT_BLOCKS), ..Shape::small() }, salt)
}

fn shaped(shape: Shape, salt: u64) -> Array {
    Array::create(Shape { tabled: false, ..shape }, &mut Random::new(salt))
}

/// The zones on a slot of the segments that are sealed, oldest first.
fn sealed_zones(volume: &Volume, slot: usize) -> Vec<ZoneId> {
    let mut segments = volume.segments();
    segments.retain(|segment| segment.phase == SegmentPhase::Sealed);
    segments.sort_by_key(|segment| segment.segment);
    segments.iter().map(|segment| ZoneId(segment.zones[slot].unwrap())).collect()
}

/// Writes a version of consecutive blocks in one request, and so in full stripes.
/// Waits until the segment that it fills is sealed.
async fn put_run(volume: &Volume, handle: &Handle, lba: u64, blocks: u64, version: u64) {
    let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
    volume.write(Lba(lba), data, false).await.unwrap();
    handle.sleep(Nanos::from_millis(5)).await;
    volume.flush().await.unwrap();
}

/// Fills a segment; its zone on a slot.
fn filled_zone(array: &Array, slot: usize) -> ZoneId {
    live(array, async |volume, _, handle| {
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 1).await;
        sealed_zones(volume, slot)[0]
    })
}

/// Waits until nothing has to be moved out or reset.
async fn settled(volume: &Volume, handle: &Handle) {
    let vanishes = |phase| matches!(phase, SegmentPhase::Leftover | SegmentPhase::Dead);
    while volume.segments().iter().any(|segment| vanishes(segment.phase)) {
        handle.sleep(Nanos::from_millis(1)).await;
    }
}

fn fail_once(array: &Array, drive: usize, kind: CommandKind, zone: ZoneId) {
    let fault = FaultAction::Fail(Status::WriteFault);
    array.drives[drive].inject(Selector::next(kind).in_zone(zone), fault);
}

#[test]
fn drives_of_others_copies_and_smaller_ones_are_no_members() {
    let mut ours = array(1);
    live(&ours, async |volume, _, _| put_all(volume, 9, 1).await);
    ours.drives.push(array(2).drives[0].clone());
    live(&ours, async |volume, report, _| {
        assert!(matches!(roles(report)[4], DriveRole::Foreign { .. }));
        assert_holds(volume, 9, 1).await;
    });
    ours.drives[4] = ours.drives[0].fork(Immediate);
    assert!(matches!(refused(&ours, &[]), OpenError::Array(AssemblyError::Duplicate { .. })));
    ours.drives[4] = new_drive(&ours.shape, &mut Random::new(3));
    live(&ours, async |_, report, _| assert_eq!(roles(report)[4], DriveRole::Blank));
    ours.drives.truncate(4);
    let smaller = Shape { zones: ours.shape.zones - 1, ..ours.shape };
    let smaller = new_drive(&smaller, &mut Random::new(4));
    let executor = executor();
    let device = smaller.attach(&executor.handle());
    for zone in [ZoneId(0), ZoneId(1)] {
        let records = ours.drives[3].zone(zone).write_pointer;
        if records.0 > 0 {
            let at = ZoneAddress::new(zone, 0);
            let payload = ours.drives[3].peek(at, BlockCount(records.0));
            executor.run(device.write(at, payload, true)).unwrap();
        }
    }
    ours.drives[3] = smaller;
    assert!(matches!(refused(&ours, &[]), OpenError::Array(AssemblyError::Shrunk { .. })));
    assert_hit(&[Mark::OtherArrayLeftOut, Mark::DuplicateRefused, Mark::ShrunkMemberRefused]);
    assert_hit(&[Mark::DriveWithoutRecordsLeftOut]);
}

#[test]
fn two_histories_are_not_mixed() {
    let array = shaped(Shape { data: 1, parity: 2, ..Shape::small() }, 5);
    live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
    for (lineage, without) in [(71, [1, 2]), (72, [0, 2])] {
        let force =
            OpenOptions { force: true, lineage: Lineage(lineage), ..OpenOptions::default() };
        one_life(&array, &without, force, async |volume, _, _| put_all(volume, 9, 2).await)
            .expect("the array starts");
    }
    assert!(matches!(refused(&array, &[]), OpenError::Array(AssemblyError::TwoHistories { .. })));
    assert_hit(&[Mark::ForcedStart, Mark::TwoHistoriesRefused]);
}

/// A crash between the writes of an eviction's record: one drive has it.
#[test]
fn an_eviction_that_never_counted_is_gone_back_behind() {
    for (without, mark) in [(None, Mark::EpochAboveAllSeen), (Some(1), Mark::OlderVersionTaken)] {
        let mut array = array(6);
        live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
        let before: Vec<_> = array.drives.iter().map(|drive| drive.fork(Immediate)).collect();
        live(&array, async |volume, _, _| volume.fail(3).await.unwrap());
        for (drive, before) in array.drives.iter_mut().zip(&before).skip(1) {
            *drive = before.fork(Immediate);
        }
        let without: Vec<_> = without.into_iter().collect();
        let started = one_life(&array, &without, OpenOptions::default(), async |volume, _, _| {
            assert_holds(volume, 9, 1).await;
            put_all(volume, 9, 2).await;
        });
        started.expect("the array starts");
        live(&array, async |volume, report, _| {
            assert_eq!(roles(report)[3], member(3));
            assert_holds(volume, 9, 2).await;
        });
        assert_hit(&[mark]);
    }
}

#[test]
fn blocks_of_other_segments_are_not_taken_for_ours() {
    let array = array(7);
    let zones = live(&array, async |volume, _, handle| {
        put_run(volume, handle, 0, 2 * SEGMENT_BLOCKS, 1).await;
        sealed_zones(volume, 0)
    });
    for offset in [3, 22] {
        let other = array.drives[0].peek(ZoneAddress::new(zones[1], offset), BlockCount(1));
        array.drives[0].overwrite(ZoneAddress::new(zones[0], offset), &other);
    }
    live(&array, async |volume, _, _| {
        assert_holds(volume, 2 * SEGMENT_BLOCKS, 1).await;
        assert!(volume.scrub().await.unwrap().damaged <= 2);
        assert_holds(volume, 2 * SEGMENT_BLOCKS, 1).await;
    });
    assert_hit(&[Mark::ListOfOtherPlace, Mark::ListCopyUsed, Mark::StaleBlock]);
    assert_hit(&[Mark::DamagedBlockRebuilt, Mark::DamagedMoved]);
}

/// A list that verifies is of no use where another one has to be.
#[test]
fn a_list_in_the_place_of_another_is_damaged() {
    let array = array(7);
    let zone = filled_zone(&array, 0);
    let own = array.drives[0].peek(ZoneAddress::new(zone, 22), BlockCount(1));
    array.drives[0].overwrite(ZoneAddress::new(zone, 23), &own);
    live(&array, async |volume, _, _| {
        assert_eq!(volume.scrub().await.unwrap().damaged, 1);
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
    });
}

/// Earlier contents of a drive must not be readable once it is a member again.
#[test]
fn a_replacement_that_does_not_reset_its_zones_is_none() {
    let array = array(9);
    live(&array, async |volume, _, handle| {
        put_all(volume, 150, 1).await;
        let zone = sealed_zones(volume, 1)[0];
        volume.fail(1).await.unwrap();
        let reset = Selector::next(CommandKind::Manage(ZoneAction::Reset)).in_zone(zone);
        array.drives[1].inject(reset.clone().times(2), FaultAction::Lost);
        let back = volume.replace(1, array.drives[1].attach(handle), MemberUuid(uuid(1, 9)));
        assert_eq!(back.await, Err(ReplaceError::DriveFailed(Status::WriteFault)));
        array.drives[1].inject(reset.times(1), FaultAction::Lost);
        let back = volume.replace(1, array.drives[1].attach(handle), MemberUuid(uuid(1, 9)));
        back.await.unwrap();
    });
    assert_hit(&[Mark::DriveNotEmptied]);
}

#[test]
fn replacements_are_refused_taken_and_given_up() {
    let mut array = array(8);
    let other = |zones, zone_blocks, salt| {
        let shape = Shape { zones, zone_blocks, ..Shape::small() };
        new_drive(&shape, &mut Random::new(salt))
    };
    let id = |salt| MemberUuid(uuid(1, salt));
    let (small, dying, large) = (other(9, 24, 1), other(10, 24, 2), other(12, 400, 3));
    let worn = other(10, 24, 4);
    worn.set_offline(ZoneId(7));
    live(&array, async |volume, _, handle| {
        put_all(volume, 150, 1).await;
        for drive in [&small, &worn] {
            let refusal = volume.replace(3, drive.attach(handle), id(1)).await.unwrap_err();
            assert!(matches!(refusal, ReplaceError::TooSmall { .. }), "{refusal}");
        }
        let replace = volume.replace(3, dying.attach(handle), id(2));
        let lose = async {
            while volume.status().rebuild.is_none() {
                handle.sleep(Nanos::from_micros(10)).await;
            }
            dying.set_gone(true);
        };
        let (result, ()) = futures_util::future::join(replace, lose).await;
        assert_eq!(result.unwrap_err(), ReplaceError::DriveFailed(Status::DeviceGone));
        let refusal = volume.replace(0, large.attach(handle), id(3)).await.unwrap_err();
        assert!(matches!(refusal, ReplaceError::Admin(AdminError::WouldLoseData { .. })));
        volume.replace(3, large.attach(handle), id(3)).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
        put_all(volume, 150, 2).await;
    });
    array.drives[3] = large;
    live(&array, async |volume, _, _| assert_holds(volume, 150, 2).await);
    assert_hit(&[Mark::SmallDriveRefused, Mark::WornDriveRefused, Mark::WorkingDriveRetired]);
    assert_hit(&[
        Mark::RebuildGivenUp,
        Mark::TakingOutWouldLose,
        Mark::RebuildEnded,
        Mark::LargerZoneFinished,
    ]);
}

#[test]
fn half_of_the_drives_do_not_go_on_by_themselves() {
    let array = shaped(Shape { data: 2, parity: 2, ..Shape::small() }, 10);
    live(&array, async |volume, _, _| {
        put_all(volume, 9, 1).await;
        volume.fail(0).await.unwrap();
        volume.drive_lost(1, "pulled").unwrap();
        assert_holds(volume, 9, 1).await;
        assert!(matches!(put(volume, 0, 2).await, Err(BlockError::ReadOnly { .. })));
    });
    assert_hit(&[Mark::StoppedWithoutMajority]);
}

#[test]
fn a_block_that_cannot_be_read_costs_nothing_and_two_of_a_stripe_an_error() {
    let array = array(11);
    let unreadable = |drive: usize, zone, offset| {
        array.drives[drive].set_unreadable(ZoneAddress::new(zone, offset), BlockCount(1));
    };
    live(&array, async |volume, _, handle| {
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 1).await;
        let zone = |slot| sealed_zones(volume, slot)[0];
        unreadable(0, zone(0), 5);
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
        let report = volume.scrub().await.unwrap();
        assert_eq!(report.unrepairable, 0);
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 2).await;
        // The three data blocks of the newest segment's first stripe.
        let newest = |slot| *sealed_zones(volume, slot).last().unwrap();
        for slot in 0..3 {
            unreadable(slot, newest(slot), 1);
        }
        let scrub = async || {
            let report = volume.scrub().await.unwrap();
            (report.unrepairable, report.lost_before)
        };
        assert_eq!(scrub().await, (3, 0));
        let mut lost = 0;
        for lba in 0..SEGMENT_BLOCKS {
            match volume.read(Lba(lba), 1).await {
                Err(error) => {
                    assert_eq!(error, BlockError::Unrecoverable { lba: Lba(lba) });
                    lost += 1;
                }
                Ok(data) => assert_eq!(support::version_of(lba, &data[0]), 2),
            }
        }
        assert_eq!(lost, 3);
        assert_eq!(scrub().await, (0, 3), "not forgotten");
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 3).await;
        assert_holds(volume, SEGMENT_BLOCKS, 3).await;
        assert_eq!(scrub().await, (0, 0));
    });
    live(&array, async |volume, _, _| assert_holds(volume, SEGMENT_BLOCKS, 3).await);
    assert_hit(&[Mark::UnreadableBlockRebuilt, Mark::ScrubChunkByChunk, Mark::TooFewIntact]);
    assert_hit(&[Mark::LostBlockMoved, Mark::LostBlockRefused]);
}

#[test]
fn a_leftover_is_scanned_around_unreadable_blocks() {
    let array = array(12);
    let zone = live(&array, async |volume, _, _| {
        put_all(volume, 18, 1).await;
        ZoneId(volume.segments()[0].zones[1].unwrap())
    });
    array.drives[1].set_unreadable(ZoneAddress::new(zone, 2), BlockCount(1));
    live(&array, async |volume, _, _| assert_holds(volume, 18, 1).await);
    assert_hit(&[Mark::ScanChunkByChunk, Mark::ChunkEntriesRebuilt]);
}

#[test]
fn zones_that_cannot_be_reset_stay_known_as_dead() {
    let array = array_with_spare_zones(13);
    let reset = CommandKind::Manage(ZoneAction::Reset);
    // A reset that fails is tried three times.
    let fail_resets = |slot, zone, times| {
        (0..times * 3).for_each(|_| fail_once(&array, slot, reset, zone));
    };
    fail_resets(0, ZoneId(0), 1);
    let zone = live(&array, async |volume, _, handle| {
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 1).await;
        let zone = sealed_zones(volume, 0)[0];
        fail_resets(0, zone, 1);
        fail_resets(1, zone, 2);
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 2).await;
        while volume.status().counters.segments_reclaimed == 0 {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        zone
    });
    live(&array, async |volume, _, _| assert_holds(volume, SEGMENT_BLOCKS, 2).await);
    // The other blocks of the zone identify it as dead, too.
    let damage = Damage::Garbage { part: BlockPart::Data, seed: 1 };
    array.drives[1].corrupt(ZoneAddress::new(zone, 0), damage);
    live(&array, async |volume, _, _| {
        assert_holds(volume, SEGMENT_BLOCKS, 2).await;
        assert_eq!(array.drives[1].zone(zone).write_pointer.0, 0);
    });
    assert_hit(&[
        Mark::DeadZoneWithoutHeader,
        Mark::SuperblockZoneNotReset,
        Mark::SuperblockZoneResetLate,
    ]);
    assert_hit(&[Mark::ZoneNotReset, Mark::DeadSegmentResetAgain, Mark::DeadZoneNotReset]);
    assert_hit(&[Mark::PartialResetFinished]);
}

#[test]
fn zones_that_nobody_accounts_for_are_left_alone() {
    let array = array_with_spare_zones(14);
    let executor = executor();
    let device = array.drives[0].attach(&executor.handle());
    let zeros = |blocks: u32| {
        let oob = Bytes::from(vec![0; BlockCount(blocks).oob_bytes()]);
        Payload::new(zero_blocks(BlockCount(blocks)), oob)
    };
    executor.run(device.write(ZoneAddress::new(ZoneId(8), 0), zeros(3), true)).unwrap();
    executor.run(device.write(ZoneAddress::new(ZoneId(9), 0), zeros(1), true)).unwrap();
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().members[0].orphan_zones, 1);
        put_all(volume, 9, 1).await;
        assert_eq!(array.drives[0].zone(ZoneId(8)).write_pointer.0, 3);
        assert_eq!(array.drives[0].zone(ZoneId(9)).write_pointer.0, 0);
    });
    assert_hit(&[Mark::OrphanZoneLeftAlone, Mark::HeaderlessZoneReset]);
}

#[test]
fn a_zone_that_went_offline_and_a_drive_without_report_cost_nothing() {
    let array = array_with_spare_zones(15);
    let zone = filled_zone(&array, 2);
    array.drives[2].set_offline(zone);
    live(&array, async |volume, _, handle| {
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
        settled(volume, handle).await;
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
    });
    let second = Selector::next(CommandKind::Report).after(1);
    array.drives[3].inject(second, FaultAction::Fail(Status::InternalError));
    live(&array, async |volume, _, _| {
        assert_eq!(volume.status().members[3].state, MemberHealth::Failed);
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
    });
    assert_hit(&[Mark::OfflineZoneLeftOut, Mark::ColumnLost, Mark::MemberWithoutReport]);
}

/// A volume that needs every zone goes on without a member that lost one, or else users would wait
/// for room for ever; without redundancy writes fail.
#[test]
fn a_member_with_too_few_zones_is_taken_out() {
    for (parity, state) in [(1, MemberHealth::Failed), (0, MemberHealth::Online)] {
        let array = shaped(Shape { parity, ..Shape::small() }, 18);
        live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
        // Nothing is in the last zone yet.
        array.drives[2].set_read_only(ZoneId(9));
        live(&array, async |volume, _, _| {
            assert_eq!(volume.status().members[2].state, state);
            let mut written = Ok(());
            for version in 2..8 {
                for lba in 0..volume.info().blocks {
                    written = written.and(put(volume, lba, version).await);
                }
            }
            assert_eq!(written.is_ok(), parity > 0);
            assert!(volume.read(Lba(0), 1).await.is_ok());
        });
    }
    assert_hit(&[Mark::EvictedForZones, Mark::NoRoomLeft, Mark::ReadOnlyZoneProbed]);
}

/// The contents of the trim are lost, but nothing else is.
#[test]
fn a_trim_beyond_repair_takes_nothing_with_it() {
    let array = array(16);
    let zones = live(&array, async |volume, _, handle| {
        put_all(volume, 9, 1).await;
        volume.trim(Lba(0), 3, false).await.unwrap();
        put_run(volume, handle, 9, 33, 1).await;
        (0..4).map(|slot| sealed_zones(volume, slot)[0]).collect::<Vec<_>>()
    });
    // Each request made a stripe: that of the trim is the tenth.
    for (drive, zone) in array.drives.iter().zip(zones) {
        drive.set_unreadable(ZoneAddress::new(zone, 10), BlockCount(1));
    }
    assert!(matches!(refused(&array, &[]), OpenError::Unaccounted { .. }));
    let forced = OpenOptions { force: true, lineage: Lineage(1), ..OpenOptions::default() };
    let read = one_life(&array, &[], forced, async |volume, _, _| {
        for lba in 3..42 {
            let data = volume.read(Lba(lba), 1).await.unwrap();
            assert_eq!(support::version_of(lba, &data[0]), 1);
        }
    });
    read.unwrap();
    assert_hit(&[Mark::TombstoneUnreadable]);
}

#[test]
fn a_volume_being_closed_takes_no_writes() {
    live(&array(17), async |volume, _, _| {
        volume.close().await.unwrap();
        assert_eq!(put(volume, 0, 1).await, Err(BlockError::ShuttingDown));
    });
    assert_hit(&[Mark::RefusedAtClose]);
}

#[test]
fn appends_stored_twice_or_answered_wrongly_do_no_harm() {
    for fault in [FaultAction::AppendTwice, FaultAction::RepeatOffset] {
        let array = Array::create(Shape::small(), &mut Random::new(18));
        array.drives[0].inject(Selector::next(CommandKind::Append).after(1), fault);
        live(&array, async |volume, _, _| {
            put(volume, 0, 1).await.unwrap();
            put(volume, 1, 1).await.unwrap();
        });
        live(&array, async |volume, _, handle| {
            assert_holds(volume, 2, 1).await;
            put_run(volume, handle, 0, SEGMENT_BLOCKS, 2).await;
        });
        live(&array, async |volume, _, _| assert_holds(volume, SEGMENT_BLOCKS, 2).await);
    }
    assert_hit(&[Mark::StripeTwice, Mark::ChunkMisplaced, Mark::StripeElsewhere]);
}

#[test]
fn parity_that_does_not_match_is_found_and_healed() {
    let array = array(19);
    live(&array, async |volume, _, handle| {
        put_run(volume, handle, 0, SEGMENT_BLOCKS, 1).await;
        // The parity of the first stripe is on the last column.
        let at = ZoneAddress::new(sealed_zones(volume, 3)[0], 1);
        forge_parity(&array, at);
        assert_eq!(volume.scrub().await.unwrap().parity_mismatches, 1);
        let again = volume.scrub().await.unwrap();
        assert_eq!((again.damaged, again.parity_mismatches), (0, 0));
        assert_holds(volume, SEGMENT_BLOCKS, 1).await;
    });
    assert_hit(&[Mark::ScrubFoundParity]);
}

/// Changes a parity block and makes everything beside it right.
fn forge_parity(array: &Array, at: ZoneAddress) {
    let executor = executor();
    let copy = array.drives[3].fork(Immediate);
    let records = executor.run(read_records(&*copy.attach(&executor.handle()))).unwrap();
    let seed = Seed::of(records.newest().unwrap().config.array);
    let stored = array.drives[3].peek(at, BlockCount(1));
    let mut data = stored.block(0).to_vec();
    data[77] ^= 1;
    let oob = Oob::parse(&stored.block_oob(0)).unwrap().encode(seed, &data, false);
    let forged = Payload::new(Bytes::from(data), Bytes::copy_from_slice(&oob));
    array.drives[3].overwrite(at, &forged);
}

#[test]
fn superblock_records_that_cannot_be_read_are_passed_over() {
    let array = array(20);
    live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
    for zone in [ZoneId(0), ZoneId(1)] {
        array.drives[1].set_unreadable(ZoneAddress::new(zone, 0), BlockCount(1));
    }
    live(&array, async |volume, report, _| {
        assert_eq!(roles(report)[1], member(1));
        assert_holds(volume, 9, 1).await;
    });
    assert_hit(&[Mark::RecordsReadOneByOne, Mark::DamagedRecordSkipped]);
}

/// Two of three drives seem to carry the version from before the eviction.
#[test]
fn an_evicted_member_stays_out_where_the_record_of_it_cannot_be_read() {
    let array = shaped(Shape { data: 2, ..Shape::small() }, 22);
    live(&array, async |volume, _, _| {
        put_all(volume, 9, 1).await;
        volume.fail(2).await.unwrap();
        put_all(volume, 9, 2).await;
    });
    let executor = executor();
    let copy = array.drives[0].fork(Immediate);
    let found = executor.run(read_records(&*copy.attach(&executor.handle()))).unwrap();
    let newest = found.newest().unwrap().epoch;
    for zone in [ZoneId(0), ZoneId(1)] {
        let here = found.scan.records.iter().filter(|(at, _)| at.zone == zone);
        for (offset, _) in (0..).zip(here).filter(|(_, (_, record))| record.epoch == newest) {
            array.drives[0].set_unreadable(ZoneAddress::new(zone, offset), BlockCount(1));
        }
    }
    live(&array, async |volume, report, _| {
        assert_eq!(roles(report)[2], DriveRole::Stale { slot: Column::of(2) });
        assert_holds(volume, 9, 2).await;
    });
    assert_hit(&[Mark::NewerRecordMayBeHidden, Mark::CarriedVersionOvertaken]);
}

#[test]
fn a_member_that_fails_while_another_is_evicted_is_evicted_next() {
    let array = shaped(Shape { data: 3, parity: 2, ..Shape::small() }, 21);
    live(&array, async |volume, _, handle| {
        put_all(volume, 9, 1).await;
        for zone in [ZoneId(0), ZoneId(1)] {
            let records = Selector::next(CommandKind::Write).in_zone(zone);
            array.drives[0].inject(records, FaultAction::Slow(Nanos::from_millis(5)));
        }
        let lose = async {
            handle.sleep(Nanos::from_millis(1)).await;
            volume.drive_lost(3, "for the test").unwrap();
        };
        let (failed, ()) = futures_util::future::join(volume.fail(4), lose).await;
        failed.unwrap();
        put_all(volume, 9, 2).await;
    });
    live(&array, async |volume, report, _| {
        for slot in [3, 4] {
            assert_eq!(roles(report)[slot], DriveRole::Stale { slot: Column::of(slot) });
        }
        assert_holds(volume, 9, 2).await;
    });
    assert_hit(&[Mark::FailedDuringRecord, Mark::NewEpoch, Mark::StaleMemberLeftOut]);
}
