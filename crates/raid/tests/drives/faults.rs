//! Faults on media: errors of members and lost ranges outlive a restart until they are cleared.

mod rebuilt;

use std::ops::Range;

use crate::support::life::{assert_hit, live, put, put_all};
use crate::support::{Array, Shape, attach, executor, new_drive, offer, open, uuid};
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{
    AdminError, LostStatus, MemberErrors, MemberHealth, ScrubReport, SegmentPhase, Volume, survey,
};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, BlockError, Lba, Status, ZoneAddress, ZoneId};

/// Blocks of the volume.
const BLOCKS: u64 = 100;

/// Blocks of a zone that are damaged; some of them only fill stripes.
const ROTTEN: Range<u32> = 3..12;

/// Two drives without redundancy.
fn alone() -> Array {
    let shape = Shape {
        data: 2,
        parity: 0,
        zones: 24,
        tabled: false,
        volume_blocks: Some(BLOCKS),
        ..Shape::small()
    };
    Array::create(shape, &mut Random::new(41))
}

/// Damages a block of a drive in the oldest full segment.
fn rot(volume: &Volume, array: &Array, drive: usize, offset: u32) {
    let sealed = volume.segments().into_iter();
    let sealed = sealed.filter(|segment| segment.phase == SegmentPhase::Sealed);
    let zone = sealed.min_by_key(|segment| segment.segment).unwrap().zones[drive].unwrap();
    let how = Damage::Garbage { part: BlockPart::Data, seed: 7 };
    array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), offset), how);
}

/// Reads every block; returns those that are lost.
async fn lost(volume: &Volume) -> Vec<u64> {
    let mut lost = Vec::new();
    for lba in 0..BLOCKS {
        match volume.read(Lba(lba), 1).await {
            Ok(_) => {}
            Err(BlockError::Unrecoverable { lba }) => lost.push(lba.0),
            Err(error) => panic!("{error}"),
        }
    }
    lost
}

fn listed(volume: &Volume) -> Vec<u64> {
    let blocks = |range: LostStatus| range.lba..range.lba + range.blocks;
    volume.status().lost.into_iter().flat_map(blocks).collect()
}

async fn recorded(volume: &Volume, handle: &Handle) {
    while volume.recorded_faults().is_none_or(|faults| faults.lost.is_empty()) {
        handle.sleep(Nanos::from_micros(100)).await;
    }
}

/// Fills the volume, and loses blocks on the first drive; returns them, once they are on record and
/// another record may follow.
async fn lost_on_record(volume: &Volume, array: &Array, handle: &Handle) -> Vec<u64> {
    put_all(volume, BLOCKS, 1).await;
    (3..12).for_each(|offset| rot(volume, array, 0, offset));
    let gone = lost(volume).await;
    recorded(volume, handle).await;
    handle.sleep(Nanos::from_secs(3)).await;
    gone
}

/// A restart forgot that blocks of the volume were lost: the array was HEALTHY again.
#[test]
fn lost_blocks_are_listed_until_they_are_cleared() {
    let array = alone();
    let gone = live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        assert_eq!(volume.recorded_faults(), None);
        // Some of them only fill stripes.
        for offset in 3..12 {
            rot(volume, &array, 0, offset);
        }
        let gone = lost(volume).await;
        assert!(gone.len() > 1, "{gone:?}");
        recorded(volume, handle).await;
        handle.sleep(Nanos::from_secs(3)).await;
        assert_eq!(listed(volume), gone);
        gone
    });
    // The process was killed; two snapshots have been written since.
    for _ in 0..2 {
        live(&array, async |volume, _, _| {
            assert_eq!(listed(volume), gone);
            assert_eq!(volume.status().members[0].errors.unrepairable, gone.len() as u64);
        });
    }
    let (executor, without) = (executor(), []);
    let survey = executor.run(survey(offer(&array.drives, &executor.handle(), &without)));
    assert_eq!(survey.faults.unwrap().errors[0].unrepairable, gone.len() as u64);
    drop(executor);
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 2).await;
        assert_eq!(listed(volume), gone, "written again, and still on record");
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), []);
        assert_eq!(volume.status().members[0].errors, MemberErrors::default());
    });
    for _ in 0..2 {
        live(&array, async |volume, _, _| {
            assert_eq!(lost(volume).await, []);
            assert!(volume.recorded_faults().is_some_and(|faults| faults.are_none()));
            assert_eq!(volume.status().members[0].errors.unrepairable, 0);
        });
    }
    assert_hit(&[Mark::FaultsRecorded, Mark::FaultsRead]);
}

/// A block on a drive whose path was down for a moment was listed as lost, until an operator
/// cleared that.
#[test]
fn a_drive_that_gives_no_answer_about_a_block_has_not_lost_it() {
    let array = alone();
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 1).await;
        // All attempts at one block.
        let reads = Selector::next(CommandKind::Read).times(4);
        array.drives[0].inject(reads, FaultAction::Fail(Status::Aborted));
        let failed = lost(volume).await;
        assert_eq!(failed.len(), 1, "{failed:?}");
        let errors = volume.status().members[0].errors;
        assert_eq!((listed(volume), errors.read, errors.unrepairable), (vec![], 4, 0));
        assert_eq!(lost(volume).await, []);
    });
}

/// A damaged block was listed as lost for good while a drive was out with what it takes to restore
/// it.
#[test]
fn a_block_is_not_lost_while_a_drive_may_return_with_the_rest_of_its_stripe() {
    let shape = Shape { zones: 40, tabled: false, volume_blocks: Some(BLOCKS), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(45));
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        (3..12).for_each(|offset| rot(volume, &array, 1, offset));
        volume.fail(0).await.unwrap();
        let failed = lost(volume).await;
        assert!(!failed.is_empty());
        assert_eq!((listed(volume), volume.status().members[1].errors.unrepairable), (vec![], 0));
        let device = attach(&array.drives[0], handle);
        volume.readd(0, device, MemberUuid(uuid(7, 1))).await.unwrap();
        assert_eq!(lost(volume).await, []);
        assert_eq!((listed(volume), volume.status().members[1].errors.unrepairable), (vec![], 0));
    });
    assert_hit(&[Mark::BlockMayReturn]);
}

/// Damages headers, which no reader meets, of all full segments but the oldest; returns how many.
fn rot_headers(volume: &Volume, array: &Array) -> u64 {
    let mut sealed = volume.segments();
    sealed.retain(|segment| segment.phase == SegmentPhase::Sealed);
    sealed.sort_by_key(|segment| segment.segment);
    let zones: Vec<_> = sealed.iter().skip(1).filter_map(|segment| segment.zones[1]).collect();
    for zone in &zones {
        let how = Damage::Garbage { part: BlockPart::Data, seed: 8 };
        array.drives[1].corrupt(ZoneAddress::new(ZoneId(*zone), 0), how);
    }
    zones.len() as u64
}

/// A scrub of a volume whose lost blocks a reader finds meanwhile. Returns its report, how many
/// damaged blocks only the scrub finds, and how many are lost in the end.
fn scrubbed_after(wait_ms: u64) -> (ScrubReport, u64, u64) {
    let array = alone();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        ROTTEN.for_each(|offset| rot(volume, &array, 0, offset));
        let headers = rot_headers(volume, &array);
        let slow = Selector::next(CommandKind::Read).always();
        array.drives[0].inject(slow, FaultAction::Slow(Nanos::from_millis(1)));
        let reader = volume.clone();
        let reading = handle.spawn("reader", async move { lost(&reader).await });
        handle.sleep(Nanos::from_millis(wait_ms)).await;
        let report = volume.scrub().await.unwrap();
        reading.await;
        (report, headers, lost(volume).await.len() as u64)
    })
}

/// A scrub that met lost blocks before their segment was reset counted them as repaired. One that
/// missed the marks to which they were relocated found no damage. One that missed them, and met
/// other damage, counted some of that as lost, and so less as repaired.
#[test]
fn a_scrub_counts_each_loss_once_whenever_it_begins() {
    let places = ROTTEN.len() as u64;
    for wait in 0..120 {
        let (report, headers, gone) = scrubbed_after(wait);
        assert!(gone > 1 && headers > 1, "{gone} blocks are lost, {headers} headers damaged");
        assert_eq!(report.unrepairable + report.lost_before, gone, "{wait} ms: {report:?}");
        let repaired = report.damaged - report.unrepairable;
        let (least, most) = (headers, headers + places - gone);
        assert!(
            (least..=most).contains(&repaired),
            "{wait} ms, {gone} of {places} are lost, {headers} headers damaged: {report:?}"
        );
    }
    assert_hit(&[Mark::ScrubAwaitedRelocation, Mark::ScrubMissedLoss]);
}

/// The mark of a lost block that went bad itself was counted twice: as lost before, and as lost.
#[test]
fn a_mark_of_a_lost_block_that_is_lost_itself_counts_once() {
    let array = alone();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let last = volume.segments().iter().map(|segment| segment.segment).max();
        ROTTEN.for_each(|offset| rot(volume, &array, 0, offset));
        let gone = lost(volume).await;
        handle.sleep(Nanos::from_secs(3)).await;
        // The blocks were relocated as marks: to an open segment, or to a newer one.
        let mut segments = volume.segments();
        segments.retain(|one| Some(one.segment) > last || one.phase == SegmentPhase::Open);
        let zones = segments.iter().flat_map(|segment| segment.zones.iter().enumerate());
        for (drive, zone) in zones.filter_map(|(drive, zone)| Some((drive, (*zone)?))) {
            for offset in 1..ROTTEN.end {
                let how = Damage::Garbage { part: BlockPart::Data, seed: 9 };
                array.drives[drive].corrupt(ZoneAddress::new(ZoneId(zone), offset), how);
            }
        }
        let report = volume.scrub().await.unwrap();
        assert!(report.lost_before < gone.len() as u64, "no mark is damaged: {report:?}");
        let gone = lost(volume).await.len() as u64;
        assert_eq!(report.unrepairable + report.lost_before, gone, "{report:?}");
    });
    assert_hit(&[Mark::ScrubFoundRottenMark]);
}

/// A range of lost blocks that a crash kept from the record was forgotten for good.
#[test]
fn a_scrub_lists_lost_blocks_that_are_not_on_record() {
    let array = alone();
    let gone = live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        ROTTEN.for_each(|offset| rot(volume, &array, 0, offset));
        let gone = lost(volume).await;
        handle.sleep(Nanos::from_millis(100)).await;
        volume.flush().await.unwrap();
        gone
    });
    live(&array, async |volume, _, _| {
        let before = listed(volume);
        assert!(before.len() < gone.len(), "{before:?} of {gone:?} are on record");
        volume.scrub().await.unwrap();
        assert_eq!(listed(volume), gone);
    });
    assert_hit(&[Mark::ScrubListedLoss]);
}

/// The list was cleared while its blocks were still lost, and the volume was healthy again.
#[test]
fn lost_blocks_that_were_not_written_again_stay_listed() {
    let array = alone();
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 1).await;
        ROTTEN.for_each(|offset| rot(volume, &array, 0, offset));
        let gone = lost(volume).await;
        assert!(gone.len() > 1, "{gone:?}");
        put(volume, gone[0], 2).await.unwrap();
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), gone[1..]);
        for lba in &gone {
            put(volume, *lba, 2).await.unwrap();
        }
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), []);
    });
}

/// Makes all reads of some zones of a drive that slow.
fn slow_reads(array: &Array, drive: usize, zones: Range<u32>, delay: Nanos) {
    for zone in zones {
        let read = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
        array.drives[drive].inject(read, FaultAction::Slow(delay));
    }
}

/// A loss that was found while the order waited for the superblocks was forgotten with the listed
/// ones, and not read.
#[test]
fn a_loss_that_is_found_while_the_list_is_cleared_stays_listed() {
    let array = alone();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        ROTTEN.for_each(|offset| rot(volume, &array, 0, offset));
        // A scrub reads the superblocks first, and nothing is recorded meanwhile.
        slow_reads(&array, 1, 0..2, Nanos::from_secs(1));
        let scrubbed = volume.clone();
        let scrub = handle.spawn("scrub", async move { scrubbed.scrub().await });
        handle.sleep(Nanos::from_millis(1)).await;
        let cleared = volume.clone();
        let clear = handle.spawn("clear", async move { cleared.clear_faults().await });
        handle.sleep(Nanos::from_millis(1)).await;
        let gone = lost(volume).await;
        assert!(gone.len() > 1, "{gone:?}");
        clear.await.unwrap();
        assert_eq!(listed(volume), gone);
        scrub.await.unwrap();
    });
}

/// A volume that was closed while the order read the listed blocks forgot the rest of them.
#[test]
fn a_volume_that_closes_lists_what_was_not_read_again() {
    let array = alone();
    let gone = live(&array, async |volume, _, handle| {
        let gone = lost_on_record(volume, &array, handle).await;
        (0..2).for_each(|drive| slow_reads(&array, drive, 2..24, Nanos::from_secs(1000)));
        let cleared = volume.clone();
        handle.spawn_alone("clear", async move {
            let _cut_short = cleared.clear_faults().await;
        });
        handle.sleep(Nanos::from_secs(1)).await;
        assert_eq!(listed(volume), []);
        volume.close().await.unwrap();
        assert_eq!(listed(volume), gone);
        gone
    });
    array.drives.iter().for_each(|drive| drive.faults(|plan| plan.clear()));
    live(&array, async |volume, _, _| {
        assert_eq!(listed(volume), gone);
        assert_eq!(lost(volume).await, gone);
    });
    assert_hit(&[Mark::ClearCutShort]);
}

/// The order forgot lost blocks that it could not read, as the paths of their drives were down.
#[test]
fn a_loss_that_cannot_be_read_when_the_list_is_cleared_stays_listed() {
    let array = alone();
    live(&array, async |volume, _, handle| {
        let gone = lost_on_record(volume, &array, handle).await;
        for (drive, zone) in (0..2).flat_map(|drive| (2..24).map(move |zone| (drive, zone))) {
            let read = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
            array.drives[drive].inject(read, FaultAction::Fail(Status::Aborted));
        }
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), gone);
        array.drives.iter().for_each(|drive| drive.faults(|plan| plan.clear()));
        assert_eq!(lost(volume).await, gone);
    });
}

/// A volume with one lost block, which a scrub finds after so many milliseconds or so. Returns the
/// blocks that are listed as lost when the block has been written again, and after the scrub.
fn written_again_after(wait_ms: u64, offset: u32, lba: u64) -> (Vec<u64>, Vec<u64>) {
    let array = alone();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        rot(volume, &array, 0, offset);
        let slow = Selector::next(CommandKind::Read).always();
        array.drives[0].inject(slow, FaultAction::Slow(Nanos::from_millis(3)));
        let scrubbed = volume.clone();
        let scrub = handle.spawn("scrub", async move { scrubbed.scrub().await });
        handle.sleep(Nanos::from_millis(wait_ms)).await;
        put(volume, lba, 2).await.unwrap();
        let then = listed(volume);
        scrub.await.unwrap();
        (then, listed(volume))
    })
}

/// A block that was written again while its segment was relocated was listed as lost.
#[test]
fn a_block_that_is_written_again_before_it_is_moved_is_not_lost() {
    let one_lost = |offset: &u32| {
        let array = alone();
        live(&array, async |volume, _, _| {
            put_all(volume, BLOCKS, 1).await;
            rot(volume, &array, 0, *offset);
            <[u64; 1]>::try_from(lost(volume).await).ok()
        })
    };
    let lost = (3..20).find_map(|offset| Some((offset, one_lost(&offset)?[0])));
    let (offset, lba) = lost.expect("a block of users");
    let outcomes: Vec<_> = (40..120).map(|wait| written_again_after(wait, offset, lba)).collect();
    for (then, later) in &outcomes {
        assert_eq!(later, then);
    }
    assert!(outcomes.iter().any(|(then, _)| then.is_empty()));
    assert!(outcomes.iter().any(|(then, _)| *then == [lba]), "a move meets it at last");
    assert_hit(&[Mark::DiedBeforeMove]);
}

/// The lost ranges of an array whose writes had stopped were forgotten by an order that failed: at
/// once, or by the next start, which found the record on the other drive.
#[test]
fn a_volume_that_cannot_clear_its_faults_keeps_them() {
    let array = alone();
    let gone = live(&array, async |volume, _, handle| {
        let gone = lost_on_record(volume, &array, handle).await;
        let failed = Selector::next(CommandKind::Write).times(100);
        array.drives[1].inject(failed, FaultAction::Fail(Status::DeviceGone));
        assert!(volume.clear_faults().await.is_err());
        assert_eq!(listed(volume), gone);
        assert_eq!(volume.status().members[0].errors.unrepairable, gone.len() as u64);
        gone
    });
    array.drives[1].faults(|plan| plan.clear());
    for _ in 0..2 {
        live(&array, async |volume, _, _| {
            assert_eq!(listed(volume), gone);
            assert_eq!(volume.status().members[0].errors.unrepairable, gone.len() as u64);
        });
    }
    assert_hit(&[Mark::ClearFailed, Mark::ClearNotBelieved]);
}

/// A drive on a full file system did not take the record that faults were cleared, and was later
/// taken out: no other drive had the lost ranges on record any more.
#[test]
fn faults_are_recorded_anew_when_a_drive_refuses_to_clear_them() {
    let array = alone();
    let gone = live(&array, async |volume, _, handle| {
        let gone = lost_on_record(volume, &array, handle).await;
        full(&array, 1);
        let error = volume.clear_faults().await.unwrap_err();
        assert_eq!(
            error,
            AdminError::NotRecorded { slot: Column::of(1), status: Status::WriteFault }
        );
        assert_eq!(listed(volume), gone);
        array.drives[1].faults(|plan| plan.clear());
        recorded(volume, handle).await;
        assert_eq!(listed(volume), gone);
        gone
    });
    let (executor, without) = (executor(), [1]);
    let survey = executor.run(survey(offer(&array.drives, &executor.handle(), &without)));
    let ranges = survey.faults.unwrap().lost;
    assert_eq!(ranges.iter().map(|range| range.blocks).sum::<u64>(), gone.len() as u64);
    drop(executor);
    live(&array, async |volume, _, _| {
        assert_eq!(listed(volume), gone);
        put_all(volume, BLOCKS, 2).await;
        volume.clear_faults().await.unwrap();
        assert_eq!(listed(volume), []);
    });
    live(&array, async |volume, _, _| assert_eq!(listed(volume), []));
}

/// Has a drive refuse records: the file system of its image is full.
fn full(array: &Array, drive: usize) {
    for zone in 0..2 {
        let write = Selector::next(CommandKind::Write).in_zone(ZoneId(zone)).always();
        array.drives[drive].inject(write, FaultAction::Fail(Status::WriteFault));
    }
}

/// Members that all failed a record of faults were evicted, until writes stopped.
#[test]
fn a_record_of_faults_that_no_drive_takes_evicts_none() {
    let shape = Shape { zones: 40, tabled: false, volume_blocks: Some(BLOCKS), ..Shape::small() };
    for without in [None, Some(2)] {
        let array = Array::create(shape, &mut Random::new(46));
        live(&array, async |volume, _, handle| {
            put_all(volume, BLOCKS, 1).await;
            if let Some(slot) = without {
                volume.fail(slot).await.unwrap();
            }
            handle.sleep(Nanos::from_secs(3)).await;
            let states = || volume.status().members.iter().map(|one| one.state).collect::<Vec<_>>();
            let before = states();
            let drives = 0..array.drives.len();
            drives.clone().for_each(|drive| full(&array, drive));
            if without.is_some() {
                // All attempts at one block: there is nothing to be repaired.
                let reads = Selector::next(CommandKind::Read).times(4);
                array.drives[0].inject(reads, FaultAction::Fail(Status::Aborted));
                assert_eq!(lost(volume).await.len(), 1);
                handle.sleep(Nanos::from_secs(3)).await;
                assert_eq!((states(), volume.recorded_faults()), (before.clone(), None));
            }
            let cleared = volume.clear_faults().await;
            assert!(matches!(cleared, Err(AdminError::NotRecorded { .. })), "{cleared:?}");
            assert_eq!(states(), before);
            drives.for_each(|drive| array.drives[drive].faults(|plan| plan.clear()));
            handle.sleep(Nanos::from_secs(61)).await;
            let recorded = volume.recorded_faults().unwrap();
            assert_eq!(recorded.errors[0].read, if without.is_some() { 4 } else { 0 });
            assert!(recorded.errors[0].write > 0);
            assert_eq!(states(), before);
        });
    }
    assert_hit(&[Mark::ReportTakenByNone]);
}

/// A drive that failed a record of faults was evicted, and with it the only copy of its data.
#[test]
fn a_drive_that_is_needed_outlives_a_failed_record_of_faults() {
    let array = alone();
    let all_serve = |volume: &Volume| {
        volume.status().members.iter().all(|member| member.state == MemberHealth::Online)
    };
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        full(&array, 1);
        // There is nothing to be repaired, only errors to be recorded.
        let reads = Selector::next(CommandKind::Read).times(4);
        array.drives[0].inject(reads, FaultAction::Fail(Status::Aborted));
        assert_eq!(lost(volume).await.len(), 1);
        while volume.recorded_faults().is_none() {
            handle.sleep(Nanos::from_micros(100)).await;
        }
        assert!(all_serve(volume));
        array.drives[1].faults(|plan| plan.clear());
        // Its records go on in its other zone.
        put_all(volume, BLOCKS, 2).await;
        handle.sleep(Nanos::from_secs(3)).await;
        assert!(all_serve(volume));
    });
    assert_hit(&[Mark::ReportRefused]);
    live(&array, async |volume, _, _| {
        let errors: Vec<_> = volume.status().members.iter().map(|member| member.errors).collect();
        assert_eq!((errors[0].read, errors[1].write > 0), (4, true), "{errors:?}");
        assert_eq!(lost(volume).await, []);
    });
}

/// Errors of a drive are on record though nothing is damaged and nobody closes the volume, and a
/// drive that was taken out and put back keeps its own.
#[test]
fn errors_of_a_drive_are_kept_while_it_is_a_member_and_when_it_is_one_again() {
    let shape = Shape { zones: 40, tabled: false, volume_blocks: Some(BLOCKS), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(43));
    let errors = |volume: &Volume| volume.status().members[1].errors;
    let before = live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let failed = Selector::next(CommandKind::Write);
        array.drives[1].inject(failed, FaultAction::Fail(Status::WriteFault));
        put_all(volume, BLOCKS, 2).await;
        handle.sleep(Nanos::from_secs(3)).await;
        errors(volume)
    });
    assert!(before.write > 0, "{before:?}");
    live(&array, async |volume, _, handle| {
        assert_eq!(errors(volume), before, "the process was killed");
        volume.fail(1).await.unwrap();
        assert_eq!(errors(volume), before, "the slot shows why its drive is out");
        let device = attach(&array.drives[1], handle);
        volume.readd(1, device, MemberUuid(uuid(7, 1))).await.unwrap();
        assert_eq!(errors(volume), before, "it is the same drive");
    });
    live(&array, async |volume, _, handle| {
        assert_eq!(errors(volume), before, "also after a restart");
        volume.fail(1).await.unwrap();
        let blank = new_drive(&shape, &mut Random::new(44));
        volume.replace(1, attach(&blank, handle), MemberUuid(uuid(7, 2))).await.unwrap();
        assert_eq!(errors(volume), MemberErrors::default(), "another drive");
    });
}

/// Damage that was repaired is on record too, at the latest when the volume is closed.
#[test]
fn repaired_blocks_count_on_after_a_restart() {
    let shape = Shape { zones: 40, tabled: false, volume_blocks: Some(BLOCKS), ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(42));
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 1).await;
        rot(volume, &array, 2, 5);
        assert_eq!(volume.scrub().await.unwrap().damaged, 1);
        volume.close().await.unwrap();
    });
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let (volume, _) = open(&array, &handle, &[]).await.unwrap();
        let repaired: Vec<_> =
            volume.status().members.iter().map(|member| member.errors.repaired).collect();
        assert_eq!(repaired, [0, 0, 1, 0]);
        assert_eq!(listed(&volume), []);
    });
}
